"""Numbers and categories on the command line: the cells that Python gives, and all are counted."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapmix import GaussianMixtureImputer, load, save
from gapmix.cli.fitting import telling
from gapmix.estimators.warning import warn_user
from gapmix.wording import Advised

USED = ["a", "city", "b", "ok", "grade", "code", "same", "word"]
SPELLED = ["New York", " led", "Köln", "None", "-", "007", "=cmd", "n/k"]
FIT = ("--components", "3", "--threads", "1")


def make_frame(n=240, seed=0):
    """Return a frame with all that tables have, gaps everywhere, and the groups of its rows."""
    rng = np.random.default_rng(seed)
    k = rng.integers(0, 3, n)
    columns = {
        "id": [f"p{i:03d}" for i in range(n)],
        "a": rng.normal(3.0 * k).tolist(),
        "city": np.array(SPELLED)[(3 * k + (rng.random(n) < 0.2)) % 8].tolist(),
        "b": rng.normal(-2.0 * k).tolist(),
        "ok": ((k == 1) ^ (rng.random(n) < 0.1)).tolist(),
        "grade": np.array(["lo", "mid", "hi"])[(k + (rng.random(n) < 0.1)) % 3].tolist(),
        "code": (k + 4).tolist(),
        "day": [f"2021-{i % 12 + 1:02d}-03" for i in range(n)],
        "same": ["always"] * n,
        "word": np.array(["x", "y"])[(k == 2).astype(int)].tolist(),
    }
    gaps = rng.random((n, len(columns))) < 0.15
    shown = {
        name: [None if gap else value for gap, value in zip(gaps[:, j], values, strict=True)]
        for j, (name, values) in enumerate(columns.items())
    }
    return pl.DataFrame(shown).with_columns(
        pl.col("grade").cast(pl.Enum(["lo", "mid", "hi"])), pl.col("word").cast(pl.Categorical)
    )


FRAME = make_frame()


def write(frame, path, mark="?"):
    if path.suffix == ".csv":
        frame.write_csv(path, null_value=mark)
    else:
        frame.with_columns(pl.col("day").str.to_date()).write_parquet(path)


def read(path):
    if path.suffix == ".csv":
        return pl.read_csv(path, null_values=["?"])
    return pl.read_parquet(path)


def as_text(series):
    return ["" if value is None else str(value).lower() for value in series.to_list()]


def impute(gapmix, tmp_path, suffix, *options):
    write(FRAME, tmp_path / f"t.{suffix}")
    ran = gapmix(
        tmp_path, "impute", f"t.{suffix}", "-o", f"out.{suffix}", "--raw", "--json", *options
    )
    assert ran.code == 0, ran.err
    return read(tmp_path / f"out.{suffix}"), json.loads(ran.out), ran.err


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_filled_file_is_the_filled_frame_cell_by_cell(gapmix, tmp_path, suffix):
    found, told, said = impute(gapmix, tmp_path, suffix, "--save-model", "m")
    given = FRAME.select(USED)
    if suffix == "csv":  # where types are lost: texts for True and False, sorted levels
        given = given.with_columns(
            pl.col("ok").cast(pl.String), pl.col("grade", "word").cast(pl.String)
        )
    expected = GaussianMixtureImputer(random_state=0).fit(given).impute_frame(given)
    assert found.columns == FRAME.columns
    for name in USED:
        if expected[name].dtype == pl.Float64:
            assert found[name].cast(pl.Float64).to_list() == expected[name].to_list()
        else:
            assert as_text(found[name]) == as_text(expected[name])
    # Every gap is counted: filled, or named with the reason.
    n_gaps = FRAME.null_count().row(0, named=True)
    assert told["n_gaps"] == sum(n_gaps.values())
    assert told["by_column"] == {name: n_gaps[name] for name in USED}
    left = {each["column"]: (each["n_gaps"], each["reason"]) for each in told["unfilled"]}
    assert left == {"id": (n_gaps["id"], "an id"), "day": (n_gaps["day"], "dates")}
    assert f"'id' (an id: {240 - n_gaps['id']} different" in said
    assert f"'day' (dates; {n_gaps['day']} gaps left)" in said
    # The file holds the same imputer, with its levels: it fills this frame, and the file again.
    loaded = load(tmp_path / "m")
    assert loaded.impute_frame(given).equals(expected)
    again = gapmix(tmp_path, "impute", f"t.{suffix}", "-o", f"b.{suffix}", "--raw", "-m", "m")
    assert again.code == 0, again.err
    assert (tmp_path / f"b.{suffix}").read_bytes() == (tmp_path / f"out.{suffix}").read_bytes()


def test_types_of_categories_stay_in_parquet(gapmix, tmp_path):
    found, _, _ = impute(gapmix, tmp_path, "parquet", *FIT)
    for name in ("city", "ok", "grade", "word", "same"):
        assert found.schema[name] == FRAME.schema[name]
        known = FRAME[name].is_not_null()
        assert found[name].filter(known).equals(FRAME[name].filter(known))
        assert found[name].null_count() == 0


def test_a_dictionary_of_arrow_is_a_category(gapmix, tmp_path):
    frame = FRAME.select("a", "b", "city")
    table = frame.to_arrow()
    coded = table.set_column(2, "city", table.column("city").cast(pa.string()).dictionary_encode())
    pq.write_table(coded, tmp_path / "t.parquet", row_group_size=50)
    ran = gapmix(tmp_path, "impute", "t.parquet", "-o", "o.parquet", *FIT)
    assert ran.code == 0, ran.err
    found = pl.read_parquet(tmp_path / "o.parquet")["city"].cast(pl.String)
    expected = GaussianMixtureImputer(3, random_state=0).fit(frame).impute_frame(frame)["city"]
    assert found.to_list() == expected.to_list()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_probabilities_are_those_of_the_levels_filled_in(gapmix, tmp_path, suffix):
    found, _, _ = impute(gapmix, tmp_path, suffix, "--probabilities", "--std", *FIT)
    given = FRAME.select(USED)
    imputer = GaussianMixtureImputer(3, random_state=0).fit(given)
    for name, table in imputer.probabilities(given).items():
        gaps = FRAME[name].is_null()
        beside = found[f"{name}_probability"]
        assert beside.is_null().to_list() == (~gaps).to_list()
        best = table.max_horizontal().filter(gaps).to_numpy()
        np.testing.assert_allclose(beside.filter(gaps).to_numpy(), best, rtol=1e-9)
    endings = [name for name in found.columns if name.endswith(("_std", "_probability"))]
    assert endings == [
        "a_std",
        "city_probability",
        "b_std",
        *(f"{name}_probability" for name in ("ok", "grade")),
        "code_std",
        "same_probability",
        "word_probability",
    ]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_codes_are_categories_if_asked(gapmix, tmp_path, suffix):
    found, told, _ = impute(gapmix, tmp_path, suffix, "--categories", "co*", *FIT)
    gaps = FRAME["code"].is_null()
    assert set(found["code"].filter(gaps)) <= {4, 5, 6}
    assert found["code"].dtype == pl.Int64
    given = FRAME.select(USED)
    imputer = GaussianMixtureImputer(3, categorical_features=[1, 3, 4, 5, 6, 7], random_state=0)
    expected = imputer.fit(given).impute_frame(given)
    assert found["code"].to_list() == expected["code"].to_list()
    assert told["by_column"]["code"] == gaps.sum()


def test_an_id_is_filled_as_a_category_if_asked(gapmix, tmp_path):
    found, told, _ = impute(gapmix, tmp_path, "csv", "--categories", "id,day", *FIT)
    assert told["unfilled"] == []
    assert found.null_count().sum_horizontal().item() == 0
    assert set(found["id"]) == set(FRAME["id"].drop_nulls())


class Noting:
    """A watch that hears notes."""

    def __init__(self):
        self.notes = []

    def note(self, note):
        self.notes.append(note)


def test_what_is_as_it_should_be_is_a_note_and_no_warning():
    watch = Noting()
    with telling(watch):
        warn_user(Advised("Rare.", "rare_levels_", "rare_levels_ lists them."))
        warn_user(Advised("A code.", "missing_values", "Give missing_values."))
        warn_user("Odd.")
    told = [(note.text, note.warning) for note in watch.notes]
    code = "A code. If it stands for a gap, name it in --missing-values."
    assert told == [("Rare.", False), (code, True), ("Odd.", True)]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_numbers_among_texts_are_filled_if_asked(gapmix, tmp_path, suffix):
    texts = [
        None if v is None else "n/k" if i % 9 == 0 else repr(v) for i, v in enumerate(FRAME["a"])
    ]
    frame = FRAME.select("b", "grade").with_columns(a=pl.Series(texts))
    path = tmp_path / f"t.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    ran = gapmix(tmp_path, "impute", path.name, "-o", f"o.{suffix}", "--numbers", "a", *FIT)
    assert ran.code == 0, ran.err
    n_other = sum(text == "n/k" for text in texts)
    assert f"Column 'a': {n_other} cells are not a number ('n/k') and count as gaps" in ran.err
    found = read(tmp_path / f"o.{suffix}")["a"]
    assert found.dtype == pl.Float64
    for text, value in zip(texts, found, strict=True):
        assert value is not None
        assert text in (None, "n/k") or float(text) == value
    ran = gapmix(tmp_path, "impute", path.name, "-o", f"p.{suffix}", *FIT)
    assert "looks like numbers" in ran.err
    assert "--numbers 'a'" in ran.err
    n_gaps = sum(text is None for text in texts)
    assert f"{n_gaps} gaps: a {n_gaps} (texts)" in ran.err


def test_kept_columns_are_used_and_not_filled(gapmix, tmp_path):
    plain, _, _ = impute(gapmix, tmp_path, "csv", *FIT)
    kept, told, _ = impute(gapmix, tmp_path, "csv", "--keep", "city,c*,b", "--std", *FIT)
    lines = (tmp_path / "t.csv").read_text().splitlines()
    out = (tmp_path / "out.csv").read_text().splitlines()
    for before, after in zip(lines, out, strict=True):
        assert before.split(",")[2:4] == [after.split(",")[3], after.split(",")[4]]
    left = {each["column"]: each["reason"] for each in told["unfilled"]}
    assert left == {"id": "an id", "day": "dates"} | dict.fromkeys(
        ["city", "b", "code"], "kept, as asked"
    )
    for name in ("a", "grade", "ok"):  # filled from the kept columns as well
        assert kept[name].to_list() == plain[name].to_list()
    assert "b_std" not in kept.columns


def test_a_model_fills_by_the_text_of_levels(gapmix, tmp_path):
    impute(gapmix, tmp_path, "parquet", "--save-model", "m", *FIT)
    other = make_frame(60, seed=1).with_columns(
        pl.when(pl.int_range(60) < 3).then(pl.lit("Ulm")).otherwise("city").alias("city")
    )
    other = other.select(sorted(other.columns))
    write(other, tmp_path / "new.csv", "")
    ran = gapmix(tmp_path, "impute", "new.csv", "-m", "m", "-o", "o.csv", "--raw")
    assert ran.code == 0, ran.err
    assert ran.err.count("level that the model does not know") == 1
    assert "3 cells of 'city' hold a level" in ran.err
    found = read(tmp_path / "o.csv")
    assert found["city"].to_list()[:3] == ["Ulm"] * 3
    with pytest.warns(UserWarning, match="'Ulm'"):
        expected = load(tmp_path / "m").impute_frame(other.select(USED))
    for name in USED:
        assert as_text(found[name]) == as_text(expected[name])
    ran = gapmix(tmp_path, "impute", "new.csv", "-m", "m", "-o", "p.csv", "--categories", "id")
    assert ran.code == 2
    assert "--categories has no effect with --model" in ran.err


def test_a_model_of_python_knows_its_categories_here(gapmix, tmp_path):
    given = FRAME.select(USED)
    columns = ["city", "ok", "grade", "code", "same", "word"]
    imputer = GaussianMixtureImputer(3, categorical_features=columns, random_state=0).fit(given)
    save(imputer, tmp_path / "m")
    write(FRAME, tmp_path / "t.csv")
    ran = gapmix(tmp_path, "impute", "t.csv", "-m", "m", "-o", "o.csv", "--raw")
    assert ran.code == 0, ran.err
    expected, found = imputer.impute_frame(given), read(tmp_path / "o.csv")
    for name in USED:
        assert as_text(found[name]) == as_text(expected[name])
    shown = gapmix(tmp_path, "info", "m")
    assert "always 100 %" in shown.out


def test_rows_are_scored_and_drawn_with_their_categories(gapmix, tmp_path):
    impute(gapmix, tmp_path, "csv", "--save-model", "m", *FIT)
    assert gapmix(tmp_path, "score", "t.csv", "-m", "m", "-o", "s.csv").code == 0
    scores = pl.read_csv(tmp_path / "s.csv")
    given = FRAME.select(USED).with_columns(
        pl.col("ok").cast(pl.String), pl.col("grade", "word").cast(pl.String)
    )
    imputer = GaussianMixtureImputer(3, random_state=0).fit(given)
    np.testing.assert_array_equal(scores["log_density"], imputer.score_samples(given))
    shown = [8 - row.count(None) for row in given.rows()]
    assert scores["n_observed"].to_list() == shown
    ran = gapmix(tmp_path, "sample", "m", "-n", "3000", "-o", "drawn.parquet")
    assert ran.code == 0, ran.err
    drawn = pl.read_parquet(tmp_path / "drawn.parquet")
    assert drawn.columns == USED
    for name in ("city", "grade"):
        known = given[name].drop_nulls()
        for level in known.unique():
            share = (known == level).mean()
            assert abs((drawn[name] == level).mean() - share) < 0.08


def test_draws_of_categories_are_levels(gapmix, tmp_path):
    write(FRAME, tmp_path / "t.csv")
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", "o.csv", "--draws", "2", "--raw", *FIT)
    assert ran.code == 0, ran.err
    one, two = (read(tmp_path / f"o.{i}.csv") for i in (1, 2))
    assert one["city"].to_list() != two["city"].to_list()
    assert set(one["city"]) <= set(SPELLED)


def test_evaluate_judges_levels(gapmix, tmp_path):
    write(FRAME, tmp_path / "t.csv")
    ran = gapmix(tmp_path, "evaluate", "t.csv", "--repeats", "1", "--json", *FIT)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["categories"] == ["city", "ok", "grade", "word"]
    scores = {score["method"]: score for score in found["scores"]}
    assert list(scores) == ["mean", "k-NN", "iterative", "mixture"]
    assert scores["mean"]["relative_wrong"] == 1
    assert scores["mixture"]["relative_wrong"] < 0.7
    assert scores["mixture"]["level_log_score"] < 0
    assert sum(each["n"] for each in found["calibration"]) > 50
    shown = gapmix(tmp_path, "evaluate", "t.csv", "--repeats", "1", *FIT).out
    assert "Levels filled by the mixture" in shown


def test_describe_and_report_count_all_gaps(gapmix, tmp_path):
    write(FRAME, tmp_path / "t.csv")
    found = json.loads(gapmix(tmp_path, "describe", "t.csv", "--json").out)
    n_gaps = sum(FRAME.null_count().row(0))
    assert found["n_missing"] == n_gaps
    assert [c["kind"] for c in found["columns"] if c["name"] == "city"] == ["category"]
    ran = gapmix(tmp_path, "report", "t.csv", "-o", "r.html", "--json", "--keep", "b", *FIT)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["n_gaps"] == n_gaps
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for part in (
        f"{n_gaps:,} of 2,400",
        "Which levels are confused?",
        "Are the probabilities right?",
        "kept, as asked",
        "most often always",
        "wrong level",
    ):
        assert part in page, part


def test_tables_in_pieces_say_what_they_leave(gapmix, tmp_path):
    write(FRAME, tmp_path / "t.parquet")
    more = ("--checkpoint", "state", *FIT)
    ran = gapmix(tmp_path, "impute", "t.parquet", "-o", "o.parquet", "--json", *more)
    assert ran.code == 0, ran.err
    assert "Passed through, not filled" in ran.err
    told = json.loads(ran.out)
    assert told["n_gaps"] == sum(FRAME.null_count().row(0))
    left = {each["column"] for each in told["unfilled"]}
    assert {"id", "day"} <= left
    assert "city" not in left
    for option in (("--keep", "a"), ("--numbers", "a"), ("--probabilities",)):
        ran = gapmix(tmp_path, "impute", "t.parquet", "-o", "p.parquet", *option, *more)
        assert ran.code == 2
        assert f"{option[0]} needs the whole table" in ran.err
    impute(gapmix, tmp_path, "csv", "--save-model", "m", *FIT)
    ran = gapmix(tmp_path, "impute", "t.parquet", "-o", "q.parquet", "-m", "m", *more[:2])
    assert ran.code == 1
    assert "the model knows it as text, such as 'false', and this table has it as bool" in ran.err
    ran = gapmix(tmp_path, "fit", "t.parquet", "-o", "n", *more)
    assert ran.code == 0, ran.err
    ran = gapmix(tmp_path, "impute", "t.parquet", "-o", "q.parquet", "-m", "n", *more[:2])
    assert ran.code == 0, ran.err
    assert not read(tmp_path / "q.parquet")["city"].null_count()


def test_tables_without_numbers_are_filled_judged_and_reported(gapmix, tmp_path):
    words = FRAME.select("city", "grade", "word")
    words.write_csv(tmp_path / "t.csv")
    ran = gapmix(tmp_path, "impute", "t.csv", "-o", "o.csv", "--raw", *FIT)
    assert ran.code == 0, ran.err
    expected = GaussianMixtureImputer(3, random_state=0).fit(words).impute_frame(words)
    found = read(tmp_path / "o.csv")
    for name in words.columns:
        assert as_text(found[name]) == as_text(expected[name])
    ran = gapmix(tmp_path, "evaluate", "t.csv", "--json", *FIT)
    assert ran.code == 0, ran.err
    scores = {each["method"]: each for each in json.loads(ran.out)["scores"]}
    assert scores["mixture"]["relative_wrong"] < 0.8
    assert gapmix(tmp_path, "evaluate", "t.csv", "--repeats", "1", *FIT).code == 0
    ran = gapmix(tmp_path, "report", "t.csv", "-o", "r.html", *FIT)
    assert ran.code == 0, ran.err
    assert "get a wrong level" in (tmp_path / "r.html").read_text(encoding="utf-8")
