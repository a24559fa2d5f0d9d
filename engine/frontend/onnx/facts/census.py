"""What a model is made of and asks for, from its skeleton: before anything is compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import onnx
from numpy.typing import ArrayLike

from tilescope.engine.errors import BadInput, BadModel, BadOption
from tilescope.engine.frontend.onnx.facts.multiply_adds import multiply_adds
from tilescope.engine.frontend.onnx.facts.symbols import set_symbols
from tilescope.engine.frontend.onnx.facts.value_types import (
    InputSize,
    Types,
    types_by_schema,
    types_of,
)
from tilescope.engine.frontend.onnx.nodes.settings import inputs_to_set
from tilescope.engine.frontend.onnx.refusal import refusing_plainly
from tilescope.engine.frontend.onnx.source.read import expanded, opsets_of, unsupported
from tilescope.engine.frontend.onnx.source.sequences import SEQUENCES
from tilescope.engine.frontend.onnx.source.skeleton import read_skeleton
from tilescope.engine.frontend.onnx.source.tensor_types import element_type, stated_shape
from tilescope.engine.frontend.onnx.source.tidy import check_imports, order_nodes
from tilescope.engine.frontend.onnx.source.walk import graphs_of, key_of, nodes_of
from tilescope.engine.ir.model import PRECISIONS
from tilescope.engine.notice import Notice
from tilescope.engine.operators.onnx_standard import attribute_value

__all__ = ["Census", "take_census"]

#: Their results need no memory of their own: views of their operands.
_VIEWS = frozenset(
    {
        *("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Dropout", "Cast"),
        *("Transpose", "Slice", "Split", "Concat", "Expand"),
    }
)
#: Their results may take the memory of an operand that nobody reads after them.
_IN_PLACE = frozenset(
    {
        *("Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Gelu", "Sigmoid", "HardSigmoid", "Tanh"),
        *("HardSwish", "Swish", "Softplus", "Clip", "Exp", "Log", "Sqrt", "Abs", "Neg", "Erf"),
        *("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Sum", "Mean", "BatchNormalization"),
    }
)
#: Their result follows from the shape of their operand.
_OF_SHAPE = frozenset({"Shape", "Size"})
#: Bytes of an element on the device, which has no types of 64 bits.
_BYTES = {"float16": 2, "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2}
_WIDE = 4


@dataclass(frozen=True)
class Census:
    """What a model is made of.

    Parameters
    ----------
    opset
        Version of ONNX's own operators.
    operators
        Number of nodes by operator, those of subgraphs and functions included.
    missing
        Names of nodes by operator that is not supported.
    to_set
        Inputs whose content must be fixed at compile time.
    n_parameters
        Elements of constants that the model computes with.
    weight_bytes
        What these take on the device.
    multiply_adds
        Of one execution; bodies of loops are counted once.
    activation_bytes
        The largest sum of results that are alive at once, in the order of the nodes. Views and
        what can be computed in place take nothing; copies and messages are left out.
    n_unknown
        Results whose shape does not follow from the model: left out of all sums.
    problem
        Why the model would be refused, in a sentence; empty if nothing was found.
    notices
        What is odd about the model, though it would run.
    """

    opset: int
    operators: dict[str, int]
    missing: dict[str, list[str]]
    inputs: tuple[InputSize, ...]
    to_set: tuple[str, ...]
    n_parameters: int
    weight_bytes: int
    multiply_adds: int
    activation_bytes: int
    n_unknown: int
    problem: str
    notices: tuple[Notice, ...] = ()

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return sum(self.operators.values())

    @property
    def least_bytes(self) -> int:
        """What the model takes at least, over all tiles: weights, and results alive at once."""
        return self.weight_bytes + self.activation_bytes


@refusing_plainly
def take_census(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    batch: int | None = None,
    precision: str = "float",
    values: Mapping[str, ArrayLike] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Census:
    """Return the census of a model file, without reading its weights.

    Parameters
    ----------
    path
        An ONNX file.
    shapes
        Of inputs that the model leaves open, by name.
    batch
        First dimension of inputs that leave it open; 1 if None.
    precision
        ``half`` counts floats as half.
    values
        Contents of inputs that are fixed at compile time, by name.
    dims
        Sizes of symbolic dimensions by their names.

    Raises
    ------
    BadModel
        When the file is not a model.
    BadInput
        When `shapes` or `values` name an unknown input, or contradict the model.
    BadOption
        When the precision is unknown.
    """
    if precision not in PRECISIONS:
        raise BadOption(f"Unknown precision {precision!r}: expected {' or '.join(PRECISIONS)}")
    settings = values or {}
    model = read_skeleton(path)
    check_imports(model)
    try:
        model_ = expanded(model)
        order_nodes(model_.graph)
        missing = unsupported(model_)
        to_set = tuple(name for name in inputs_to_set(model) if name not in settings)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else "no reason"
        raise BadModel(f"Model {path} has functions that cannot be inlined: {reason}") from None
    set_symbols(model_.graph, dims or {})
    inputs = _sized_inputs(model_.graph, shapes or {}, batch)
    types, problem, notices = (
        (types_by_schema(model_), "", ()) if missing else types_of(model_, inputs, settings)
    )
    tally = _Tally(model_.graph, types, 2 if precision == "half" else _WIDE)
    for graph in graphs_of(model_.graph):
        tally.add(graph)
    return Census(
        opset=opsets_of(model)[""],
        operators=dict(Counter(key_of(node) for node in nodes_of(model_.graph)).most_common()),
        missing=missing,
        inputs=inputs,
        to_set=to_set,
        n_parameters=tally.n_parameters,
        weight_bytes=tally.weight_bytes,
        multiply_adds=tally.multiply_adds,
        activation_bytes=tally.activation_bytes,
        n_unknown=len(tally.unknown),
        problem=problem,
        notices=notices,
    )


def _sized_inputs(
    graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]], batch: int | None
) -> tuple[InputSize, ...]:
    """Return the inputs with the sizes that are given, and write these into the graph.

    Raises
    ------
    BadInput
        When a given shape is of no input, or contradicts its sizes.
    """
    weights = {tensor.name for tensor in graph.initializer}
    infos = [info for info in graph.input if info.name not in weights]
    unknown = [name for name in shapes if name not in {info.name for info in infos}]
    if unknown:
        names = ", ".join(info.name for info in infos)
        raise BadInput(f"Unknown input {unknown[0]!r}; the model has {names}")
    input_shapes = []
    for info in infos:
        sizes = stated_shape(info)
        shape = shapes.get(info.name)
        if shape is not None:
            if len(shape) != len(sizes) or any(
                s not in (None, g) for s, g in zip(sizes, shape, strict=True)
            ):
                raise BadInput(f"Input {info.name!r} has shape {tuple(sizes)}, not {shape}")
            sizes = list(shape)
        elif sizes[:1] == [None]:
            sizes[0] = batch or 1
        tensor = info.type.tensor_type
        for dim, size in zip(tensor.shape.dim, sizes, strict=True):
            if size is not None:
                dim.dim_value = size
        dtype = element_type(tensor.elem_type, f"Input {info.name!r}") if tensor.elem_type else "?"
        input_shapes.append(InputSize(info.name, dtype, tuple(sizes)))
    return tuple(input_shapes)


class _Tally:
    """Adds up graphs.

    Parameters
    ----------
    graph
        Of the model.
    types
        Of its values.
    float_bytes
        Bytes of a float on the device.
    """

    def __init__(self, graph: onnx.GraphProto, types: Types, float_bytes: int) -> None:
        self.types = types
        self.float_bytes = float_bytes
        self.unknown: set[str] = set()
        self.n_parameters = self.weight_bytes = self.multiply_adds = self.activation_bytes = 0
        #: Initializers, and what follows from them or from shapes alone.
        self._constants = {t.name for inner in graphs_of(graph) for t in inner.initializer}
        self._constants.add("")
        self._counted: set[str] = set()
        self._sequences: set[str] = set()

    def add(self, graph: onnx.GraphProto) -> None:
        """Add the nodes of a graph, without those of its subgraphs."""
        last_read = {name: i for i, node in enumerate(graph.node) for name in node.input}
        last_read |= {info.name: len(graph.node) for info in graph.output}
        held: dict[str, int] = {}
        for index, node in enumerate(graph.node):
            if self._is_constant(node):
                self._constants.update(node.output)
                continue
            is_of_sequences = self._is_of_sequences(node)
            is_view = is_of_sequences or node.op_type in _VIEWS
            if not is_of_sequences:
                self._count(node, last_read)
            read_last = [name for name in node.input if last_read[name] == index]
            freed = sum(held.pop(name, 0) for name in read_last)
            output_bytes = {} if is_view else {n: self._bytes(n) for n in node.output if n}
            before = 0 if node.op_type in _IN_PLACE else freed
            held |= output_bytes
            self.activation_bytes = max(self.activation_bytes, sum(held.values()) + before)

    def _is_of_sequences(self, node: onnx.NodeProto) -> bool:
        """Return whether a node takes a sequence or makes one, which is no value of a run."""
        if node.op_type == "Identity" and node.input[0] in self._sequences:
            self._sequences.update(node.output)
            return True
        if key_of(node) not in SEQUENCES:
            return False
        self._sequences.update(node.output)
        return True

    def _is_constant(self, node: onnx.NodeProto) -> bool:
        """Return whether the results of a node are known at compile time."""
        if any(entry.type == onnx.AttributeProto.GRAPH for entry in node.attribute):
            return False
        return node.op_type in _OF_SHAPE or self._constants.issuperset(node.input)

    def _count(self, node: onnx.NodeProto, is_read: Container[str]) -> None:
        """Add the weights that a node reads and no other did, and its multiply-adds."""
        for name in node.input:
            if name in self._constants and name not in self._counted and name in self.types:
                self._counted.add(name)
                shape, dtype = self.types[name]
                if dtype != "int64":  # shapes, axes and indices
                    self.n_parameters += prod(shape)
                    if node.op_type != "BatchNormalization":  # folded into a convolution
                        self.weight_bytes += self._bytes(name)
        shapes = [self.types[name][0] if name in self.types else None for name in node.input]
        results = [name for name in node.output if name in is_read]
        unknown = {n for n in (*node.input, *results) if n and n not in self.types}
        self.unknown |= unknown
        if not unknown:
            attributes = {entry.name: attribute_value(entry) for entry in node.attribute}
            result = self.types[node.output[0]][0] if node.output[0] in self.types else ()
            self.multiply_adds += multiply_adds(node.op_type, shapes, result, attributes)

    def _bytes(self, name: str) -> int:
        """Return the bytes of a value on the device; 0 where its shape is unknown."""
        if name not in self.types:
            return 0
        shape, dtype = self.types[name]
        size = self.float_bytes if dtype == "float32" else _BYTES.get(dtype, _WIDE)
        return prod(shape) * size
