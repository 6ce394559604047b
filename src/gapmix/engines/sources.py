"""Tables larger than memory, as pieces of consecutive rows that are read when they are needed.

A piece is a small record that can be sent to another process; `read` gives its rows. Pieces are
fixed by the table and the memory allowed, never by who reads them, so that sums over them are the
same bits on any number of threads, processes or machines.
"""

import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gapmix.engines.budget import DEFAULT_MEMORY, piece_rows, read_memory
from gapmix.engines.coding import (
    Levels,
    code_arrow,
    code_matrix,
    is_frame,
    list_values,
    to_rows,
)
from gapmix.storage.extras import need as need

NUMBER, FLAG, TEXT = "number", "flag", "text"  # kinds of columns
BATCH_ROWS = 16_384  # of a Parquet file in one go
STREAM_FROM = 2**28  # bytes of a memory map from which it is not read whole
SUFFIXES = (".npy", ".parquet", ".pq")


class SourceError(ValueError):
    """A table on disk or on a cluster cannot be read; the message says why.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from gapmix.engines.sources import SourceError, open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "table.npy")
    ...     np.save(path, np.zeros(3))
    ...     try:
    ...         open_source(path)
    ...     except SourceError as error:
    ...         print(str(error).split(";")[0])
    The table has 1 dimensions and dtype float64
    """


class ArrayPiece(NamedTuple):
    """Rows that are in memory. Of any piece, `levels` are those of its columns of categories."""

    x: np.ndarray
    n_rows: int
    levels: Levels = ()


class MapPiece(NamedTuple):
    """Rows of a binary file: `.npy`, or what a memory map was opened on."""

    path: str
    dtype: str
    shape: tuple[int, int]  # of the whole
    offset: int  # bytes before the first row
    fortran: bool
    first: int
    n_rows: int
    levels: Levels = ()


class ParquetPiece(NamedTuple):
    """Rows of consecutive row groups of one Parquet file."""

    path: str
    columns: tuple[str, ...]
    low: int  # row groups low:high
    high: int
    skip: int  # rows of these before the piece
    n_rows: int
    levels: Levels = ()


class DaskPiece(NamedTuple):
    """One partition of a dask collection."""

    part: Any  # dask.delayed.Delayed, or what it computed
    n_rows: int
    levels: Levels = ()


Piece = ArrayPiece | MapPiece | ParquetPiece | DaskPiece


class Source(NamedTuple):
    """A table in pieces.

    Examples
    --------
    >>> import numpy as np
    >>> from gapmix.engines.sources import open_source
    >>> source = open_source(np.zeros((1000, 3)), rows_per_piece=300)
    >>> source.n_rows, source.d, [piece.n_rows for piece in source.pieces]
    (1000, 3, [300, 300, 300, 100])
    """

    pieces: tuple[Piece, ...]
    d: int
    names: tuple[str, ...] | None
    memory: int  # bytes that work on it may take
    kinds: tuple[str, ...] | None = None  # of each column: number, flag or text; None: all numbers

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return sum(piece.n_rows for piece in self.pieces)


def is_source(x: Any) -> bool:
    """Tell whether `x` is read in pieces: a source, a path, a dask collection, a large map."""
    if isinstance(x, Source) or hasattr(x, "__dask_graph__"):
        return True
    if isinstance(x, str | os.PathLike):  # other paths get an error that says how to read them
        return os.fspath(x).endswith(SUFFIXES) or os.path.isdir(x)
    return isinstance(x, np.memmap) and x.nbytes >= STREAM_FROM


def open_source(
    x: Any,
    *,
    memory: int | str = DEFAULT_MEMORY,
    rows_per_piece: int | None = None,
    columns: Sequence[str] | None = None,
) -> Source:
    """Return a table as pieces of consecutive rows.

    Parameters
    ----------
    x : path, array, memory map, dask array or dask data frame
        A path is that of a `.npy` file, a Parquet file, or a folder of Parquet files, which are
        taken in the order of their names.
    memory : int or str, default=1 GiB
        What work on the table may take, in bytes or as '4GB', '500MiB'.
    rows_per_piece : int, default=None
        Rows of a piece; None follows from `memory`. Partitions of dask stay as they are.
    columns : sequence of str, default=None
        Columns of a Parquet table to use; None means all.

    Returns
    -------
    Source
        For `GaussianMixture.fit` and `gapmix.estimators.pieces.impute_source`. Nothing but the
        size of the table has been read.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from gapmix import GaussianMixture
    >>> from gapmix.engines.sources import open_source
    >>> rows = np.random.default_rng(0).normal(size=(2000, 3))
    >>> rows[::5, 1] = np.nan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "table.npy")
    ...     np.save(path, rows)
    ...     mixture = GaussianMixture(2, random_state=0).fit(open_source(path, memory="500MB"))
    >>> mixture.means_.shape
    (2, 3)
    """
    if isinstance(x, Source):
        return x
    budget = read_memory(memory)
    if hasattr(x, "__dask_graph__"):
        return _open_dask(x, budget)
    if isinstance(x, str | os.PathLike):
        path = Path(x)
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such file or folder.")
        if path.is_dir() or path.suffix in (".parquet", ".pq"):
            return _open_parquet(path, budget, rows_per_piece, columns)
        if path.suffix != ".npy":
            raise SourceError(
                f"{path}: files that end in .npy, .parquet or .pq, and folders of Parquet files, "
                "can be read in pieces. Convert the table to Parquet first."
            )
        x = open_npy(path)
    x = np.asanyarray(x)
    if x.ndim != 2 or x.dtype.kind not in "biuf":
        raise SourceError(
            f"The table has {x.ndim} dimensions and dtype {x.dtype}; it must have rows and columns "
            "of real numbers."
        )
    n, d = x.shape
    step = rows_per_piece or piece_rows(budget, d)
    spans = [(low, min(low + step, n)) for low in range(0, n, step)]
    pieces: tuple[Piece, ...]
    if isinstance(x, np.memmap) and isinstance(x.base, mmap.mmap) and x.filename:
        fortran = not x.flags.c_contiguous
        whole = (str(x.filename), x.dtype.str, (n, d), x.offset, fortran)
        pieces = tuple(MapPiece(*whole, low, high - low) for low, high in spans)
    else:
        pieces = tuple(ArrayPiece(x[low:high], high - low) for low, high in spans)
    return Source(pieces, d, None, budget)


def open_npy(path: Path) -> np.ndarray:
    """Return the array of a .npy file as a memory map."""
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        return array
    except OSError:
        raise
    except Exception as error:  # a damaged header is read as Python, and fails in many ways
        raise SourceError(
            f"{path}: not a whole .npy file of numbers; it has {path.stat().st_size:,} bytes "
            f"({error}). Write it again, with numpy.save."
        ) from error


def read(piece: Piece) -> np.ndarray:
    """Return the rows of a piece, (n_rows, d) float64 in C order, NaN where missing.

    Categories are codes of their levels.
    """
    if isinstance(piece, ParquetPiece):
        return _read_parquet(piece)
    if isinstance(piece, DaskPiece):
        return to_rows(_compute(piece), piece.levels)
    return code_matrix(piece.x if isinstance(piece, ArrayPiece) else _read_map(piece), piece.levels)


def read_values(piece: Piece, columns: Sequence[int]) -> list[list[Any]]:
    """Return the values of some columns of a piece as they are, None where missing."""
    if isinstance(piece, ParquetPiece):
        table = read_columns(piece, [piece.columns[j] for j in columns])
        return [list_values(column) for column in table.columns]
    if isinstance(piece, DaskPiece):
        part = _compute(piece)
        return [list_values(part.iloc[:, j] if is_frame(part) else part[:, j]) for j in columns]
    x = piece.x if isinstance(piece, ArrayPiece) else _read_map(piece)
    return [list_values(x[:, j]) for j in columns]


def label_column(piece: Piece, j: int) -> str:
    """Return a column of a piece as messages show it: its quoted name, or its number."""
    return repr(piece.columns[j]) if isinstance(piece, ParquetPiece) else str(j)


def _compute(piece: DaskPiece) -> Any:
    """Return what a partition holds; on a worker it has been computed already."""
    return piece.part.compute() if hasattr(piece.part, "compute") else piece.part


def _read_map(piece: MapPiece) -> np.ndarray:
    dtype, (_, d) = np.dtype(piece.dtype), piece.shape
    if piece.fortran:
        order_f = np.memmap(piece.path, dtype, "r", piece.offset, piece.shape, order="F")
        return order_f[piece.first : piece.first + piece.n_rows]
    # Pages of a map stay in the resident set; a plain read leaves nothing behind.
    start = piece.offset + piece.first * d * dtype.itemsize
    return np.fromfile(piece.path, dtype, piece.n_rows * d, offset=start).reshape(-1, d)


# ---------------------------------------------------------------------- Parquet


def list_parquet(path: Path) -> list[Path]:
    """Return the Parquet files of a table, a file or a folder, in the order of their names."""
    if not path.is_dir():
        return [path]
    files = sorted(p for p in path.rglob("*") if p.suffix in (".parquet", ".pq"))
    if not files:
        raise SourceError(f"{path}: there is no file in this folder that ends in .parquet or .pq.")
    return files


def _open_parquet(
    path: Path, budget: int, rows_per_piece: int | None, columns: Sequence[str] | None
) -> Source:
    parquet = need("pyarrow.parquet", "cli")
    files = list_parquet(path)
    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    pieces: list[ParquetPiece] = []
    for number, file in enumerate(files):
        try:
            table = parquet.ParquetFile(file)
        except Exception as error:
            raise SourceError(f"{file}: not a whole Parquet file ({error}).") from error
        with table:
            found, found_kinds = _find_columns(file, table.schema_arrow, columns)
            if number and found != names:
                raise SourceError(
                    f"{file}: its columns {list(found)[:5]} ... are not those of {files[0]}, "
                    f"{list(names)[:5]} ... ({len(found)} and {len(names)}). Files of one table "
                    "must have the same columns in the same order."
                )
            if number and found_kinds != kinds:
                other = next(j for j, kind in enumerate(kinds) if kind != found_kinds[j])
                raise SourceError(
                    f"{file}: column {names[other]!r} holds a {found_kinds[other]}, and a "
                    f"{kinds[other]} in {files[0]}. Files of one table must have the same types."
                )
            names, kinds = found, found_kinds
            step = rows_per_piece or piece_rows(budget, len(names))
            counts = [table.metadata.row_group(i).num_rows for i in range(table.num_row_groups)]
        # Workers may stand in another folder.
        pieces += _cut_groups(os.path.abspath(file), names, counts, step)
    return Source(tuple(pieces), len(names), names, budget, kinds)


def _cut_groups(
    path: str, names: tuple[str, ...], counts: list[int], step: int
) -> list[ParquetPiece]:
    """Join small row groups and split large ones into pieces of at most `step` rows."""
    pieces: list[ParquetPiece] = []
    for group, count in enumerate(counts):
        last = pieces[-1] if pieces else None
        is_whole = last is not None and last.n_rows == sum(counts[last.low : group])
        if last is not None and is_whole and last.n_rows + count <= step:
            pieces[-1] = last._replace(high=group + 1, n_rows=last.n_rows + count)
            continue
        for skip in range(0, count, step):
            n_rows = min(step, count - skip)
            pieces.append(ParquetPiece(path, names, group, group + 1, skip, n_rows))
    return pieces


def _find_columns(
    file: Path, schema: Any, columns: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and kinds of the columns to use."""
    names = tuple(schema.names if columns is None else columns)
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise SourceError(f"{file}: there is no column {unknown[0]!r}.")
    twice = [name for name in names if schema.names.count(name) > 1]
    if twice:
        raise SourceError(
            f"{file}: the name {twice[0]!r} is used by {schema.names.count(twice[0])} columns. "
            "Give every column its own name."
        )
    kinds = tuple(kind_of(schema.field(name).type) for name in names)
    other = [name for name, kind in zip(names, kinds, strict=True) if not kind]
    if other:
        raise SourceError(
            f"{file}: column {other[0]!r} has type {schema.field(other[0]).type}, and "
            f"{len(other)} of {len(names)} columns are neither numbers nor categories. Choose with "
            "columns=[...]."
        )
    return names, kinds


def kind_of(kind: Any) -> str:
    """Return what a column of a type of pyarrow is, "" if it is neither number nor category."""
    types = need("pyarrow.types", "cli")
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return NUMBER
    if types.is_boolean(kind):
        return FLAG
    return TEXT if types.is_string(kind) or types.is_large_string(kind) else ""


def _read_parquet(piece: ParquetPiece) -> np.ndarray:
    arrow = need("pyarrow", "cli")
    x = np.empty((piece.n_rows, len(piece.columns)))
    at = 0
    for part in _batches(piece, piece.columns):
        for j, name in enumerate(piece.columns):
            known = piece.levels[j] if piece.levels else None
            if known is not None:
                x[at : at + len(part), j] = code_arrow(part.column(name), known)
                continue
            cells = part.column(name).cast(arrow.float64(), safe=False)  # beyond 2^53: the nearest
            x[at : at + len(part), j] = cells.to_numpy(zero_copy_only=False)
        at += len(part)
    return x


def read_columns(piece: ParquetPiece, columns: Sequence[str]) -> Any:
    """Return any columns of the rows of a piece as they are, a pyarrow table."""
    return need("pyarrow", "cli").Table.from_batches(list(_batches(piece, columns)))


def _batches(piece: ParquetPiece, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of a piece as record batches."""
    at = -piece.skip
    with need("pyarrow.parquet", "cli").ParquetFile(piece.path) as table:
        batches = table.iter_batches(
            BATCH_ROWS,
            row_groups=list(range(piece.low, piece.high)),
            columns=list(columns),
            use_threads=False,
        )
        for batch in batches:
            low, high = max(at, 0), min(at + len(batch), piece.n_rows)
            if high > low:
                yield batch.slice(low - at, high - low)
            at += len(batch)
            if at >= piece.n_rows:
                break


# ---------------------------------------------------------------------- dask


def _open_dask(x: Any, budget: int) -> Source:
    dask = need("dask", "dask")
    if hasattr(x, "columns"):
        names = tuple(str(name) for name in x.columns)
        kinds = tuple(map(_kind_of_series, names, x.dtypes))
        parts = x.to_delayed()
        counts = dask.compute(*[dask.delayed(len)(part) for part in parts])
        d = len(names)
    else:
        if x.ndim != 2:
            raise SourceError(f"The dask array has {x.ndim} dimensions; it must have 2.")
        if np.isnan(x.shape).any():
            x = x.compute_chunk_sizes()
        x = x.rechunk({1: -1})
        parts, names, d = [row[0] for row in x.to_delayed()], None, int(x.shape[1])
        kinds = None
        counts = x.chunks[0]
    pieces = [DaskPiece(part, int(n)) for part, n in zip(parts, counts, strict=True) if n]
    return Source(tuple(pieces), d, names, budget, kinds)


def _kind_of_series(name: str, dtype: Any) -> str:
    """Return what a column of a dask data frame is."""
    kind = getattr(dtype, "kind", "O")
    if kind not in "biufO":
        raise SourceError(f"Column {name!r} has dtype {dtype}, neither numbers nor categories.")
    return FLAG if kind == "b" else TEXT if kind == "O" else NUMBER
