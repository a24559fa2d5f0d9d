"""Loss and gradient of every output of a model, and the count of right classifications.

Law: graphcore/poplibs sdk-release-3.4, lib/popnn/PerformanceEstimation.hpp, getLossTransformCycles,
and lib/popnn/popnnCycleEstimators.cpp, CalcAccuracy. A worker takes at least 4,095 elements of a
tile: lib/popnn/Loss.cpp, onTileTransform. Assumption: elements in blocks take as long as
contiguous ones; the library gathers them first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import unsigned

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "CALC_ACCURACY",
    "CROSS_ENTROPY",
    "CROSS_ENTROPY_BLOCK",
    "LOSS_FLOPS",
    "MASKED_LABEL",
    "SUM_SQUARED",
    "SUM_SQUARED_BLOCK",
]

Counts = NDArray[np.int64]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popnn/popnnCycleEstimators.cpp"
#: Label of a row that counts neither in the loss nor in the accuracy: all bits set.
#: Source: the same release, include/popops/EncodingConstants.hpp, MASKED_LABEL_CODE.
MASKED_LABEL = -1
#: Floating-point operations per element, and of a vertex. Source: the laws' file.
LOSS_FLOPS = {"cross_entropy": (6, 2), "sum_squared": (3, 0)}
#: Elements that a worker takes at least, if a tile has more.
_LEAST_ELEMENTS = 4095


@jit
def _log_of(value: Any, epsilon: Any) -> Any:
    return np.log(np.float32(value + epsilon))


@jit
def _cross_entropy(  # type: ignore[no-untyped-def]
    probabilities, expected, deltas, losses, deltas_scale, output_scale, epsilon
):
    scale, whole = deltas_scale[0] / output_scale[0], output_scale[0]
    log_of_scale = np.log(np.float32(whole))
    for i in range(losses.size):
        probability, label = probabilities[i], expected[i]
        deltas[i] = scale * (probability - label * whole)
        losses[i] = -label * (_log_of(probability, epsilon) - log_of_scale)


@jit
def _cross_entropy_block(  # type: ignore[no-untyped-def]
    probabilities, p_start, p_size, p_stride, expected, e_start, e_size, e_stride,
    deltas, d_start, d_size, d_stride, losses, l_start, l_size, l_stride,
    deltas_scale, output_scale, epsilon,
):  # fmt: skip
    scale, whole = deltas_scale[0] / output_scale[0], output_scale[0]
    log_of_scale = np.log(np.float32(whole))
    for plane in range(l_size[0]):
        for row in range(l_size[1]):
            p = unsigned(p_start + plane * p_stride[0] + row * p_stride[1])
            e = unsigned(e_start + plane * e_stride[0] + row * e_stride[1])
            d = unsigned(d_start + plane * d_stride[0] + row * d_stride[1])
            to = unsigned(l_start + plane * l_stride[0] + row * l_stride[1])
            for c in range(unsigned(l_size[2])):
                probability = probabilities[p + c * unsigned(p_stride[2])]
                label = expected[e + c * unsigned(e_stride[2])]
                deltas[d + c * unsigned(d_stride[2])] = scale * (probability - label * whole)
                loss = -label * (_log_of(probability, epsilon) - log_of_scale)
                losses[to + c * unsigned(l_stride[2])] = loss


@jit
def _sum_squared(outputs, expected, deltas, losses):  # type: ignore[no-untyped-def]
    for i in range(losses.size):
        delta = outputs[i] - expected[i]
        deltas[i] = delta
        losses[i] = np.float32(0.5) * delta * delta


@jit
def _sum_squared_block(  # type: ignore[no-untyped-def]
    outputs, o_start, o_size, o_stride, expected, e_start, e_size, e_stride,
    deltas, d_start, d_size, d_stride, losses, l_start, l_size, l_stride,
):  # fmt: skip
    for plane in range(l_size[0]):
        for row in range(l_size[1]):
            o = unsigned(o_start + plane * o_stride[0] + row * o_stride[1])
            e = unsigned(e_start + plane * e_stride[0] + row * e_stride[1])
            d = unsigned(d_start + plane * d_stride[0] + row * d_stride[1])
            to = unsigned(l_start + plane * l_stride[0] + row * l_stride[1])
            for c in range(unsigned(l_size[2])):
                delta = outputs[o + c * unsigned(o_stride[2])]
                delta = delta - expected[e + c * unsigned(e_stride[2])]
                deltas[d + c * unsigned(d_stride[2])] = delta
                losses[to + c * unsigned(l_stride[2])] = np.float32(0.5) * delta * delta


@jit
def _accuracy(predicted, expected, n_correct):  # type: ignore[no-untyped-def]
    count = n_correct[0]
    for i in range(predicted.size):
        if expected[i] != MASKED_LABEL and predicted[i] == expected[i]:
            count += 1
    n_correct[0] = count


def _law(*, is_softmax: bool) -> Any:
    def law(batch: Batch, machine: Machine) -> Counts:
        is_float = batch.dtype["losses"] == "float32"
        n = batch.n_elements("losses")
        grain = machine.data_path_bytes // batch.item_bytes["losses"]
        grains = -(-n // grain)
        n_vertices = np.maximum(grains // -(-_LEAST_ELEMENTS // grain), 1)
        share = np.maximum(worker_share(grains, machine), -(-grains // n_vertices))
        size = np.minimum(share * grain, n)
        loop, odd = (9, 11) if is_softmax else (4, 6)
        cycles = 5 + (6 if is_softmax else 5) + 5 + 2 + 1 + 1
        if is_float:
            worker = cycles + loop * size
        else:
            worker = cycles + 1 + loop * (size // 2) + 2 + (size & 1) * odd
        return np.asarray(machine.n_worker_contexts * worker)

    return law


def _codelets(kind: str, name: str, kernels: tuple[Any, Any]) -> tuple[Codelet, Codelet]:
    """Return the codelets for vectors and for blocks."""
    is_softmax = kind == "cross_entropy"
    per_element, per_vertex = LOSS_FLOPS[kind]

    def flops(batch: Batch) -> Counts:
        return np.asarray(per_element * batch.n_elements("losses") + per_vertex)

    codelets = []
    for suffix, dims, kernel in (("", 1, kernels[0]), ("<block>", 3, kernels[1])):
        shape = "vector" if dims == 1 else "block"
        fields = [
            Field(field, direction, dims, kind=shape, size_of=size_of, dtype_of=size_of)
            for field, direction, size_of in (
                ("outputs", "in", "losses"),
                ("expected", "in", "losses"),
                ("deltas", "out", "losses"),
                ("losses", "out", ""),
            )
        ]
        if is_softmax:
            fields += [
                Field(field, "in", dtype_of="losses") for field in ("deltas_scale", "output_scale")
            ]
        codelets.append(
            Codelet(
                f"popnn::{name}{suffix}",
                tuple(fields),
                kernel,
                _law(is_softmax=is_softmax),
                code_bytes=180 if is_softmax else 120,  # Assumption: two loops, of both types
                source=_SOURCE,
                scalars=(Scalar("epsilon", "float", on_device=False),) * is_softmax,
                flops=flops,
                independent=() if is_softmax else every_dim(4, dims),
            )
        )
    return codelets[0], codelets[1]


CROSS_ENTROPY, CROSS_ENTROPY_BLOCK = _codelets(
    "cross_entropy", "LossCrossEntropyTransform", (_cross_entropy, _cross_entropy_block)
)
SUM_SQUARED, SUM_SQUARED_BLOCK = _codelets(
    "sum_squared", "LossSumSquaredTransform", (_sum_squared, _sum_squared_block)
)
CALC_ACCURACY = Codelet(
    "popnn::CalcAccuracy",
    (
        Field("predicted", "in", dtype="int32"),
        Field("expected", "in", dtype="int32", size_of="predicted"),
        Field("n_correct", "inout", dtype="int32"),
    ),
    _accuracy,
    lambda batch, _: np.asarray(14 + 4 * batch.n_elements("predicted")),
    code_bytes=80,  # Assumption: one loop
    source=_SOURCE,
    is_supervisor=False,
)
