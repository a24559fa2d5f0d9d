"""Emits copies of blocks as LLVM IR: see `_moves`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from tilescope.engine.host.kernels._vector_emitter import emit_loop

__all__ = ["Dim", "MoveEmitter"]

#: Elements of the vectors that rows are copied in, largest first.
_WIDTHS = (16, 8, 4, 2)
#: Rows of a block, whose lines stay in the first cache while it is copied.
_BLOCK = 16
#: Columns of a tile that is transposed and, in turn, its rows.
_COLUMNS, _ROWS = 4, (16, 8, 4)

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_ZERO, _ONE, _TWO = _I64(0), _I64(1), _I64(2)
#: Two elements that are moved as one.
_PAIR_BYTES = 8


@dataclass(frozen=True)
class Dim:
    """A dimension of a block: its size and the steps between elements, LLVM values."""

    size: Any
    x: Any
    out: Any

    def numbers(self) -> tuple[Any, Any, Any]:
        """Return all of them."""
        return self.size, self.x, self.out


class MoveEmitter:
    """Emits the copy of a block between arrays of one type."""

    def __init__(self, builder: Any, out: Any, x: Any, item_bytes: int) -> None:
        self.builder, self.out, self.x, self.item_bytes = builder, out, x, item_bytes

    def place(self, pointer: Any, offset: Any, n_lanes: int) -> Any:
        """Return a pointer to a vector."""
        kind = ir.VectorType(pointer.type.pointee, n_lanes).as_pointer()
        return self.builder.bitcast(self.builder.gep(pointer, [offset]), kind)

    def load(self, offset: Any, n_lanes: int) -> Any:
        """Load contiguous elements."""
        return self.builder.load(self.place(self.x, offset, n_lanes), align=self.item_bytes)

    def store(self, vector: Any, offset: Any) -> None:
        """Store contiguous elements."""
        pointer = self.place(self.out, offset, vector.type.count)
        self.builder.store(vector, pointer, align=self.item_bytes)

    def least(self, a: Any, b: Any) -> Any:
        """Return the smaller number."""
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    def loop(self, begin: Any, end: Any, step: int, body: Callable[[Any], None]) -> Any:
        """Emit a loop; return the number that it ends with."""

        def one(counters: list[Any], _: list[Any]) -> list[Any]:
            body(counters[0])
            return []

        return emit_loop(self.builder, end, [(begin, _I64(step))], [], one)[0][0]

    def along(
        self,
        dim: Dim,
        count: Any,
        to: Any,
        offset: Any,
        body: Callable[[Any, Any], None],
        *,
        is_unrolled: bool = False,
    ) -> None:
        """Emit a loop along a dimension; `body` takes the places in `out` and `x`.

        Unless it may be unrolled, the compiler is kept from that: it takes longer than it gains.
        """
        builder = self.builder

        def one(counters: list[Any], _: list[Any]) -> list[Any]:
            if not is_unrolled:
                builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], side_effect=True)
            body(*counters[1:])
            return []

        steps = [(_ZERO, _ONE), (to, dim.out), (offset, dim.x)]
        emit_loop(builder, count, steps, [], one)

    def rows(self, planes: Dim, rows: Dim, n: Any, to: Any, offset: Any) -> None:
        """Copy rows of two or more contiguous elements, a block of rows of all planes at a time."""
        builder = self.builder
        forms = [form for width in _WIDTHS for form in ((width, False), (width, True))]

        def block(first: Any) -> None:
            count = self.least(builder.sub(rows.size, first), _I64(_BLOCK))
            target = builder.add(to, builder.mul(first, rows.out))
            source = builder.add(offset, builder.mul(first, rows.x))

            def plane(to: Any, offset: Any) -> None:
                def chosen(forms: Sequence[tuple[int, bool]]) -> None:
                    (width, is_whole), *narrower = forms
                    copy = self.vectors(n, width, is_whole=is_whole)
                    if not narrower:
                        self.along(rows, count, to, offset, copy)
                        return
                    minimum = _I64(width + (not is_whole))
                    with builder.if_else(builder.icmp_signed(">=", n, minimum)) as (
                        this_form,
                        rest,
                    ):
                        with this_form:
                            self.along(rows, count, to, offset, copy)
                        with rest:
                            chosen(narrower)

                chosen(forms)

            self.along(planes, planes.size, target, source, plane)

        self.loop(_ZERO, rows.size, _BLOCK, block)

    def vectors(self, n: Any, width: int, *, is_whole: bool) -> Callable[[Any, Any], None]:
        """Return what copies a row of `width` elements if `is_whole`, else of more.

        These are less than two vectors, but for the largest, and the last vector may copy elements
        again.
        """
        last = self.builder.sub(n, _I64(width))

        def copy(to: Any, offset: Any) -> None:
            def vector(first: Any) -> None:
                vector_offset = self.builder.add(to, first)
                self.store(self.load(self.builder.add(offset, first), width), vector_offset)

            if is_whole or width < _WIDTHS[0]:
                vector(_ZERO)
            else:
                self.loop(_ZERO, last, width, vector)
            if not is_whole:
                vector(last)

        return copy

    def transposed(self, plane: Dim, columns: Dim, rows: Dim, to: Any, offset: Any) -> None:
        """Copy planes of x[row, column] with contiguous columns to out with contiguous rows.

        The last tiles of rows and columns may copy elements again.
        """
        builder = self.builder
        last_column = builder.sub(columns.size, _I64(_COLUMNS))
        last_row = builder.sub(rows.size, _I64(_ROWS[-1]))

        def of_plane(to: Any, offset: Any) -> None:
            def block(first: Any) -> None:
                end = self.least(builder.add(first, _I64(_BLOCK)), columns.size)
                n_done: Any = _ZERO
                for n in _ROWS:

                    def of_rows(row: Any, n: int = n) -> None:
                        row = self.least(row, last_row)

                        def tile(column: Any) -> None:
                            column = self.least(column, last_column)
                            target = builder.add(row, builder.mul(column, columns.out))
                            source = builder.add(column, builder.mul(row, rows.x))
                            self.tile(
                                builder.add(to, target), columns.out, builder.add(offset, source),
                                rows.x, n,
                            )  # fmt: skip

                        self.loop(first, end, _COLUMNS, tile)

                    spare = 0 if n == _ROWS[-1] else n - 1
                    n_done = self.loop(n_done, builder.sub(rows.size, _I64(spare)), n, of_rows)

            self.loop(_ZERO, columns.size, _BLOCK, block)

        self.along(plane, plane.size, to, offset, of_plane)

    def tile(self, to: Any, out_pitch: Any, offset: Any, x_pitch: Any, n_rows: int) -> None:
        """Transpose `n_rows` rows of `_COLUMNS` elements.

        Vectors hold every fourth row, so that no element leaves its quarter of one.
        """
        builder = self.builder
        rows = [
            self.load(builder.add(offset, builder.mul(x_pitch, _I64(row))), _COLUMNS)
            for row in range(n_rows)
        ]
        a, b, c, d = (self.joined(rows[first::4]) for first in range(4))
        low = self.mixed(a, b, (0, 4, 1, 5)), self.mixed(c, d, (0, 4, 1, 5))
        high = self.mixed(a, b, (2, 6, 3, 7)), self.mixed(c, d, (2, 6, 3, 7))
        for column, pair in enumerate((low, low, high, high)):
            vector = self.mixed(*pair, (0, 1, 4, 5) if column % 2 == 0 else (2, 3, 6, 7))
            self.store(vector, builder.add(to, builder.mul(out_pitch, _I64(column))))

    def joined(self, vectors: list[Any]) -> Any:
        """Return vectors one after the other."""
        while len(vectors) > 1:
            n = 2 * vectors[0].type.count
            mask = ir.Constant(ir.VectorType(_I32, n), list(range(n)))
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self.builder.shuffle_vector(a, b, mask) for a, b in pairs]
        return vectors[0]

    def mixed(self, a: Any, b: Any, positions: tuple[int, ...]) -> Any:
        """Return lanes of two vectors, quarter by quarter: 0 to 3 of the one, 4 to 7 the other."""
        n = a.type.count
        lanes = [start + p % 4 + n * (p // 4) for start in range(0, n, 4) for p in positions]
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, n), lanes))

    def singly(self, dims: Sequence[Dim], to: Any, offset: Any, copy: Callable[..., None]) -> None:
        """Emit loops over elements with any strides, the last dimension innermost."""
        if not dims:
            copy(to, offset)
            return
        dim, *inner_dims = dims

        def inside(to: Any, offset: Any) -> None:
            self.singly(inner_dims, to, offset, copy)

        self.along(dim, dim.size, to, offset, inside, is_unrolled=not inner_dims)

    def swapped(self, is_wanted: Any, dims: list[Dim], i: int, j: int) -> list[Dim]:
        """Return the dimensions, two of them swapped if that is wanted."""
        swapped_dims = list(dims)
        for first, second in ((i, j), (j, i)):
            pairs = zip(dims[second].numbers(), dims[first].numbers(), strict=True)
            swapped_dims[first] = Dim(*(self.builder.select(is_wanted, a, b) for a, b in pairs))
        return swapped_dims

    def merged(self, outer: Dim, inner: Dim) -> tuple[Dim, Dim]:
        """Return both with all elements in the inner one, if its steps go on in the outer one."""
        builder = self.builder
        steps = ((outer.out, inner.out), (outer.x, inner.x))
        goes_on = [
            builder.icmp_signed("==", wide, builder.mul(step, inner.size)) for wide, step in steps
        ]
        is_one = builder.and_(*goes_on)
        size = builder.mul(outer.size, builder.select(is_one, inner.size, _ONE))
        return (
            Dim(builder.select(is_one, _ONE, outer.size), outer.x, outer.out),
            Dim(builder.select(is_one, size, inner.size), inner.x, inner.out),
        )

    def block(
        self, dims: list[Dim], to: Any, offset: Any, copy_one: Callable[[Any, Any], None]
    ) -> None:
        """Emit the copy of a block, by where its contiguous elements are."""
        builder = self.builder

        def is_contiguous(dim: Dim, step: Any, minimum: int = 2) -> Any:
            is_long = builder.icmp_signed(">=", dim.size, _I64(minimum))
            return builder.and_(builder.icmp_signed("==", step, _ONE), is_long)

        for d in (0, 1):
            is_plain_out = is_contiguous(dims[d], dims[d].out)
            dims = self.swapped(is_plain_out, dims, d, 2)
        rows = dims[2]
        has_row = is_contiguous(rows, rows.out)
        is_plain = builder.and_(has_row, builder.icmp_signed("==", rows.x, _ONE))
        with builder.if_else(is_plain) as (plain, general):
            with plain:
                self.plain(dims, to, offset)
            with general:
                plane, columns, _ = self.swapped(is_contiguous(dims[0], dims[0].x), dims, 0, 1)
                is_wide = builder.icmp_signed(">=", rows.size, _I64(_ROWS[-1]))
                is_tiled = builder.and_(is_contiguous(columns, columns.x, _COLUMNS), is_wide)
                with builder.if_else(builder.and_(has_row, is_tiled)) as (tiled, single):
                    with tiled:
                        plane, rows = self.merged(plane, rows)
                        self.transposed(plane, columns, rows, to, offset)
                    with single:
                        self.one_by_one(dims, to, offset, copy_one)

    def plain(self, dims: list[Dim], to: Any, offset: Any) -> None:
        """Emit the copy of rows of contiguous elements, or the transposition of pairs of them."""
        builder = self.builder

        def by_rows() -> None:
            is_longer = builder.icmp_signed(">", dims[0].size, dims[1].size)
            outer, inner, row = self.swapped(is_longer, dims, 0, 1)
            self.rows(outer, inner, row.size, to, offset)

        if self.item_bytes != _PAIR_BYTES // 2:
            by_rows()
            return
        is_second = builder.icmp_signed("==", dims[0].out, _TWO)
        columns, rows, pair = self.swapped(is_second, dims, 0, 1)
        conditions = [
            builder.icmp_signed("==", number, _TWO) for number in (pair.size, rows.out, columns.x)
        ]
        conditions += [
            builder.icmp_signed(">=", rows.size, _I64(_ROWS[-1])),
            builder.icmp_signed(">=", columns.size, _I64(_COLUMNS)),
        ]
        halves = []
        for step in (rows.x, columns.out):
            halves.append(builder.ashr(step, _ONE))
            conditions.append(builder.icmp_signed("==", builder.shl(halves[-1], _ONE), step))
        is_tiled = functools.reduce(builder.and_, conditions)
        with builder.if_else(is_tiled) as (tiled, otherwise):
            with tiled:
                kind = ir.IntType(8 * _PAIR_BYTES).as_pointer()
                out, x = (
                    builder.bitcast(builder.gep(pointer, [first]), kind)
                    for pointer, first in ((self.out, to), (self.x, offset))
                )
                of_pairs = MoveEmitter(builder, out, x, self.item_bytes)
                of_pairs.transposed(
                    Dim(_ONE, _ZERO, _ZERO),
                    Dim(columns.size, _ONE, halves[1]),
                    Dim(rows.size, halves[0], _ONE),
                    _ZERO,
                    _ZERO,
                )
            with otherwise:
                by_rows()

    def one_by_one(
        self, dims: list[Dim], to: Any, offset: Any, copy_one: Callable[[Any, Any], None]
    ) -> None:
        """Emit a copy element by element, the longest dimension innermost."""
        for d in (0, 1):
            is_longer = self.builder.icmp_signed(">", dims[d].size, dims[2].size)
            dims = self.swapped(is_longer, dims, d, 2)
        self.singly(dims, to, offset, copy_one)
