"""Emits blocks of products as LLVM IR: see `_lanes`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from llvmlite import ir

from tilescope.engine.host.kernels._vector_emitter import (
    Body,
    emit_declaration,
    emit_folds,
    emit_loop,
    emit_masked_load,
    emit_splat,
)

__all__ = ["BlockEmitter"]

_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)


class BlockEmitter:
    """Emits blocks; pointers and numbers are LLVM values by the name of the argument."""

    def __init__(
        self, builder: Any, values: dict[str, Any], n_lanes: int, *, n_groups: int = 1
    ) -> None:
        self.builder, self.values, self.n_lanes = builder, values, n_lanes
        self.n_pixels, self.pixel = 0, _I64(0)
        self.vector = ir.VectorType(_F32, n_lanes) if n_lanes > 1 else _F32
        self.n_groups = n_groups

    def number(self, name: str, index: Any) -> Any:
        """Load an entry of an array of int64."""
        return self.builder.load(self.builder.gep(self.values[name], [index]))

    def load(self, pointer: Any, *, is_wide: bool) -> Any:
        """Load all lanes, or one value into all lanes."""
        if is_wide and self.n_lanes > 1:
            pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
            return self.builder.load(pointer, align=4)
        value = self.builder.load(pointer)
        return (
            value if is_wide or self.n_lanes == 1 else emit_splat(self.builder, value, self.n_lanes)
        )

    def weights(self, pointer: Any) -> Any:
        """Load the weights of an input; the lanes of groups of outputs may be apart."""
        if self.n_groups == 1:
            return self.load(pointer, is_wide=True)
        kind = ir.VectorType(_F32, self.n_lanes // self.n_groups).as_pointer()
        vectors = [
            self.builder.load(self.builder.bitcast(group, kind), align=4)
            for group in self.apart(pointer, "w_apart", self.n_groups)
        ]
        while len(vectors) > 1:
            lanes = range(2 * vectors[0].type.count)
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self.lanes(first, second, lanes) for first, second in pairs]
        return vectors[0]

    def lanes(self, a: Any, b: Any, positions: Sequence[int]) -> Any:
        """Return lanes of two vectors, counted through both."""
        mask = ir.Constant(ir.VectorType(_I32, len(positions)), list(positions))
        return self.builder.shuffle_vector(a, b, mask)

    def zeros(self) -> list[Any]:
        """Return a vector of zeros per pixel."""
        return [ir.Constant(self.vector, None)] * self.n_pixels

    def keep(self) -> None:
        """Keep the compiler from unrolling the loop: a pointer per pixel and step would not fit."""
        self.builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], side_effect=True)

    def fused(self, a: Any, b: Any, c: Any) -> Any:
        """Return a * b + c, rounded once."""
        name = f"v{a.type.count}f32" if isinstance(a.type, ir.VectorType) else "f32"
        kind = ir.FunctionType(a.type, [a.type] * 3)
        function = emit_declaration(self.builder, kind, f"llvm.fma.{name}")
        return self.builder.call(function, [a, b, c])

    def places(self, name: str) -> list[Any]:
        """Return the offsets of the pixels of the block."""
        numbers = [self.builder.add(self.pixel, _I64(p)) for p in range(self.n_pixels)]
        return [self.number(f"{name}_places", number) for number in numbers]

    def loop(
        self, end: Any, steps: list[tuple[Any, Any]], carried: list[Any], body: Body
    ) -> tuple[list[Any], list[Any]]:
        """Emit a loop: see `emit_loop`."""
        return emit_loop(self.builder, end, steps, carried, body)

    def over_pixels(self, sizes: Sequence[int], block: Callable[[], None]) -> None:
        """Emit blocks for all pixels. A block serves more pixels than the next smaller one holds.

        The last one may compute pixels again that the list repeats.
        """
        n_done: Any = _I64(0)
        for size, smaller in zip(sizes, (*sizes[1:], 0), strict=True):
            self.n_pixels = size

            def one(counters: list[Any], _: list[Any]) -> list[Any]:
                self.pixel = counters[0]
                block()
                return []

            end = self.builder.sub(self.values["n_pixels"], _I64(smaller))
            (n_done,), _ = self.loop(end, [(n_done, _I64(size))], [], one)

    def over_taps(self, carried: list[Any], body: Callable[..., Any]) -> list[Any]:
        """Emit the loop over taps.

        `body` takes the pixels' pointers, the offset of the tap from them, its weights and the
        sums. All taps share the pointers: a pointer per pixel and tap would not fit the registers.
        """
        builder, values = self.builder, self.values
        pixels = [builder.gep(values["x"], [place]) for place in self.places("x")]

        def tap(counters: list[Any], sums: list[Any]) -> Any:
            offset = self.number("tap_x", counters[0])
            weight = self.number("tap_w", counters[0])
            return body(pixels, offset, builder.gep(values["w"], [weight]), sums)

        return self.loop(values["n_taps"], [(_I64(0), _I64(1))], carried, tap)[1]

    def block(self) -> None:
        """Emit sums of products of `n_lanes` outputs per pixel, which share an input."""
        builder, values = self.builder, self.values

        def inputs(pixels: list[Any], offset: Any, weight: Any, sums: list[Any]) -> Any:
            def one(counters: list[Any], sums: list[Any]) -> list[Any]:
                _, column, row = counters
                self.keep()
                weights = self.weights(builder.gep(weight, [row]))
                products = []
                for pixel, total in zip(pixels, sums, strict=True):
                    value = self.load(builder.gep(pixel, [column]), is_wide=False)
                    products.append(self.fused(value, weights, total))
                return products

            zero = _I64(0)
            steps = [(zero, _I64(1)), (offset, values["x_step"]), (zero, values["w_pitch"])]
            return self.loop(values["count"], steps, sums, one)[1]

        self.store(self.over_taps(self.zeros(), inputs))

    def each(self, n_own: int) -> None:
        """Emit sums of products of `n_lanes` outputs per pixel: `n_own` for each of its inputs."""
        builder = self.builder
        n_inputs = self.n_lanes // n_own
        kind = ir.VectorType(_F32, n_inputs).as_pointer()

        def inputs(pointer: Any) -> Any:
            if n_own == 1:
                return self.load(pointer, is_wide=True)
            values = builder.load(builder.bitcast(pointer, kind), align=4)
            return self.lanes(values, values, [lane // n_own for lane in range(self.n_lanes)])

        def tap(pixels: list[Any], offset: Any, weight: Any, sums: list[Any]) -> Any:
            self.keep()
            weights = self.load(weight, is_wide=True)
            return [
                self.fused(inputs(builder.gep(pixel, [offset])), weights, total)
                for pixel, total in zip(pixels, sums, strict=True)
            ]

        self.store(self.over_taps(self.zeros(), tap))

    def spread(self, n_own: int, n_requested: int) -> None:
        """Emit sums of products of `n_lanes` contiguous inputs, with `n_own` outputs each.

        The weights of a tap are a row of lanes per requested output; the others are zeros. The
        outputs of an input are contiguous.
        """
        builder = self.builder

        def tap(pixels: list[Any], offset: Any, weight: Any, sums: list[Any]) -> Any:
            self.keep()
            rows = [
                self.load(builder.gep(weight, [_I64(output * self.n_lanes)]), is_wide=True)
                for output in range(n_requested)
            ]
            tap_sums = []
            for pixel, pixel_pointer in enumerate(pixels):
                values = self.load(builder.gep(pixel_pointer, [offset]), is_wide=True)
                for output, weights in enumerate(rows):
                    tap_sums.append(self.fused(values, weights, sums[pixel * n_requested + output]))
            return tap_sums

        sums = self.over_taps(self.zeros() * n_requested, tap)
        padding = [ir.Constant(self.vector, None)] * (n_own - n_requested)
        for pixel, position in enumerate(self.places("out")):
            own_sums = sums[pixel * n_requested : (pixel + 1) * n_requested]
            for number, vector in enumerate(self.interleaved(own_sums + padding)):
                vector_offset = builder.add(position, _I64(number * self.n_lanes))
                self.store_vector(vector, builder.gep(self.values["out"], [vector_offset]))

    def interleaved(self, vectors: list[Any]) -> list[Any]:
        """Return the first lanes of all vectors, then the second ones, and so on."""
        if len(vectors) == 1:
            return vectors
        even, odd_lanes = self.interleaved(vectors[::2]), self.interleaved(vectors[1::2])
        n = self.n_lanes
        results = []
        for a, b in zip(even, odd_lanes, strict=True):
            for half in (0, n // 2):
                pairs = [(half + lane, n + half + lane) for lane in range(n // 2)]
                results.append(self.lanes(a, b, [lane for pair in pairs for lane in pair]))
        return results

    def dots(self, n_outputs: int) -> None:
        """Emit dot products of all pixels with the weights of `n_outputs` outputs.

        The inputs of a pixel are contiguous, as are the weights of an output; outputs are
        `w_apart` of them apart.
        """
        builder, count = self.builder, self.values["count"]
        n_whole = builder.and_(count, _I64(-self.n_lanes))

        def inputs(pixels: list[Any], offset: Any, weight: Any, sums: list[Any]) -> Any:
            taps = [builder.gep(pixel, [offset]) for pixel in pixels]
            rows = self.apart(weight, "w_apart", n_outputs)

            def step(load: Callable[[Any, Any], Any]) -> Body:
                def one(counters: list[Any], sums: list[Any]) -> list[Any]:
                    self.keep()
                    weights = [load(row, counters[0]) for row in rows]
                    values = [load(tap, counters[0]) for tap in taps]
                    pairs = [(row, value) for row in weights for value in values]
                    return [
                        self.fused(value, row, total)
                        for (row, value), total in zip(pairs, sums, strict=True)
                    ]

                return one

            def whole(pointer: Any, index: Any) -> Any:
                return self.load(builder.gep(pointer, [index]), is_wide=True)

            def rest(pointer: Any, index: Any) -> Any:
                zeros = ir.Constant(self.vector, None)
                left = builder.sub(count, index)
                return emit_masked_load(builder, builder.gep(pointer, [index]), left, zeros)

            lanes = _I64(self.n_lanes)
            begin, sums = self.loop(n_whole, [(_I64(0), lanes)], sums, step(whole))
            return self.loop(count, [(begin[0], lanes)], sums, step(rest))[1]

        sums = self.over_taps(self.zeros() * n_outputs, inputs)
        totals = emit_folds(builder, sums, builder.fadd)
        outputs, places = self.apart(self.values["out"], "out_apart", n_outputs), self.places("out")
        adjoin: Any = ir.IntType(1)(1)
        for number, position in enumerate(places):
            is_next = builder.icmp_signed("==", position, builder.add(places[0], _I64(number)))
            adjoin = builder.and_(adjoin, is_next)
        with builder.if_else(adjoin) as (adjoining, scattered):
            with adjoining:
                for number, output in enumerate(outputs):
                    first, n = number * self.n_pixels, self.n_pixels
                    own = self.lanes(totals, totals, range(first, first + n))
                    self.store_vector(own, builder.gep(output, [places[0]]))
            with scattered:
                for number, (output, position) in enumerate(product(outputs, places)):
                    total = builder.extract_element(totals, _I32(number))
                    builder.store(total, builder.gep(output, [position]), align=4)

    def apart(self, pointer: Any, distance: str, n: int) -> list[Any]:
        """Return n pointers, apart by the number of that name."""
        pointers = [pointer]
        for _ in range(n - 1):
            pointers.append(self.builder.gep(pointers[-1], [self.values[distance]]))
        return pointers

    def store(self, sums: list[Any]) -> None:
        """Store the sums of the pixels, groups of lanes apart from each other."""
        n = self.n_lanes // self.n_groups
        for offset, total in zip(self.places("out"), sums, strict=True):
            pointer = self.builder.gep(self.values["out"], [offset])
            if self.n_groups == 1:
                self.store_vector(total, pointer)
                continue
            for number, group in enumerate(self.apart(pointer, "out_apart", self.n_groups)):
                lanes = range(number * n, (number + 1) * n)
                self.store_vector(self.lanes(total, total, lanes), group)

    def store_vector(self, vector: Any, pointer: Any) -> None:
        """Store all lanes, at any alignment."""
        if isinstance(vector.type, ir.VectorType):
            pointer = self.builder.bitcast(pointer, vector.type.as_pointer())
        self.builder.store(vector, pointer, align=4)
