"""What the sections on the table and the model say: plain values for the template."""

from typing import Any

import numpy as np

from gapmix.estimators.mixture import GaussianMixture
from gapmix.plan import Plan
from gapmix.plan.layout import on_missing_side
from gapmix.plan.patterns import count_rows
from gapmix.report.gaps import TableFacts, most_frequent
from gapmix.report.model import MARKED, ModelFacts
from gapmix.report.pictures import (
    Picture,
    draw_climb,
    draw_patterns,
    draw_profiles,
    draw_selection,
)
from gapmix.report.subject import MAX_TABLE, Subject
from gapmix.selection.sizes import Candidate, list_sizes_once
from gapmix.wording import count, label, listed, percent, signed

MAX_PATTERNS, MAX_PATTERN_COLUMNS = 15, 20
MAX_PAIRS = 8
MAX_GROUPS = 5
MAX_PROFILES = 6
MAX_HEAT_COMPONENTS, MAX_HEAT_COLUMNS = 12, 16
REASONS = {  # in plain words; the plan itself has the figures
    "dual": "which handles each pattern separately and was predicted to be the fastest.",
    "tree": "which moves from each pattern to a similar one and was predicted to be the fastest.",
    "diagonal": "which is enough if columns are independent within a component.",
    "factors": "which is enough if columns are related through a few factors only.",
}


def write_gaps(facts: TableFacts, subject: Subject) -> dict[str, Any]:
    """Return what is missing."""
    names = subject.names
    n, d, n_gaps = facts.n_rows, count_columns(subject), count_gaps(facts, subject)
    unused = [each for each in subject.left if not each.used]
    with_gaps = [each for each in facts.columns if each.n_missing]
    if not n_gaps:
        finding = (
            f"Nothing is missing: all {count(n * d, 'cell')} of {count(n, 'row')} and "
            f"{count(d, 'column')} are known."
        )
    else:
        most = [(each.n_missing, label(names[each.column])) for each in with_gaps]
        most += [(each.n_gaps, label(each.name)) for each in unused]
        worst = max(most, key=lambda each: each[0])
        place = (
            f"in {_some_of(len(most), d, 'column')}"
            if len(most) > 1
            else f"all of them in {worst[1]}"
        )
        finding = (
            f"{percent(n_gaps / (n * d))} of the cells are missing: {n_gaps:,} of "
            f"{n * d:,}, {place}. "
            f"{_share_of_rows(facts.n_complete, n)} complete{' in the columns used' * bool(unused)}"
        )
        finding += (
            f", and {worst[1]} has the most gaps ({percent(worst[0] / n)})."
            if len(most) > 1
            else "."
        )
    return {
        "finding": finding,
        "columns": facts.columns[:MAX_TABLE],
        "n_more": max(0, facts.n_columns - MAX_TABLE),
        "left": [each._replace(name=label(each.name)) for each in subject.left],
        "n_left": sum(each.n_gaps for each in subject.left),
        "picture": _draw_patterns(facts, names) if facts.n_gaps else None,
        "together": _write_together(facts, names),
        "n_empty": facts.n_empty,
    }


def count_columns(subject: Subject) -> int:
    """Return how many columns the table has, with those that are not used."""
    return subject.n_columns or subject.x.shape[1]


def count_gaps(facts: TableFacts, subject: Subject) -> int:
    """Return the gaps of all columns of the table."""
    return facts.n_gaps + sum(each.n_gaps for each in subject.left if not each.used)


def _some_of(n: int, total: int, noun: str) -> str:
    if n < total:
        return f"{n:,} of {count(total, noun)}"
    return f"all {count(total, noun)}"


def _share_of_rows(n: int, total: int) -> str:
    return f"{percent(n / total)} of the rows are" if n else "No row is"


def _draw_patterns(facts: TableFacts, names: list[str]) -> Picture:
    chosen = [each for each in facts.columns if each.n_missing][:MAX_PATTERN_COLUMNS]
    columns = np.sort([each.column for each in chosen])
    observed, rows = most_frequent(facts.patterns, MAX_PATTERNS)
    n_patterns = len(facts.patterns.observed)
    drawn = facts.patterns._replace(observed=facts.patterns.observed[:, columns])
    svg = draw_patterns(drawn, [names[j] for j in columns], MAX_PATTERNS)
    counts = count_rows(facts.patterns)
    held = percent(rows.sum() / counts.sum())
    caption = "Each line is a pattern: a set of columns that are missing in the same rows. "
    if rows.max() == 1 and n_patterns > len(rows):
        caption += f"Every row has a pattern of its own; {len(rows)} of {n_patterns:,} are shown."
    elif n_patterns > len(rows):
        caption += (
            f"The {len(rows)} most frequent of {n_patterns:,} patterns are shown; they cover "
            f"{held} of the rows."
        )
    else:
        caption += f"All {count(n_patterns, 'pattern')} are shown."
    n_gappy = sum(each.n_missing > 0 for each in facts.columns)
    if n_gappy > len(columns):
        caption += (
            f" Of {n_gappy:,} columns with gaps, the {len(columns)} with the most are drawn. "
            "Lines that look the same differ in columns that are not drawn."
        )
    elif len(columns) < facts.n_columns:
        caption += " Columns without gaps are left out."
    first = "nothing" if observed[0].all() else count(int((~observed[0]).sum()), "column")
    alternative = (
        f"Grid of the {len(rows)} most frequent patterns of gaps over {len(columns)} columns. In "
        f"the most frequent one, with {count(int(rows[0]), 'row')}, {first} missing."
    )
    return Picture(svg, alternative, caption)


def _write_together(facts: TableFacts, names: list[str]) -> dict[str, Any]:
    groups = [
        f"{listed([label(names[j]) for j in group])} are mostly missing together."
        for group in facts.groups[:MAX_GROUPS]
    ]
    if len(facts.groups) > MAX_GROUPS:
        groups.append(f"There are {len(facts.groups) - MAX_GROUPS:,} more such groups.")
    looked = ""
    gappy = sum(0 < each.n_missing < facts.n_rows for each in facts.columns)
    if facts.n_compared < gappy or facts.n_rows_compared < facts.n_rows:
        looked = (
            f"Compared on {facts.n_rows_compared:,} of {facts.n_rows:,} rows, for "
            f"{facts.n_compared:,} of {gappy:,} columns with gaps."
        )
    return {
        "groups": groups,
        "pairs": facts.pairs[:MAX_PAIRS],
        "n_more": max(0, len(facts.pairs) - MAX_PAIRS),
        "nothing": not groups and not facts.pairs and facts.n_compared > 1,
        "looked": looked,
    }


def write_model(facts: ModelFacts, subject: Subject) -> dict[str, Any]:
    """Return what the model found."""
    mixture, tried = subject.imputer.mixture_, list_sizes_once(tuple(subject.imputer.selection_))
    several = len(facts.profiles) > 1
    return {
        "finding": _tell_model(facts),
        "united": _tell_united(facts),
        "profiles": facts.profiles[:MAX_PROFILES] if several else (),
        "n_more": max(0, len(facts.profiles) - MAX_PROFILES),
        "heat": _draw_profiles(facts, subject.names) if several else None,
        "sizes": _draw_sizes(tried) if any(each.error > 0 for each in tried[1:]) else None,
        "climb": _draw_climb(mixture),
        "log_likelihood": mixture.history_[-1].log_likelihood,
        "ended": _tell_end(facts, mixture),
        "plan": _write_plan(mixture.plan_),
        "explanation": mixture.plan_.explain(),
    }


def _tell_model(facts: ModelFacts) -> str:
    largest = f"{percent(facts.profiles[0].weight)} of the rows"
    n_components = len(facts.profiles)
    if n_components == 1:
        return (
            "One Gaussian, a single cloud of rows around one mean, describes the table. There are "
            "no groups to distinguish."
        )
    return (
        f"{n_components} Gaussians describe the table, each for one kind of row. The largest "
        f"covers {largest}."
    )


def _tell_united(facts: ModelFacts) -> str:
    """Return why other components fill too; nothing if they do not."""
    if not facts.united:
        return ""
    return (
        f"Gaps are filled by an average of mixtures of "
        f"{listed([str(size) for size in facts.united])} Gaussians, weighted by how well they fill "
        "hidden cells. That is safer than relying on one. The best of them is shown here."
    )


def _tell_end(facts: ModelFacts, mixture: GaussianMixture) -> str:
    ended = str(mixture.stop_reason_)
    if not facts.united:
        ended = f"{count(mixture.n_iter_, 'iteration')}; {ended}"
    if not facts.is_complete:
        ended += ". The fit did not converge: more iterations may change the result a little"
    return ended


def _draw_profiles(facts: ModelFacts, names: list[str]) -> Picture | None:
    spread = np.ptp(facts.deviations, axis=0)
    columns = np.sort(np.argsort(-spread, kind="stable")[:MAX_HEAT_COLUMNS])
    columns = columns[spread[columns] > 0]
    if not columns.size or np.abs(facts.deviations[:, columns]).max() < MARKED:
        return None
    shown = facts.deviations[:MAX_HEAT_COMPONENTS, columns]
    shares = [
        f"{100 * p.weight:.0f}" if p.weight >= 0.1 else f"{100 * p.weight:.1f}"
        for p in facts.profiles[: len(shown)]
    ]
    svg = draw_profiles(shown, shares, [names[j] for j in columns])
    caption = (
        "Each column of the picture is a component, with its share of the rows above it. Colours "
        "show how far its means lie from those of the table."
    )
    if len(facts.profiles) > len(shown):
        caption += f" The {len(shown)} largest of {len(facts.profiles)} components are drawn."
    if len(columns) < len(spread):
        caption += f" Of {len(spread):,} columns, the {len(columns)} that differ most are drawn."
    top = facts.profiles[0].marks[:1]
    tail = (
        f" The largest is most marked in {label(names[top[0].column])}, "
        f"{signed(top[0].deviations)} standard deviations."
        if top
        else ""
    )
    alternative = (
        f"Heat map of the means of {len(shown)} components in {len(columns)} columns.{tail}"
    )
    return Picture(svg, alternative, caption)


def _draw_sizes(tried: tuple[Candidate, ...]) -> Picture:
    best = min(tried, key=lambda each: each.error)
    kept = listed([str(each.n_components) for each in tried if each.share > 0])
    return Picture(
        draw_selection(tried),
        f"Error of hidden cells by number of Gaussians, from {tried[0].error:.3f} with "
        f"{tried[0].n_components} to {best.error:.3f} with {best.n_components}.",
        f"How the number of Gaussians was chosen: {len(tried)} numbers were tried, with a fifth of "
        f"the known cells hidden. The error, in standard deviations of the column, is lowest with "
        f"{best.n_components} ({best.error:.3f}). Kept: {kept}.",
    )


def _draw_climb(mixture: GaussianMixture) -> Picture | None:
    if len(mixture.history_) < 2:
        return None
    first, last = mixture.history_[0].objective, mixture.history_[-1].objective
    return Picture(
        draw_climb(mixture),
        f"Log-likelihood per row by iteration, from {first:.3f} to {last:.3f}.",
        "How the fit went: every iteration raises the log-likelihood per row, that is, makes the "
        "known values more probable under the model.",
    )


def _write_plan(plan: Plan) -> str:
    if plan.text or not len(plan.patterns.observed):
        return ""
    missing_side = on_missing_side(plan.patterns.observed)
    ours, other = int(missing_side.sum()), int((~missing_side).sum())
    asked = plan.requested != "auto"
    return (
        f"Rows with gaps in the same columns are computed together; the fit had "
        f"{count(len(missing_side), 'such pattern')}. Each is computed from its missing columns "
        f"({count(ours, 'pattern')}) or from its known ones ({count(other, 'pattern')}), "
        f"whichever are fewer. Several solvers do this, all with the same result. The solver "
        f"“{plan.solver}” was used, "
        f"{plan.reason if asked else REASONS.get(plan.solver, plan.reason)}"
    )
