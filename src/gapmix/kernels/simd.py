"""Tiles of interleaved matrices, worked on in vector registers.

Element (i, j) of eight matrices is one vector. The functions here write LLVM instructions on such
vectors: a tile of up to TILE x TILE of them is kept in registers while products are added to it, so
that two loads pay for four multiply-adds and more. LLVM splits vectors on processors whose
registers are shorter; nothing here depends on the machine but the size of the tiles.

Only the upper triangle is stored, row by row; `row` below is the place of the row's element in
column 0, were it stored: element (i, j) is at row + j, and the next row is at row + k - i - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gapmix.kernels.twins import LANES

# Registers hold TILE^2 sums and TILE + 1 operands: 32 of 64 bytes, or 16 of 32 bytes.
TILE = 4 if binding.get_host_cpu_features().get("avx512f") else 2

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_INT = ir.IntType(64)
Value = Any  # a number in the code that is being written
Tile = list[list[Value]]


class _Writer:
    """Writes instructions on vectors; places are counted in vectors from the array's start."""

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Any) -> None:
        self.builder = builder
        self._elements = context.make_array(array_type)(context, builder, array).data
        self._memory = builder.bitcast(self._elements, _VECTOR.as_pointer())

    def add(self, *terms: Value) -> Value:
        """Return a sum of integers."""
        total = _integer(terms[0])
        for term in terms[1:]:
            total = self.builder.add(total, _integer(term))
        return total

    def minus(self, one: Value, other: Value) -> Value:
        """Return a difference of integers."""
        return self.builder.sub(_integer(one), _integer(other))

    def rows(self, row: Value, i: Value, k: Value, height: int) -> list[Value]:
        """Return the places of rows i to i + height - 1."""
        places = [row]
        for r in range(height - 1):
            places.append(self.minus(self.add(places[-1], k), self.add(i, r + 1)))
        return places

    def load(self, *place: Value) -> Value:
        return self.builder.load(self.builder.gep(self._memory, [self.add(*place)]), align=8)

    def element(self, lane: int, *place: Value) -> Value:
        """Return one lane of a vector."""
        number = self.builder.mul(self.add(*place), _integer(LANES))
        return self.builder.load(self.builder.gep(self._elements, [self.add(number, lane)]))

    def store(self, value: Value, *place: Value) -> None:
        self.builder.store(value, self.builder.gep(self._memory, [self.add(*place)]), align=8)

    def fma(self, x: Value, y: Value, total: Value) -> Value:
        """Return x y + total, in one instruction where the machine has it."""
        name = f"llvm.fmuladd.v{LANES}f64"
        function = self.builder.module.globals.get(name)
        if function is None:
            of_type = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
            function = ir.Function(self.builder.module, of_type, name)
        return self.builder.call(function, [x, y, total])

    def fnma(self, x: Value, y: Value, total: Value) -> Value:
        """Return total - x y."""
        return self.fma(self.builder.fneg(x), y, total)

    def times(self, x: Value, y: Value) -> Value:
        return self.builder.fmul(x, y)

    def inverse_root(self, x: Value) -> Value:
        """Return 1 / sqrt(x), NaN or infinite where x is not positive."""
        name = f"llvm.sqrt.v{LANES}f64"
        function = self.builder.module.globals.get(name)
        if function is None:
            of_type = ir.FunctionType(_VECTOR, [_VECTOR])
            function = ir.Function(self.builder.module, of_type, name)
        one = ir.Constant(_VECTOR, [1.0] * LANES)
        return self.builder.fdiv(one, self.builder.call(function, [x]))

    def variable(self, value: Value) -> Value:
        """Return a place on the stack that holds a value; LLVM makes a register of it."""
        place = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, place)
        return place

    @contextmanager
    def totals(self, tile: Tile, low: Value, high: Value) -> Iterator[tuple[Value, Tile]]:
        """Run a loop over p = low..high-1 whose body replaces the elements of `tile`.

        Yields p and a tile to work on; afterwards `tile` holds the result. None stays None.
        """
        builder = self.builder
        places = [[None if x is None else self.variable(x) for x in line] for line in tile]
        count = self.minus(high, low)
        with cgutils.for_range(builder, count, intp=_INT) as loop:
            inner = [[None if x is None else builder.load(x) for x in line] for line in places]
            yield self.add(loop.index, low), inner
            for line, values in zip(places, inner, strict=True):
                for place, value in zip(line, values, strict=True):
                    if place is not None:
                        builder.store(value, place)
        for line, target in zip(places, tile, strict=True):
            target[:] = [None if x is None else builder.load(x) for x in line]


def _integer(value: Value) -> Value:
    return ir.Constant(_INT, value) if isinstance(value, int) else value


def _zero(height: int, width: int) -> Tile:
    zero = ir.Constant(_VECTOR, [0.0] * LANES)
    return [[zero] * width for _ in range(height)]


def _for_each_height(emit: Callable[..., None]) -> Callable[..., None]:
    """Turn what writes code for tiles of one height, its last argument, into code for any."""

    def emit_all(w: _Writer, *given: Value) -> None:
        builder = w.builder
        end = builder.append_basic_block("done")
        blocks = [builder.append_basic_block(f"height{h}") for h in range(1, TILE + 1)]
        switch = builder.switch(given[-1], blocks[-1])
        for h, block in enumerate(blocks[:-1], start=1):
            switch.add_case(ir.Constant(_INT, h), block)
        for h, block in enumerate(blocks, start=1):
            builder.position_at_end(block)
            emit(w, *given[:-1], h)
            builder.branch(end)
        builder.position_at_end(end)

    return emit_all


def _function(n_integers: int, emit: Callable[..., None]) -> Any:
    """Return a function of (array, n integers) for use in kernels, from what writes its code."""

    @intrinsic
    def function(typing_context, array, numbers):  # type: ignore[no-untyped-def]
        signature = types.void(array, types.UniTuple(types.int64, n_integers))

        def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            a = _Writer(context, builder, signature.args[0], arguments[0])
            emit(a, *cgutils.unpack_tuple(builder, arguments[1], n_integers))
            return context.get_dummy_value()

        return signature, codegen

    return function


def _function_of_two(n_integers: int, emit: Callable[..., None]) -> Any:
    """Return a function of (array, array, n integers), likewise."""

    @intrinsic
    def function(typing_context, array, other, numbers):  # type: ignore[no-untyped-def]
        signature = types.void(array, other, types.UniTuple(types.int64, n_integers))

        def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            a, b = (_Writer(context, builder, signature.args[n], arguments[n]) for n in (0, 1))
            emit(a, b, *cgutils.unpack_tuple(builder, arguments[2], n_integers))
            return context.get_dummy_value()

        return signature, codegen

    return function


def _write_factor_corner(w: _Writer, base: Value, k: Value, i: Value, row: Value, h: int) -> None:
    rows = w.rows(row, i, k, h)
    tile = [[w.load(rows[r], i, s) if s >= r else None for s in range(h)] for r in range(h)]
    if h == TILE:  # lower corners are in the first rows: nothing is above them
        line, step = w.variable(base), w.variable(w.minus(k, 1))
        with w.totals(tile, 0, i) as (_, t):
            place = w.builder.load(line)
            x = [w.load(place, i, r) for r in range(h)]
            for r in range(h):
                for s in range(r, h):
                    t[r][s] = w.fnma(x[r], x[s], t[r][s])
            _next_line(w, line, step)
    for r in range(h):
        tile[r][r] = w.inverse_root(tile[r][r])
        for s in range(r + 1, h):
            tile[r][s] = w.times(tile[r][s], tile[r][r])
        for q in range(r + 1, h):
            for s in range(q, h):
                tile[q][s] = w.fnma(tile[r][q], tile[r][s], tile[q][s])
    for r in range(h):
        for s in range(r, h):
            w.store(tile[r][s], rows[r], i, s)


def _write_factor_tile(
    w: _Writer, base: Value, k: Value, i: Value, row: Value, j: Value, h: int
) -> None:
    rows = w.rows(row, i, k, h)
    tile = [[w.load(rows[r], j, s) for s in range(TILE)] for r in range(h)]
    if h == TILE:
        line, step = w.variable(base), w.variable(w.minus(k, 1))
        with w.totals(tile, 0, i) as (_, t):
            place = w.builder.load(line)
            y = [w.load(place, j, s) for s in range(TILE)]
            for r in range(h):
                x = w.load(place, i, r)
                for s in range(TILE):
                    t[r][s] = w.fnma(x, y[s], t[r][s])
            _next_line(w, line, step)
    for r in range(h):
        for q in range(r):
            x = w.load(rows[q], i, r)
            for s in range(TILE):
                tile[r][s] = w.fnma(x, tile[q][s], tile[r][s])
        x = w.load(rows[r], i, r)
        for s in range(TILE):
            tile[r][s] = w.times(x, tile[r][s])
            w.store(tile[r][s], rows[r], j, s)


def _next_line(w: _Writer, line: Value, step: Value) -> None:
    """Go one row down in a triangle stored by rows, each one shorter than the last."""
    length = w.builder.load(step)
    w.builder.store(w.add(w.builder.load(line), length), line)
    w.builder.store(w.minus(length, 1), step)


def _write_invert_corner(w: _Writer, k: Value, i: Value, row: Value, h: int) -> None:
    rows = w.rows(row, i, k, h)
    tile = [[w.load(rows[r], i, s) if s >= r else None for s in range(h)] for r in range(h)]
    for r in range(h):
        line = [tile[r][r]]
        for s in range(r + 1, h):
            total = w.times(line[0], tile[r][s])
            for q in range(r + 1, s):
                total = w.fma(line[q - r], tile[q][s], total)
            line.append(w.builder.fneg(w.times(total, tile[s][s])))
            w.store(line[-1], rows[r], i, s)


def _write_invert_tile(
    w: _Writer, k: Value, i: Value, row: Value, j: Value, row_j: Value, h: int
) -> None:
    rows = w.rows(row, i, k, h)
    tile = _zero(h, TILE)
    for q in range(h):
        y = [w.load(rows[q], j, s) for s in range(TILE)]
        for r in range(q + 1):
            x = w.load(rows[r], i, q)
            for s in range(TILE):
                tile[r][s] = w.fma(x, y[s], tile[r][s])
    first = w.add(i, h)
    below = w.minus(w.add(rows[-1], k), first)
    line, step = w.variable(below), w.variable(w.minus(k, w.add(first, 1)))
    with w.totals(tile, first, j) as (p, t):
        place = w.builder.load(line)
        y = [w.load(place, j, s) for s in range(TILE)]
        for r in range(h):
            x = w.load(rows[r], p)
            for s in range(TILE):
                t[r][s] = w.fma(x, y[s], t[r][s])
        _next_line(w, line, step)
    corner = w.rows(row_j, j, k, TILE)
    for s in range(TILE - 1, -1, -1):
        y = [w.builder.fneg(w.load(corner[q], j, s)) for q in range(s + 1)]
        for r in range(h):
            total = w.times(tile[r][s], y[s])
            for q in range(s):
                total = w.fma(tile[r][q], y[q], total)
            w.store(total, rows[r], j, s)


def _write_multiply_corner(w: _Writer, k: Value, i: Value, row: Value, h: int) -> None:
    rows = w.rows(row, i, k, h)
    tile: Tile = [list(line) for line in _zero(h, h)]
    for r in range(h):
        tile[r][:r] = [None] * r
    for q in range(h):
        x = [w.load(rows[r], i, q) for r in range(q + 1)]
        for r in range(q + 1):
            for s in range(r, q + 1):
                tile[r][s] = w.fma(x[r], x[s], tile[r][s])
    with w.totals(tile, w.add(i, h), k) as (p, t):
        x = [w.load(rows[r], p) for r in range(h)]
        for r in range(h):
            for s in range(r, h):
                t[r][s] = w.fma(x[r], x[s], t[r][s])
    for r in range(h):
        for s in range(r, h):
            w.store(tile[r][s], rows[r], i, s)


def _write_multiply_tile(
    w: _Writer, k: Value, i: Value, row: Value, j: Value, row_j: Value, h: int
) -> None:
    rows, others = w.rows(row, i, k, h), w.rows(row_j, j, k, TILE)
    tile = _zero(h, TILE)
    for q in range(TILE):
        y = [w.load(others[s], j, q) for s in range(q + 1)]
        for r in range(h):
            x = w.load(rows[r], j, q)
            for s in range(q + 1):
                tile[r][s] = w.fma(x, y[s], tile[r][s])
    with w.totals(tile, w.add(j, TILE), k) as (p, t):
        y = [w.load(others[s], p) for s in range(TILE)]
        for r in range(h):
            x = w.load(rows[r], p)
            for s in range(TILE):
                t[r][s] = w.fma(x, y[s], t[r][s])
    for r in range(h):
        for s in range(TILE):
            w.store(tile[r][s], rows[r], j, s)


def _write_solve_down(a: _Writer, b: _Writer, k: Value, i: Value, row: Value, h: int) -> None:
    rows = a.rows(row, i, k, h)
    known = [b.load(i, r) for r in range(h)]
    for r in range(h):
        for q in range(r):
            known[r] = a.fnma(a.load(rows[q], i, r), known[q], known[r])
        known[r] = a.times(a.load(rows[r], i, r), known[r])
        b.store(known[r], i, r)
    with a.totals([], a.add(i, h), k) as (j, _):
        total = b.load(j)
        for r in range(h):
            total = a.fnma(a.load(rows[r], j), known[r], total)
        b.store(total, j)


def _write_solve_up(a: _Writer, b: _Writer, k: Value, i: Value, row: Value, h: int) -> None:
    rows = a.rows(row, i, k, h)
    column = [[b.load(i, r)] for r in range(h)]
    with a.totals(column, a.add(i, h), k) as (j, t):
        known = b.load(j)
        for r in range(h):
            t[r][0] = a.fnma(a.load(rows[r], j), known, t[r][0])
    for r in range(h - 1, -1, -1):
        for q in range(r + 1, h):
            column[r][0] = a.fnma(a.load(rows[r], i, q), column[q][0], column[r][0])
        column[r][0] = a.times(a.load(rows[r], i, r), column[r][0])
        b.store(column[r][0], i, r)


def _write_copy(a: _Writer, b: _Writer, first: Value, n: Value) -> None:
    with a.totals([], 0, n) as (e, _):
        b.store(a.load(first, e), e)


def _write_scale(a: _Writer, b: _Writer, n: Value) -> None:
    weight = b.load(0)
    with a.totals([], 0, n) as (e, _):
        a.store(a.times(weight, a.load(e)), e)


def _write_add_squares(
    a: _Writer, b: _Writer, k: Value, i: Value, row: Value, place: Value
) -> None:
    x = a.times(b.load(place), b.load(i))
    with a.totals([], i, k) as (j, _):
        a.store(a.fma(x, b.load(j), a.load(row, j)), row, j)


class _Table:
    """Addresses a matrix (d, d) by variables that differ between the lanes: place (k, LANES)."""

    def __init__(self, context: Any, builder: Any, types_: Any, matrix: Any, place: Any) -> None:
        self._builder = builder
        self._matrix = context.make_array(types_[0])(context, builder, matrix)
        self._place = context.make_array(types_[1])(context, builder, place).data

    def _variable(self, i: Value, lane: int) -> Value:
        builder = self._builder
        number = builder.add(builder.mul(i, _integer(LANES)), _integer(lane))
        return builder.zext(builder.load(builder.gep(self._place, [number])), _INT)

    def lines(self, i: Value) -> list[Value]:
        """Return where the matrix's rows at place[i] begin, in each lane."""
        builder = self._builder
        width = cgutils.unpack_tuple(builder, self._matrix.shape)[1]
        starts = [builder.mul(self._variable(i, lane), width) for lane in range(LANES)]
        return [builder.gep(self._matrix.data, [start]) for start in starts]

    def cells(self, lines: list[Value], j: Value) -> Iterator[Value]:
        """Yield the address of column place[j] of each line, lane by lane."""
        for lane, line in enumerate(lines):
            yield self._builder.gep(line, [self._variable(j, lane)])


def _gather_row(typing_context, matrix, place, array, numbers):  # type: ignore[no-untyped-def]
    """Set row i of the triangles to matrix[place[i], place[j]], j >= i; `numbers` = k, i, row."""
    signature = types.void(matrix, place, array, types.UniTuple(types.int64, 3))

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        table = _Table(context, builder, signature.args, *arguments[:2])
        a = _Writer(context, builder, signature.args[2], arguments[2])
        k, i, row = cgutils.unpack_tuple(builder, arguments[3], 3)
        lines = table.lines(i)
        with a.totals([], i, k) as (j, _):
            vector = ir.Constant(_VECTOR, ir.Undefined)
            for lane, cell in enumerate(table.cells(lines, j)):
                number = ir.Constant(ir.IntType(32), lane)
                vector = builder.insert_element(vector, builder.load(cell), number)
            a.store(vector, row, j)
        return context.get_dummy_value()

    return signature, codegen


def _scatter_column(typing_context, matrix, place, array, numbers):  # type: ignore[no-untyped-def]
    """Add column j of the triangles to matrix[place[j], place[i]], i <= j; `numbers` = k, j."""
    signature = types.void(matrix, place, array, types.UniTuple(types.int64, 2))

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        table = _Table(context, builder, signature.args, *arguments[:2])
        a = _Writer(context, builder, signature.args[2], arguments[2])
        k, j = cgutils.unpack_tuple(builder, arguments[3], 2)
        lines = table.lines(j)
        line, step = a.variable(_integer(0)), a.variable(a.minus(k, 1))
        with a.totals([], 0, a.add(j, 1)) as (i, _):
            column = a.add(builder.load(line), j)
            for lane, cell in enumerate(table.cells(lines, i)):
                builder.store(builder.fadd(builder.load(cell), a.element(lane, column)), cell)
            _next_line(a, line, step)
        return context.get_dummy_value()

    return signature, codegen


factor_corner = _function(5, _for_each_height(_write_factor_corner))
factor_tile = _function(6, _for_each_height(_write_factor_tile))
invert_corner = _function(4, _for_each_height(_write_invert_corner))
invert_tile = _function(6, _for_each_height(_write_invert_tile))
multiply_corner = _function(4, _for_each_height(_write_multiply_corner))
multiply_tile = _function(6, _for_each_height(_write_multiply_tile))
solve_down = _function_of_two(4, _for_each_height(_write_solve_down))
solve_up = _function_of_two(4, _for_each_height(_write_solve_up))
copy = _function_of_two(2, _write_copy)
scale = _function_of_two(1, _write_scale)
add_squares = _function_of_two(4, _write_add_squares)
gather_row: Any = intrinsic(_gather_row)
scatter_column: Any = intrinsic(_scatter_column)
