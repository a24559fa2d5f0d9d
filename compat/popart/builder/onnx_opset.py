"""The operators of ONNX as methods, by the version of their set.

Names, arguments and defaults follow from ONNX's own schemas, as those of the binding do: required
attributes before the others, both in alphabetical order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import onnx

from popart.arguments import (
    ARRAY,
    BOOL,
    FLOAT,
    FLOATS,
    INT,
    INTS,
    REQUIRED,
    TEXT,
    TEXTS,
    Kind,
    Mismatch,
    Parameter,
    Signature,
    match_call,
    optional,
)
from popart.builder import window
from popart.builder.graph import Graph, OperatorIdentifier, OperatorUse
from popart.debug_info import DEBUG_CONTEXT
from popart.errors import popart_exception
from popart.tensor_info import onnx_element_type, type_named

__all__ = ["AiOnnx", "AiOnnxMl", "AiOnnxMlOpset1", "OnnxOperator", "Opset", "onnx_operators"]

_Types = onnx.defs.OpSchema.AttrType
#: Names that Python keeps for itself.
_KEYWORDS = frozenset({"and", "if", "not", "or", "xor"})
_MANY = 2**31 - 1
_NO_NAME = Parameter("debugContext", DEBUG_CONTEXT, "")
_DOMAINS = {"": "ai.onnx"}


def _graph_of(value: Any) -> onnx.GraphProto:
    graph = getattr(value, "_impl", None)
    if not isinstance(graph, Graph):
        raise Mismatch("not a builder")
    return graph.graph


#: The kind of arguments that are subgraphs.
GRAPH = Kind("popart.Builder", _graph_of)

_KINDS: dict[Any, Kind] = {
    _Types.INT: INT,
    _Types.INTS: INTS,
    _Types.FLOAT: FLOAT,
    _Types.FLOATS: FLOATS,
    _Types.STRING: TEXT,
    _Types.STRINGS: TEXTS,
    _Types.TENSOR: ARRAY,
    _Types.SPARSE_TENSOR: ARRAY,
    _Types.GRAPH: GRAPH,
}
_LISTS = frozenset({_Types.INTS, _Types.FLOATS, _Types.STRINGS})


@dataclass(frozen=True)
class OnnxOperator:
    """An operator of a set, as a method.

    Parameters
    ----------
    schema
        ONNX's definition.
    signature
        Arguments of the method.
    use
        How it is added to a graph.
    """

    schema: onnx.defs.OpSchema
    signature: Signature
    use: OperatorUse

    def attributes(self, bound: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes of a node; those that state a default are left out.

        Integers are stated always: inference of shapes does not know their defaults.
        """
        kept = {}
        for name, definition in self.schema.attributes.items():
            value = bound.get(name)
            if value is None or (definition.type in _LISTS and not value and not self._axes(name)):
                continue
            if self.schema.name == "Cast":
                value = onnx_element_type(type_named(value))
            elif not definition.required and definition.type in (_Types.FLOAT, _Types.STRING):
                default = _default(definition)
                if default is not None and _is_equal(value, default):
                    continue
            kept[name] = value
        return kept

    def _axes(self, name: str) -> bool:
        """Whether an attribute is the axes of a reduction: no axes are not all axes."""
        return name == "axes" and "reduce" in self.schema.name.lower()


def _is_equal(value: Any, default: Any) -> bool:
    return (
        bool(np.float32(value) == np.float32(default))
        if isinstance(value, float)
        else (value == default)
    )


def _default(definition: onnx.defs.OpSchema.Attribute) -> Any:
    if not definition.default_value.name:
        return None
    value = onnx.helper.get_attribute_value(definition.default_value)
    return value.decode() if isinstance(value, bytes) else value


def _parameter(operator: str, definition: onnx.defs.OpSchema.Attribute) -> Parameter:
    kind, default = _KINDS[definition.type], _default(definition)
    if operator == "Cast":
        kind = TEXT
    if definition.required or definition.type in (_Types.TENSOR, _Types.SPARSE_TENSOR):
        return Parameter(definition.name, kind, REQUIRED)
    if definition.name == "axes" and "reduce" in operator.lower():
        return Parameter(definition.name, optional(kind), None)
    if definition.type in _LISTS:
        return Parameter(definition.name, kind, [])
    if default is None:
        return Parameter(definition.name, optional(kind), None)
    if isinstance(default, float):
        default = float(f"{default:.6g}")
    return Parameter(definition.name, kind, default)


def _signature(schema: onnx.defs.OpSchema, version: int) -> Signature:
    if schema.name == "Constant":
        flags = (Parameter("is_value_sparse", BOOL, False),) if version >= 11 else ()
        return Signature((Parameter("value", ARRAY), *flags, _NO_NAME), "str")
    parameters = [Parameter("args", TEXTS)] if schema.inputs else []
    if schema.min_output != schema.max_output:
        parameters.append(Parameter("num_outputs", INT))
    # The binding leaves `auto_pad` out: its pads are explicit.
    definitions = sorted(schema.attributes.values(), key=lambda a: (not a.required, a.name))
    parameters += [_parameter(schema.name, a) for a in definitions if a.name != "auto_pad"]
    result = "str" if schema.max_output == 1 else "List[str]"
    return Signature((*parameters, _NO_NAME), result)


@cache
def onnx_operators(version: int, domain: str = "") -> dict[str, OnnxOperator]:
    """Return the operators of a version of a set, by the names of their methods."""
    newest: dict[str, onnx.defs.OpSchema] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain != domain or schema.since_version > version:
            continue
        known = newest.get(schema.name)
        if known is None or known.since_version < schema.since_version:
            newest[schema.name] = schema
    operators = {}
    for name, schema in sorted(newest.items()):
        lower = name.lower()
        most = -1 if schema.max_input == _MANY else schema.max_input
        use = OperatorUse(
            OperatorIdentifier(_DOMAINS.get(domain, domain), name, schema.since_version),
            version,
            (schema.min_input, most),
            0 if schema.max_output == _MANY else schema.max_output,
            # One of the last two inputs of Resize is left out.
            frozenset({2} if name == "Resize" else ()),
        )
        method = f"logical_{lower}" if lower in _KEYWORDS else lower
        operators[method] = OnnxOperator(schema, _signature(schema, version), use)
    return operators


def _checks(
    operator: OnnxOperator, graph: Graph, inputs: list[str], settings: dict[str, Any]
) -> Callable[[], None] | None:
    """Return the check of an operator's window; None if it has none."""
    name = operator.schema.name
    is_padding = name == "Pad" and operator.schema.since_version <= 2
    if name not in ("Conv", "MaxPool", "AveragePool") and not is_padding:
        return None

    def check() -> None:
        shapes = [graph.shape_of(place) if place else None for place in inputs]
        if name == "Conv":
            window.check_convolution(shapes, settings, inputs[1] if len(inputs) > 1 else "")
        elif is_padding:
            window.check_padding(shapes, settings)
        else:
            window.check_pool(shapes, settings)

    return check


class Opset:
    """A set of operators, as methods that add a node to the graph of a builder.

    Parameters
    ----------
    builder
        Owns the graph.
    version
        Of the set.
    """

    def __init__(self, builder: Any, version: int) -> None:
        self._builder = builder
        self.version = version


class AiOnnx(Opset):
    """A version of ONNX's set: ``builder.aiOnnx.add([a, b])`` returns the name of the sum."""

    _domain: ClassVar[str] = ""

    def __str__(self) -> str:
        return f"AiOnnx{self.version}"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *onnx_operators(self.version, self._domain)]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operator = onnx_operators(self.version, self._domain).get(name)
        if operator is None:
            raise AttributeError(
                f"'{type(self).__name__}' has no operator '{name}' in version {self.version}"
            )

        def method(*arguments: Any, **named: Any) -> str | list[str]:
            return self._add(name, operator, arguments, named)

        method.__name__, method.__doc__ = name, f"Add the operator {operator.schema.name}."
        return method

    def _add(
        self, name: str, operator: OnnxOperator, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> str | list[str]:
        owner = f"popart.{type(self).__name__}"
        _, bound = match_call(owner, name, [operator.signature], arguments, named)
        if bound.get("is_value_sparse"):
            raise popart_exception(
                "Attributes of type `sparse_tensor' are currently not supported."
            )
        graph: Graph = self._builder._impl
        inputs = bound.get("args", [])
        outputs = graph.add_node(
            operator.use,
            inputs,
            bound.get("num_outputs", operator.schema.max_output),
            operator.attributes(bound),
            bound["debugContext"],
            _checks(operator, graph, inputs, bound),
        )
        return outputs[0] if operator.schema.max_output == 1 else outputs


class AiOnnxMl(AiOnnx):
    """A version of ONNX's set of classical models."""

    _domain: ClassVar[str] = "ai.onnx.ml"

    def __str__(self) -> str:
        return f"AiOnnxMl{self.version}"


class AiOnnxMlOpset1(AiOnnxMl):
    """Version 1 of ONNX's set of classical models."""
