"""Tiles of interleaved triangles, worked on in vector registers.

Element (i, j) of eight matrices is one vector. A tile of up to TILE x TILE of them is kept in
registers while products are added to it, so that two loads pay for four multiply-adds and more.

Only the upper triangle is stored, row by row; `row` below is the place of the row's element in
column 0, were it stored: element (i, j) is at row + j, and the next row is at row + k - i - 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from gapmix.kernels.vectors import (
    INT,
    TILE,
    VECTOR,
    Tile,
    Value,
    Writer,
    for_each_height,
    function,
    integer,
    zero,
)
from gapmix.plan.layout import LANES


def _write_factor_corner(w: Writer, base: Value, k: Value, i: Value, row: Value, h: int) -> None:
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
    w: Writer, base: Value, k: Value, i: Value, row: Value, j: Value, h: int
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


def _next_line(w: Writer, line: Value, step: Value) -> None:
    """Go one row down in a triangle stored by rows, each one shorter than the last."""
    length = w.builder.load(step)
    w.builder.store(w.add(w.builder.load(line), length), line)
    w.builder.store(w.minus(length, 1), step)


def _write_invert_corner(w: Writer, k: Value, i: Value, row: Value, h: int) -> None:
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
    w: Writer, k: Value, i: Value, row: Value, j: Value, row_j: Value, h: int
) -> None:
    rows = w.rows(row, i, k, h)
    tile = zero(h, TILE)
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


def _write_multiply_corner(w: Writer, k: Value, i: Value, row: Value, h: int) -> None:
    rows = w.rows(row, i, k, h)
    tile: Tile = [list(line) for line in zero(h, h)]
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
    w: Writer, k: Value, i: Value, row: Value, j: Value, row_j: Value, h: int
) -> None:
    rows, others = w.rows(row, i, k, h), w.rows(row_j, j, k, TILE)
    tile = zero(h, TILE)
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


def _write_solve_down(a: Writer, b: Writer, k: Value, i: Value, row: Value, h: int) -> None:
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


def _write_solve_up(a: Writer, b: Writer, k: Value, i: Value, row: Value, h: int) -> None:
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


def _write_copy(a: Writer, b: Writer, first: Value, n: Value) -> None:
    with a.totals([], 0, n) as (e, _):
        b.store(a.load(first, e), e)


def _write_scale(a: Writer, b: Writer, n: Value) -> None:
    weight = b.load(0)
    with a.totals([], 0, n) as (e, _):
        a.store(a.times(weight, a.load(e)), e)


def _write_add_squares(a: Writer, b: Writer, k: Value, i: Value, row: Value, place: Value) -> None:
    x = a.times(b.load(place), b.load(i))
    with a.totals([], i, k) as (j, _):
        a.store(a.fma(x, b.load(j), a.load(row, j)), row, j)


def _write_gather_row(
    matrix: Writer, place: Writer, a: Writer, k: Value, i: Value, row: Value
) -> None:
    """Write row i of the triangles = matrix[place[i], place[j]], j >= i."""
    lines = _lines(matrix, place, i)
    with a.totals([], i, k) as (j, _):
        vector = ir.Constant(VECTOR, ir.Undefined)
        for lane, cell in enumerate(_cells(matrix, place, lines, j)):
            number = ir.Constant(ir.IntType(32), lane)
            vector = a.builder.insert_element(vector, a.builder.load(cell), number)
        a.store(vector, row, j)


def _write_scatter_column(matrix: Writer, place: Writer, a: Writer, k: Value, j: Value) -> None:
    """Write matrix[place[j], place[i]] += column j of the triangles, i <= j."""
    builder, lines = a.builder, _lines(matrix, place, j)
    line, step = a.variable(integer(0)), a.variable(a.minus(k, 1))
    with a.totals([], 0, a.add(j, 1)) as (i, _):
        column = a.add(builder.load(line), j)
        for lane, cell in enumerate(_cells(matrix, place, lines, i)):
            builder.store(builder.fadd(builder.load(cell), a.element(lane, column)), cell)
        _next_line(a, line, step)


def _lines(matrix: Writer, place: Writer, i: Value) -> list[Value]:
    """Return where the matrix's rows at place[i] (k, LANES) begin, in each lane."""
    builder = matrix.builder
    starts = [builder.mul(_variable(place, i, lane), matrix.width) for lane in range(LANES)]
    return [builder.gep(matrix.elements, [start]) for start in starts]


def _cells(matrix: Writer, place: Writer, lines: list[Value], j: Value) -> Iterator[Value]:
    """Yield the address of column place[j] of each line, lane by lane."""
    for lane, line in enumerate(lines):
        yield matrix.builder.gep(line, [_variable(place, j, lane)])


def _variable(place: Writer, i: Value, lane: int) -> Value:
    return place.builder.zext(place.element(lane, i), INT)


factor_corner = function(1, 5, for_each_height(_write_factor_corner))
factor_tile = function(1, 6, for_each_height(_write_factor_tile))
invert_corner = function(1, 4, for_each_height(_write_invert_corner))
invert_tile = function(1, 6, for_each_height(_write_invert_tile))
multiply_corner = function(1, 4, for_each_height(_write_multiply_corner))
multiply_tile = function(1, 6, for_each_height(_write_multiply_tile))
solve_down = function(2, 4, for_each_height(_write_solve_down))
solve_up = function(2, 4, for_each_height(_write_solve_up))
copy = function(2, 2, _write_copy)
scale = function(2, 1, _write_scale)
add_squares = function(2, 4, _write_add_squares)
gather_row = function(3, 3, _write_gather_row)
scatter_column = function(3, 2, _write_scatter_column)
