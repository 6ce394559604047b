"""Tables that are read in pieces: which of their columns are used, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gapmix.cli.requests import Watch
from gapmix.engines.hunting import Found, collect_levels
from gapmix.engines.pieces import FilledPiece
from gapmix.engines.sources import (
    FLAG,
    SUFFIXES,
    ParquetPiece,
    Source,
    SourceError,
    kind_of,
    list_parquet,
    open_npy,
    open_source,
    read_columns,
)
from gapmix.engines.sources import NUMBER as _NUMBER
from gapmix.engines.sources import TEXT as PLAIN
from gapmix.fitting.spec import Running
from gapmix.kinds import LARGEST_WHOLE
from gapmix.storage.compressed import inner_suffix
from gapmix.storage.extras import need
from gapmix.storage.tablefiles import PARQUET, to_polars
from gapmix.tables.dialect import TableError
from gapmix.tables.formats import STANDARD
from gapmix.tables.scan import describe_passed, note_empty_columns, note_passed
from gapmix.tables.schema import (
    CATEGORY,
    DATE,
    EMPTY,
    ID,
    NUMBER,
    TEXT,
    UNUSED,
    USED,
    CallError,
    Column,
    Roles,
    Schema,
    assign_roles,
    list_columns,
)
from gapmix.tables.sink import TABS
from gapmix.tables.source import refuse_address
from gapmix.tables.tally import Tally, to_column
from gapmix.wording import count, quote

WHOLE = (  # what is said of options that pieces do not have
    "needs the whole table: leave it out, or read the table whole, without --scheduler and "
    "--checkpoint and with enough --memory."
)


class Layout(NamedTuple):
    """The columns of a table as its first file and the footers of all files tell them."""

    names: tuple[str, ...]
    types: Any  # pyarrow schema; None for a binary matrix
    n_missing: tuple[int | None, ...]  # nulls; None where the footers do not tell
    n_rows: int
    large: frozenset[str] = frozenset()  # integers, some beyond 2^53, as far as the footers tell


class PieceTable(NamedTuple):
    """A table in pieces, and what its columns are."""

    source: Source  # the columns used
    layout: Layout
    schema: Schema


def check_path(path: str | Path) -> Path:
    """Return the path of a table that can be read in pieces; say why if it cannot."""
    refuse_address(path)
    if path == STANDARD:
        raise CallError("Standard input cannot be read in pieces. Name a Parquet file or a folder.")
    path = Path(path)
    if not path.exists():
        raise CallError(f"There is no file or folder {quote(str(path))}.")
    if path.is_dir() and not any(p.suffix in PARQUET for p in path.rglob("*")):
        raise CallError(
            f"{quote(str(path))} is a folder without any file that ends in .parquet or .pq."
        )
    if not path.is_dir() and path.suffix not in SUFFIXES:
        raise CallError(
            f"{quote(str(path))} cannot be read in pieces: Parquet files, folders of them and .npy "
            "files can (by their ending: .parquet, .pq, .npy). Convert it to Parquet first, or "
            "leave out --scheduler and --checkpoint to read it whole."
        )
    return path


def read_layout(path: Path) -> Layout:
    """Return names, types and numbers of gaps of the columns, without reading any row."""
    if path.suffix == ".npy" and not path.is_dir():
        shape = open_npy(path).shape
        if len(shape) != 2:
            raise SourceError(f"{path}: it has {len(shape)} dimensions; a table has two.")
        n_rows, d = shape
        return Layout(tuple(f"column_{j + 1}" for j in range(d)), None, (None,) * d, n_rows)
    parquet = need("pyarrow.parquet", "cli")
    types: Any = None
    missing: dict[str, int | None] = {}
    n_rows, large = 0, set()
    for file in list_parquet(path):
        try:
            footer = parquet.read_metadata(file)
            types = footer.schema.to_arrow_schema() if types is None else types
            n_nulls = _count_nulls(footer)
            large |= _find_large(footer)
        except Exception as error:
            raise SourceError(f"{file}: not a whole Parquet file ({error}).") from error
        n_rows += footer.num_rows
        for name, n_more in n_nulls.items():
            before = missing.get(name, 0)
            missing[name] = None if before is None or n_more is None else before + n_more
    names = tuple(types.names)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TableError(f"More than one column is called {quote(twice[0])}. Rename them first.")
    n_missing = tuple(missing.get(name) for name in names)
    return Layout(names, types, n_missing, n_rows, frozenset(large))


def _count_nulls(footer: Any) -> dict[str, int | None]:
    """Return the nulls of each flat column of one file, None where the footer does not tell."""
    counts: dict[str, int | None] = {}
    for i in range(footer.num_row_groups):
        group = footer.row_group(i)
        for j in range(group.num_columns):
            chunk = group.column(j)
            told = chunk.statistics
            n_nulls = told.null_count if told is not None and told.has_null_count else None
            before = counts.get(chunk.path_in_schema, 0)
            counts[chunk.path_in_schema] = (
                None if before is None or n_nulls is None else before + n_nulls
            )
    return counts


def _find_large(footer: Any) -> set[str]:
    """Return the flat columns of one file that hold whole numbers beyond 2^53."""
    names = set()
    for i in range(footer.num_row_groups):
        group = footer.row_group(i)
        for chunk in (group.column(j) for j in range(group.num_columns)):
            told = chunk.statistics
            edges = (told.min, told.max) if told is not None and told.has_min_max else ()
            if any(isinstance(edge, int) and abs(edge) >= LARGEST_WHOLE for edge in edges):
                names.add(chunk.path_in_schema)
    return names


def describe_columns(
    path: Path, layout: Layout, roles: Roles, memory: int, running: Running, watch: Watch
) -> Schema:
    """Return what is done with each column, and tell about those that are only passed through.

    Texts, and what is named as a category, are looked at in all rows: their levels are needed.
    """
    refuse_options(roles)
    assigned = assign_roles(layout.names, roles)
    hunted = [
        j
        for j, role in enumerate(assigned)
        if role == "category" or (role == "use" and _kind(layout, j) in (FLAG, PLAIN))
    ]
    found = dict(zip(hunted, _hunt(path, layout, hunted, memory, running), strict=True))
    columns, passed = [], []
    for j, (name, role) in enumerate(zip(layout.names, assigned, strict=True)):
        n_missing = layout.n_missing[j] or 0
        if j in found:
            tally = _count(found[j], role, layout.n_rows)
            columns.append(to_column(name, tally, layout.n_rows, "."))
            if columns[-1].kind in (ID, DATE, TEXT):
                passed.append(describe_passed(columns[-1], tally))
            continue
        kind = UNUSED if role == "pass" else _judge_type(layout, j)
        if kind != UNUSED and layout.n_missing[j] == layout.n_rows:
            kind = EMPTY
        columns.append(Column(name, kind, _is_whole(layout, j), n_missing=n_missing))
        if kind in (DATE, TEXT):
            what = "dates" if kind == DATE else layout.types.field(j).type
            gaps = f"{count(n_missing, 'gap')} left" if n_missing else "no gaps"
            passed.append(f"{quote(name)} ({what}; {gaps})")
    _tell(columns, passed, watch)
    if not any(column.kind in USED for column in columns):
        raise TableError(
            f"None of the {len(columns)} columns holds numbers or categories: nothing can be "
            "fitted."
        )
    return Schema(tuple(columns), layout.n_rows)


def _judge_type(layout: Layout, j: int) -> str:
    """Return what a column is whose type says it all."""
    if _kind(layout, j) == _NUMBER:
        return NUMBER
    kind = layout.types.field(j).type
    types = need("pyarrow.types", "cli")
    return DATE if types.is_date(kind) or types.is_timestamp(kind) else TEXT


def _hunt(
    path: Path, layout: Layout, columns: Sequence[int], memory: int, running: Running
) -> list[Found]:
    """Return the distinct values of columns of a table."""
    if not columns:
        return []
    if layout.types is None:
        return collect_levels(open_source(path, memory=memory), columns, running)
    names = [layout.names[j] for j in columns]
    source = open_source(path, memory=memory, columns=names)
    return collect_levels(source, range(len(names)), running)


def _count(found: Found, role: str, n_rows: int) -> Tally:
    """Return what a look at a whole table would have counted in a column."""
    tally = Tally(role)
    tally.is_text = True
    tally.n_missing, tally.n_counted = n_rows - found.n_known, found.n_known
    texts = [value if isinstance(value, str) else _spell(value) for value in found.values]
    tally.codes = {text: code for code, text in enumerate(texts)}
    tally.values = {
        text: value
        for text, value in zip(texts, found.values, strict=True)
        if not isinstance(value, str)
    }
    return tally


def _spell(value: Any) -> str:
    """Return a level that is no text as a table with types spells it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def count_missing(schema: Schema, layout: Layout) -> Schema:
    """Return a schema with the gaps that the footers tell of."""
    columns = [
        column._replace(n_missing=n_missing or 0)
        for column, n_missing in zip(schema.columns, layout.n_missing, strict=True)
    ]
    return Schema(tuple(columns), layout.n_rows)


def refuse_options(roles: Roles) -> None:
    """Raise an error about options on columns that tables in pieces do not have."""
    for option, given in (
        ("--numbers", roles.numbers),
        ("--keep", roles.keep),
    ):
        if given:
            raise CallError(f"{option} {WHOLE}")


def refuse_other_levels(schema: Schema, layout: Layout) -> None:
    """Raise an error about a category that the table has in another type than the model."""
    for j, column in enumerate(schema.columns):
        if column.kind != CATEGORY or layout.types is None:
            continue
        known, found = isinstance(column.values[0], str), _kind(layout, j) == PLAIN
        if known != found:
            kinds = {True: "text", False: str(layout.types.field(j).type)}
            was = "text" if known else type(column.values[0]).__name__
            raise TableError(
                f"Column {quote(column.name)}: the model knows it as {was}, such as "
                f"{quote(str(column.values[0]))}, and this table has it as {kinds[found]}. "
                "Fit a model to a Parquet file, or store the column as the model knows it."
            )


def open_pieces(
    path: Path, layout: Layout, schema: Schema, names: Sequence[str], memory: int
) -> PieceTable:
    """Return the table with the columns in `names`, in this order, as its rows."""
    is_npy = layout.types is None
    source = open_source(path, memory=memory, columns=None if is_npy else names)
    if not is_npy:
        return PieceTable(source, layout, schema)
    if list(names) != list(layout.names):
        raise CallError(
            f"{quote(str(path))} has no column names. All of its columns are used, in order."
        )
    return PieceTable(source._replace(names=layout.names), layout, schema)


def _kind(layout: Layout, j: int) -> str:
    """Return what the type of a column says: a number, a flag, a text, or nothing that is used."""
    return _NUMBER if layout.types is None else kind_of(layout.types.field(j).type)


def _is_whole(layout: Layout, j: int) -> bool:
    return layout.types is not None and bool(
        need("pyarrow.types", "cli").is_integer(layout.types.field(j).type)
    )


def _tell(columns: Sequence[Column], passed: list[str], watch: Watch) -> None:
    if passed:
        watch.note(note_passed(passed))
    names = [column.name for column in columns if column.kind == EMPTY]
    if names:
        watch.note(note_empty_columns(names))


def check_output(path: Path | None) -> None:
    """Raise an error unless a table in pieces can be written to this path."""
    if path is None or inner_suffix(path) not in (*PARQUET, ".csv", *TABS):
        raise CallError(
            "A table in pieces needs --output with a name that ends in .parquet, .pq, .csv or "
            ".tsv, or in .csv.gz or .csv.zst."
        )


def polars_types(layout: Layout) -> dict[str, Any]:
    """Return the types of a table as polars has them, by name; none of a binary matrix."""
    if layout.types is None:
        return {}
    return dict(to_polars(layout.types.empty_table(), layout.names).schema)


def output_types(table: PieceTable, *, raw_means: bool) -> Any:
    """Return the pyarrow schema of what is written: types stay where they can hold what is filled.

    Whole numbers become floats where a gap gets a mean as it is, unless floats would change them.
    """
    arrow, kinds = need("pyarrow", "cli"), need("pyarrow.types", "cli")
    layout = table.layout
    if layout.types is None:
        return arrow.schema([(name, arrow.float64()) for name in layout.names])
    used = set(table.source.names or ()) - _list_categories(table)
    fields = []
    for field, n_missing in zip(layout.types, layout.n_missing, strict=True):
        kind = field.type
        rounded = not raw_means or n_missing == 0 or field.name in layout.large
        if field.name in used and kinds.is_integer(kind) and not rounded:
            kind = arrow.float64()
        fields.append(arrow.field(field.name, kind))
    return arrow.schema(fields)


def _list_categories(table: PieceTable) -> set[str]:
    return {column.name for column in table.schema.columns if column.kind == CATEGORY}


def join_columns(table: PieceTable, number: int, part: FilledPiece, types: Any) -> Any:
    """Return all columns of a piece, filled ones and those that are passed through."""
    arrow, kinds = need("pyarrow", "cli"), need("pyarrow.types", "cli")
    place = {name: j for j, name in enumerate(table.source.names or ())}
    categories = [name for name in place if name in _list_categories(table)]
    levels = dict(zip(categories, part.values, strict=True))
    n_missing = dict(zip(table.layout.names, table.layout.n_missing, strict=True))
    filled: dict[str, Any] = {}
    for field in types:
        if field.name in levels:
            if n_missing[field.name] != 0:
                filled[field.name] = arrow.array(levels[field.name], field.type)
            continue
        # A column without gaps is copied: numbers that a float cannot hold stay as they are.
        if field.name in place and (kinds.is_floating(field.type) or n_missing[field.name] != 0):
            filled[field.name] = _to_type(part.x[:, place[field.name]], field.type)
    exact = {
        name
        for name in filled
        if table.layout.types is not None
        and name not in levels
        and not kinds.is_floating(table.layout.types.field(name).type)
    }
    copied = [name for name in types.names if name not in filled or name in exact]
    piece = table.source.pieces[number]
    others: Any = None
    if copied:
        assert isinstance(piece, ParquetPiece)
        others = read_columns(piece, copied)
    columns = []
    for field in types:
        made = filled.get(field.name)
        if field.name in copied:
            observed = _cast(others.column(field.name), field)
            made = observed if made is None else _coalesce(observed, made)
        columns.append(made)
    return arrow.table(columns, schema=types)


def _to_type(values: np.ndarray, kind: Any) -> Any:
    """Return numbers as an array of a type, the nearest that it can hold."""
    arrow, kinds = need("pyarrow", "cli"), need("pyarrow.types", "cli")
    values = np.ascontiguousarray(values)
    if kinds.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        whole = [min(max(int(value), limits.min), limits.max) for value in np.round(values)]
        return arrow.array(whole, kind)
    if kinds.is_decimal(kind):
        limit = (10.0 ** (kind.precision - kind.scale) - 10.0**-kind.scale) * (1 - 1e-15)
        return arrow.array(np.clip(values, -limit, limit)).cast(kind)
    return arrow.array(values).cast(kind)


def _cast(cells: Any, field: Any) -> Any:
    """Return observed cells as they are written, exactly; an error names the column."""
    try:
        return cells.cast(field.type)
    except need("pyarrow", "cli").ArrowInvalid as error:
        raise TableError(
            f"Column {quote(field.name)} has gaps and whole numbers beyond 2^53, which floats "
            "would change: leave out --raw-means, or --leave-out passes the column through."
        ) from error


def _coalesce(observed: Any, filled: Any) -> Any:
    """Return what was observed, and what was filled where there was a gap."""
    arrow = need("pyarrow", "cli")
    return need("pyarrow.compute", "cli").coalesce(observed, arrow.chunked_array([filled]))


def refuse_unknown(names: Sequence[str], layout: Layout) -> None:
    """Raise an error if a column that a model uses holds no numbers in this table."""
    wrong = [
        name for j, name in enumerate(layout.names) if name in names and _kind(layout, j) != _NUMBER
    ]
    if wrong:
        raise TableError(
            f"{list_columns(wrong)}: the model was fitted with numbers here, and this table has "
            "none."
        )
