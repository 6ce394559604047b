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
DOT_ROWS = 4  # rows multiplied at a time, so that loads of the other factor are shared

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_INT = ir.IntType(64)
Value = Any  # a number in the code that is being written
Tile = list[list[Value]]


class _Writer:
    """Writes instructions on vectors; places are counted in vectors from the array's start."""

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Any) -> None:
        self.builder = builder
        given = context.make_array(array_type)(context, builder, array)
        self._elements = given.data
        self.width = cgutils.unpack_tuple(builder, given.shape)[-1]
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

    def load_at(self, *number: Value) -> Value:
        """Return eight numbers of a plain array, from one on."""
        return self.builder.load(self._address(*number), align=8)

    def store_at(self, value: Value, *number: Value) -> None:
        self.builder.store(value, self._address(*number), align=8)

    def _address(self, *number: Value) -> Value:
        address = self.builder.gep(self._elements, [self.add(*number)])
        return self.builder.bitcast(address, _VECTOR.as_pointer())

    def splat(self, *number: Value) -> Value:
        """Return a number of a plain array in all lanes."""
        value = self.builder.load(self.builder.gep(self._elements, [self.add(*number)]))
        first, undefined = ir.Constant(ir.IntType(32), 0), ir.Constant(_VECTOR, ir.Undefined)
        one = self.builder.insert_element(undefined, value, first)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, undefined, everywhere)

    def store_element(self, value: Value, number: Value) -> None:
        self.builder.store(value, self.builder.gep(self._elements, [_integer(number)]))

    def sum(self, x: Value) -> Value:
        """Return the sum of a vector, by halves."""
        size = LANES
        while size > 1:
            size //= 2
            of_type = ir.VectorType(ir.IntType(32), size)
            halves = [
                self.builder.shuffle_vector(
                    x, x, ir.Constant(of_type, list(range(low, low + size)))
                )
                for low in (0, size)
            ]
            x = self.builder.fadd(*halves)
        return self.builder.extract_element(x, ir.Constant(ir.IntType(32), 0))

    def least(self, one: Value, other: Value) -> Value:
        """Return the smaller of two integers."""
        return self.builder.select(self.builder.icmp_signed("<", one, other), one, other)

    @contextmanager
    def column_blocks(self, d: Value) -> Iterator[Value]:
        """Run a loop over blocks of eight of d >= 8 columns; the last overlaps the one before."""
        count = self.builder.sdiv(self.add(d, LANES - 1), _integer(LANES))
        with cgutils.for_range(self.builder, count, intp=_INT) as loop:
            last = self.minus(d, LANES)
            yield self.least(self.builder.mul(loop.index, _integer(LANES)), last)

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


def _for_each_height(emit: Callable[..., None], most: int = TILE) -> Callable[..., None]:
    """Turn what writes code for tiles of one height, its last argument, into code for any."""

    def emit_all(w: _Writer, *given: Value) -> None:
        builder = w.builder
        end = builder.append_basic_block("done")
        blocks = [builder.append_basic_block(f"height{h}") for h in range(1, most + 1)]
        switch = builder.switch(given[-1], blocks[-1])
        for h, block in enumerate(blocks[:-1], start=1):
            switch.add_case(ir.Constant(_INT, h), block)
        for h, block in enumerate(blocks, start=1):
            builder.position_at_end(block)
            emit(w, *given[:-1], h)
            builder.branch(end)
        builder.position_at_end(end)

    return emit_all


def _function(n_arrays: int, n_integers: int, emit: Callable[..., None]) -> Any:
    """Return a function of (arrays, n integers) for use in kernels, from what writes its code."""

    def typed(*arrays: Any) -> Any:
        return types.void(*arrays, types.UniTuple(types.int64, n_integers)), codegen

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        writers = [
            _Writer(context, builder, signature.args[n], arguments[n]) for n in range(n_arrays)
        ]
        emit(*writers, *cgutils.unpack_tuple(builder, arguments[n_arrays], n_integers))
        return context.get_dummy_value()

    def of_one(typing_context, a, numbers):  # type: ignore[no-untyped-def]
        return typed(a)

    def of_two(typing_context, a, b, numbers):  # type: ignore[no-untyped-def]
        return typed(a, b)

    def of_three(typing_context, a, b, c, numbers):  # type: ignore[no-untyped-def]
        return typed(a, b, c)

    return intrinsic((of_one, of_two, of_three)[n_arrays - 1])


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


def _write_load_rows(x: _Writer, mean: _Writer, z: _Writer, row: Value, last: Value) -> None:
    """Write z[j, lane] = x[row + lane, j] - mean[j]; beyond the last row, that one again."""
    d = x.width
    lines = [x.builder.mul(x.least(x.add(row, lane), last), d) for lane in range(LANES)]
    with z.column_blocks(d) as j:
        center = mean.load_at(j)
        block = [x.builder.fsub(x.load_at(line, j), center) for line in lines]
        for lane, vector in enumerate(_transposed(x.builder, block)):
            z.store(vector, j, lane)


def _write_store_rows(x: _Writer, z: _Writer, row: Value, last: Value) -> None:
    """Write x[row + lane, j] = z[j, lane]."""
    d = x.width
    lines = [x.builder.mul(x.least(x.add(row, lane), last), d) for lane in range(LANES)]
    with z.column_blocks(d) as j:
        block = [z.load(j, lane) for lane in range(LANES)]
        for line, vector in zip(lines, _transposed(x.builder, block), strict=True):
            x.store_at(vector, line, j)


def _transposed(builder: Any, block: list[Value]) -> list[Value]:
    """Return the columns of eight vectors: rows and columns change places, by halves, thrice."""
    for step in (1, 2, 4):
        low = [e if not e & step else LANES + e - step for e in range(LANES)]
        high = [e + step if not e & step else LANES + e for e in range(LANES)]
        masks = [ir.Constant(ir.VectorType(ir.IntType(32), LANES), half) for half in (low, high)]
        result = list(block)
        for i in range(LANES):
            if not i & step:
                pair = block[i], block[i + step]
                result[i] = builder.shuffle_vector(*pair, masks[0])
                result[i + step] = builder.shuffle_vector(*pair, masks[1])
        block = result
    return block


def _dots(matrix: _Writer, z: _Writer, i: Value, n: Value, h: int) -> list[Value]:
    """Write the products of rows i to i + h - 1 of a matrix, n columns of them, with z."""
    lines = [matrix.builder.mul(matrix.add(i, r), matrix.width) for r in range(h)]
    column = _zero(h, 1)
    with z.totals(column, 0, n) as (j, t):
        vector = z.load(j)
        for r in range(h):
            t[r][0] = z.fma(matrix.splat(lines[r], j), vector, t[r][0])
    return [line[0] for line in column]


def _write_multiply(m: _Writer, z: _Writer, y: _Writer, i: Value, h: int) -> None:
    for r, total in enumerate(_dots(m, z, i, m.width, h)):
        y.store(total, i, r)


def _write_add_lengths(m: _Writer, z: _Writer, y: _Writer, i: Value, h: int) -> None:
    """Write y[0] += |products|^2; the matrix is lower triangular."""
    total = y.load(0)
    for product in _dots(m, z, i, m.add(i, h), h):
        total = y.fma(product, product, total)
    y.store(total, 0)


def _write_add_products(w: _Writer, t: _Writer, i: Value, j: Value, n: Value, h: int) -> None:
    """Write t[i, j] += w[:n, i]' w[:n, j] for h rows and eight columns."""
    lines = [w.builder.mul(w.add(i, r), w.width) for r in range(h)]
    column = [[t.load_at(line, j)] for line in lines]
    with w.totals(column, 0, n) as (p, inner):
        row = w.builder.mul(p, w.width)
        y = w.load_at(row, j)
        for r in range(h):
            inner[r][0] = w.fma(w.splat(row, i, r), y, inner[r][0])
    for line, (total,) in zip(lines, column, strict=True):
        t.store_at(total, line, j)


def _write_weigh_row(x: _Writer, w: _Writer, row: Value, place: Value) -> None:
    """Write w[place, :d] = w[place, d] x[row]: the weight is there already, after the values."""
    d = x.width
    source, target = x.builder.mul(row, d), x.builder.mul(place, w.width)
    weight = w.splat(target, d)
    with x.column_blocks(d) as j:
        w.store_at(x.times(weight, x.load_at(source, j)), target, j)


def _write_dots(m: _Writer, z: _Writer, y: _Writer, *variables: Value) -> None:
    """Write y[0, r] = m[variables[r]] z for a few rows of a matrix.

    z holds blocks of eight; the last one is of the last eight columns, those of the block before
    being 0 in it.
    """
    d = m.width
    lines = [m.builder.mul(variable, d) for variable in variables]
    column = _zero(len(lines), 1)
    n_blocks = m.builder.sdiv(m.add(d, LANES - 1), _integer(LANES))
    with z.totals(column, 0, n_blocks) as (block, t):
        j = m.least(m.builder.mul(block, _integer(LANES)), m.minus(d, LANES))
        vector = z.load(block)
        for r, line in enumerate(lines):
            t[r][0] = z.fma(m.load_at(line, j), vector, t[r][0])
    for r, (total,) in enumerate(column):
        y.store_element(y.sum(total), r)


factor_corner = _function(1, 5, _for_each_height(_write_factor_corner))
factor_tile = _function(1, 6, _for_each_height(_write_factor_tile))
invert_corner = _function(1, 4, _for_each_height(_write_invert_corner))
invert_tile = _function(1, 6, _for_each_height(_write_invert_tile))
multiply_corner = _function(1, 4, _for_each_height(_write_multiply_corner))
multiply_tile = _function(1, 6, _for_each_height(_write_multiply_tile))
dots = _function(3, DOT_ROWS, _write_dots)
weigh_row = _function(2, 2, _write_weigh_row)
add_products = _function(2, 4, _for_each_height(_write_add_products, 2 * TILE))
load_rows = _function(3, 2, _write_load_rows)
store_rows = _function(2, 2, _write_store_rows)
multiply = _function(3, 2, _for_each_height(_write_multiply, 2 * TILE))
add_lengths = _function(3, 2, _for_each_height(_write_add_lengths, 2 * TILE))
solve_down = _function(2, 4, _for_each_height(_write_solve_down))
solve_up = _function(2, 4, _for_each_height(_write_solve_up))
copy = _function(2, 2, _write_copy)
scale = _function(2, 1, _write_scale)
add_squares = _function(2, 4, _write_add_squares)
gather_row: Any = intrinsic(_gather_row)
scatter_column: Any = intrinsic(_scatter_column)
