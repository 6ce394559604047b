"""Rows eight at a time, one in each lane, worked on in vector registers."""

from typing import Any

from llvmlite import ir

from gapmix.kernels.vectors import (
    TILE,
    Value,
    Writer,
    for_each_height,
    function,
    integer,
    zero,
)
from gapmix.plan.layout import LANES

DOT_ROWS = 4  # rows multiplied at a time, so that loads of the other factor are shared


def _write_load_rows(x: Writer, mean: Writer, z: Writer, row: Value, last: Value) -> None:
    """Write z[j, lane] = x[row + lane, j] - mean[j]; beyond the last row, that one again."""
    d = x.width
    lines = [x.builder.mul(x.least(x.add(row, lane), last), d) for lane in range(LANES)]
    with z.column_blocks(d) as j:
        center = mean.load_at(j)
        block = [x.builder.fsub(x.load_at(line, j), center) for line in lines]
        for lane, vector in enumerate(_transposed(x.builder, block)):
            z.store(vector, j, lane)


def _write_store_rows(x: Writer, z: Writer, row: Value, last: Value) -> None:
    """Write x[row + lane, j] = z[j, lane]."""
    d = x.width
    lines = [x.builder.mul(x.least(x.add(row, lane), last), d) for lane in range(LANES)]
    with z.column_blocks(d) as j:
        block = [z.load(j, lane) for lane in range(LANES)]
        for line, vector in zip(lines, _transposed(x.builder, block), strict=True):
            x.store_at(vector, line, j)


def _write_load_narrow(x: Writer, mean: Writer, z: Writer, row: Value) -> None:
    """Write what `_write_load_rows` does for fewer than eight columns; z has room for eight.

    What is read beyond the end of a row is the next one, and does not matter.
    """
    d = x.width
    block = [x.load_at(x.builder.mul(x.add(row, lane), d)) for lane in range(LANES)]
    for j, vector in enumerate(_transposed(x.builder, block)):
        center = mean.splat(x.least(integer(j), x.minus(d, 1)))
        z.store(x.builder.fsub(vector, center), j)


def _write_store_narrow(x: Writer, z: Writer, row: Value) -> None:
    """Write x[row + lane, j] = z[j, lane] for fewer than eight columns.

    What is written beyond the end of a row is overwritten by the next one.
    """
    block = [z.load(j) for j in range(LANES)]
    for lane, vector in enumerate(_transposed(x.builder, block)):
        x.store_at(vector, x.builder.mul(x.add(row, lane), x.width))


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


def _dots(matrix: Writer, z: Writer, i: Value, n: Value, h: int) -> list[Value]:
    """Write the products of rows i to i + h - 1 of a matrix, n columns of them, with z."""
    lines = [matrix.builder.mul(matrix.add(i, r), matrix.width) for r in range(h)]
    column = zero(h, 1)
    with z.totals(column, 0, n) as (j, t):
        vector = z.load(j)
        for r in range(h):
            t[r][0] = z.fma(matrix.splat(lines[r], j), vector, t[r][0])
    return [line[0] for line in column]


def _write_multiply(m: Writer, z: Writer, y: Writer, i: Value, h: int) -> None:
    for r, total in enumerate(_dots(m, z, i, m.width, h)):
        y.store(total, i, r)


def _write_add_lengths(m: Writer, z: Writer, y: Writer, i: Value, h: int) -> None:
    """Write y[0] += |products|^2; the matrix is lower triangular."""
    total = y.load(0)
    for product in _dots(m, z, i, m.add(i, h), h):
        total = y.fma(product, product, total)
    y.store(total, 0)


def _write_add_products(w: Writer, t: Writer, i: Value, j: Value, n: Value, h: int) -> None:
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


def _write_weigh_row(x: Writer, w: Writer, row: Value, place: Value) -> None:
    """Write w[place, :d] = w[place, d] x[row]: the weight is there already, after the values."""
    d = x.width
    source, target = x.builder.mul(row, d), x.builder.mul(place, w.width)
    weight = w.splat(target, d)
    with x.column_blocks(d) as j:
        w.store_at(x.times(weight, x.load_at(source, j)), target, j)


def _write_dots(m: Writer, z: Writer, y: Writer, *variables: Value) -> None:
    """Write y[0, r] = m[variables[r]] z for a few rows of a matrix.

    z holds blocks of eight; the last one is of the last eight columns, those of the block before
    being 0 in it.
    """
    d = m.width
    lines = [m.builder.mul(variable, d) for variable in variables]
    column = zero(len(lines), 1)
    n_blocks = m.builder.sdiv(m.add(d, LANES - 1), integer(LANES))
    with z.totals(column, 0, n_blocks) as (block, t):
        j = m.least(m.builder.mul(block, integer(LANES)), m.minus(d, LANES))
        vector = z.load(block)
        for r, line in enumerate(lines):
            t[r][0] = z.fma(m.load_at(line, j), vector, t[r][0])
    for r, (total,) in enumerate(column):
        y.store_element(y.sum(total), r)


def _write_add_vector(y: Writer, x: Writer, i: Value, j: Value) -> None:
    """Write y[i] += x[j], both of them eight numbers."""
    y.store(y.builder.fadd(y.load(i), x.load(j)), i)


add_vector = function(2, 2, _write_add_vector)
dots = function(3, DOT_ROWS, _write_dots)
weigh_row = function(2, 2, _write_weigh_row)
add_products = function(2, 4, for_each_height(_write_add_products, 2 * TILE))
load_rows = function(3, 2, _write_load_rows)
store_rows = function(2, 2, _write_store_rows)
load_narrow = function(3, 1, _write_load_narrow)
store_narrow = function(2, 1, _write_store_narrow)
multiply = function(3, 2, for_each_height(_write_multiply, 2 * TILE))
add_lengths = function(3, 2, for_each_height(_write_add_lengths, 2 * TILE))
