"""What a session refuses before it compiles: options that it lacks, models that PopART refuses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import onnx

from popart.builder import reserved
from popart.data_flow import DataFlow
from popart.effect import Effect
from popart.enums import RecomputationType
from popart.errors import popart_exception, poplar_exception
from popart.options import SessionOptions
from popart.options.effects import OPTION_EFFECTS, effect_of, options_set
from popart.patterns import Patterns
from tilescope.engine.ir import Model, Value

__all__ = ["check_model", "check_products", "check_types", "refuse_options", "refuse_several_ipus"]

#: Options that are refused by what they ask for together.
_JOINT = frozenset(
    {
        "enablePipelining",
        "enableReplicatedGraphs",
        "replicatedGraphCount",
        "enableDistributedReplicatedGraphs",
        "globalReplicationFactor",
        "globalReplicaOffset",
        "virtualGraphMode",
        "virtualGraphSplitRatios",
        "executionPhaseSettings",
        "createImplicitPipeliningFwdOnlyProgram",
        "stashAllTensorsInferencePipeline",
    }
)

#: Attributes of nodes. Source: graphcore/popart, willow/include/popart/names.hpp
_EXCLUDED, _RECOMPUTED = "__exclude_patterns", "__recompute_output_in_backward_pass"

#: What computes with numbers; other operators move or convert them, whatever their type.
_ARITHMETIC = frozenset(
    {"Add", "Sub", "Mul", "Div", "Neg", "Abs", "Sum", "Mean", "Max", "Min", "Pow", "Sqrt", "Relu"}
    | {"MatMul", "Gemm", "Conv", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}
)
_SMALL_INTEGERS = ("int8", "uint8")


def refuse_options(options: SessionOptions) -> None:
    """Refuse options that would change what a program computes, and that sessions lack.

    Raises
    ------
    popart_exception
        Names the option.
    """
    for name in options_set(options):
        if name not in _JOINT and effect_of(name) is Effect.REFUSED:
            reason = OPTION_EFFECTS[name][1]
            raise popart_exception(f"{name} is not supported yet ({reason}): leave it out")


def refuse_several_ipus(options: SessionOptions) -> None:
    """Refuse what needs several IPUs.

    Raises
    ------
    popart_exception
        Names the option.
    """
    if options.enableDistributedReplicatedGraphs:
        raise popart_exception(
            "enableDistributedReplicatedGraphs needs several IPUs in a way that sessions do not"
            " support yet: leave it out"
        )


def check_model(
    proto: onnx.ModelProto,
    flow: DataFlow,
    options: SessionOptions,
    shapes: Collection[str],
    *,
    is_trained: bool,
) -> None:
    """Refuse a model that no program can be made of, in PopART's words.

    Parameters
    ----------
    proto
        The model.
    flow
        Batches and anchors.
    options
        Of the session.
    shapes
        Names of inputs whose shapes are given beside the model.
    is_trained
        Whether the session trains it.

    Raises
    ------
    popart_exception
        Names the tensor, node or option.
    """
    if not is_trained and not flow.nAnchors():
        raise popart_exception("User must specify an anchor tensor when doing inference.")
    _check_shapes(proto.graph, shapes)
    produced = {name for node in proto.graph.node for name in node.output}
    known = {t.name for t in (*proto.graph.input, *proto.graph.initializer)}
    anchors = set(flow.anchors())
    if not is_trained and anchors <= known and not anchors & produced:
        raise popart_exception("All operations in the main graph were pruned, nothing to compute")
    patterns = Patterns.names()
    for node, attribute in _attributes(proto.graph):
        if attribute.name == _EXCLUDED:
            for name in (text.decode() for text in attribute.strings):
                if name not in patterns:
                    raise popart_exception(
                        f"Invalid pattern name '{name}' in Op::excludePatterns of {_named(node)}"
                    )
        if (
            attribute.name == _RECOMPUTED
            and any((attribute.i, *attribute.ints))
            and is_trained
            and options.autoRecomputation
            not in (RecomputationType.NoRecompute, RecomputationType.Pipeline)
        ):
            raise popart_exception("A mixture of auto and manual recomputation is not supported")


def _attributes(
    graph: onnx.GraphProto,
) -> Iterator[tuple[onnx.NodeProto, onnx.AttributeProto]]:
    """Return the attributes of nodes, with the nodes, in a graph and its subgraphs."""
    for node in graph.node:
        for attribute in node.attribute:
            yield node, attribute
            for body in (attribute.g, *attribute.graphs):
                yield from _attributes(body)


def _named(node: onnx.NodeProto) -> str:
    return f"{node.op_type} '{node.name or next(iter(node.output), '')}'"


def _check_shapes(graph: onnx.GraphProto, given: Collection[str]) -> None:
    """Refuse inputs with sizes that are open, and that nothing gives.

    Raises
    ------
    popart_exception
        Names the input.
    """
    for info in graph.input:
        sizes = [d.dim_param or str(d.dim_value) for d in info.type.tensor_type.shape.dim]
        for dimension in info.type.tensor_type.shape.dim:
            if info.name not in given and (dimension.dim_param or dimension.dim_value < 0):
                unknown = dimension.dim_param or str(dimension.dim_value)
                raise popart_exception(
                    f"Input tensor '{info.name}' must be specified in InputShapeInfo, as it has"
                    f" shape [{', '.join(sizes)}], which uses an unknown value '{unknown}'."
                )


#: Dimension of a product that a mode of serialisation cuts, in PopART's words: of the second
#: operand or the first, its axis, and how sentences call it.
_CUT = {
    "input_channels": (0, -2, "input channels dim"),
    "reducing_dim": (0, -1, "reducing dimension"),
    "output_channels": (1, -1, "output channels dim"),
}


def check_products(proto: onnx.ModelProto, tensors: Mapping[str, Value]) -> None:
    """Refuse products that are to be cut into parts of unequal size.

    Parameters
    ----------
    proto
        The ONNX model.
    tensors
        Its values by the names of tensors.

    Raises
    ------
    popart_exception
        Names the factor and the dimension.
    """
    for node in proto.graph.node:
        stated = {attribute.name: attribute for attribute in node.attribute}
        if reserved.SERIALIZE_MODE not in stated:
            continue
        mode = stated[reserved.SERIALIZE_MODE].s.decode()
        factor = stated[reserved.SERIALIZE_FACTOR].i if reserved.SERIALIZE_FACTOR in stated else 0
        if factor <= 0:
            raise popart_exception(
                f"Invalid serialisation factor {factor} for {_named(node)}. Serialisation factor"
                " must be a non-zero positive integer."
            )
        operand, axis, words = _CUT[mode]
        value = tensors.get(node.input[operand])
        if value is None or len(value.shape) < -axis or not value.shape[axis] % factor:
            continue
        raise popart_exception(
            f"Invalid serialisation factor {factor} for {words} {value.shape[axis]}."
            f" {mode} dim should be a multiple of the serialisation factor"
        )


def check_types(proto: onnx.ModelProto, model: Model) -> None:
    """Refuse arithmetic on 8-bit integers, which the libraries of the machine do not have.

    Parameters
    ----------
    proto
        The ONNX model.
    model
        As the engine has it.

    Raises
    ------
    poplar_exception
        Names the node.
    """
    types = {value.name: value.dtype for value in model.inputs}
    types |= {v.name: v.dtype for op in model.operations for v in op.results}
    for node in proto.graph.node:
        if (
            node.op_type in _ARITHMETIC
            and types.get(next(iter(node.output), "")) in _SMALL_INTEGERS
        ):
            raise poplar_exception(
                f"{_named(node)} computes in {types[node.output[0]]}: cast to FLOAT16, FLOAT or"
                " INT32 before it"
            )
