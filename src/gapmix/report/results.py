"""What the sections on filling, its quality and its assumption say."""

from typing import Any

import numpy as np

from gapmix.evaluate.ranking import Ranked
from gapmix.evaluate.scores import ALONE, OURS, Overall
from gapmix.report.filling import MAX_PANELS, ColumnFilled, FilledFacts
from gapmix.report.gaps import TableFacts
from gapmix.report.judging import Judged
from gapmix.report.pictures import Picture, draw_hidden, draw_known_and_filled
from gapmix.report.randomness import LEVEL, Hints
from gapmix.report.subject import MAX_TABLE, Subject
from gapmix.wording import NOTHING, count, label, listed, number, percent, say_doubted

MAX_ERROR_COLUMNS = 14
MAX_HINTS = 10
MAX_CONFUSIONS = 6  # categories
MAX_CONFUSED = 12  # levels of one
METHODS = {
    "mean": "mean: the column's mean",
    "k-NN": "k-NN: the nearest rows",
    "iterative": "iterative: chained regressions",
    ALONE: "mixture alone: this model, not refined",
    OURS: "mixture: this model",
}


def write_filled(facts: FilledFacts, subject: Subject) -> dict[str, Any]:
    """Return what was filled."""
    panels = [_draw_panel(each, subject) for each in facts.columns[:MAX_PANELS]]
    return {
        "finding": _tell_filled(facts, subject),
        "notes": _note_columns(facts, subject),
        "panels": panels,
        "n_more_panels": max(0, len(facts.columns) - len(panels)),
        "columns": facts.columns[:MAX_TABLE],
        "n_more": max(0, len(facts.columns) - MAX_TABLE),
        "uncertain": facts.uncertain,
        "categories": facts.categories[:MAX_TABLE],
        "n_more_categories": max(0, len(facts.categories) - MAX_TABLE),
    }


def _tell_filled(facts: FilledFacts, subject: Subject) -> str:
    if not facts.n_filled:
        return "There was nothing to fill."
    kept = sum(each.n_gaps for each in subject.left if each.used)
    n_filled = facts.n_filled - kept
    text = f"{count(n_filled, 'cell')} {'was' if n_filled == 1 else 'were'} filled"
    n_left = sum(each.n_gaps for each in subject.left)
    if n_left:
        text += f", and {n_left:,} {'was' if n_left == 1 else 'were'} not (listed above)"
    if np.isfinite(facts.explained):
        text += (
            f". According to the model, the rest of the row explains "
            f"{percent(facts.explained)} of the variance of a filled cell (0 %: no better than the "
            "column's mean; 100 %: certain)"
        )
    return f"{text}."


def _note_columns(facts: FilledFacts, subject: Subject) -> list[str]:
    notes, names = [], subject.names
    if facts.unknowable:
        shown = listed([label(names[j]) for j in facts.unknowable])
        notes.append(f"{shown}: no value is known, so the gaps are filled with 0.")
    if facts.constant:
        shown = listed([label(names[j]) for j in facts.constant])
        notes.append(f"{shown}: all known values are the same, and gaps are filled with it.")
    gaps = np.isnan(subject.x).any(axis=0)
    doubted = np.flatnonzero(gaps & (subject.imputer.trust_ < 1.0))
    if doubted.size:
        said = say_doubted([label(names[j]) for j in doubted.tolist()])
        notes.append(f"{said[0].upper()}{said[1:]}.")
    return notes


def _draw_panel(each: ColumnFilled, subject: Subject) -> Picture:
    x = subject.x[:, each.column]
    name = label(subject.names[each.column])
    return Picture(
        draw_known_and_filled(x[~np.isnan(x)], each.drawn),
        f"Histograms of {name}: {len(x) - each.n_filled:,} known values with mean "
        f"{number(each.mean_known)}, {each.n_filled:,} filled ones with mean "
        f"{number(each.mean_filled)}.",
        name,
    )


def write_judged(judged: Judged | str, subject: Subject) -> dict[str, Any]:
    """Return how good the filling is."""
    if isinstance(judged, str):
        return {"finding": f"This could not be judged. {judged}", "methods": []}
    overall = judged.evaluation.overall()
    worst = max((each.error for each in overall if np.isfinite(each.error)), default=1.0)
    mixed, majority = np.isfinite(judged.ours.wrong), overall[0].wrong
    return {
        "mixed": bool(mixed),
        "numbers": bool(np.isfinite(judged.ours.error)),
        "finding": _tell_error(overall, judged.ours, judged.evaluation.ranking()),
        "figures": _show_figures(judged.ours),
        "calibration": judged.calibration,
        "confusions": _write_confusions(judged, subject.names),
        "n_more_confusions": max(0, len(judged.confusions) - MAX_CONFUSIONS),
        "hidden": _tell_hidden(judged, subject),
        "methods": [
            {
                "name": METHODS.get(each.imputer, each.imputer),
                "ours": each.imputer == OURS,
                "error": f"{each.error:.3f}" if np.isfinite(each.error) else each.problem,
                "wrong": percent(each.wrong),
                "relative": number(each.wrong / majority if majority > 0 else np.nan),
                "log_score": number(each.level_log_score),
                "share": each.error / worst if np.isfinite(each.error) else 0.0,
                "coverage": (each.coverage_50, each.coverage_90),
            }
            for each in sorted(overall, key=lambda e: np.nan_to_num(e.error, nan=np.inf))
        ],
        "picture": _draw_errors(judged, subject.names),
        "headers": [each.imputer for each in overall],
        "refined": bool(np.isfinite(judged.ours.weight)),
        "columns": [
            _write_column(label(subject.names[j]), them)
            for j, them in list(judged.by_column.items())[:MAX_TABLE]
        ],
        "n_more": max(0, len(judged.by_column) - MAX_TABLE),
    }


def _show_figures(ours: Overall) -> list[tuple[str, str]]:
    """Return the figures at the head of the page that tell how good the filling is."""
    figures = []
    if np.isfinite(ours.error):
        figures += [
            (f"{ours.error:.2f}", "error of hidden cells, in standard deviations"),
            (percent(ours.coverage_90), "of them inside their 90 % interval"),
        ]
    if np.isfinite(ours.wrong):
        figures.append((percent(ours.wrong), "of hidden categories got a wrong level"))
    return figures


def _write_confusions(judged: Judged, names: list[str]) -> list[dict[str, Any]]:
    """Return which levels were taken for which, of the categories with most wrong ones."""
    written = []
    for j, table in list(judged.confusions.items())[:MAX_CONFUSIONS]:
        order = np.argsort(-table.counts.sum(axis=1), kind="stable")[:MAX_CONFUSED]
        written.append(
            {
                "name": label(names[j]),
                "levels": [label(table.levels[k], 20) for k in order],
                "rows": [
                    (label(table.levels[k], 20), [f"{n:,}" for n in table.counts[k, order]])
                    for k in order
                ],
                "n_more": len(table.levels) - len(order),
            }
        )
    return written


def _tell_error(overall: tuple[Overall, ...], ours: Overall, ranked: tuple[Ranked, ...]) -> str:
    wrong = ""
    if np.isfinite(ours.wrong):
        wrong = (
            f"{percent(ours.wrong)} of the hidden categories get a wrong level, compared with "
            f"{percent(overall[0].wrong)} for always taking the most frequent one."
        )
    if not np.isfinite(ours.error):
        return wrong
    text = (
        f"Known numbers that were hidden are filled with an error of {ours.error:.2f} standard "
        "deviations of their column"
    )
    rivals = [each for each in overall if each.imputer != OURS and np.isfinite(each.error)]
    if rivals:
        best = min(rivals, key=lambda each: each.error)
        ratio = ours.error / best.error - 1 if best.error else 0.0
        compared = (
            "as good as"
            if abs(ratio) < 0.005
            else f"{abs(100 * ratio):.0f} % {'less' if ratio < 0 else 'more'} than"
        )
        worse = ranked[1] if ranked[0].imputer == OURS else _find_ours(ranked)
        text += f", {compared} the best other method ({best.imputer}, {best.error:.2f}). "
        text += (
            "The difference is clear (more than two standard errors)"
            if worse.sure
            else "The difference may be chance (less than two standard errors)"
        )
    held = percent(ours.coverage_90)
    return f"{text}. {held} of the hidden numbers lie inside their 90 % interval. {wrong}"


def _find_ours(ranked: tuple[Ranked, ...]) -> Ranked:
    return next(each for each in ranked if each.imputer == OURS)


def _tell_hidden(judged: Judged, subject: Subject) -> str:
    n, d = subject.x.shape
    n_repeats = judged.evaluation.n_repeats
    n_rows, n_columns = judged.evaluation.shape
    rounds = f" in {n_repeats} rounds" if n_repeats > 1 else ""
    rows = count(n, "row") if n_rows == n else f"{n_rows:,} of {n:,} rows"
    text = (
        f"One in ten known cells was hidden at random{rounds} "
        f"({count(judged.ours.n_hidden, 'cell')}), in {rows}"
    )
    if n_columns < d:
        text += (
            f" and {n_columns:,} of {d:,} columns (of those that vary, the ones with the most gaps)"
        )
    text += "."
    if n_rows < n or n_columns < d:
        text += (
            " All methods, including this mixture, were fitted to this part only. With the whole "
            "table they would know more and should do somewhat better."
        )
    text += " The other methods ran with scikit-learn's default settings."
    if subject.imputer.selection_:
        text += (
            " The mixture chose its number of components again, up to the largest number kept for "
            "the whole table. That limit had been found with the hidden cells in view, which is a "
            "slight advantage."
        )
    if n_repeats == 1:
        text += " With one round, small differences between methods may be chance."
    return text


def _draw_errors(judged: Judged, names: list[str]) -> Picture | None:
    drawn = [j for j, them in judged.by_column.items() if np.isfinite(them[0].error)]
    drawn = drawn[:MAX_ERROR_COLUMNS]
    if not drawn:
        return None
    caption = (
        "Error by column; lines show the range over the rounds. Further left is better. If even "
        "this mixture is near 1, the other columns say little about that column."
    )
    if len(judged.by_column) > len(drawn):
        caption += f" Shown are the {len(drawn)} columns of numbers with the largest error."
    hardest = next(each for each in judged.by_column[drawn[0]] if each.imputer == OURS)
    return Picture(
        draw_hidden(judged.evaluation, {str(j): names[j] for j in drawn}),
        f"Errors of {len(judged.by_column[drawn[0]])} methods in {count(len(drawn), 'column')}. "
        f"The hardest column is {label(names[drawn[0]])}, with {hardest.error:.2f}.",
        caption,
    )


def _write_column(name: str, them: tuple[Overall, ...]) -> dict[str, Any]:
    is_level = np.isfinite([each.wrong for each in them]).any()
    errors = [each.wrong if is_level else each.error for each in them]
    ours = next(each for each in them if each.imputer == OURS)
    return {
        "name": name,
        "n_hidden": f"{ours.n_hidden:,}",
        "errors": [
            {
                "text": percent(error)
                if is_level
                else f"{error:.2f}"
                if np.isfinite(error)
                else NOTHING,
                "best": error == np.fmin.reduce(errors),
            }
            for error in errors
        ],
        "coverage": percent(ours.coverage_90),
        "weight": "" if np.isnan(ours.weight) else f"{ours.weight:.2f}",
    }


def write_caveat(hints: Hints, facts: TableFacts, subject: Subject) -> dict[str, Any]:
    """Return what filling takes for granted, and what speaks about it."""
    names = subject.names
    found = hints.found
    if not facts.n_gaps:
        finding = "Nothing is missing, so nothing is assumed about gaps."
    elif facts.n_columns == 1:
        finding = "There is no other column that the gaps could depend on."
    elif not hints.n_tests:
        finding = (
            "Too few rows have both gaps and known values to tell whether gaps depend on the other "
            "columns."
        )
    elif not found:
        finding = (
            f"No sign that gaps depend on the values of other columns: none of "
            f"{count(hints.n_tests, 'comparison')} in {count(hints.n_columns, 'column')} with "
            "gaps is clear and large enough to count."
        )
    else:
        first = found[0]
        finding = (
            f"Gaps are not completely random: {label(names[first.column])} is missing more often "
            f"where {label(names[first.driver])} is {'high' if first.larger > 0.5 else 'low'}"
        )
        others = len(found) - 1
        more = f", and the gaps of {count(others, 'other column')} depend on values as well"
        finding += f"{more if others else ''}."
    return {
        "finding": finding,
        "has_gaps": bool(facts.n_gaps),
        "tested": bool(hints.n_tests),
        "level": f"{LEVEL:g}",
        "n_tests": f"{hints.n_tests:,}",
        "found": found[:MAX_HINTS],
        "n_more": max(0, len(found) - MAX_HINTS),
    }
