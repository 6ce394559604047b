"""What a command found: tables for people, or JSON."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.table import Table as Grid
from rich.text import Text

from gapmix.wording import clean, count, duration, list_names, listed, percent, quote, say_doubted

if TYPE_CHECKING:
    from gapmix.cli.options import Shown

MAX_COMPONENTS = 6  # whose means are listed beside each other
SEEN_RIDGE = 1e-4  # ridges that are worth a word; smaller ones only hold covariances above 0
MAX_LINES, FEW_LINES = 100, 20  # columns that are all listed; of more, so many


def to_json(result: Any) -> str:
    """Return a result as JSON; what is not finite becomes null, arrays are left out."""
    return json.dumps(_plain(result), indent=2, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {
            str(key): _plain(item) for key, item in value.items() if not getattr(item, "shape", ())
        }
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a number of numpy
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_result(kind: str, result: Any, options: Shown) -> None:
    """Print a result: JSON or tables on stdout, the summary of written files on stderr."""
    if options.json:
        sys.stdout.write(to_json(result) + "\n")
        return
    if kind == "script":
        sys.stdout.write(result)
    elif kind in ("described", "informed", "evaluated", "demonstrated", "warmed"):
        Console(highlight=False).print(render(kind, result, verbose=options.verbose))
    elif not options.quiet:
        shown = render(kind, result, verbose=options.verbose)
        Console(stderr=True, highlight=False).print(shown)


def render(kind: str, result: Any, *, verbose: bool = False) -> Any:
    """Return a result as something rich prints; how it was computed only if `verbose`."""
    return RENDERERS[kind](result, verbose)


def _summary(rows: list[tuple[str, str]]) -> Grid:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(name), Text(clean(value)))
    return grid


def _cut(n_columns: int) -> tuple[int, list[Text]]:
    """Return how many columns are listed, and what is said of the others."""
    if n_columns <= MAX_LINES:
        return n_columns, []
    return FEW_LINES, [Text(f"and {n_columns - FEW_LINES:,} more columns; --json lists all")]


def _tell_tested(fit: Any) -> str:
    """Return how well a fit filled numbers that were hidden from it; nothing if none were."""
    if fit is None or not fit.error:
        return ""
    return (
        f"known numbers that were hidden from the fit got an error of {fit.error:.2f} standard "
        "deviations (the column's mean gives 1)"
    )


def _fit_rows(fit: Any, verbose: bool, filled: Any = None) -> list[tuple[str, str]]:
    """Return what the reader should know about a fit; of doubted columns, only those filled."""
    if fit is None:
        return []
    rows = _name("Factors", fit.factors)
    kept = [each for each in fit.selection if each.share > 0]
    if fit.interrupted:
        rows.append(("Fit", "interrupted; the best parameters so far are used"))
    elif not fit.converged:
        rows.append(
            (
                "Fit",
                f"stopped after {count(fit.n_iter, 'iteration')}, before it converged; more "
                "(--max-iter) may change filled cells a little",
            )
        )
    doubted = [quote(name) for name in fit.doubted if filled is None or name in filled]
    if doubted:
        rows.append(("Hard to fill", say_doubted(doubted)))
    if verbose:
        size = count(fit.n_components, "component")
        if len(kept) > 1:
            sizes = listed([str(each.n_components) for each in kept])
            size = f"mixtures of {sizes} components, averaged"
        rows += [
            ("Model", f"{size}; {count(fit.n_iter, 'iteration')}"),
            *((("Sizes", _list_sizes(fit.selection)),) if fit.selection else ()),
            ("Log-likelihood", f"{fit.log_likelihood:.4f} per row"),
            ("Stopped because", fit.stop_reason),
        ]
    return rows


def _list_sizes(tried: Any) -> str:
    """Return the sizes that were compared, with their errors on hidden cells."""
    return ", ".join(
        f"{each.n_components}{f' x {each.n_factors} factors' * bool(each.n_factors)} "
        f"({each.error:.3f}{f', ridge {each.reg_covar:g}' * (each.reg_covar >= SEEN_RIDGE)})"
        for each in tried
    )


def _filled(result: Any, verbose: bool) -> Any:
    most = sorted(result.by_column.items(), key=lambda item: -item[1])
    which = list_names([f"{name} {n:,}" for name, n in most], 6)
    spent = ", ".join(f"{name} {duration(value)}" for name, value in result.seconds.items())
    n_left = result.n_gaps - result.n_filled
    left = list_names([f"{u.column} {u.n_gaps:,} ({u.reason})" for u in result.unfilled], 6)
    part = (
        ("the only gap" if result.n_gaps == 1 else f"all {result.n_gaps:,} gaps")
        if not n_left
        else f"{result.n_filled:,} of {count(result.n_gaps, 'gap')}"
    )
    rows = [
        ("Table", f"{count(result.n_rows, 'row')}, {count(result.n_columns, 'column')}"),
        (
            "Filled",
            f"{part} ({which})" if most else "nothing" if n_left else "nothing: there are no gaps",
        ),
        *([("Not filled", f"{count(n_left, 'gap')}: {left}")] if n_left else []),
        *_name("How sure", _tell_sure(result.sure, _tell_tested(result.fit))),
        *_fit_rows(result.fit, verbose, result.by_column),
        ("Time", spent if verbose else duration(sum(result.seconds.values()))),
        (
            "Written",
            ", ".join(result.files).replace("-", "standard output")
            if result.files == ("-",)
            else ", ".join(result.files),
        ),
    ]
    return _summary(rows)


def _name(name: str, text: str) -> list[tuple[str, str]]:
    """Return a row of a summary, none if there is nothing to say."""
    return [(name, text)] if text else []


def _tell_sure(sure: Any, tested: str) -> str:
    """Return how sure filled cells are: as tested, else by the model's own account."""
    parts = [tested] if tested else []
    if sure is not None and not tested and math.isfinite(sure.explained):
        share = percent(sure.explained)
        parts.append(
            f"according to the model, the rest of the row explains {share} of the variance of a "
            "filled number (the column's mean explains 0 %)"
        )
    if sure is not None and math.isfinite(sure.probability):
        parts.append(
            f"filled categories have an average probability of {percent(sure.probability)}"
        )
    return "; ".join(parts)


def _fitted(result: Any, verbose: bool) -> Any:
    return _summary(
        [
            ("Table", f"{result.n_rows:,} rows, {result.n_features:,} columns used"),
            *_name("How sure", _tell_tested(result.fit)),
            *_fit_rows(result.fit, verbose),
            ("Written", ", ".join(result.files)),
        ]
    )


def _reported(result: Any, verbose: bool) -> Any:
    rows = [
        ("Table", f"{result.n_rows:,} rows, {result.n_features:,} columns used"),
        ("Missing", f"{result.n_gaps:,} cells"),
        *_name("How sure", _tell_tested(result.fit)),
        *_fit_rows(result.fit, verbose),
        ("Written", f"{', '.join(result.files)} ({result.n_bytes / 1000:,.0f} kB)"),
    ]
    return _summary(rows)


def _scored(result: Any, verbose: bool) -> Any:
    return _summary(
        [
            ("Rows", f"{result.n_rows:,}"),
            ("Mean log density", f"{result.mean:.4f}"),
            ("Lowest", f"{result.lowest:.4f} in row {result.lowest_row:,}"),
            *_fit_rows(result.fit, verbose),
        ]
    )


def _sampled(result: Any, verbose: bool) -> Any:
    return _summary([("Drawn", f"{result.n_rows:,} rows, {result.n_columns:,} columns")])


def _described(result: Any, verbose: bool) -> Any:
    head = _summary(
        [
            (
                "Table",
                f"{result.n_rows:,} rows, {result.n_columns:,} columns, {result.n_used:,} used",
            ),
            ("Missing", f"{result.n_missing:,} cells, {100 * result.share_missing:.1f} %"),
            (
                "Rows",
                f"{result.n_complete:,} complete in the columns used, {result.n_empty:,} empty",
            ),
            ("Patterns", f"{result.n_patterns:,} distinct"),
        ]
    )
    columns = _plain_table("Columns")
    for name in ("column", "kind"):
        columns.add_column(name, no_wrap=True, overflow="ellipsis")
    for name in ("missing", "%", "lowest", "mean", "highest"):
        columns.add_column(name, justify="right", no_wrap=True)
    n_shown, more = _cut(len(result.columns))
    for fact in result.columns[:n_shown]:
        numbers = [_number(value) for value in (fact.low, fact.mean, fact.high)]
        kind = f"{fact.kind}, {count(len(fact.levels), 'level')}" if fact.levels else fact.kind
        missing = [f"{fact.n_missing:,}", f"{100 * fact.share_missing:.1f}"]
        columns.add_row(
            Text(clean(fact.name)),
            kind,
            *missing,
            *numbers,
        )
    patterns = _plain_table("Most frequent patterns")
    patterns.add_column("rows", justify="right", no_wrap=True)
    patterns.add_column("missing together", overflow="fold")
    for pattern in result.patterns:
        listed = ", ".join(pattern.missing[:12])
        rest = f" and {len(pattern.missing) - 12} more" if len(pattern.missing) > 12 else ""
        patterns.add_row(f"{pattern.n_rows:,}", Text(clean(listed + rest) or "nothing"))
    parts: list[Any] = [head, "", columns, *more, "", patterns]
    if verbose:
        plan = Text("\n".join(clean(line) for line in result.plan.splitlines()))
        parts += ["", Text("Plan of a fit", "italic"), plan]
    return Group(*parts)


def _evaluated(result: Any, verbose: bool) -> Any:
    plural = "s" if result.repeats > 1 else ""
    cells = f"{result.n_hidden:,} cells in {result.repeats} repeat{plural}"
    head = _summary(
        [
            ("Table", f"{result.n_rows:,} rows, {len(result.columns):,} columns that vary"),
            ("Hidden", f"{cells}, {100 * result.share:g} % of the known ones each time"),
        ]
    )
    methods = _plain_table(
        "Methods (error in standard deviations, wrong levels in %)"
        if result.categories
        else "Methods (errors in standard deviations of the column)"
    )
    methods.add_column("method", no_wrap=True)
    mixed = bool(result.categories)
    levels = ("wrong", "vs mode", "log score") if mixed else ()
    held_by = (
        f"in {100 * c:g} %" if mixed else f"{100 * c:g} % interval holds" for c in result.coverages
    )
    for name in ("error", *levels, *held_by, "time"):
        methods.add_column(name, justify="right")
    best = _lowest([score.error for score in result.scores])
    for score in result.scores:
        held = [f"{100 * share:.1f} %" for share in score.coverage] or ["-"] * len(result.coverages)
        style = "bold" if score.error == best else ""
        methods.add_row(
            score.method,
            _error(score.error, 4),
            *(_level_scores(score) if mixed else ()),
            *held,
            duration(score.seconds),
            style=style,
        )
    columns = _plain_table("Error, or share wrong" if mixed else "Error by column")
    columns.add_column("column", no_wrap=True, overflow="ellipsis")
    for score in result.scores:
        columns.add_column(score.method, justify="right", no_wrap=True)
    weights = next((score.weights for score in result.scores if score.weights), ())
    if weights:
        columns.add_column("refined by", justify="right", no_wrap=True)
    n_shown, more = _cut(len(result.columns))
    for j, name in enumerate(result.columns[:n_shown]):
        errors = [score.by_column[j] for score in result.scores]
        lowest = _lowest(errors)
        columns.add_row(
            Text(clean(name)),
            *(Text(_error(e, 3), "bold" if e == lowest else "") for e in errors),
            *((_error(weights[j], 2),) if weights else ()),
        )
    failed = [f"{each.method}: {each.problem}" for each in result.scores if each.problem]
    sure = [_calibration(result.calibration)] if result.calibration else []
    told = (Text(clean(text)) for text in failed)
    parts = [head, "", methods, *told, "", columns, *more, *(["", *sure] if sure else ())]
    if result.verdict:
        said = "± is one standard error, over rows."
        if mixed and len(result.scores) > 1:
            said += " For categories, all but the mixture use the most frequent level."
        if weights:
            said += " 'refined by' is the weight that corrections of the mixture got."
        parts += ["", Text(clean(f"{result.verdict} ({said})"))]
    return Group(*parts)


def _level_scores(score: Any) -> list[str]:
    wrong = f"{100 * score.wrong:.1f} %" if math.isfinite(score.wrong) else "-"
    return [wrong, _error(score.relative_wrong, 2), _error(score.level_log_score, 3)]


def _calibration(classes: Any) -> Grid:
    table = _plain_table("Levels filled by the mixture")
    for name in ("probability", "cells", "on average", "correct"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in classes:
        table.add_row(
            f"{100 * each.low:.0f}-{100 * each.high:.0f} %",
            f"{each.n:,}",
            f"{100 * each.probability:.1f} %",
            f"{100 * each.right:.1f} %",
        )
    return table


def _lowest(errors: list[float]) -> float:
    return min((error for error in errors if math.isfinite(error)), default=math.nan)


def _error(error: float, digits: int) -> str:
    return f"{error:.{digits}f}" if math.isfinite(error) else "-"


def _plain_table(title: str) -> Grid:
    return Grid(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))


def _informed(result: Any, verbose: bool) -> Any:
    size = f"{count(result.n_components, 'component')}, {result.covariance_type} covariances"
    title = "The components: means, most probable levels"
    if result.united:
        sizes = listed([str(each) for each in result.united])
        size = f"mixtures of {sizes} components, averaged; {result.covariance_type} covariances"
        title = "The best of them on hidden cells: means, most probable levels"
    rows = [
        ("Model", size),
        ("Columns", f"{len(result.columns)} in the table, {result.n_features} used"),
    ]
    if verbose or not result.converged:
        rows.append(("Stopped because", result.stop_reason))
    if verbose:
        density = f"{result.log_likelihood:.4f} per row, after {count(result.n_iter, 'iteration')}"
        rows.append(("Log-likelihood", density))
    table = _plain_table(title)
    table.add_column("share of rows", no_wrap=True, overflow="ellipsis")
    shown = result.shown[:MAX_COMPONENTS]
    total = sum(result.weights[k] for k in result.shown)
    for k in shown:
        table.add_column(f"{100 * result.weights[k] / total:.1f} %", justify="right", no_wrap=True)
    n_shown, more = _cut(len(result.feature_names))
    for j, name in enumerate(result.feature_names[:n_shown]):
        table.add_row(Text(clean(name)), *(_number(result.means[k][j]) for k in shown))
    for name, components in result.categories.items():
        table.add_row(Text(clean(name)), *(_best_level(components[k]) for k in shown))
    rest = len(result.shown) - len(shown)
    if rest:
        more.append(Text(f"and {count(rest, 'more component')}"))
    return Group(_summary(rows), "", table, *more)


def _best_level(shares: dict[str, float]) -> Text:
    level = max(shares, key=lambda each: shares[each])
    return Text(clean(f"{level} {100 * shares[level]:.0f} %"))


def _number(value: float | str | None) -> str:
    return f"{value:.5g}" if isinstance(value, float) else value or ""


def _demonstrated(result: Any, verbose: bool) -> Any:
    table, filled = result.files
    return _summary(
        [
            ("Table", f"{result.n_rows:,} wines, {result.n_columns:,} measurements: {table}"),
            ("Filled", f"{count(result.n_gaps, 'cell')} that had been removed: {filled}"),
            (
                "Error",
                f"{result.error:.2f} standard deviations; column means: {result.mean_error:.2f}",
            ),
            ("Time", duration(result.seconds)),
            ("Next", f"gapmix evaluate {table}"),
            ("", f"gapmix report {table} -o report.html"),
            ("", "gapmix impute your-table.csv -o filled.csv"),
        ]
    )


def _warmed(result: Any, verbose: bool) -> Any:
    done = f"{result.n_compiled} of {count(result.n_kernels, 'kernel')}" + (
        f" in {duration(result.seconds)}" if result.n_compiled else ": all were there already"
    )
    return _summary([("Compiled", done), ("Kept in", result.folder or "memory only")])


RENDERERS = {
    "filled": _filled,
    "fitted": _fitted,
    "reported": _reported,
    "scored": _scored,
    "sampled": _sampled,
    "described": _described,
    "evaluated": _evaluated,
    "informed": _informed,
    "demonstrated": _demonstrated,
    "warmed": _warmed,
}
