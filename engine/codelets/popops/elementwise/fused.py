"""Vertices that compute a whole expression per element: one compute set instead of several.

Laws: the frame is that of generated codelets in graphcore/poplibs sdk-release-3.4,
lib/popops/ExpressionGenerator.cpp, executeCodelet: 20 instructions of a worker. That file estimates
one cycle per function and vector, whatever the function. Assumption: a function takes the cycles of
its own vertex without the load and the store, which are counted once per operand and result.
Results between functions stay in registers in single precision.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.codelets.popops.elementwise.binary_functions import (
    BINARY_FUNCTIONS,
    BINARY_RATES,
)
from tilescope.engine.codelets.popops.elementwise.expression import (
    Expression,
    call,
    operand,
    parsed,
)
from tilescope.engine.codelets.popops.elementwise.operations import (
    TO_BOOL,
    flops_per_element,
    worker_rows,
)
from tilescope.engine.codelets.popops.elementwise.rates import rate_of
from tilescope.engine.codelets.popops.elementwise.ternary import (
    TERNARY_FLOPS,
    TERNARY_FUNCTIONS,
    TERNARY_RATES,
)
from tilescope.engine.codelets.popops.elementwise.unary_functions import (
    UNARY_FUNCTIONS,
    UNARY_RATES,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, start_cycles, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import unsigned

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["FUSED", "FUSED_BLOCK", "codelet_named", "expression_flops", "fused_codelets"]

#: Names of codelets: see `_codelet`.
_NAME = re.compile(r"popops::Map(?P<dims>1D|2D)(?P<in_place>InPlace)?<(?P<text>.+)>")
_FUNCTIONS = {**UNARY_FUNCTIONS, **BINARY_FUNCTIONS, **TERNARY_FUNCTIONS}
_RATES = {**UNARY_RATES, **BINARY_RATES, **TERNARY_RATES}
#: Cycles of the load and the store in the loop of a vertex of one function.
_MOVES = 2
#: A worker's instructions before the loop. Source: see the module.
_BEGIN = 20
#: A worker's instructions per row. Assumption: as in 2-D vertices of two operands (see `ternary`).
_PER_ROW = 6


def _field_names(n_operands: int) -> list[str]:
    return [chr(ord("a") + i) for i in range(n_operands)]


def _compiled(expression: Expression) -> Any:
    """Return a jitted function of one element of every operand, and of the numbers."""
    names = [f"_{i + 1}" for i in range(expression.n_operands)]
    names += [f"k{i + 1}" for i in range(len(expression.numbers))]
    source = f"def fused({', '.join(names)}):\n    return {expression.text()}\n"
    # Only functions that the expression names: the kernel's digest covers them.
    space = {name: _FUNCTIONS[name] for name in expression.functions} | {"__name__": __name__}
    exec(compile(source, "<expression>", "exec"), space)  # the text consists of known names only
    return jit(space["fused"])


def _kernel(expression: Expression, *, is_block: bool, is_in_place: bool) -> Any:
    """Return the kernel of a vertex for vectors, or for blocks with any strides."""
    fields = _field_names(expression.n_operands)
    out = fields[0] if is_in_place else "out"
    written = fields if is_in_place else [*fields, out]
    numbers = [f"k{i + 1}" for i in range(len(expression.numbers))]
    if not is_block:
        values = ", ".join([f"{name}[_i]" for name in fields] + numbers)
        source = (
            f"def kernel({', '.join([*written, *numbers])}):\n"
            f"    for _i in range({out}.size):\n"
            f"        {out}[_i] = fused({values})\n"
        )
    else:
        parts = [f"{n}, {n}_start, {n}_size, {n}_stride" for n in written]
        steps = "".join(f"    {n}_step = unsigned({n}_stride[2])\n" for n in written)
        key = "".join(
            f"            {n}_at = unsigned({n}_start + _p * {n}_stride[0] + _r * {n}_stride[1])\n"
            for n in written
        )
        values = ", ".join([f"{n}[{n}_at + _c * {n}_step]" for n in fields] + numbers)
        source = (
            f"def kernel({', '.join([*parts, *numbers])}):\n"
            f"{steps}"
            f"    for _p in range({out}_size[0]):\n"
            f"        for _r in range({out}_size[1]):\n"
            f"{key}"
            f"            for _c in range(unsigned({out}_size[2])):\n"
            f"                {out}[{out}_at + _c * {out}_step] = fused({values})\n"
        )
    space: dict[str, Any] = {"fused": _compiled(expression), "__name__": __name__}
    if is_block:
        space["unsigned"] = unsigned
    exec(compile(source, "<expression>", "exec"), space)  # the text consists of known names only
    return jit(space["kernel"])


def _vector_cycles(expression: Expression, batch: Batch, machine: Machine) -> int:
    """Return the cycles of the loop per data-path vector of the first operand.

    Raises
    ------
    BadGraph
        If a function has no vertex for the type.
    """
    dtype = batch.dtype["a"]
    per_vector = max(1, machine.data_path_bytes // batch.item_bytes["a"])
    cycles = expression.n_operands + 1  # loads and the store
    for function in expression.functions:
        rate = rate_of(_RATES[function], dtype) or rate_of(_RATES[function], "bool")
        if rate is None:
            raise BadGraph(f"No vertex of {function} supports {dtype}; cast its operands first")
        loop, elements = rate
        cycles += max(1, loop - _MOVES) * -(-per_vector // elements)
    return cycles


def _law(expression: Expression, out: str, *, is_block: bool) -> Any:
    """Return the law: vectors (1-D) or rows (2-D) are divided equally among the workers."""

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        loop = _vector_cycles(expression, batch, machine)
        workers = machine.n_worker_contexts
        if not is_block:
            share = batch.n_vectors(worker_share(batch.n_elements(out), machine), "a", machine)
            return np.asarray(start_cycles(11, machine) + workers * (_BEGIN + share * loop))
        as_out = Batch(
            batch.n_vertices, {"out": batch.size[out]}, {}, {}, {}, batch.scalars, batch.counts
        )
        rows, columns = worker_rows(as_out, machine)
        is_apart = np.zeros(batch.n_vertices, dtype=bool)
        for name, stride in batch.stride.items():
            is_apart |= (stride[:, 2] > 1) & (batch.size[name][:, 2] > 1)
        loops = np.where(is_apart, columns, batch.n_vectors(columns, "a", machine))
        return np.asarray(workers * (_BEGIN + rows * (_PER_ROW + loops * loop)))

    return law


def expression_flops(expression: Expression) -> int:
    """Return the floating-point operations of an expression per element: the sum of its parts."""
    return sum(TERNARY_FLOPS.get(name, flops_per_element(name)) for name in expression.functions)


def _codelet(expression: Expression, *, is_block: bool, is_in_place: bool) -> Codelet:
    kind, dims = ("block", 3) if is_block else ("vector", 1)
    names = _field_names(expression.n_operands)
    out = names[0] if is_in_place else "out"
    per_element = expression_flops(expression)
    fields = [
        Field(
            name,
            "inout" if is_in_place and name == out else "in",
            dims,
            kind=kind,
            size_of="" if name == out else out,
        )
        for name in names
    ]
    if not is_in_place:
        dtype = "bool" if expression.function in TO_BOOL else ""
        fields.append(Field("out", "out", dims, kind=kind, dtype=dtype))
    suffix = ("2D" if is_block else "1D") + ("InPlace" if is_in_place else "")
    return Codelet(
        f"popops::Map{suffix}<{expression.text()}>",
        tuple(fields),
        _kernel(expression, is_block=is_block, is_in_place=is_in_place),
        _law(expression, out, is_block=is_block),
        # Assumption: a vertex of one function, and eight instructions for each further one.
        code_bytes=(260 if is_block else 180) + 32 * (len(expression.functions) - 1),
        source="graphcore/poplibs sdk-release-3.4, lib/popops/ExpressionGenerator.cpp",
        scalars=tuple(
            Scalar(f"k{i + 1}", "float", on_device=False) for i in range(len(expression.numbers))
        ),
        independent=every_dim(len(fields), dims),
        flops=lambda batch: np.asarray(per_element * batch.n_elements(out) * batch.is_float("a")),
    )


#: Codelets of the expressions used so far, by text and whether they work in place; numbers are
#: compile-time constants of a vertex.
FUSED: dict[tuple[str, bool], Codelet] = {}
FUSED_BLOCK: dict[tuple[str, bool], Codelet] = {}


def fused_codelets(expression: Expression, *, is_in_place: bool = False) -> tuple[Codelet, Codelet]:
    """Return the codelets of an expression for vectors and for blocks, each made once."""
    key = (expression.text(), is_in_place)
    if key not in FUSED:
        FUSED[key] = _codelet(expression, is_block=False, is_in_place=is_in_place)
        FUSED_BLOCK[key] = _codelet(expression, is_block=True, is_in_place=is_in_place)
    return FUSED[key], FUSED_BLOCK[key]


def codelet_named(name: str) -> Codelet | None:
    """Return the codelet of a name, made where this process did not use it; None if none has it."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    try:
        expression = parsed(match["text"])
    except BadGraph:
        return None
    both = fused_codelets(expression, is_in_place=bool(match["in_place"]))
    return both[match["dims"] == "2D"]


#: Expressions of the library itself, made on import: another process finds them by name.
_X, _Y, _Z = (operand(i) for i in range(3))
_OWN = (
    (_X + 1.0, True),  # scaled softmax
    (_X * 1.0, True),  # scaled softmax, shaped dropout
    (call("exp", _X * 1.0), True),  # log-uniform numbers
    (call("clamp", _X, -1.0, 1.0), True),  # clip of recurrent layers
    (call("clamp", _X * 0.2 + 0.5, 0, 1), False),  # hard sigmoid
    (call("clamp", _X * 0.2 + 0.5, 0, 1), True),
    (_Y + _Z * (_X - _Y), True),  # output of a GRU
    (call("less_equal", call("absolute", _X), 2.5) * 0.2 * _Y, False),  # slope of a hard sigmoid
    (
        call(
            "select",
            _X * (1 / 3) + 0.5,
            call("select", 1.0, 0.0, call("greater", _X, 0.0)),
            call("less", call("absolute", _X), 3.0),
        )
        * _Y,
        False,
    ),  # slope of a hard swish
)
for _expression, _is_in_place in _OWN:
    fused_codelets(_expression, is_in_place=_is_in_place)
