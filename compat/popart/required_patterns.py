"""Operators that PopART cannot run while the pattern that replaces them is off.

Source: graphcore/popart sdk-release-3.4, willow/src/popx/irlowering.cpp (the message),
willow/src/patterns (what is replaced), willow/src/popx/op (messages of their own).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx

from popart.errors import popart_exception
from popart.patterns import Patterns

__all__ = ["check_required_patterns"]

#: Domain, name and operand of an operator whose gradient a pattern replaces: the pattern, and
#: PopART's name of the gradient.
_OF_GRADIENTS = {
    ("", "Abs", 0): ("AbsGradOp", "AbsGrad"),
    ("", "Cos", 0): ("CosGradOp", "CosGrad"),
    ("", "Div", 0): ("DivArg0GradOp", "DivArg0Grad"),
    ("", "Div", 1): ("DivArg1GradOp", "DivArg1Grad"),
    ("", "Exp", 0): ("ExpGradOp", "ExpGrad"),
    ("", "Log", 0): ("LogGradOp", "LogGrad"),
    ("", "Mul", 0): ("MulArgGradOp", "MulArg0Grad"),
    ("", "Mul", 1): ("MulArgGradOp", "MulArg1Grad"),
    ("", "Pow", 0): ("PowArg0GradOp", "PowArg0Grad"),
    ("", "Pow", 1): ("PowArg1GradOp", "PowArg1Grad"),
    ("", "Reciprocal", 0): ("ReciprocalGradOp", "ReciprocalGrad"),
    ("", "Sin", 0): ("SinGradOp", "SinGrad"),
    ("", "Sqrt", 0): ("SqrtGradOp", "SqrtGrad"),
    ("", "Sub", 1): ("SubtractArg1GradOp", "SubArg1Grad"),
    ("", "ConvTranspose", 0): ("ConvFlipWeightsGradOp", "ConvFlipWeightsGrad"),
    ("", "ConvTranspose", 1): ("ConvFlipWeightsGradOp", "ConvFlipWeightsGrad"),
    ("ai.graphcore", "Atan2", 0): ("Atan2Arg0GradOp", "Atan2Arg0Grad"),
    ("ai.graphcore", "Atan2", 1): ("Atan2Arg1GradOp", "Atan2Arg1Grad"),
    ("ai.graphcore", "Expm1", 0): ("Expm1GradOp", "Expm1Grad"),
    ("ai.graphcore", "Fmod", 0): ("FmodArg0GradOp", "FmodArg0Grad"),
    ("ai.graphcore", "Log1p", 0): ("Log1pGradOp", "Log1pGrad"),
}
#: Operators that a pattern replaces, by domain and name.
_OF_OPERATORS = {
    ("", "ConvTranspose"): "ConvTranspose",
    ("", "Cosh"): "CoshOp",
    ("", "RandomNormalLike"): "RandomNormalLikeOpPattern",
    ("", "RandomUniformLike"): "RandomUniformLikeOpPattern",
    ("", "Scan"): "ScanToLoop",
}
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)


def check_required_patterns(
    proto: onnx.ModelProto, patterns: Patterns, loss: str, gradients: Collection[str]
) -> None:
    """Refuse operators, and gradients, that only a pattern which is off makes executable.

    Parameters
    ----------
    proto
        The model.
    patterns
        Of the session.
    loss
        Name of the tensor that is minimised; empty in an inference.
    gradients
        Names of tensors whose gradients are anchors.

    Raises
    ------
    popart_exception
        Names the operator and the pattern.
    """
    needed = {*_OF_OPERATORS.values(), *(pattern for pattern, _ in _OF_GRADIENTS.values())}
    if all(patterns.isPatternEnabled(name) for name in needed):
        return
    for operator, pattern in _required(proto, loss, gradients):
        if not patterns.isPatternEnabled(pattern):
            raise popart_exception(
                f"Could not create opx for '{operator}'. This op should have been removed by"
                f" pattern {pattern}"
            )


def _required(
    proto: onnx.ModelProto, loss: str, gradients: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield operators and the patterns that they need, those of gradients last."""
    for node in proto.graph.node:
        pattern = _OF_OPERATORS.get((node.domain, node.op_type))
        if pattern is not None:
            yield f"{node.domain or 'ai.onnx'}.{node.op_type}", pattern
    if not loss:
        return
    active = {t.name for t in proto.graph.initializer if t.data_type in _FLOATS} | {*gradients}
    for node in proto.graph.node:
        if not active.isdisjoint(node.input):
            active.update(node.output)
    towards = {loss}
    for node in reversed(proto.graph.node):
        if towards.isdisjoint(node.output):
            continue
        towards.update(node.input)
        for place, name in enumerate(node.input):
            entry = _OF_GRADIENTS.get((node.domain, node.op_type, place))
            if entry is not None and name in active:
                yield f"ai.graphcore.{entry[1]}:1", entry[0]
