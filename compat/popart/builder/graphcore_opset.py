"""The operators of ``ai.graphcore`` as methods.

Source: graphcore/popart, willow/src/builder.cpp and python/popart/popart_core/popart.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from popart.arguments import (
    BOOL,
    FLOAT,
    FLOATS,
    INT,
    INTS,
    TEXT,
    TEXTS,
    Kind,
    Parameter,
    Signature,
    instance,
    list_of,
    match_call,
    optional,
)
from popart.builder import reserved, window
from popart.builder.graph import Graph, OperatorIdentifier, OperatorUse
from popart.builder.onnx_opset import GRAPH, Opset
from popart.debug_info import DEBUG_CONTEXT
from popart.enums import CollectiveOperator, ReductionType, ScatterReduction
from popart.errors import popart_exception
from popart.replicas import CommGroup
from popart.tensor_info import onnx_element_type, type_named

__all__ = [
    "GRAPHCORE_OPERATORS",
    "AiGraphcore",
    "AiGraphcoreOpset1",
    "GraphcoreOperator",
    "reduction_name",
]

_DOMAIN, _VERSION = "ai.graphcore", 1
_ARGS = Parameter("args", TEXTS)
_NO_ARGS = Parameter("args", TEXTS, [])
_NAME = Parameter("debugContext", DEBUG_CONTEXT, "")
_REDUCTION = Parameter("reduction", instance(ReductionType), ReductionType.Mean)
_SCATTERING = Parameter("reduction", instance(ScatterReduction), ScatterReduction.Sum)
_COLLECTIVE = (
    Parameter("collectiveOperator", optional(instance(CollectiveOperator)), None),
    Parameter("commGroup", optional(instance(CommGroup)), None),
)
_AXES_SIZES = (Parameter("axes", INTS), Parameter("sizes", INTS))
_NO_OVERLAP = Parameter("noOverlap", INT, 0)


def _character(value: Any) -> int:
    return ord(TEXT.convert(value))


_CHARACTER = Kind("str", _character)


@dataclass(frozen=True)
class GraphcoreOperator:
    """An operator of ``ai.graphcore``, as a method.

    Parameters
    ----------
    type
        Name of the operator.
    parameters
        Of the method, between the inputs and the name.
    inputs
        The parameter of the inputs; None if there are none.
    n_inputs
        Fewest and most; not checked if the fewest are 0.
    n_outputs
        Number of outputs.
    is_list
        Whether the method returns a list of names.
    attributes
        Returns the attributes for the arguments; those of the parameters' names if None.
    after
        Parameters after the name.
    name
        The parameter that names the node.
    """

    type: str
    parameters: tuple[Parameter, ...] = ()
    inputs: Parameter | None = _ARGS
    n_inputs: tuple[int, int] = (1, 1)
    n_outputs: int = 1
    is_list: bool = False
    attributes: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None
    after: tuple[Parameter, ...] = ()
    name: Parameter = _NAME
    use: OperatorUse = field(init=False)
    signature: Signature = field(init=False)

    def __post_init__(self) -> None:
        inputs = () if self.inputs is None else (self.inputs,)
        parameters = (*inputs, *self.parameters, self.name, *self.after)
        signature = Signature(parameters, "List[str]" if self.is_list else "str")
        object.__setattr__(self, "signature", signature)
        identifier = OperatorIdentifier(_DOMAIN, self.type, _VERSION)
        use = OperatorUse(identifier, _VERSION, self.n_inputs, self.n_outputs)
        object.__setattr__(self, "use", use)

    def settings(self, bound: dict[str, Any]) -> Mapping[str, Any]:
        """Return the attributes of a node for the arguments of a call."""
        if self.attributes is not None:
            return self.attributes(bound)
        return {parameter.name: bound[parameter.name] for parameter in self.parameters}


def _reduced(bound: dict[str, Any], *others: str) -> dict[str, Any]:
    """Return a loss's attributes: how it is reduced, and others."""
    return {
        "reduction": reduction_name(bound["reduction"]),
        **{name: bound[name] for name in others},
    }


def reduction_name(reduction: ReductionType) -> str:
    """Return how nodes name a reduction."""
    return "None" if reduction is ReductionType.NoReduction else reduction.name


def _nll(bound: dict[str, Any]) -> dict[str, Any]:
    ignored = bound["ignoreIndex"]
    extra = {} if ignored is None else {"ignoreIndex": ignored}
    return {**_reduced(bound, "inputIsLogProbability"), **extra}


def _ctc(bound: dict[str, Any]) -> dict[str, Any]:
    element = onnx_element_type(type_named(bound["outDataType"]))
    return {**_reduced(bound, "blank", "zeroInfinity"), "outDataType": element}


def _collective(bound: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    operator, group = bound["collectiveOperator"], bound["commGroup"]
    if operator is not None:
        settings[reserved.COLLECTIVE_OPERATOR] = int(operator)
    if group is not None:
        settings[reserved.COLLECTIVE_GROUP] = [int(group.type), group.replicaGroupSize]
    return settings


def _scattered(bound: dict[str, Any]) -> dict[str, Any]:
    reduction = bound["reduction"]
    is_none = reduction is ScatterReduction.NoReduction
    return {
        "axis": bound["axis"],
        "axis_size": bound["axis_size"],
        "reduction": "none" if is_none else reduction.name.lower(),
        "group_size": bound.get("group_size", 1),
        "enable_index_broadcast": bound["enable_index_broadcast"],
    }


def _without(default: Mapping[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return attributes for arguments that leave out those with a default."""

    def attributes(bound: dict[str, Any]) -> dict[str, Any]:
        names = (name for name in bound if name not in ("args", "num_outputs", "debugContext"))
        return {
            name: bound[name]
            for name in names
            if name not in default or not _is_default(bound[name], default[name])
        }

    return attributes


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(default, float):
        return bool(np.float32(value) == np.float32(default))
    return bool(value == default)


def _init(bound: dict[str, Any]) -> dict[str, Any]:
    # Type of the tensor: an activation or gradient.
    return {
        "shape": bound["shape"],
        "data_type": bound["data_type"],
        "tensor_type": 0,
        "init_type": bound["init_type"],
        "batch_axis": bound.get("batch_axis", -1),
    }


def _printed(bound: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in bound.items() if name not in ("args", "debugContext")}


def _called(bound: dict[str, Any]) -> dict[str, Any]:
    return {"num_outputs": bound["num_outputs"], "callee": bound["callee"]}


def _sliced(bound: dict[str, Any]) -> dict[str, Any]:
    axes = {"axes": bound["axes"]} if bound["axes"] else {}
    return {**axes, "ends": bound["ends"], "starts": bound["starts"]}


def _median(bound: dict[str, Any]) -> dict[str, Any]:
    axes = {} if bound["axes"] is None else {"axes": bound["axes"]}
    return {"keepdims": bound["keepdims"], **axes}


def _batch_statistics(bound: dict[str, Any]) -> dict[str, Any]:
    kept = _without({"epsilon": 1e-5, "momentum": 0.9})(bound)
    return {**kept, "unbiased_variance": 0}


_UNARY = ("detach", "expm1", "gelu", "log1p", "nop", "round", "swish")
_TYPES = {
    "bitwiseand": "BitwiseAnd",
    "bitwiseor": "BitwiseOr",
    "bitwisexnor": "BitwiseXnor",
    "bitwisexor": "BitwiseXor",
}
_BINARY = {"atan2": "Atan2", "fmod": "Fmod", "remainder": "Remainder", **_TYPES}
_EPSILON = Parameter("epsilon", FLOAT, 1e-5)

#: The operators by the names of their methods; `multiconv` is a method of the class.
GRAPHCORE_OPERATORS: dict[str, GraphcoreOperator] = {
    **{name: GraphcoreOperator(name.capitalize()) for name in _UNARY},
    **{name: GraphcoreOperator(of, n_inputs=(2, 2)) for name, of in _BINARY.items()},
    "abort": GraphcoreOperator("Abort", inputs=_NO_ARGS, n_inputs=(0, 0), n_outputs=0),
    "batchnormalization": GraphcoreOperator(
        "BatchNormalization",
        (Parameter("num_outputs", INT), _EPSILON, Parameter("momentum", FLOAT, 0.9)),
        n_inputs=(5, 5),
        n_outputs=5,
        is_list=True,
        attributes=_batch_statistics,
    ),
    "bitwisenot": GraphcoreOperator("BitwiseNot"),
    "bucketize": GraphcoreOperator("Bucketize", (Parameter("right", INT, 0),), n_inputs=(2, 2)),
    "call": GraphcoreOperator(
        "Call",
        (Parameter("num_outputs", INT), Parameter("callee", GRAPH)),
        n_inputs=(0, 0),
        n_outputs=0,
        is_list=True,
        attributes=_called,
    ),
    "copyvarupdate": GraphcoreOperator("CopyVarUpdate", n_inputs=(2, 2)),
    "ctcbeamsearchdecoder": GraphcoreOperator(
        "CtcBeamSearchDecoder",
        (
            Parameter("blank", INT, 0),
            Parameter("beam_width", INT, 100),
            Parameter("top_paths", INT, 1),
        ),
        n_inputs=(2, 2),
        n_outputs=3,
        is_list=True,
        name=Parameter("debug_context", DEBUG_CONTEXT, ""),
    ),
    "ctcloss": GraphcoreOperator(
        "Ctc",
        (
            _REDUCTION,
            Parameter("blank", INT, 0),
            Parameter("outDataType", TEXT, "UNDEFINED"),
            Parameter("zeroInfinity", BOOL, False),
        ),
        n_inputs=(4, 4),
        n_outputs=2,
        attributes=_ctc,
    ),
    "depthtospace": GraphcoreOperator(
        "DepthToSpace",
        (Parameter("blocksize", INT), Parameter("mode", TEXT)),
        attributes=_without({"mode": "DCR"}),
    ),
    "dynamicadd": GraphcoreOperator("DynamicAdd", _AXES_SIZES, n_inputs=(3, 3)),
    "dynamicslice": GraphcoreOperator("DynamicSlice", (*_AXES_SIZES, _NO_OVERLAP), n_inputs=(2, 3)),
    "dynamicupdate": GraphcoreOperator(
        "DynamicUpdate", (*_AXES_SIZES, _NO_OVERLAP), n_inputs=(3, 3)
    ),
    "dynamiczero": GraphcoreOperator("DynamicZero", _AXES_SIZES, n_inputs=(2, 2)),
    "geluerf": GraphcoreOperator("GeluErf"),
    "groupedgather": GraphcoreOperator(
        "GroupedGather",
        (Parameter("axis", INT, 0), Parameter("group_size", INT, 1)),
        n_inputs=(2, 2),
    ),
    "groupedscatterreduce": GraphcoreOperator(
        "ScatterReduce",
        (
            Parameter("axis_size", INT),
            Parameter("axis", INT, -1),
            _SCATTERING,
            Parameter("group_size", INT, 1),
            Parameter("enable_index_broadcast", INT, 1),
        ),
        n_inputs=(2, 3),
        attributes=_scattered,
    ),
    "groupnormalization": GraphcoreOperator(
        "GroupNormalization",
        (Parameter("num_groups", INT), _EPSILON),
        n_inputs=(3, 3),
        n_outputs=3,
        is_list=True,
        attributes=_without({"epsilon": 1e-5}),
    ),
    "identityloss": GraphcoreOperator("IdentityLoss", (_REDUCTION,), attributes=_reduced),
    "incrementmod": GraphcoreOperator(
        "IncrementMod", (Parameter("increment", FLOAT), Parameter("modulus", FLOAT))
    ),
    "init": GraphcoreOperator(
        "Init",
        (
            Parameter("shape", INTS),
            Parameter("data_type", INT),
            Parameter("init_type", INT),
            Parameter("batch_axis", INT),
        ),
        inputs=None,
        n_inputs=(0, 0),
        attributes=_init,
    ),
    "l1loss": GraphcoreOperator(
        "L1",
        (Parameter("lambda", FLOAT), _REDUCTION),
        attributes=lambda bound: _reduced(bound, "lambda"),
    ),
    "lstm": GraphcoreOperator(
        "LSTM",
        (Parameter("outputFullSequence", INT, 1),),
        n_inputs=(4, 4),
        n_outputs=2,
        is_list=True,
        attributes=lambda bound: {"output_full_sequence": bound["outputFullSequence"]},
    ),
    "nearbyint": GraphcoreOperator("NearbyInt"),
    "nllloss": GraphcoreOperator(
        "Nll",
        (
            _REDUCTION,
            Parameter("ignoreIndex", optional(INT), None),
            Parameter("inputIsLogProbability", BOOL, False),
        ),
        n_inputs=(2, 2),
        attributes=_nll,
    ),
    "normalize_image": GraphcoreOperator(
        "NormalizeImage", (Parameter("scale", FLOAT, 1.0),), n_inputs=(3, 3)
    ),
    "packedDataBlock": GraphcoreOperator(
        "PackedDataBlock",
        (
            Parameter("maxSequenceLengths", INTS),
            Parameter("resultSize", INT),
            Parameter("callbackBatchSize", INT),
            Parameter("callback", GRAPH),
        ),
        n_inputs=(0, 0),
    ),
    "printtensor": GraphcoreOperator(
        "PrintTensor",
        (Parameter("print_gradient", INT, 1),),
        attributes=_printed,
        after=(
            Parameter("title", TEXT, ""),
            Parameter("summariseThreshold", INT, 1000),
            Parameter("edgeItems", INT, 3),
            Parameter("maxLineWidth", INT, 75),
            Parameter("digits", INT, 8),
            Parameter("floatFormat", INT, 0),
            Parameter("separator", _CHARACTER, ord(" ")),
            Parameter("openBracket", _CHARACTER, ord("[")),
            Parameter("closeBracket", _CHARACTER, ord("]")),
        ),
    ),
    "reducemedian": GraphcoreOperator(
        "ReduceMedian",
        (Parameter("axes", optional(INTS), None), Parameter("keepdims", INT, 1)),
        n_outputs=2,
        is_list=True,
        attributes=_median,
    ),
    "replicatedallreduce": GraphcoreOperator(
        "ReplicatedAllReduce", _COLLECTIVE, attributes=_collective
    ),
    "replicatedreducescatter": GraphcoreOperator(
        "ReplicatedReduceScatter", _COLLECTIVE, n_inputs=(1, 2), attributes=_collective
    ),
    "reshape": GraphcoreOperator(
        "Reshape", (Parameter("shape", INTS),), inputs=Parameter("args", TEXT)
    ),
    "reverse": GraphcoreOperator("Reverse", (Parameter("dimensions", INTS),)),
    "scale": GraphcoreOperator("Scale", (Parameter("scale", FLOAT),)),
    "scaledadd": GraphcoreOperator(
        "ScaledAdd",
        (Parameter("scale0", FLOAT, 1.0), Parameter("scale1", FLOAT, 1.0)),
        n_inputs=(2, 4),
    ),
    "scatterreduce": GraphcoreOperator(
        "ScatterReduce",
        (
            Parameter("axis_size", INT),
            Parameter("axis", INT, -1),
            _SCATTERING,
            Parameter("enable_index_broadcast", INT, 1),
        ),
        n_inputs=(2, 3),
        attributes=_scattered,
    ),
    "sequenceslice": GraphcoreOperator(
        "SequenceSlice", (Parameter("zeroUnused", INT, 0),), n_inputs=(5, 5)
    ),
    "shapeddropout": GraphcoreOperator(
        "ShapedDropout", (Parameter("shape", INTS), Parameter("ratio", FLOAT, 0.5))
    ),
    "slice": GraphcoreOperator(
        "Slice",
        (Parameter("ends", INTS), Parameter("starts", INTS), Parameter("axes", INTS, [])),
        attributes=_sliced,
    ),
    "sort": GraphcoreOperator(
        "Sort",
        (Parameter("axis", INT, -1), Parameter("descending", INT, 0), Parameter("stable", INT, 0)),
        n_outputs=2,
        is_list=True,
    ),
    "splinebasis": GraphcoreOperator(
        "SplineBasis", (Parameter("degree", INT),), n_inputs=(3, 3), n_outputs=2, is_list=True
    ),
    "splineweighting": GraphcoreOperator("SplineWeighting", n_inputs=(4, 4)),
    "subsample": GraphcoreOperator("Subsample", (Parameter("strides", INTS),)),
    "tensorremap": GraphcoreOperator(
        "TensorRemap",
        (Parameter("remap_type", INT, 0),),
        n_inputs=(1, 2),
        name=Parameter("debugPrefix", DEBUG_CONTEXT, ""),
    ),
}

_INTS_LISTS = list_of(INTS)
_MULTI = Signature(
    (
        Parameter("args", list_of(TEXTS)),
        *(
            Parameter(name, _INTS_LISTS, [])
            for name in ("dilations", "inDilations", "pads", "outPads", "strides")
        ),
        Parameter("availableMemoryProportions", FLOATS, []),
        Parameter("partialsTypes", TEXTS, []),
        Parameter("planType", optional(TEXT), None),
        Parameter("perConvReservedTiles", optional(INT), None),
        Parameter("cycleBackOff", optional(FLOAT), None),
        Parameter("enableConvDithering", INTS, []),
        _NAME,
    ),
    "List[str]",
)
#: Parameters of `multiconv` with a list for every convolution, which a node holds as one list.
_JOINED = ("strides", "pads", "outPads", "dilations", "inDilations")
_PER_CONVOLUTION = {
    "availableMemoryProportions": reserved.AVAILABLE_MEMORY,
    "partialsTypes": reserved.PARTIALS_TYPE,
    "enableConvDithering": reserved.CONV_DITHERING,
}


class AiGraphcore(Opset):
    """Graphcore's operators: ``builder.aiGraphcore.gelu([a])`` returns the name of the result."""

    def __init__(self, builder: Any, version: int = _VERSION) -> None:
        super().__init__(builder, version)
        if version != _VERSION:
            raise ValueError(f"Unsupported or unrecognized ai.graphcore version: {version}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *GRAPHCORE_OPERATORS]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operator = GRAPHCORE_OPERATORS.get(name)
        if operator is None:
            raise AttributeError(f"'{type(self).__name__}' has no operator '{name}'")

        def method(*arguments: Any, **named: Any) -> str | list[str] | None:
            return self._add(name, operator, arguments, named)

        method.__name__, method.__doc__ = name, f"Add the operator {operator.type}."
        return method

    def _add(
        self,
        name: str,
        operator: GraphcoreOperator,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
    ) -> str | list[str] | None:
        forms = [operator.signature]
        if name == "init":  # the axis of the batch may be left out
            (shape, data, init, _, last) = forms[0].parameters
            forms.append(Signature((shape, data, init, last), "str"))
        _, bound = match_call(f"popart.{type(self).__name__}", name, forms, arguments, named)
        graph: Graph = self._builder._impl
        inputs = bound.get("args", [])
        inputs = [inputs] if isinstance(inputs, str) else inputs
        label = bound.get(operator.name.name, "")
        _check(name, graph, inputs, bound, label)
        outputs = graph.add_node(
            operator.use,
            inputs,
            bound.get("num_outputs", operator.n_outputs),
            operator.settings(bound),
            label,
        )
        if not outputs and not operator.is_list:
            return None
        return outputs if operator.is_list else outputs[0]

    def multiconv(self, *arguments: Any, **named: Any) -> list[str]:
        """Add several convolutions that run at the same time, and return their results."""
        owner = f"popart.{type(self).__name__}"
        _, bound = match_call(owner, "multiconv", [_MULTI], arguments, named)
        graph: Graph = self._builder._impl
        inputs, label = bound["args"], bound["debugContext"]
        _check_convolutions(graph, bound, label)
        flat = [name for names in inputs for name in (*names, *[""] * (3 - len(names)))]
        settings: dict[str, Any] = {"numConvs": len(inputs)}
        settings |= {name: list(chain(*bound[name])) for name in _JOINED if any(bound[name])}
        settings |= {key: bound[name] for name, key in _PER_CONVOLUTION.items() if bound[name]}
        settings |= {
            name: bound[name]
            for name in ("planType", "perConvReservedTiles", "cycleBackOff")
            if bound[name] is not None
        }
        use = OperatorUse(OperatorIdentifier(_DOMAIN, "MultiConv", _VERSION), _VERSION)
        return graph.add_node(use, flat, len(inputs), settings, label)


class AiGraphcoreOpset1(AiGraphcore):
    """Version 1 of Graphcore's operators, the only one."""


def _check(
    name: str, graph: Graph, inputs: Sequence[str], bound: Mapping[str, Any], label: str
) -> None:
    """Refuse what the binding refuses before a node is added."""
    if name == "subsample" and 0 in bound["strides"]:
        raise popart_exception(f"Strides invalid. 0 stride at index {bound['strides'].index(0)}")
    if name == "copyvarupdate":
        if len(inputs) != 2:
            raise popart_exception("copyvarupdate should have two args.")
        if all(content.name != inputs[0] for content in graph.graph.initializer):
            raise popart_exception(
                "The first arg of copyvarupdate should be an initialised tensor."
            )
    if name == "call":
        callee = bound["callee"]
        for n_given, n_needed, side in (
            (len(inputs), len(callee.input), "input"),
            (bound["num_outputs"], len(callee.output), "output"),
        ):
            if n_given != n_needed:
                raise popart_exception(
                    f"For CallOp '{label}', number of {side}s ({n_given}) does not match that of"
                    f" the callee subgraph ({n_needed})"
                )


def _check_convolutions(graph: Graph, bound: Mapping[str, Any], label: str) -> None:
    """Refuse convolutions of a `multiconv` that lack inputs, settings or a window that fits."""
    inputs = bound["args"]
    if not inputs:
        raise popart_exception(
            f"MultiConvOp '{label}' has no input tensors. Provide at least one set of inputs"
        )
    for names in inputs:
        if len(names) < 2:
            raise popart_exception(
                f"Each convolution of MultiConvOp '{label}' must have at least two inputs - data"
                " and weights"
            )
        if len(names) > 3:
            raise popart_exception(
                f"Each convolution of MultiConvOp '{label}' can have at most three inputs - data,"
                " weights, and bias"
            )
    for name in (*_JOINED, *_PER_CONVOLUTION):
        if bound[name] and len(bound[name]) != len(inputs):
            raise popart_exception(
                f"For MultiConvOp '{label}', number of {name} parameter sets ({len(bound[name])})"
                f" does not match the number of input sets ({len(inputs)})"
            )
    for place, names in enumerate(inputs):
        settings = {name: bound[name][place] for name in _JOINED if bound[name]}
        window.check_convolution([graph.shape_of(n) for n in names], settings, names[1])
