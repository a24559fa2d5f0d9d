"""Operators of PopART that are about the program: calls of a subgraph, printing, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Items
from math import prod
from typing import Any

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import BOOL, INT32, Tensor
from tilescope.engine.ir import Constant, Expansion, Node, Operation, Operator, ResultType, Value
from tilescope.engine.library.popops.elementwise import operations as library
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.graphcore.domain import GRAPHCORE, decomposed
from tilescope.engine.operators.movement.layout import full
from tilescope.engine.program import ErrorProgram, If, PrintFormat, PrintTensor, Sequence
from tilescope.engine.program.print_format import FLOAT_FORMATS

__all__ = ["RECORDS"]

#: Before the name of a value, in that of its gradient.
_GRADIENT = "Gradient___"  # Source: graphcore/popart, willow/include/popart/names.hpp


def _call(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    """Emit the operations of the subgraph; equal ones share code as all equal operations do.

    Raises
    ------
    BadModel
        When it takes another number of values, or returns one.
    """
    callee = node.regions.get("callee")
    if callee is None or len(callee.inputs) != len(node.operands):
        n_taken = 0 if callee is None else len(callee.inputs)
        raise BadModel(
            f"{node}: its subgraph takes {n_taken} values, and the node gives {len(node.operands)}"
        )
    for given, taken in zip(node.operands, callee.inputs, strict=True):
        if (given.shape, given.dtype) != (taken.shape, taken.dtype):
            raise BadModel(
                f"{node} gives {given.name!r}, {given.dtype} {given.shape}, where its subgraph"
                f" takes {taken.dtype} {taken.shape}"
            )
    return expansion.inline(callee, *node.operands)


def _lower_print(lowering: Lowering, op: Operation) -> Tensor:
    tensor = lowering.tensor(op.operand(0))
    title = str(op.attributes.get("title", "")) or op.operand(0).name
    form = _print_format(op.attributes)
    lowering.builder.sequence.add(PrintTensor(tensor, title, form, debug=lowering.builder.debug))
    return tensor


#: Fields of a format, by attributes, and whether they are characters.
_FORMAT = {
    "summariseThreshold": ("summarise_threshold", False),
    "edgeItems": ("edge_items", False),
    "maxLineWidth": ("max_line_width", False),
    "digits": ("digits", False),
    "separator": ("separator", True),
    "openBracket": ("open_bracket", True),
    "closeBracket": ("close_bracket", True),
}


def _print_format(attributes: Mapping[str, Any]) -> PrintFormat:
    """Return how a tensor is printed; what a node does not say is as by default."""
    stated: dict[str, Any] = {
        field: chr(attributes[name]) if is_character else int(attributes[name])
        for name, (field, is_character) in _FORMAT.items()
        if name in attributes
    }
    number = int(attributes.get("floatFormat", 0))
    return PrintFormat(**stated, float_format=FLOAT_FORMATS[number])


def _print_gradient(
    op: Operation, expansion: Expansion, gradients: Items[Value | None]
) -> Items[Value | None]:
    """Return the gradient, printed if the node says so."""
    gradient, title = gradients[0], str(op.attributes.get("title", ""))
    assert gradient is not None
    if not op.attributes.get("print_gradient", 1):
        return [gradient]
    wide = full(expansion, gradient, op.output.shape)
    of_gradient = f"{title}_gradient" if title else _GRADIENT + op.operand(0).name
    form = {
        name: op.attributes[name] for name in (*_FORMAT, "floatFormat") if name in op.attributes
    }
    return [expansion.emit(_PRINT, wide, title=of_gradient, print_gradient=0, **form)]


#: The operand, which is printed when the program reaches it. It has no value in numpy, so that one
#: that is known is printed all the same.
_PRINT = Operator(
    name="PrintTensor",
    domain=GRAPHCORE,
    infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
    lower=_lower_print,
    gradient=_print_gradient,
    is_kept=True,
)


def _abort_types(node: Node) -> list[ResultType]:
    """Return the type of the result, which stands for the node: that of the condition.

    Raises
    ------
    BadModel
        When the condition has several elements.
    """
    if not node.operands:
        return [((), "bool")]
    condition = node.operand(0)
    if prod(condition.shape) != 1:
        raise BadModel(
            f"{node}: its condition {condition.name!r} has shape {condition.shape}: expected one"
            " element"
        )
    return [(condition.shape, condition.dtype)]


def _lower_abort(lowering: Lowering, op: Operation) -> Tensor:
    """End the run, if the condition is not zero."""
    builder = lowering.builder
    abort = ErrorProgram(_ABORTED, debug=builder.debug)
    if not op.operands:
        builder.sequence.add(abort)
        return lowering.tensor(Constant(op.name, (), "bool", np.ones((), bool)))
    operand = op.operand(0)
    condition = is_set = lowering.tensor(operand)
    if condition.dtype not in (BOOL, INT32):
        zero = Constant("zero", (), operand.dtype, np.zeros((), operand.dtype))
        is_set = library.binary(builder, "not_equal", condition, lowering.tensor(zero))
    nothing = Sequence("go_on", debug=builder.debug)
    builder.sequence.add(If(is_set.flatten(), abort, nothing, "abort", debug=builder.debug))
    return condition


#: What the error of an aborted program says. Source: Poplar's documentation, AbortProgram.
_ABORTED = "Abort Program"

#: It has no value in numpy: a condition that is known decides when the program runs, too.
_ABORT = Operator(
    name="Abort",
    domain=GRAPHCORE,
    infer=_abort_types,
    lower=_lower_abort,
    stops_gradient=True,
    is_kept=True,
)


def _copy_update(node: Node, _: Expansion) -> Value:
    """Return the value that a weight takes: that the weight takes it is the model's business.

    Raises
    ------
    BadModel
        When it has another type or shape than the weight.
    """
    weight, value = node.operand(0), node.operand(1)
    if (weight.shape, weight.dtype) != (value.shape, value.dtype):
        raise BadModel(
            f"{node}: {value.name!r} is {value.dtype} of shape {value.shape}: expected"
            f" {weight.dtype} of shape {weight.shape}, as {weight.name!r}"
        )
    return value


RECORDS = (_ABORT, decomposed("CopyVarUpdate", _copy_update), _PRINT, decomposed("Call", _call))
