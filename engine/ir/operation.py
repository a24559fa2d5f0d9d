"""Operators, their uses in a model, and where the decomposition of a use goes.

The record of an operator has functions of its uses, and a use holds its record: one file has both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir.definition import Definition
from tilescope.engine.ir.hints import Hints
from tilescope.engine.ir.parts import Parts
from tilescope.engine.ir.placement import UNPLACED, Placement
from tilescope.engine.ir.value import Constant, Value

__all__ = [
    "ENGINE_DOMAIN",
    "Carries",
    "Emitter",
    "Expansion",
    "Gradient",
    "Node",
    "Operation",
    "Operator",
    "PartsRule",
    "Region",
    "ResultType",
    "TrainingPass",
]

#: Domain of the primitives: what the library computes in one call.
ENGINE_DOMAIN = "tilescope"

#: Shape and dtype of a result.
ResultType = tuple[tuple[int, ...], str]


#: Takes a node, the axes of its operands whose entries are counted, and the shape of its result.
Carries = Callable[["Node", Mapping[int, int], tuple[int, ...]], int | None]
#: Emits the gradients of an operation's inputs, None where there is none, from those of its
#: outputs; None where an output has none.
Gradient = Callable[["Operation", "Expansion", Sequence["Value | None"]], Sequence["Value | None"]]
#: Takes a node, the axes along which operands are in parts, by position, and the number of parts.
PartsRule = Callable[["Node", Mapping[int, int], int], Parts | None]


class TrainingPass(StrEnum):
    """What an operation of a training step belongs to."""

    FORWARD = "forward"
    #: What of the forward pass runs again, for the backward pass.
    RECOMPUTATION = "recomputation"
    #: Gradients of what the forward pass computes.
    DATA_GRADIENT = "data gradient"
    #: Gradients of weights.
    WEIGHT_GRADIENT = "weight gradient"
    #: The optimiser, and running statistics.
    UPDATE = "weight update"


@dataclass(frozen=True, eq=False, kw_only=True)
class Operator:
    """An operator of ONNX or of another domain, or a primitive of the engine.

    An operator has a decomposition or a lowering. A decomposition is enough: result types and
    values follow from the operations it emits. An operator that is lowered whole takes what it
    leaves out, `infer` and `evaluate`, from its ONNX schema and from ``onnx.reference``.

    Parameters
    ----------
    name
        ONNX operator type, such as ``Softmax``; primitives are in lower case.
    domain
        Empty for ONNX's own operators.
    decompose
        Emits operations that compute the results and returns these; None where the node stays
        whole.
    infer
        Types of the results of a node.
    evaluate
        Results of a node in numpy, from one array per input, None for those left out; folds
        constants and is the tests' reference.
    lower
        Builds vertices and programs: takes a `tilescope.engine.lower.Lowering` and the operation,
        returns the tensor of the result, or one per result.
    known_operands
        Positions of operands that decide shapes or plans: they must be known at compile time.
    counted
        Axes of a node's results along which data decide the number of entries, None for the other
        results; empty where the operands are known. Such a node has one more result, the number.
        The entries come first, and what follows them may be anything.
    carries
        Axis of the result along which only the first entries count, from those of operands, by
        position, and the result's shape; None where the operator needs their number.
    gradient
        Emits the gradients of the inputs, from the operation and the gradients of its outputs.
        They may have the shape of the result: what was broadcast is summed. Where it is missing,
        the gradient follows from the decomposition.
    omits_zeros
        Whether a gradient that its rule leaves out is zero; others are not computed.
    stops_gradient
        Whether its results count as known where gradients are computed: nothing before it has one
        by way of it.
    differs
        Whether replicas have different results of equal operands: it is never folded.
    draws
        Whether it draws random numbers: it is not folded before it is known whether every run draws
        others.
    no_gradient
        Why it has no gradient, where neither a rule nor a decomposition gives one: what follows
        "it has no gradient:".
    decompose_for_training
        Emits operations that compute the results in such a way that gradients can be computed:
        with intermediates as results. None where the operator stays as it is.
    parts
        What an operation is on parts of its operands, where that computes the same; None where it
        needs the whole. Without it, an operator always does.
    decompose_for_parts
        Emits operations of which parts compute the same as the whole; None where the node stays as
        it is.
    allocate
        Adds a variable for an operand, by position, laid out as the lowering reads it; returns the
        tensor of the operand's shape, or None where any layout does.
    is_kept
        Whether it stays where nothing reads its results, such as what prints.
    definition
        What a user states of an operator of their own; None for others.
    """

    name: str
    domain: str = ""
    decompose: Callable[[Node, Expansion], Value | tuple[Value, ...] | None] | None = None
    infer: Callable[[Node], Sequence[ResultType]] | None = None
    evaluate: Callable[[Node, Sequence[Any]], Sequence[NDArray[Any]]] | None = None
    lower: Callable[[Any, Any], Any] | None = None
    known_operands: tuple[int, ...] = ()
    counted: Callable[[Node], Sequence[int | None]] | None = None
    carries: Carries | None = None
    gradient: Gradient | None = None
    omits_zeros: bool = False
    stops_gradient: bool = False
    draws: bool = False
    differs: bool = False
    no_gradient: str = ""
    decompose_for_training: Callable[[Node, Expansion], Value | tuple[Value, ...]] | None = None
    parts: PartsRule | None = None
    decompose_for_parts: Callable[[Node, Expansion], Value | None] | None = None
    allocate: Callable[[Any, Any, int], Any] | None = None
    is_kept: bool = False
    definition: Definition | None = None

    @property
    def key(self) -> str:
        """Name in the table of operators: with the domain, unless it is ONNX's or the engine's."""
        return f"{self.domain}.{self.name}" if self.domain not in ("", ENGINE_DOMAIN) else self.name

    @property
    def is_primitive(self) -> bool:
        """Whether the operator is the engine's own."""
        return self.domain == ENGINE_DOMAIN


@dataclass(frozen=True, eq=False)
class Region:
    """A subgraph of an operation, such as a branch of If or the body of Loop.

    Parameters
    ----------
    inputs
        Values that the operation provides at every execution.
    captured
        Values from outside that operations inside read, in the order of their first use.
    outputs
        Results: values made inside, inputs, or values from outside.
    error
        Why it cannot run, if so: to execute it ends the run with this sentence. It has no inputs,
        operations and results then.
    """

    name: str
    inputs: tuple[Value, ...]
    captured: tuple[Value, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Value, ...]
    error: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """An operator with its operands, before its results are known.

    Parameters
    ----------
    name
        Debug name: that of the model's own node.
    source
        Type of the model's own node, such as ``Conv``.
    inputs
        Operands; None for an optional one that is left out.
    attributes
        Python values, defaults included.
    version
        Version of the operator's schema: the opset that introduced it.
    n_outputs
        Number of results that the model names, unused ones included.
    regions
        Subgraphs by the name of their attribute.
    placement
        Where and when it runs on several IPUs.
    origin
        The model's own operation that it is part of, before decomposition; None for itself.
    training_pass
        What it belongs to in a training step; None in a model that is not trained.
    recomputed_by
        Kinds of recomputation that would compute it again, where nothing is computed again.
    line
        Base name and line of the source that it is from; None where the model does not say.
    is_of_part
        Whether it runs on one of several parts of the batch; on each of them, equal operations read
        the same constants.
    """

    operator: Operator
    name: str
    source: str
    inputs: tuple[Value | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    n_outputs: int = 1
    regions: Mapping[str, Region] = field(default_factory=dict)
    hints: Hints = field(default_factory=Hints)
    placement: Placement = UNPLACED
    origin: Operation | None = None
    training_pass: TrainingPass | None = None
    recomputed_by: tuple[str, ...] = ()
    line: tuple[str, int] | None = None
    is_of_part: bool = False

    def __str__(self) -> str:
        return f"Node {self.name!r} ({self.source})"

    @cached_property
    def operands(self) -> tuple[Value, ...]:
        """The inputs that are given."""
        return tuple(value for value in self.inputs if value is not None)

    def operand(self, index: int) -> Value:
        """Return a required input.

        Raises
        ------
        BadModel
            When it is missing.
        """
        value = self.optional(index)
        if value is None:
            raise BadModel(f"{self} has no input {index}")
        return value

    def optional(self, index: int) -> Value | None:
        """Return an input, or None when it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def known(self, index: int, quantity: str) -> NDArray[Any]:
        """Return the content of an input that must be known at compile time.

        Raises
        ------
        BadModel
            When it is not.
        """
        value = self.operand(index)
        if value.known is None:
            raise BadModel(
                f"{self}: {quantity} must be known at compile time, but {value.name!r} is not:"
                " give the inputs that it depends on with --set"
            )
        return np.asarray(value.known)

    def axes(self, rank: int) -> tuple[int, ...] | None:
        """Return axes from the attribute or, in newer opsets, the second input; None if absent.

        Raises
        ------
        BadModel
            When one is out of range, or named twice.
        """
        value = self.attributes.get("axes")
        if value is None and self.optional(1) is not None:
            value = self.known(1, "the axes").tolist()
        if value is None:
            return None
        axes = sorted(self.axis(a, rank) for a in value)
        if len(set(axes)) < len(axes):
            raise BadModel(f"{self}: an axis is named twice in {list(value)}")
        return tuple(axes)

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front.

        Raises
        ------
        BadModel
            When it is out of range.
        """
        if not -rank <= axis < rank:
            raise BadModel(f"{self}: axis {axis} is out of range for rank {rank}")
        return int(axis) % rank


@dataclass(frozen=True, eq=False, kw_only=True)
class Operation(Node):
    """A node with its results; None for an optional result that nobody uses."""

    outputs: tuple[Value | None, ...]

    @cached_property
    def results(self) -> tuple[Value, ...]:
        """The outputs that are used."""
        return tuple(value for value in self.outputs if value is not None)

    @property
    def output(self) -> Value:
        """The first result."""
        return self.results[0]


class Emitter(Protocol):
    """What a decomposition needs of a builder."""

    @property
    def operations(self) -> list[Operation]:
        """What was emitted so far, in order."""

    def emit(
        self,
        operator: Operator,
        inputs: Sequence[Value | None],
        *,
        name: str,
        source: str,
        output: str = "",
        **attributes: Any,
    ) -> Value:
        """Add an operation and return its first result."""

    def emit_all(
        self,
        operator: Operator,
        inputs: Sequence[Value | None],
        n_results: int,
        *,
        name: str,
        source: str,
        output: str = "",
        **attributes: Any,
    ) -> tuple[Value, ...]:
        """Add an operation and return its first results."""

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        """Add an operation as it is and return its results, None for those without a name."""

    def constant(self, values: ArrayLike, name: str) -> Constant:
        """Return a value whose content is known."""

    def inline(self, region: Region, values: Mapping[Value, Value]) -> tuple[Value, ...]:
        """Add the operations of a region and return its results."""


class Expansion:
    """Emits operations that stand for one node.

    Parameters
    ----------
    builder
        Where they go.
    node
        What they stand for.
    output
        Name of their results: that of the node's first output.
    """

    def __init__(self, builder: Emitter, node: Node, output: str) -> None:
        self.builder = builder
        self.node = node
        self.output = output

    def emit(self, operator: Operator, *inputs: Value, **attributes: Any) -> Value:
        """Add an operation in the node's name and return its first result."""
        return self.emit_all(operator, 1, *inputs, **attributes)[0]

    def emit_all(
        self, operator: Operator, n_results: int, *inputs: Value, **attributes: Any
    ) -> tuple[Value, ...]:
        """Add an operation in the node's name and return its first results."""
        return self.builder.emit_all(
            operator,
            inputs,
            n_results,
            name=self.node.name,
            source=self.node.source,
            output=self.output,
            **attributes,
        )

    def constant(self, values: ArrayLike, name: str = "") -> Constant:
        """Return a constant called ``<node>/<name>``; without a name it is the node's result."""
        return self.builder.constant(values, f"{self.node.name}/{name}" if name else self.output)

    def inline(self, region: Region, *arguments: Value) -> tuple[Value, ...]:
        """Add the operations of a region, its inputs bound to arguments; return its results."""
        return self.builder.inline(region, dict(zip(region.inputs, arguments, strict=True)))
