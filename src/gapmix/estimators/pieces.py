"""Fill a table in pieces to a file: nothing of the size of the table is ever held."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gapmix.engines import pieces
from gapmix.engines.pieces import FilledPiece
from gapmix.engines.sources import Source, open_source
from gapmix.estimators import refined
from gapmix.estimators.levels import tell_unknown
from gapmix.estimators.mixture import GaussianMixture
from gapmix.estimators.sourced import code_source
from gapmix.estimators.validation import column_names
from gapmix.estimators.warning import warn_user
from gapmix.fitting.spec import Running
from gapmix.heads.using import Heads
from gapmix.kinds import Possible
from gapmix.shapes import Shape
from gapmix.storage.extras import need
from gapmix.storage.tablefiles import writing_table


def impute_source(
    mixture: GaussianMixture,
    X: object,
    out: str | os.PathLike[str],
    *,
    memory: int | str | None = None,
) -> None:
    """Write a table in pieces to a Parquet or CSV file, gaps filled, rows in their order.

    Pieces are filled by the mixture's engine and written here, one after the other. The file
    appears under its name when it is whole.

    Parameters
    ----------
    mixture : GaussianMixture
        Fitted.
    X : path, array, memory map, dask collection or Source
        The table, with the columns of the fit.
    out : path
        A name that ends in `.parquet`, `.pq` or `.csv`.
    memory : int or str, default=None
        What the work may take, passed on to `open_source`.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from gapmix import GaussianMixture
    >>> from gapmix.estimators.pieces import impute_source
    >>> rows = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, np.nan], [5.0, 10.0]])
    >>> mixture = GaussianMixture().fit(rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "filled.csv")
    ...     impute_source(mixture, rows, path)
    ...     print(np.loadtxt(path, delimiter=",", skiprows=1).round(2)[2])
    [3. 6.]
    """
    check_is_fitted(mixture)
    source = open_source(X) if memory is None else open_source(X, memory=memory)
    path = Path(out)
    if path.suffix not in (".parquet", ".pq", ".csv"):
        raise ValueError(f"{path}: the name must end in .parquet, .pq or .csv.")
    fitted = getattr(mixture, "feature_names_in_", None)
    names = source.names or tuple(str(j) for j in range(source.d))
    if fitted is not None:
        names = tuple(str(name) for name in fitted)
    n_unknown = np.zeros(len(mixture.categories_), dtype=int)
    with writing_table(path, list(names)) as write:
        for part in fill_source(mixture, source):
            n_unknown += np.array(part.n_unknown, dtype=int)
            write(_to_columns(mixture, part))
    labels = column_names(mixture)
    for j, n in zip(np.flatnonzero(mixture.is_categorical_).tolist(), n_unknown, strict=True):
        if n:
            warn_user(tell_unknown(labels[j], int(n)))


def _to_columns(mixture: GaussianMixture, part: FilledPiece) -> Any:
    """Return filled rows as they are written: an array, or columns with levels for codes."""
    if not mixture.categories_:
        return part.x
    arrow = need("pyarrow", "cli")
    columns = [arrow.array(column) for column in part.x.T.copy()]
    places = np.flatnonzero(mixture.is_categorical_).tolist()
    for j, levels, values in zip(places, mixture.categories_, part.values, strict=True):
        columns[j] = arrow.array(values, type=arrow.array(levels.tolist()).type)
    return arrow.table(columns, names=[str(j) for j in range(len(columns))])


def fill_source(
    mixture: GaussianMixture,
    source: Source,
    possible: Possible | None = None,
    shapes: tuple[Shape, ...] = (),
    trust: np.ndarray | None = None,
    heads: Heads | None = None,
) -> Iterator[FilledPiece]:
    """Yield every piece with its gaps filled by what is `possible`, by the mixture's engine.

    `shapes` are the transforms of the columns that the mixture is of, if there are any; `trust`
    (D,) is how far what rows tell of them is trusted; `heads` refine what the mixture says.
    """
    if source.d != mixture.n_features_in_:
        raise ValueError(
            f"The table has {source.d} columns, and the mixture was fitted to "
            f"{mixture.n_features_in_}."
        )
    fitted = getattr(mixture, "feature_names_in_", None)
    if fitted is not None and source.names is not None and tuple(fitted) != source.names:
        raise ValueError(
            f"The table's columns {list(source.names)[:5]} ... are not those of the fit, "
            f"{list(fitted)[:5]} ..., in the same order."
        )
    labels = column_names(mixture)
    source = code_source(source, mixture.is_categorical_, mixture.categories_, labels)
    running = Running(mixture.n_jobs, mixture.engine)
    # Pieces are filled side by side already.
    model = mixture._density()._replace(shapes=shapes, trust=trust, n_jobs=1)
    return pieces.fill_pieces(partial(refined.tell, model, heads), source, running, possible)
