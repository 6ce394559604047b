"""How well gaps are filled on a given table: hide known cells, fill them, compare.

Which imputer is best, and whether its intervals are right, depends on the table. So cells whose
values are known are hidden, by chance or by a rule, and every contender fills them without having
seen them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils import check_random_state

from gapmix.estimators import checks
from gapmix.estimators.imputer import GaussianMixtureImputer
from gapmix.estimators.levels import dict_levels, to_levels
from gapmix.estimators.validation import read_table
from gapmix.evaluate.contenders import default_imputers, leave_slow
from gapmix.evaluate.running import Judged, Truth, score
from gapmix.evaluate.scores import Evaluation
from gapmix.selection.hiding import MECHANISMS, hide
from gapmix.wording import count, list_names

MAX_ROWS = 5_000  # on which the command line evaluates


def hide_and_score(
    X: Any,
    imputers: Mapping[str, Any] | None = None,
    *,
    mechanism: str = "mcar",
    share: float = 0.2,
    driver: Any = None,
    columns: Sequence[Any] | None = None,
    n_repeats: int = 5,
    max_rows: int | None = None,
    feature_names: Sequence[str] | None = None,
    categorical_features: Any = "from_dtype",
    random_state: Any = None,
    progress: Callable[[str, int], None] | None = None,
) -> Evaluation:
    """Hide known cells of a table, let imputers fill them, and return how well they did.

    Parameters
    ----------
    X : array-like or data frame of shape (n_samples, n_features)
        The table; it may have gaps.
    imputers : dict or None, default=None
        What to compare: names and transformers with `fit_transform`, which are not changed. pandas
        and polars frames reach them as frames. None takes `default_imputers()`, without
        'iterative' if there are more than 500 columns.
    mechanism : {'mcar', 'patterns', 'mar'}, default='mcar'
        What is hidden: any known cell with the same probability; in each row, what is missing in
        another random row, which imitates the real gaps; or, for 'mar', cells in rows with large
        values in the column `driver`, which is not hidden itself.
    share : float, default=0.2
        Share of the known cells that is hidden, by 'mcar' and 'mar'.
    driver : column name or number, default=None
        For 'mar'; by default the column with the fewest gaps.
    columns : sequence of column names or numbers, default=None
        Columns whose cells may be hidden, by default all. Imputers see all columns.
    n_repeats : int, default=5
        How many times cells are hidden and filled. All imputers see the same tables.
    max_rows : int or None, default=None
        Evaluate on at most this many rows, drawn from those with a value; None uses all. k-NN
        compares every row with every other, so `gapmix evaluate` uses 5,000.
    feature_names : sequence of str, default=None
        Names of the columns; a data frame has its own.
    categorical_features : 'from_dtype', names, numbers or mask of columns, or None
        Which columns are categories, as in :class:`gapmix.GaussianMixture`; imputers that are given
        have their own.
    random_state : int, RandomState instance or None, default=None
        Seed of what is hidden, and of the default imputers.
    progress : callable, default=None
        Called as `progress(name, done)` with the name of an imputer and the number of its repeats
        that are done, before and after each. All fill once before any fills again.

    Returns
    -------
    Evaluation
        `summary()` is a table as text, `verdict()` says which is best and whether that is clear,
        `ranking()` the same as records with standard errors, `to_frame()` all scores in a data
        frame, `overall()` a record for each imputer; `gapmix.plots.plot_hide_and_score` draws it.

    Notes
    -----
    Interval coverage is given for imputers with `intervals(X, coverage)`, the log score for those
    with `score_samples(X)`: each hidden cell by itself, given what its row shows. Guessing a
    column's mean and variance scores about -1.42.

    If an imputer fails, drops a column, leaves a gap or changes known values, `problem` says so and
    it has no error. Warnings of imputers are not shown. Every row and column keeps some known
    value.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.impute import SimpleImputer
    >>> from gapmix import GaussianMixtureImputer
    >>> from gapmix.evaluate import hide_and_score
    >>> contenders = {"mean": SimpleImputer(), "mixture": GaussianMixtureImputer(2)}
    >>> result = hide_and_score(load_iris().data, contenders, n_repeats=2, random_state=0)
    >>> [(each.imputer, round(each.error, 1)) for each in result.overall()]
    [('mean', 1.1), ('mixture', 0.5)]
    """
    _check(mechanism, share, imputers)
    checks.check_positive_int("n_repeats", n_repeats)
    random = check_random_state(random_state)
    seed = int(random.randint(2**31)) if imputers is None else 0
    truth = _read(X, feature_names, max_rows, random, categorical_features)
    if imputers is None:
        mixed = categorical_features if truth.levels else False
        usual = default_imputers(seed, mixed=mixed)
        imputers = {name: usual[name] for name in leave_slow(usual, truth.x.shape[1])}
    place = _find_driver(driver, truth) if mechanism == "mar" else 0
    judged = None
    if columns is not None:
        judged = np.array([_find(each, truth, "columns: ") for each in columns], dtype=int)
    hidden = []
    for _ in range(n_repeats):
        rng = np.random.default_rng(random.randint(0, 2**31, size=4))
        cells = hide(
            truth.x,
            mechanism,
            rng,
            share=share,
            driver=place,
            columns=judged,
            n_levels=_count_levels(truth),
        )
        if not cells.any():
            raise ValueError(_explain_nothing_hidden(truth.x, mechanism, share))
        hidden.append(cells)
    tell = progress or (lambda name, done: None)
    judged_by: dict[str, list[Judged]] = {str(name): [] for name in imputers}
    for repeat, cells in enumerate(hidden):  # all once before any again: then times are known
        for name, imputer in imputers.items():
            tell(str(name), repeat)
            judged_by[str(name)].append(score(str(name), imputer, repeat, truth, cells))
            tell(str(name), repeat + 1)
    every = [each for them in judged_by.values() for each in them]
    n, d = truth.x.shape
    return Evaluation(
        tuple(one for each in every for one in each.scores),
        mechanism,
        n_repeats,
        (n, d),
        tuple(one for each in every for one in each.cells),
        tuple(each.rows for each in every),
    )


def _read(
    X: Any, names: Sequence[str] | None, max_rows: int | None, random: Any, categorical: Any
) -> Truth:
    """Return the known cells of a table, of some of its rows if they are too many."""
    # Only to remember the columns' names and levels.
    reader = GaussianMixtureImputer(categorical_features=categorical)
    x = read_table(reader, X, reset=True, min_rows=2)
    rows = np.arange(len(x))
    if max_rows is not None:
        checks.check_positive_int("max_rows", max_rows)
        if len(x) > max_rows:
            useful = np.flatnonzero(~np.isnan(x).all(axis=1))
            rows = np.sort(random.permutation(useful)[:max_rows])
    own: Any = range(x.shape[1]) if names is None else names
    if names is None and nw.dependencies.is_into_dataframe(X):
        own = getattr(X, "column_names", getattr(X, "columns", ()))
    if len(own) != x.shape[1]:
        raise ValueError(f"feature_names has {len(own)} names; X has {x.shape[1]} columns.")
    levels = dict_levels(reader)
    return Truth(x[rows], rows, [str(name) for name in own], _rebuilder(X, levels), levels)


def _count_levels(truth: Truth) -> np.ndarray | None:
    """Return the number of levels of each column, 0 for numbers; None without categories."""
    if not truth.levels:
        return None
    return np.array([len(truth.levels.get(j, ())) for j in range(truth.x.shape[1])])


def _rebuilder(X: Any, levels: dict[int, np.ndarray]) -> Callable[[np.ndarray, np.ndarray], Any]:
    """Return a function that makes a table like X from values and the numbers of their rows."""
    if not nw.dependencies.is_into_dataframe(X):
        return lambda values, rows: values.copy()
    if hasattr(X, "iloc"):
        return lambda values, rows: _rebuild_pandas(X, values, rows, levels)
    frame = nw.from_native(X, eager_only=True)
    if levels:
        return lambda values, rows: _rebuild_mixed(frame, values, levels)
    return lambda values, rows: nw.from_numpy(
        np.ascontiguousarray(values), schema=frame.columns, backend=frame.implementation
    ).to_native()


def _rebuild_mixed(frame: Any, values: np.ndarray, levels: dict[int, np.ndarray]) -> Any:
    """Return values as a frame like another one, with levels for codes."""
    columns = {}
    for j, name in enumerate(frame.columns):
        if j in levels:
            named = to_levels(values[:, j], levels[j])
            gaps = np.isnan(values[:, j])
            cells = [None if gap else level for gap, level in zip(gaps, named, strict=True)]
            dtype = frame[name].dtype
            columns[name] = nw.new_series(name, cells, dtype, backend=frame.implementation)
        else:
            columns[name] = nw.new_series(
                name, values[:, j].copy(), nw.Float64(), backend=frame.implementation
            )
    return nw.from_dict(columns, backend=frame.implementation).to_native()


def _rebuild_pandas(
    X: Any, values: np.ndarray, rows: np.ndarray, levels: dict[int, np.ndarray]
) -> Any:
    """Return rows of a pandas frame with other values, column by column.

    Made from one array, the frame would hand contenders read-only values.
    """
    frame = X.iloc[rows].copy()
    for j in range(values.shape[1]):
        if j in levels:  # shown as they are, or not at all
            frame.isetitem(j, frame.iloc[:, j].mask(np.isnan(values[:, j])))
        else:
            frame.isetitem(j, values[:, j].copy())
    return frame


def _find_driver(driver: Any, truth: Truth) -> int:
    if driver is None:
        return int((~np.isnan(truth.x)).sum(axis=0).argmax())
    return _find(driver, truth, "driver=")


def _find(column: Any, truth: Truth, said: str) -> int:
    """Return the number of a column that is given by its name or number."""
    if str(column) in truth.names:
        return truth.names.index(str(column))
    if isinstance(column, int | np.integer) and 0 <= column < len(truth.names):
        return int(column)
    raise ValueError(f"{said}{column!r} is not a column of the table: {list_names(truth.names)}.")


def _check(mechanism: Any, share: Any, imputers: Any) -> None:
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        known = ", ".join(map(repr, MECHANISMS))
        raise ValueError(f"mechanism={mechanism!r} is not known. Use one of {known}.")
    if not 0 < share < 1:
        raise ValueError(f"share={share!r} must lie strictly between 0 and 1.")
    if imputers is None:
        return
    if not isinstance(imputers, Mapping) or not imputers:
        raise ValueError(
            "imputers must be a dict from names to transformers, with one at least, as in "
            "{'mean': SimpleImputer()}."
        )
    for name, imputer in imputers.items():
        if not hasattr(imputer, "fit_transform"):
            raise ValueError(
                f"imputers[{name!r}] is a {type(imputer).__name__}, which has no fit_transform."
            )


def _explain_nothing_hidden(x: np.ndarray, mechanism: str, share: float) -> str:
    n, d = x.shape
    if mechanism == "patterns" and not np.isnan(x).any():
        return "The table has no gaps to take patterns from. Use mechanism='mcar' or 'mar'."
    return (
        f"No cell could be hidden in a table of {count(n, 'row')} and {count(d, 'column')} with "
        f"{count(int((~np.isnan(x)).sum()), 'known value')}, at a share of {share:g}: every row "
        "keeps a value and every column two. Use more rows or columns, or a larger share."
    )
