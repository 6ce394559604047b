"""Writing LLVM instructions on vectors of eight numbers, for use in compiled kernels.

What is written here as a vector is one on every processor: LLVM splits it where registers are
shorter. Nothing depends on the machine but the size of the tiles that are kept in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gapmix.plan.layout import LANES

# Registers hold TILE^2 sums and TILE + 1 operands: 32 of 64 bytes, or 16 of 32 bytes.
TILE = 4 if binding.get_host_cpu_features().get("avx512f") else 2

VECTOR = ir.VectorType(ir.DoubleType(), LANES)
INT = ir.IntType(64)
Value = Any  # a number in the code that is being written
Tile = list[list[Value]]


class Writer:
    """Writes instructions on vectors; places are counted in vectors from the array's start."""

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Any) -> None:
        self.builder = builder
        given = context.make_array(array_type)(context, builder, array)
        self.elements = given.data
        self.width = cgutils.unpack_tuple(builder, given.shape)[-1]
        self._memory = builder.bitcast(self.elements, VECTOR.as_pointer())

    def add(self, *terms: Value) -> Value:
        """Return a sum of integers."""
        total = integer(terms[0])
        for term in terms[1:]:
            total = self.builder.add(total, integer(term))
        return total

    def minus(self, one: Value, other: Value) -> Value:
        """Return a difference of integers."""
        return self.builder.sub(integer(one), integer(other))

    def rows(self, row: Value, i: Value, k: Value, height: int) -> list[Value]:
        """Return the places of rows i to i + height - 1."""
        places = [row]
        for r in range(height - 1):
            places.append(self.minus(self.add(places[-1], k), self.add(i, r + 1)))
        return places

    def load(self, *place: Value) -> Value:
        """Return a vector, from the sum of these places."""
        return self.builder.load(self.builder.gep(self._memory, [self.add(*place)]), align=8)

    def element(self, lane: int, *place: Value) -> Value:
        """Return one lane of a vector."""
        number = self.builder.mul(self.add(*place), integer(LANES))
        return self.builder.load(self.builder.gep(self.elements, [self.add(number, lane)]))

    def load_at(self, *number: Value) -> Value:
        """Return eight numbers of a plain array, from one on."""
        return self.builder.load(self._address(*number), align=8)

    def store_at(self, value: Value, *number: Value) -> None:
        """Store eight numbers in a plain array, from one on."""
        self.builder.store(value, self._address(*number), align=8)

    def _address(self, *number: Value) -> Value:
        address = self.builder.gep(self.elements, [self.add(*number)])
        return self.builder.bitcast(address, VECTOR.as_pointer())

    def splat(self, *number: Value) -> Value:
        """Return a number of a plain array in all lanes."""
        value = self.builder.load(self.builder.gep(self.elements, [self.add(*number)]))
        first, undefined = ir.Constant(ir.IntType(32), 0), ir.Constant(VECTOR, ir.Undefined)
        one = self.builder.insert_element(undefined, value, first)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, undefined, everywhere)

    def store_element(self, value: Value, number: Value) -> None:
        """Store a number in a plain array."""
        self.builder.store(value, self.builder.gep(self.elements, [integer(number)]))

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
        count = self.builder.sdiv(self.add(d, LANES - 1), integer(LANES))
        with cgutils.for_range(self.builder, count, intp=INT) as loop:
            last = self.minus(d, LANES)
            yield self.least(self.builder.mul(loop.index, integer(LANES)), last)

    def store(self, value: Value, *place: Value) -> None:
        """Store a vector."""
        self.builder.store(value, self.builder.gep(self._memory, [self.add(*place)]), align=8)

    def fma(self, x: Value, y: Value, total: Value) -> Value:
        """Return x y + total, in one instruction where the machine has it."""
        name = f"llvm.fmuladd.v{LANES}f64"
        function = self.builder.module.globals.get(name)
        if function is None:
            of_type = ir.FunctionType(VECTOR, [VECTOR] * 3)
            function = ir.Function(self.builder.module, of_type, name)
        return self.builder.call(function, [x, y, total])

    def fnma(self, x: Value, y: Value, total: Value) -> Value:
        """Return total - x y."""
        return self.fma(self.builder.fneg(x), y, total)

    def times(self, x: Value, y: Value) -> Value:
        """Return x y."""
        return self.builder.fmul(x, y)

    def inverse_root(self, x: Value) -> Value:
        """Return 1 / sqrt(x), NaN or infinite where x is not positive."""
        name = f"llvm.sqrt.v{LANES}f64"
        function = self.builder.module.globals.get(name)
        if function is None:
            of_type = ir.FunctionType(VECTOR, [VECTOR])
            function = ir.Function(self.builder.module, of_type, name)
        one = ir.Constant(VECTOR, [1.0] * LANES)
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
        with cgutils.for_range(builder, count, intp=INT) as loop:
            inner = [[None if x is None else builder.load(x) for x in line] for line in places]
            yield self.add(loop.index, low), inner
            for line, values in zip(places, inner, strict=True):
                for place, value in zip(line, values, strict=True):
                    if place is not None:
                        builder.store(value, place)
        for line, target in zip(places, tile, strict=True):
            target[:] = [None if x is None else builder.load(x) for x in line]


def integer(value: Value) -> Value:
    """Return a number as the code has it."""
    return ir.Constant(INT, value) if isinstance(value, int) else value


def zero(height: int, width: int) -> Tile:
    """Return a tile of zeros."""
    zero = ir.Constant(VECTOR, [0.0] * LANES)
    return [[zero] * width for _ in range(height)]


def for_each_height(emit: Callable[..., None], most: int = TILE) -> Callable[..., None]:
    """Turn what writes code for tiles of one height, its last argument, into code for any."""

    def emit_all(w: Writer, *given: Value) -> None:
        builder = w.builder
        end = builder.append_basic_block("done")
        blocks = [builder.append_basic_block(f"height{h}") for h in range(1, most + 1)]
        switch = builder.switch(given[-1], blocks[-1])
        for h, block in enumerate(blocks[:-1], start=1):
            switch.add_case(ir.Constant(INT, h), block)
        for h, block in enumerate(blocks, start=1):
            builder.position_at_end(block)
            emit(w, *given[:-1], h)
            builder.branch(end)
        builder.position_at_end(end)

    return emit_all


def function(n_arrays: int, n_integers: int, emit: Callable[..., None]) -> Any:
    """Return a function of (arrays, n integers) for use in kernels, from what writes its code."""

    def typed(*arrays: Any) -> Any:
        return types.void(*arrays, types.UniTuple(types.int64, n_integers)), codegen

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        writers = [
            Writer(context, builder, signature.args[n], arguments[n]) for n in range(n_arrays)
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
