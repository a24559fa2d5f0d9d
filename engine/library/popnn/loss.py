"""Losses of classifications with their gradients, and accuracy.

Source of the steps and their order: graphcore/poplibs sdk-release-3.4, lib/popnn/Loss.cpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilescope.engine.codelets.popnn.loss import (
    CALC_ACCURACY,
    CROSS_ENTROPY,
    CROSS_ENTROPY_BLOCK,
    LOSS_FLOPS,
    MASKED_LABEL,
    SUM_SQUARED,
    SUM_SQUARED_BLOCK,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, INT32, Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.argument_check import check_rank, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    cast,
    row_major_copy,
    similar,
)
from tilescope.engine.library.popops.reduction.arg_reduce import arg_max
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.library.popops.slicing.one_hot import one_hot
from tilescope.engine.library.walk import joint_walks

__all__ = ["MASKED_LABEL", "calc_accuracy", "calc_loss"]

_CODELETS = {
    "cross_entropy": (CROSS_ENTROPY, CROSS_ENTROPY_BLOCK),
    "sum_squared": (SUM_SQUARED, SUM_SQUARED_BLOCK),
}
#: Added to probabilities before their logarithm is taken.
#: Source: the same release, include/popops/EncodingConstants.hpp.
_EPSILON = {FLOAT32: 1.17549435e-38, FLOAT16: 0.000000059605}


@checked
def calc_loss(
    builder: Builder,
    kind: str,
    outputs: View,
    expected: View,
    *,
    deltas_scale: Tensor | float = 1.0,
    output_scaling: Tensor | float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return the loss of every row of a model's outputs, and the gradient.

    Parameters
    ----------
    builder
        Target of the program.
    kind
        ``cross_entropy`` or ``sum_squared``.
    outputs
        Shape (rows, classes), float16 or float32. For a cross entropy, probabilities: the result of
        a softmax.
    expected
        Labels: shape (rows,), int32. A row without a class of this number compares with zeros; -1
        masks a row of a cross entropy, so that its loss and its gradient are 0.
    deltas_scale
        Of a cross entropy: factor of the gradient, a tensor of one element of the type of the
        outputs, or a number.
    output_scaling
        Of a cross entropy: factor of the probabilities, such as that of a scaled softmax.

    Returns
    -------
    loss, deltas : Tensor
        Of the type of the outputs. The loss has shape (rows,): minus the logarithm of the
        probability of the label, or half the sum of squared differences. The gradient has the shape
        of the outputs, and their layout: that of the operand of the softmax, or of the outputs.

    Raises
    ------
    BadGraph
        If the kind is unknown, a shape or a type is not supported, or a sum of squares is scaled.

    Notes
    -----
    The labels are encoded in one-hot rows p; deltas are y - p, and for a cross entropy of outputs
    scaled by s, (y - s p) d / s. A smallest number is added to probabilities before the logarithm.
    Source: graphcore/poplibs sdk-release-3.4, include/popnn/Loss.hpp, calcLoss. There, a mask has
    no effect on the gradient of a single row.
    """
    _check("calc_loss", outputs, expected)
    if kind not in _CODELETS:
        raise BadGraph(f"calc_loss: unknown loss {kind!r}: use one of {', '.join(_CODELETS)}")
    is_softmax = kind == "cross_entropy"
    scales = {"deltas_scale": deltas_scale, "output_scale": output_scaling}
    if not is_softmax and any(isinstance(s, Tensor) or s != 1 for s in scales.values()):
        raise BadGraph("calc_loss: only a cross entropy has scales: leave them out of sum_squared")
    for scale in scales.values():
        _check_scale(scale, outputs)
    detail = {"kind": kind, "shape": list(outputs.shape)}
    build = builder.inside("loss", "popnn.calcLoss", detail)
    encoded = one_hot(build, expected, outputs.shape[1], outputs.dtype)
    losses, deltas = _transformed(build, kind, outputs, encoded, scales if is_softmax else {})
    if is_softmax:
        masked = build.constant([MASKED_LABEL], "maskedLabel", INT32)
        mask = cast(build, binary(build, "not_equal", expected, masked), outputs.dtype)
        binary_in_place(build, "multiply", deltas, mask.reshape(outputs.shape[0], 1))
    loss = reduce(build, "sum", losses, [1])
    return loss.reshape(outputs.shape[0]), deltas


@checked
def calc_accuracy(builder: Builder, outputs: View, expected: View, n_correct: View) -> None:
    """Add the number of rows whose largest output is at the label.

    Parameters
    ----------
    builder
        Target of the program.
    outputs
        Shape (rows, classes), float16 or float32.
    expected
        Labels: shape (rows,), int32; -1 masks a row.
    n_correct
        The count, one int32.

    Raises
    ------
    BadGraph
        If a shape or a type is not supported.

    Notes
    -----
    Of equal outputs, the first is the largest.
    Source: graphcore/poplibs sdk-release-3.4, include/popnn/Loss.hpp, calcAccuracy.
    """
    _check("calc_accuracy", outputs, expected)
    if n_correct.dtype != INT32 or n_correct.n_elements != 1:
        raise BadGraph(
            f"calc_accuracy: {n_correct.name!r} is {n_correct.dtype} {n_correct.shape}: expected"
            " one int32"
        )
    build = builder.inside(
        "accuracy", "popnn.calcAccuracy", {"shape": list(outputs.shape)}, flops=0
    )
    predicted = arg_max(build, outputs, 1)
    labels = _contiguous(build, expected)
    n_rows = outputs.shape[0]
    (count,) = n_correct.pieces
    element = np.array([count.offset], np.int64)
    fields = {
        "predicted": _vector(_contiguous(build, predicted), n_rows),
        "expected": _vector(labels, n_rows),
        "n_correct": blocks(count.variable, element, [1], [1], 1),
    }
    tile = count.variable.tile_of(element)
    build.vertices(build.compute_set("calcAccuracy"), CALC_ACCURACY, tile, fields)


def _check(name: str, outputs: View, expected: View) -> None:
    """Raise BadGraph unless outputs and labels fit.

    Raises
    ------
    BadGraph
        If they do not.
    """
    check_rank(f"{name}: its outputs", outputs, "rows, classes")
    if outputs.dtype not in (FLOAT16, FLOAT32):
        raise BadGraph(
            f"{name}: {outputs.name!r} is {outputs.dtype}: expected float16 or float32; cast it"
        )
    if expected.dtype != INT32 or expected.shape != outputs.shape[:1]:
        raise BadGraph(
            f"{name}: {expected.name!r} is {expected.dtype} {expected.shape}: expected a label"
            f" per row, int32 {outputs.shape[:1]}"
        )


def _check_scale(scale: Any, outputs: View) -> None:
    if isinstance(scale, Tensor) and (scale.n_elements != 1 or scale.dtype != outputs.dtype):
        raise BadGraph(
            f"calc_loss: {scale.name!r} is {scale.dtype} {scale.shape}: expected one"
            f" {outputs.dtype}, or a number"
        )


def _transformed(
    builder: Builder, kind: str, outputs: View, encoded: View, scales: dict[str, Tensor | float]
) -> tuple[Tensor, Tensor]:
    """Return the loss and the gradient of every output, in one compute set."""

    def results() -> tuple[Tensor, Tensor]:
        transformed, deltas = (
            similar(builder, name, [outputs], outputs.shape, outputs.dtype)
            for name in ("transformed", "deltas")
        )
        return transformed, deltas

    losses, deltas = results()
    walks = joint_walks([outputs, encoded, deltas], losses)
    if walks is None:
        outputs = row_major_copy(builder, outputs, "rearrange")
        losses, deltas = results()
        walks = joint_walks([outputs, encoded, deltas], losses)
        assert walks is not None, "row-major tensors have compatible strides"
    constants = {name: _scalar(builder, name, scale, outputs) for name, scale in scales.items()}
    per_element, per_vertex = LOSS_FLOPS[kind]
    batches = [batch for walk in walks for batch in walk.batches()]
    n_vertices = sum(tiles.size for _, tiles, _ in batches)
    flops = per_element * outputs.n_elements + per_vertex * n_vertices
    inner = builder.inside("transform", "popnn.calcLoss", flops=flops)
    compute_set = inner.compute_set("onTileTransform")
    for is_block, tiles, regions in batches:
        codelet = _CODELETS[kind][is_block]
        names = ("outputs", "expected", "deltas", "losses")
        fields = dict(zip(names, regions, strict=True))
        fields |= {
            name: blocks(scale.variable, np.full(tiles.size, scale.offset), [1], [1], tiles.size)
            for name, scale in constants.items()
        }
        scalars = {"epsilon": _EPSILON[outputs.dtype]} if scales else {}
        inner.vertices(compute_set, codelet, tiles, fields, scalars)
    return losses, deltas


def _scalar(builder: Builder, name: str, scale: Tensor | float, like: View) -> Tensor:
    """Return a scale as a tensor: a constant is on the builder's first tile."""
    if isinstance(scale, Tensor):
        return scale
    number = np.array([scale], np.float32)
    constant = builder.graph.add_constant(number, name, dtype=like.dtype, debug=builder.debug)
    builder.graph.set_tile_mapping(constant, [0], builder.tiles.ids[:1])
    return constant


def _contiguous(builder: Builder, x: View) -> Tensor:
    if isinstance(x, Tensor) and x.is_contiguous:
        return x
    return row_major_copy(builder, x, "rearrange")


def _vector(x: Tensor, n: int) -> Any:
    return blocks(x.variable, np.array([x.offset]), [n], [1], 1)
