"""Emits copies of blocks as LLVM IR: see `_moves`."""

from __future__ import annotations

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
_ZERO, _ONE = _I64(0), _I64(1)


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

    def place(self, pointer: Any, at: Any, n_lanes: int) -> Any:
        """Return a pointer to a vector."""
        kind = ir.VectorType(pointer.type.pointee, n_lanes).as_pointer()
        return self.builder.bitcast(self.builder.gep(pointer, [at]), kind)

    def load(self, at: Any, n_lanes: int) -> Any:
        """Load contiguous elements."""
        return self.builder.load(self.place(self.x, at, n_lanes), align=self.item_bytes)

    def store(self, vector: Any, at: Any) -> None:
        """Store contiguous elements."""
        place = self.place(self.out, at, vector.type.count)
        self.builder.store(vector, place, align=self.item_bytes)

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
        at: Any,
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

        steps = [(_ZERO, _ONE), (to, dim.out), (at, dim.x)]
        emit_loop(builder, count, steps, [], one)

    def rows(self, planes: Dim, rows: Dim, n: Any, to: Any, at: Any) -> None:
        """Copy rows of two or more contiguous elements, a block of rows of all planes at a time."""
        builder = self.builder
        forms = [form for width in _WIDTHS for form in ((width, False), (width, True))]

        def block(first: Any) -> None:
            count = self.least(builder.sub(rows.size, first), _I64(_BLOCK))
            target = builder.add(to, builder.mul(first, rows.out))
            source = builder.add(at, builder.mul(first, rows.x))

            def plane(to: Any, at: Any) -> None:
                def chosen(forms: Sequence[tuple[int, bool]]) -> None:
                    (width, is_whole), *other = forms
                    copy = self.vectors(n, width, is_whole=is_whole)
                    if not other:
                        self.along(rows, count, to, at, copy)
                        return
                    least = _I64(width + (not is_whole))
                    with builder.if_else(builder.icmp_signed(">=", n, least)) as (own, rest):
                        with own:
                            self.along(rows, count, to, at, copy)
                        with rest:
                            chosen(other)

                chosen(forms)

            self.along(planes, planes.size, target, source, plane)

        self.loop(_ZERO, rows.size, _BLOCK, block)

    def vectors(self, n: Any, width: int, *, is_whole: bool) -> Callable[[Any, Any], None]:
        """Return what copies a row of `width` elements if `is_whole`, else of more.

        These are less than two vectors, but for the largest, and the last vector may copy elements
        again.
        """
        last = self.builder.sub(n, _I64(width))

        def copy(to: Any, at: Any) -> None:
            def vector(first: Any) -> None:
                place = self.builder.add(to, first)
                self.store(self.load(self.builder.add(at, first), width), place)

            if is_whole or width < _WIDTHS[0]:
                vector(_ZERO)
            else:
                self.loop(_ZERO, last, width, vector)
            if not is_whole:
                vector(last)

        return copy

    def transposed(self, plane: Dim, columns: Dim, rows: Dim, to: Any, at: Any) -> None:
        """Copy planes of x[row, column] with contiguous columns to out with contiguous rows.

        The last tiles of rows and columns may copy elements again.
        """
        builder = self.builder
        last_column = builder.sub(columns.size, _I64(_COLUMNS))
        last_row = builder.sub(rows.size, _I64(_ROWS[-1]))

        def of_plane(to: Any, at: Any) -> None:
            def block(first: Any) -> None:
                end = self.least(builder.add(first, _I64(_BLOCK)), columns.size)
                done: Any = _ZERO
                for n in _ROWS:

                    def of_rows(row: Any, n: int = n) -> None:
                        row = self.least(row, last_row)

                        def tile(column: Any) -> None:
                            column = self.least(column, last_column)
                            target = builder.add(row, builder.mul(column, columns.out))
                            source = builder.add(column, builder.mul(row, rows.x))
                            self.tile(
                                builder.add(to, target), columns.out, builder.add(at, source),
                                rows.x, n,
                            )  # fmt: skip

                        self.loop(first, end, _COLUMNS, tile)

                    spare = 0 if n == _ROWS[-1] else n - 1
                    done = self.loop(done, builder.sub(rows.size, _I64(spare)), n, of_rows)

            self.loop(_ZERO, columns.size, _BLOCK, block)

        self.along(plane, plane.size, to, at, of_plane)

    def tile(self, to: Any, out_pitch: Any, at: Any, x_pitch: Any, n_rows: int) -> None:
        """Transpose `n_rows` rows of `_COLUMNS` elements.

        Vectors hold every fourth row, so that no element leaves its quarter of one.
        """
        builder = self.builder
        rows = [
            self.load(builder.add(at, builder.mul(x_pitch, _I64(row))), _COLUMNS)
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

    def mixed(self, a: Any, b: Any, places: tuple[int, ...]) -> Any:
        """Return lanes of two vectors, quarter by quarter: 0 to 3 of the one, 4 to 7 the other."""
        n = a.type.count
        lanes = [at + p % 4 + n * (p // 4) for at in range(0, n, 4) for p in places]
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, n), lanes))

    def singly(self, dims: Sequence[Dim], to: Any, at: Any, copy: Callable[..., None]) -> None:
        """Emit loops over elements with any strides, the last dimension innermost."""
        if not dims:
            copy(to, at)
            return
        dim, *other = dims

        def inside(to: Any, at: Any) -> None:
            self.singly(other, to, at, copy)

        self.along(dim, dim.size, to, at, inside, is_unrolled=not other)

    def swapped(self, is_wanted: Any, dims: list[Dim], i: int, j: int) -> list[Dim]:
        """Return the dimensions, two of them swapped if that is wanted."""
        found = list(dims)
        for own, other in ((i, j), (j, i)):
            pairs = zip(dims[other].numbers(), dims[own].numbers(), strict=True)
            found[own] = Dim(*(self.builder.select(is_wanted, a, b) for a, b in pairs))
        return found

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
        self, dims: list[Dim], to: Any, at: Any, copy_one: Callable[[Any, Any], None]
    ) -> None:
        """Emit the copy of a block, by where its contiguous elements are."""
        builder = self.builder

        def is_contiguous(dim: Dim, step: Any, least: int = 2) -> Any:
            is_long = builder.icmp_signed(">=", dim.size, _I64(least))
            return builder.and_(builder.icmp_signed("==", step, _ONE), is_long)

        for d in (0, 1):
            own = is_contiguous(dims[d], dims[d].out)
            dims = self.swapped(own, dims, d, 2)
        rows = dims[2]
        has_row = is_contiguous(rows, rows.out)
        is_plain = builder.and_(has_row, builder.icmp_signed("==", rows.x, _ONE))
        with builder.if_else(is_plain) as (plain, other):
            with plain:
                is_longer = builder.icmp_signed(">", dims[0].size, dims[1].size)
                outer, inner, _ = self.swapped(is_longer, dims, 0, 1)
                self.rows(outer, inner, rows.size, to, at)
            with other:
                plane, columns, _ = self.swapped(is_contiguous(dims[0], dims[0].x), dims, 0, 1)
                is_wide = builder.icmp_signed(">=", rows.size, _I64(_ROWS[-1]))
                is_tiled = builder.and_(is_contiguous(columns, columns.x, _COLUMNS), is_wide)
                with builder.if_else(builder.and_(has_row, is_tiled)) as (tiled, single):
                    with tiled:
                        plane, rows = self.merged(plane, rows)
                        self.transposed(plane, columns, rows, to, at)
                    with single:
                        self.one_by_one(dims, to, at, copy_one)

    def one_by_one(
        self, dims: list[Dim], to: Any, at: Any, copy_one: Callable[[Any, Any], None]
    ) -> None:
        """Emit a copy element by element, the longest dimension innermost."""
        for d in (0, 1):
            is_longer = self.builder.icmp_signed(">", dims[d].size, dims[2].size)
            dims = self.swapped(is_longer, dims, d, 2)
        self.singly(dims, to, at, copy_one)
