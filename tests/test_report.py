"""The report: one page that holds everything, says what is there, and lets nothing in or out."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy.stats import mannwhitneyu
from tests.conftest import size
from tests.smalltables import FIT, make_rows, write_rows

from gapmix import GaussianMixture, GaussianMixtureImputer, GaussianMixtureRegressor, load, save
from gapmix.report import page, write_report
from gapmix.report.gaps import describe
from gapmix.report.model import describe_model
from gapmix.report.page import POLICY, compose
from gapmix.report.randomness import holm, look_for_dependence, rank_tests
from gapmix.report.subject import Subject, as_imputer, contender
from gapmix.wording import label

SECTIONS = ["gaps", "model", "filled", "judged", "caveat", "provenance"]
VOID = {"meta", "link", "br", "hr", "img"}
HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>' onload='alert(2)",
    "a\x00b\x07\x1b[31m\u202egnp",
    "n" * 10_000,
    "$x_{1}$ & <b>$\\frac{a}{b}$",
    "{{ 7 * 7 }}{% raw %}",
    "-->]]><!--",
    "列 \N{GRINNING FACE}",
]


class Page(HTMLParser):
    """A page taken apart: tags, attributes, text; tags must close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data

    def values(self, name: str) -> list[str]:
        return [value for _, key, value in self.attributes if key == name]


def check_page(text: str) -> Page:
    """Return a page after checking that it is whole and closed to the outside."""
    found = Page(text)
    assert not {"script", "iframe", "object", "embed", "form", "base"} & set(found.tags)
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    metas = dict(zip(found.values("http-equiv"), found.values("content"), strict=False))
    assert metas["Content-Security-Policy"] == POLICY
    links = found.values("href") + found.values("src") + found.values("xlink:href")
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "http" not in " ".join(found.values("style"))
    assert "@import" not in text
    ids = found.values("id")
    assert len(ids) == len(set(ids))
    named = {link[1:] for link in links if link.startswith("#")}
    named |= set(re.findall(r"url\(#([^)]+)\)", text))
    assert named <= set(ids)
    assert [each for each in ids if each in SECTIONS] == SECTIONS
    assert found.tags.count("svg") == len(
        [v for v in found.values("aria-label") if v != "Sections"]
    )
    assert not re.search(r"\b(nan|inf)\b", found.text.replace("NaN", "nan"))
    return found


def write(tmp_path, x, model=None, **more):
    path = tmp_path / "report.html"
    model = model or GaussianMixtureImputer(1, random_state=0)
    write_report(model.fit(x), x, path, **more)
    return path.read_text(encoding="utf-8")


# ------------------------------------------------------------------ the page


def test_the_report_of_an_ordinary_table_says_what_is_there(tmp_path):
    x = make_rows(400, 4)
    frame = pd.DataFrame(x, columns=["rain", "wind", "sun", "snow"])
    imputer = GaussianMixtureImputer(random_state=0, max_components=3)
    found = check_page(write(tmp_path, frame, imputer, title="weather"))
    gaps = int(np.isnan(x).sum())
    for text in ("What was missing in weather", f"{gaps:,} of 1,600", "rain", "90\xa0% interval"):
        assert text in found.text
    assert "up to the largest number kept for the whole table" in found.text
    assert found.tags.count("svg") >= 7  # patterns, profiles, sizes, errors, a panel a column
    assert "SHA-256" in found.text
    assert "random_state=0" in found.text
    # Of the sizes that were averaged one is shown; how it was computed is folded away.
    kept = [each for each in imputer.selection_ if each.share > 0]
    best = min(kept, key=lambda each: each.error).n_components
    facts = describe_model(Subject(as_imputer(imputer), x, list("abcd"), "", 0))
    assert len(facts.profiles) == len(facts.deviations) == best < len(imputer.mixture_.weights_)
    assert sum(profile.weight for profile in facts.profiles) == pytest.approx(1)
    before, folded = (tmp_path / "report.html").read_text().split("<details>")
    assert "Predicted time" in folded.split("</details>")[0]
    assert "Predicted time" not in before + folded.split("</details>")[1]


def test_the_same_table_gives_the_same_page_apart_from_the_time():
    x = make_rows(80, 3)
    imputer = as_imputer(GaussianMixtureImputer(2, random_state=0).fit(x))
    pages = [compose(Subject(imputer, x, ["a", "b", "c"], "t", 0)) for _ in range(2)]
    first, second = (re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC, in [^<]*", "", p) for p in pages)
    assert first == second


@pytest.mark.parametrize("d", [1, size(2_000, 5_000)])
def test_the_number_of_pictures_is_bounded(tmp_path, d):
    x = make_rows(40, d)
    mixture = GaussianMixture(1, covariance_type="diag", random_state=0)
    found = check_page(write(tmp_path, x, mixture))
    assert found.tags.count("svg") <= 20
    assert found.tags.count("tr") < 200
    assert (tmp_path / "report.html").stat().st_size < 3_000_000
    assert (f"and {d - 30:,} more columns" in found.text) == (d > 1)


def test_a_table_without_gaps(tmp_path):
    rng = np.random.default_rng(0)
    found = check_page(write(tmp_path, rng.normal(size=(60, 3))))
    assert "Nothing is missing: all 180 cells" in found.text
    assert "There was nothing to fill" in found.text


def test_a_column_without_values_and_one_that_is_constant(tmp_path):
    x = make_rows(60, 4)
    x[:, 1] = np.nan
    x[:, 2] = np.where(np.isnan(x[:, 2]), np.nan, 7.0)
    with pytest.warns(UserWarning, match="no observed value|no value"):
        found = check_page(write(tmp_path, x))
    assert "column 2: no value is known" in found.text
    assert "column 3: all known values are the same" in found.text


def test_everything_missing_in_some_rows(tmp_path):
    x = make_rows(60, 3)
    x[5:8] = np.nan
    found = check_page(write(tmp_path, x))
    assert "3 rows show no value at all" in found.text


@pytest.mark.parametrize("first", [4, 0])
def test_a_handful_of_gaps_in_a_long_table_is_drawn(tmp_path, first):
    # Evenly spaced samples of 20,000 of 25,000 rows leave out every fifth, or take every fifth.
    x = np.random.default_rng(0).normal(size=(25_000, 3))
    x[first:200:5, 1] = np.nan
    x[:20_000, 2] = np.nan
    found = check_page(write(tmp_path, x))
    assert "Histograms of column 2: 24,960 known values" in " ".join(found.values("aria-label"))
    assert found.text.count("column 3") > 2


def test_two_rows(tmp_path):
    x = np.array([[1.0, 2.0], [2.0, np.nan]])
    assert "could not be judged" in check_page(write(tmp_path, x)).text


def test_hostile_names_are_text(tmp_path):
    x = make_rows(60, len(HOSTILE), share=0.3)
    x[np.isnan(x[:, 0]), 1] = np.nan  # missing together, so that they are named there too
    frame = pd.DataFrame(x, columns=HOSTILE)
    found = check_page(write(tmp_path, frame, GaussianMixtureImputer(2), title=HOSTILE[0]))
    assert "img" not in found.tags
    assert "b" in found.tags
    for name in HOSTILE:
        assert label(name) in found.text
    assert HOSTILE[0] in found.text
    assert "{{ 7 * 7 }}" in found.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", found.text)


def test_a_mixture_has_a_report_and_bounds_are_kept(tmp_path):
    x = make_rows(80, 3)
    mixture = GaussianMixture(2, random_state=0)
    check_page(write(tmp_path, pd.DataFrame(x, columns=list("abc")), mixture))
    frame = pd.DataFrame(np.abs(x), columns=list("abc"))
    imputer = GaussianMixtureImputer(1, bounds={"b": (0, None), "c": (None, 4)}).fit(frame)
    numbered = as_imputer(imputer)
    assert numbered.bounds == {1: (0.0, None), 2: (None, 4.0)}
    assert contender(numbered, np.array([0, 2]), []).bounds == {1: (None, 4.0)}
    assert hasattr(imputer, "feature_names_in_")  # the one that was given is as it was
    write_report(imputer, frame, tmp_path / "bounded.html")
    np.testing.assert_array_equal(
        numbered.transform(frame.to_numpy()), np.asarray(imputer.transform(frame))
    )


def test_a_loaded_model_and_one_with_a_target_have_reports(tmp_path):
    x = make_rows(60, 3)
    save(GaussianMixtureImputer(2, random_state=0).fit(x), tmp_path / "model")
    write_report(load(tmp_path / "model"), x, tmp_path / "loaded.html")
    check_page((tmp_path / "loaded.html").read_text(encoding="utf-8"))
    imputer = GaussianMixtureImputer(1, use_target=True).fit(x, np.nan_to_num(x[:, 0]))
    write_report(imputer, x[:20], tmp_path / "target.html")
    check_page((tmp_path / "target.html").read_text(encoding="utf-8"))


def test_what_cannot_be_reported_is_refused(tmp_path):
    x = make_rows(60, 3)
    regressor = GaussianMixtureRegressor(1).fit(x, x[:, 0])
    with pytest.raises(TypeError, match="this is a GaussianMixtureRegressor"):
        write_report(regressor, x, tmp_path / "r.html")
    imputer = GaussianMixtureImputer(1).fit(x)
    with pytest.raises(ValueError, match="feature_names has 1 names; X has 3 columns"):
        write_report(imputer, x, tmp_path / "r.html", feature_names=["a"])
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "jinja2", None)
    with pytest.raises(ImportError, match=r'pip install "gapmix\[report\]"'):
        write_report(GaussianMixtureImputer(1), make_rows(), tmp_path / "r.html")


# ------------------------------------------------------------------ the command


def test_the_command_writes_a_page(gapmix, tmp_path):
    x = make_rows(200, 3)
    write_rows(tmp_path / "in.csv", x, word=[f"w{i}" for i in range(200)], none=[""] * 200)
    ran = gapmix(tmp_path, "report", "in.csv", "-o", "out.html", "--json", *FIT)
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert result["n_gaps"] == np.isnan(x).sum() + 200
    assert result["n_bytes"] == len(text.encode())
    found = check_page(text)
    assert "word names rows and is not used." in found.text
    assert "none has no values and is left empty." in found.text
    assert "none200no values" in found.text
    assert "in.csv" in found.text


def test_hostile_names_and_values_from_a_file(gapmix, tmp_path):
    x = make_rows(60, 2)
    names = ["<script>alert(1)</script>", "x" * 9_000]
    words = ["<img src=x>", "'';!--<b>", "<img src=x>"] * 20
    write_rows(tmp_path / "in.csv", x, names, word=words)
    ran = gapmix(tmp_path, "report", "in.csv", "-o", "out.html", *FIT)
    assert ran.code == 0, ran.err
    found = check_page((tmp_path / "out.html").read_text(encoding="utf-8"))
    assert names[0] in found.text
    assert "most often <img src=x>" in found.text
    assert "word is a category." in found.text


def test_a_bad_call_is_told_before_any_work(gapmix, tmp_path):
    write_rows(tmp_path / "in.csv", make_rows())
    ran = gapmix(tmp_path, "report", "in.csv", "-o", "nowhere/out.html", *FIT)
    assert ran.code == 2
    assert "folder" in ran.err
    (tmp_path / "words.csv").write_text("a,b\n" + "".join(f"x{i},y{i}\n" for i in range(20)))
    ran = gapmix(tmp_path, "report", "words.csv", "-o", "out.html", *FIT)
    assert ran.code == 1
    assert "None of the 2 columns holds numbers or categories" in ran.err
    assert not (tmp_path / "out.html").exists()


# ------------------------------------------------------------------ what it finds


def test_rank_tests_agree_with_scipy():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(size=300), rng.integers(0, 4, 300), rng.normal(size=300)])
    values[rng.random(values.shape) < 0.2] = np.nan
    gaps = np.isnan(values) | (rng.random(values.shape) < 0.1)
    tests = rank_tests(gaps, values)
    for i in range(3):
        for j in range(3):
            known = ~np.isnan(values[:, j])
            missing, rest = values[gaps[:, i] & known, j], values[~gaps[:, i] & known, j]
            right = mannwhitneyu(missing, rest, method="asymptotic", use_continuity=False)
            chance = np.mean((missing[:, None] > rest) + 0.5 * (missing[:, None] == rest))
            np.testing.assert_allclose(tests.p[i, j], right.pvalue, rtol=1e-10)
            np.testing.assert_allclose(tests.larger[i, j], chance, rtol=1e-12)


def test_holm_by_hand():
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03])), [0.03, 0.06, 0.06])


def test_gaps_that_depend_on_a_value_are_found_and_others_are_not():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    x[rng.random(3000) < 1 / (1 + np.exp(2 - 2 * x[:, 3])), 1] = np.nan
    x[rng.random(3000) < 0.2, 0] = np.nan
    hints = look_for_dependence(x)
    assert [(each.column, each.driver) for each in hints.found] == [(1, 3)]
    only = hints.found[0]
    assert only.larger > 0.6
    assert only.median_missing > only.median_known
    assert only.p < 1e-4


def test_gaps_at_random_are_rarely_taken_for_more():
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(60):
        x = rng.normal(size=(150, 5))
        x[rng.random(x.shape) < 0.25] = np.nan
        alarms += bool(look_for_dependence(x).found)
    assert alarms <= 3  # one in a hundred on average


def test_columns_missing_together_are_found():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 5))
    x[rng.random(x.shape) < 0.1] = np.nan
    x[rng.random(2000) < 0.3, 1:3] = np.nan  # often together: as one
    x[rng.random(2000) < 0.05, 3:5] = np.nan  # more often than by chance
    facts = describe(x)
    assert facts.groups == ((1, 2),)
    assert [{pair.first, pair.second} for pair in facts.pairs] == [{3, 4}]
    gaps = np.isnan(x)
    pair = facts.pairs[0]
    assert pair.n_both == (gaps[:, 3] & gaps[:, 4]).sum()
    assert pair.expected == pytest.approx(gaps[:, 3].sum() * gaps[:, 4].sum() / 2000)
    assert pair.correlation == pytest.approx(np.corrcoef(gaps[:, 3], gaps[:, 4])[0, 1])
    assert facts.n_complete == (~gaps).all(axis=1).sum()


def test_columns_missing_by_chance_are_not_said_to_be_missing_together():
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(20):
        x = rng.normal(size=(60, 80))
        x[rng.random(x.shape) < 0.4] = np.nan
        found += bool(describe(x).pairs)
    assert found <= 2


def make_wide(n=60, d=520):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.5 * rng.normal(size=(n, d))
    return np.where(rng.random(x.shape) < 0.1, np.nan, x)


def test_what_is_judged_has_the_covariances_and_the_calibration_of_the_whole_table():
    x = make_wide()
    imputer = GaussianMixtureImputer(random_state=0).fit(x)
    judged = contender(imputer, np.arange(30), [])
    assert judged.covariance_type == imputer.mixture_.covariance_type == "factor"
    assert [each.n_components for each in imputer.selection_ if each.share > 0] == [1]
    assert len(judged.fit(x[:, :30]).selection_) > 1
