"""Sequences of tensors: they are taken apart as a model is imported, so that none is left.

That takes lengths and positions that follow from the model. Exporters write sequences for lists:
``torch.split``, ``chunk`` and ``unbind``, and lists that a loop appends to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Constant, Value

__all__ = ["SEQUENCES", "Emit", "ValueSequence", "sequence_results", "tensors_only"]

#: Operators of sequences, with the positions of operands that have to follow from the model.
SEQUENCES: Mapping[str, tuple[int, ...]] = {
    "SequenceEmpty": (),
    "SequenceConstruct": (),
    "SequenceInsert": (2,),
    "SequenceErase": (1,),
    "SequenceAt": (1,),
    "SequenceLength": (),
    "SplitToSequence": (1,),
    "ConcatFromSequence": (),
}
#: More parts than a model has a use for: each is an operation.
_MOST_PARTS = 4096


@dataclass(frozen=True, eq=False)
class ValueSequence(Value):
    """Tensors under one name; shape and dtype have no meaning.

    Parameters
    ----------
    elements
        The tensors.
    """

    elements: tuple[Value, ...] = ()

    @classmethod
    def of(cls, name: str, elements: Sequence[Value]) -> ValueSequence:
        """Return a sequence."""
        return cls(name, (), "sequence", tuple(elements))


#: Emits a node: operator, operands, attributes, number of results.
Emit = Callable[[str, Sequence[Value], Mapping[str, Any], int], Sequence[Value]]


def tensors_only(subject: str, values: Sequence[Value | None]) -> None:
    """Refuse sequences where tensors have to be.

    Raises
    ------
    BadModel
        When one of the values is a sequence.
    """
    for value in values:
        if isinstance(value, ValueSequence):
            raise BadModel(
                f"{subject} has the sequence {value.name!r}, and the machine has tensors only:"
                " export the model without it, or take its elements with SequenceAt"
            )


def sequence_results(
    node: str,
    op_type: str,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Any],
    emit: Emit,
) -> Value:
    """Return the result of an operator of `SEQUENCES`.

    Parameters
    ----------
    node
        Its name and operator in errors; the result has it as its name.
    op_type
        The operator.
    inputs
        Its operands, None for those left out.
    attributes
        Its attributes.
    emit
        Adds nodes to the graph.

    Raises
    ------
    BadModel
        When a length or position does not follow from the model, or an element does not exist.
    """
    inputs_ = [*inputs, None, None, None]
    if op_type == "SequenceEmpty":
        return ValueSequence.of(node, ())
    if op_type == "SequenceConstruct":
        tensors_only(node, inputs)
        return ValueSequence.of(node, [value for value in inputs if value is not None])
    if op_type == "SplitToSequence":
        return ValueSequence.of(node, _parts(node, inputs_, attributes, emit))
    elements = _elements(node, inputs_[0])
    if op_type == "SequenceLength":
        return _integers(node, len(elements))
    if op_type == "SequenceAt":
        position = _position(node, inputs_[1], len(elements), -1)
        return emit("Identity", elements[position : position + 1], {}, 1)[0]
    if op_type == "SequenceErase":
        position = _position(node, inputs_[1], len(elements), -1)
        return ValueSequence.of(node, (*elements[:position], *elements[position + 1 :]))
    if op_type == "SequenceInsert":
        tensors_only(node, inputs_[1:2])
        if inputs_[1] is None:
            raise BadModel(f"{node} has no tensor to insert")
        position = _position(node, inputs_[2], len(elements) + 1, len(elements))
        return ValueSequence.of(node, (*elements[:position], inputs_[1], *elements[position:]))
    return _concatenated(node, elements, attributes, emit)


def _elements(node: str, value: Value | None) -> tuple[Value, ...]:
    """Return the tensors of a sequence."""
    if not isinstance(value, ValueSequence):
        raise BadModel(f"{node} takes a sequence, and its operand is a tensor or missing")
    return value.elements


def _position(node: str, value: Value | None, count: int, usual: int) -> int:
    """Return a position from the begin; that of the end is one past it where it may be given.

    ``count`` positions are allowed, ``usual`` is the one that stands for none.
    """
    offset = usual if value is None else _number(node, value, "position")
    # For an insertion, -1 is before the last element.
    n_elements = count if usual < 0 else count - 1
    position = offset + n_elements if offset < 0 else offset
    if not 0 <= position < count:
        raise BadModel(f"{node}: position {offset} is outside of a sequence of {n_elements}")
    return position


def _number(node: str, value: Value, subject: str) -> int:
    """Return the one integer of a value."""
    if value.known is None or value.known.size != 1:
        raise BadModel(
            f"{node}: its {subject} is computed as the model runs, or is not one number; it has to"
            " follow from the model: give inputs that decide it with --set"
        )
    return int(value.known.reshape(()))


def _integers(name: str, content: int | Sequence[int]) -> Constant:
    """Return a constant of integers."""
    array = np.array(content, np.int64)
    return Constant(name, array.shape, "int64", array)


def _parts(
    node: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any], emit: Emit
) -> Sequence[Value]:
    """Return the parts of a tensor."""
    source, split = inputs[:2]
    tensors_only(node, [source, split])
    if source is None:
        raise BadModel(f"{node} has no operand")
    axis = int(attributes.get("axis", 0))
    if not -len(source.shape) <= axis < len(source.shape):
        raise BadModel(f"{node}: axis {axis} does not exist; its operand has {len(source.shape)}")
    size = source.shape[axis]
    if split is None:
        lengths = [1] * size
    elif split.known is not None and split.known.ndim == 1:
        lengths = [int(length) for length in split.known]
    else:
        length = _number(node, split, "split")
        if length < 1:
            raise BadModel(f"{node}: parts of length {length} cannot be made; it has to be above 0")
        lengths = [min(length, size - start) for start in range(0, size, length)]
    if len(lengths) > _MOST_PARTS:
        raise BadModel(f"{node} makes {len(lengths):,} parts; at most {_MOST_PARTS:,} are taken")
    if not lengths:
        return ()
    sizes = _integers(f"{node}/split", lengths)
    parts = emit("Split", [source, sizes], {"axis": axis}, len(lengths))
    # ONNX ignores keepdims beside a split. PyTorch writes unbind with both, and onnxruntime leaves
    # out the axis of parts of length one then.
    is_unbound = split is None or (len(split.shape) == 0 and set(lengths) == {1})
    if not is_unbound or attributes.get("keepdims", 1):
        return parts
    axes = _integers(f"{node}/axes", [axis])
    return [emit("Squeeze", [part, axes], {}, 1)[0] for part in parts]


def _concatenated(
    node: str, elements: Sequence[Value], attributes: Mapping[str, Any], emit: Emit
) -> Value:
    """Return the elements one after the other, or along a new axis."""
    if not elements:
        raise BadModel(f"{node}: its sequence is empty, so its result has no shape")
    axis = int(attributes.get("axis", 0))
    if attributes.get("new_axis", 0):
        axes = _integers(f"{node}/axes", [axis])
        elements = [emit("Unsqueeze", [element, axes], {}, 1)[0] for element in elements]
    return emit("Concat", elements, {"axis": axis}, 1)[0]
