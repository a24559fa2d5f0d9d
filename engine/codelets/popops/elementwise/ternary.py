"""Elementwise codelets of three operands: select and clamp.

Laws: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp, Select and Clamp:
5 cycles, plus 6 and a loop per row, and the same for SelectInPlace. Assumption: a broadcast operand
costs as much as a full one; the source has separate vertices for some broadcasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.codelets.popops.elementwise.in_place import as_apart
from tilescope.engine.codelets.popops.elementwise.operations import worker_rows
from tilescope.engine.codelets.popops.elementwise.rates import Rate, rate_of
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import unsigned

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "SELECT_IN_PLACE",
    "SELECT_IN_PLACE_BLOCK",
    "TERNARY",
    "TERNARY_BLOCK",
    "TERNARY_FLOPS",
    "TERNARY_FUNCTIONS",
    "TERNARY_RATES",
]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp"

_ONE_BY_ONE = (5, 1)
#: Cycles and elements per loop iteration, by number type.
TERNARY_RATES: dict[str, Rate] = {
    "select": dict.fromkeys(("float32", "float16", "int32", "bool"), _ONE_BY_ONE),
    "clamp": {"float32": (2, 2), "float16": (2, 4), "int32": (7, 1)},
}


@jit
def _select(a: Any, b: Any, chooser: Any) -> Any:
    return a if chooser else b


@jit
def _clamp(x: Any, low: Any, high: Any) -> Any:
    raised = low if x < low else x
    return high if raised > high else raised  # the upper limit applies if the limits cross


TERNARY_FUNCTIONS = {"select": _select, "clamp": _clamp}
TERNARY_FLOPS = {"select": 0, "clamp": 2}


def _kernels(function: Any) -> tuple[Any, Any]:
    @jit
    def vector(a, b, c, out):  # type: ignore[no-untyped-def]
        for i in range(out.size):
            out[i] = function(a[i], b[i], c[i])

    @jit
    def block(  # type: ignore[no-untyped-def]
        a, a_start, a_size, a_stride, b, b_start, b_size, b_stride,
        c, c_start, c_size, c_stride, out, out_start, out_size, stride,
    ):  # fmt: skip
        a_step, b_step = unsigned(a_stride[2]), unsigned(b_stride[2])
        n, c_step, step = unsigned(out_size[2]), unsigned(c_stride[2]), unsigned(stride[2])
        for p in range(out_size[0]):
            for r in range(out_size[1]):
                first = unsigned(a_start + p * a_stride[0] + r * a_stride[1])
                second = unsigned(b_start + p * b_stride[0] + r * b_stride[1])
                third = unsigned(c_start + p * c_stride[0] + r * c_stride[1])
                target = unsigned(out_start + p * stride[0] + r * stride[1])
                for i in range(n):
                    out[target + i * step] = function(
                        a[first + i * a_step], b[second + i * b_step], c[third + i * c_step]
                    )

    return vector, block


@jit
def _select_in_place(a, b, c):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        a[i] = a[i] if c[i] else b[i]


@jit
def _select_in_place_block(  # type: ignore[no-untyped-def]
    a, a_start, a_size, a_stride, b, b_start, b_size, b_stride, c, c_start, c_size, c_stride
):
    a_step, b_step, c_step = a_stride[2], b_stride[2], c_stride[2]
    for p in range(a_size[0]):
        for r in range(a_size[1]):
            first = a_start + p * a_stride[0] + r * a_stride[1]
            second = b_start + p * b_stride[0] + r * b_stride[1]
            third = c_start + p * c_stride[0] + r * c_stride[1]
            for i in range(a_size[2]):
                if not c[third + i * c_step]:
                    a[first + i * a_step] = b[second + i * b_step]


def _law(rate: Rate, *, is_block: bool) -> Any:
    """Return the law of a vertex over rows, or over one row divided among the workers."""

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        if is_block:
            rows, columns = worker_rows(batch, machine)
        else:
            columns = worker_share(batch.n_elements("out"), machine)
            rows = np.ones_like(columns)
        rate_of_type = rate_of(rate, batch.dtype["a"])
        assert rate_of_type is not None, "the library has checked the type"
        cycles, elements = rate_of_type
        row = 6 + cycles * -(-columns // elements)
        return np.asarray(machine.n_worker_contexts * (5 + rows * row))

    return law


def _flops(name: str) -> Any:
    def flops(batch: Batch) -> NDArray[np.int64]:
        return np.asarray(TERNARY_FLOPS[name] * batch.is_float("a") * batch.n_elements("out"))

    return flops


def _ternary(name: str) -> tuple[Codelet, Codelet]:
    is_choice = name == "select"
    codelets = []
    for dims, kernel in zip((1, 3), _kernels(TERNARY_FUNCTIONS[name]), strict=True):
        kind = "vector" if dims == 1 else "block"
        codelets.append(
            Codelet(
                f"popops::{name.capitalize()}" + ("" if dims == 1 else "2D"),
                (
                    Field("a", "in", dims, kind=kind, size_of="out"),
                    Field("b", "in", dims, kind=kind, size_of="out", dtype_of="a"),
                    Field(
                        "c",
                        "in",
                        dims,
                        kind=kind,
                        size_of="out",
                        dtype="bool" if is_choice else "",
                        dtype_of="" if is_choice else "a",
                    ),
                    Field("out", "out", dims, kind=kind, dtype_of="a"),
                ),
                kernel,
                _law(TERNARY_RATES[name], is_block=dims > 1),
                code_bytes=240,  # Assumption: between 2-D vertices of one and of two operands
                source=_SOURCE,
                flops=_flops(name),
                independent=every_dim(4, dims),
                is_selection=True,
            )
        )
    return codelets[0], codelets[1]


TERNARY: dict[str, Codelet] = {}
TERNARY_BLOCK: dict[str, Codelet] = {}
for _name in TERNARY_FUNCTIONS:
    TERNARY[_name], TERNARY_BLOCK[_name] = _ternary(_name)


def _select_over_first(dims: int) -> Codelet:
    kind, law = ("vector", "block")[dims > 1], _law(TERNARY_RATES["select"], is_block=dims > 1)
    return Codelet(
        "popops::SelectInPlace" + ("" if dims == 1 else "2D"),
        (
            Field("a", "inout", dims, kind=kind),
            Field("b", "in", dims, kind=kind, size_of="a", dtype_of="a"),
            Field("c", "in", dims, kind=kind, size_of="a", dtype="bool"),
        ),
        _select_in_place if dims == 1 else _select_in_place_block,
        lambda batch, machine: law(as_apart(batch), machine),
        code_bytes=240,  # Assumption: as with a result of its own
        source=_SOURCE,
        flops=lambda batch: np.zeros(batch.n_vertices, np.int64),
        independent=every_dim(3, dims),
        is_selection=True,
    )


SELECT_IN_PLACE, SELECT_IN_PLACE_BLOCK = _select_over_first(1), _select_over_first(3)
