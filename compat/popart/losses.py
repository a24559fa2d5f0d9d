"""Losses as the first releases of PopART took them: a list of records, given to a session.

Later releases name the tensor of the loss, which nodes of the builder compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import onnx
from onnx import helper

from popart.builder.graphcore_opset import reduction_name
from popart.enums import ReductionType
from popart.errors import popart_exception

__all__ = ["IdentityLoss", "L1Loss", "Loss", "NllLoss", "with_losses"]

_DOMAIN = "ai.graphcore"
#: Name of the sum of several losses.
_SUM = "finalLoss"


class Loss:
    """A loss: a node whose result is minimised.

    Attributes
    ----------
    inputs
        Names of the tensors that it reads.
    outputId
        Name of its result: a scalar unless `reduction` is ``NoReduction``.
    reduction
        How the losses of a batch become one.
    """

    operator: ClassVar[str]
    inputs: list[str]
    outputId: str
    reduction: ReductionType

    def input(self, index: int) -> str:
        """Return the name of an input."""
        return self.inputs[index]

    def output(self, index: int = 0) -> str:
        """Return the name of the result."""
        del index
        return self.outputId

    def node(self) -> onnx.NodeProto:
        """Return the loss as a node of a model."""
        return helper.make_node(
            self.operator,
            self.inputs,
            [self.outputId],
            name=self.outputId,
            domain=_DOMAIN,
            **{"reduction": reduction_name(self.reduction), **self._attributes()},
        )

    def _attributes(self) -> dict[str, Any]:
        return {}


@dataclass
class NllLoss(Loss):
    """Negative logarithm of the probability of the right class.

    Parameters
    ----------
    probId
        Probabilities, by sample and class.
    labelId
        Classes, by sample: integers.
    outputId
        Name of the result.
    reduction
        How the losses of a batch become one.
    """

    operator: ClassVar[str] = "Nll"
    probId: str
    labelId: str
    outputId: str
    reduction: ReductionType = ReductionType.Sum

    def __post_init__(self) -> None:
        self.inputs = [self.probId, self.labelId]

    def _attributes(self) -> dict[str, Any]:
        return {"inputIsLogProbability": 0}


@dataclass
class L1Loss(Loss):
    """Sum of absolute values, times a factor.

    Parameters
    ----------
    inputId
        Tensor whose elements are summed.
    outputId
        Name of the result.
    scale
        The factor; PopART calls it lambda.
    reduction
        How the losses of a batch become one.
    """

    operator: ClassVar[str] = "L1"
    inputId: str
    outputId: str
    scale: float
    reduction: ReductionType = ReductionType.Sum

    def __post_init__(self) -> None:
        self.inputs = [self.inputId]

    def _attributes(self) -> dict[str, Any]:
        return {"lambda": float(self.scale)}


@dataclass
class IdentityLoss(Loss):
    """A tensor that is the loss itself.

    Parameters
    ----------
    inputId
        The tensor.
    outputId
        Name of the result.
    reduction
        How the losses of a batch become one.
    """

    operator: ClassVar[str] = "IdentityLoss"
    inputId: str
    outputId: str
    reduction: ReductionType = ReductionType.Sum

    def __post_init__(self) -> None:
        self.inputs = [self.inputId]


def with_losses(proto: onnx.ModelProto, losses: Sequence[object]) -> tuple[onnx.ModelProto, str]:
    """Return a model with the nodes of losses, and the name of the tensor that is minimised.

    Parameters
    ----------
    proto
        The model; it is not changed.
    losses
        At least one. Several are summed.

    Raises
    ------
    popart_exception
        When the list is empty, or holds something else than losses.
    """
    records = [loss for loss in losses if isinstance(loss, Loss)]
    if not records or len(records) < len(losses):
        wrong = [type(loss).__name__ for loss in losses if not isinstance(loss, Loss)]
        found = f"a {wrong[0]} in it" if wrong else "it is empty"
        raise popart_exception(
            f"losses has to be a list of NllLoss, L1Loss or IdentityLoss: {found}"
        )
    grown = onnx.ModelProto()
    grown.CopyFrom(proto)
    known = {node.name for node in grown.graph.node} | {
        name for node in grown.graph.node for name in node.output
    }
    for loss in records:
        if loss.outputId in known:
            raise popart_exception(
                f"The model already has a tensor {loss.outputId!r}: give the loss another outputId"
            )
        grown.graph.node.append(loss.node())
    if _DOMAIN not in {opset.domain for opset in grown.opset_import}:
        grown.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    if len(records) == 1:
        return grown, records[0].outputId
    names = [loss.outputId for loss in records]
    grown.graph.node.append(helper.make_node("Sum", names, [_SUM], name=_SUM))
    return grown, _SUM
