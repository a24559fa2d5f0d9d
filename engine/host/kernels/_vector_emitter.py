"""Loops and vectors as LLVM IR, for kernels that state which lanes compute what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

__all__ = [
    "Body",
    "emit_declaration",
    "emit_fold",
    "emit_folds",
    "emit_loop",
    "emit_masked_load",
    "emit_splat",
]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
#: Takes the counters of a loop and the values it carries, returns the values after the round.
Body = Callable[[list[Any], list[Any]], list[Any]]


def emit_declaration(builder: Any, kind: Any, name: str) -> Any:
    """Declare a function, once in a module, and return it."""
    return builder.module.globals.get(name) or ir.Function(builder.module, kind, name)


def emit_loop(
    builder: Any, end: Any, steps: list[tuple[Any, Any]], carried: list[Any], body: Body
) -> tuple[list[Any], list[Any]]:
    """Emit a loop whose first counter stays below `end`; return its counters and values after.

    `steps` are begin and step of the counters, `carried` the values that `body` takes after the
    counters and returns.
    """
    before = builder.block
    head, inside, after = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    counters = [builder.phi(_I64) for _ in steps]
    values = [builder.phi(value.type) for value in carried]
    for counter, (begin, _) in zip(counters, steps, strict=True):
        counter.add_incoming(begin, before)
    for value, first in zip(values, carried, strict=True):
        value.add_incoming(first, before)
    builder.cbranch(builder.icmp_signed("<", counters[0], end), inside, after)
    builder.position_at_end(inside)
    next_values = body(counters, values)
    for counter, (_, step) in zip(counters, steps, strict=True):
        counter.add_incoming(builder.add(counter, step), builder.block)
    for value, new in zip(values, next_values, strict=True):
        value.add_incoming(new, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return counters, values


def emit_splat(builder: Any, value: Any, n_lanes: int) -> Any:
    """Return a vector with a value in all lanes."""
    empty = ir.Constant(ir.VectorType(value.type, n_lanes), ir.Undefined)
    first = builder.insert_element(empty, value, _I32(0))
    mask = ir.Constant(ir.VectorType(_I32, n_lanes), [0] * n_lanes)
    return builder.shuffle_vector(first, first, mask)


def emit_fold(builder: Any, vector: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Return all lanes combined: halves are combined until one lane is left."""
    return builder.extract_element(emit_folds(builder, [vector], combine), _I32(0))


def emit_folds(builder: Any, vectors: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Return a vector with all lanes of every vector combined, in their order: see `emit_fold`.

    Vectors are folded together, so that all lanes of an instruction are used; their number and that
    of their lanes are powers of two, the first not larger.
    """
    width = vectors[0].type.count  # lanes of a vector that are not combined yet
    while width > 1:
        width //= 2
        n_parts = vectors[0].type.count // (2 * width)  # vectors that a vector holds
        n_folded = n_parts * min(len(vectors), 2)
        pairs = [*zip(vectors[::2], vectors[1::2] or vectors, strict=True)]
        halves = []
        for half in (0, width):
            parts = range(half, half + 2 * width * n_folded, 2 * width)
            lanes = [part + lane for part in parts for lane in range(width)]
            mask = ir.Constant(ir.VectorType(_I32, len(lanes)), lanes)
            halves.append([builder.shuffle_vector(a, b, mask) for a, b in pairs])
        vectors = [combine(low, high) for low, high in zip(*halves, strict=True)]
    return vectors[0]


def _mask(builder: Any, count: Any, n_lanes: int) -> Any:
    """Return which lanes are below `count`."""
    numbers = ir.Constant(ir.VectorType(_I64, n_lanes), list(range(n_lanes)))
    return builder.icmp_signed("<", numbers, emit_splat(builder, count, n_lanes))


def emit_masked_load(builder: Any, pointer: Any, count: Any, otherwise: Any) -> Any:
    """Load the first `count` lanes of 4 bytes; the others are those of `otherwise`."""
    kind = otherwise.type
    pointer_type = kind.as_pointer()
    name = f"llvm.masked.load.v{kind.count}f32.p0"
    function = builder.module.globals.get(name)
    if function is None:
        mask = ir.VectorType(_I1, kind.count)
        function_type = ir.FunctionType(kind, [pointer_type, _I32, mask, kind])
        function = ir.Function(builder.module, function_type, name)
    lanes = _mask(builder, count, kind.count)
    return builder.call(
        function, [builder.bitcast(pointer, pointer_type), _I32(4), lanes, otherwise]
    )
