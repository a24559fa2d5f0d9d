"""Which operators there are: the defaults of sets, and those that the engine has."""

from __future__ import annotations

from popart.builder.graph import OperatorIdentifier
from popart.builder.graphcore_opset import GRAPHCORE_OPERATORS
from popart.builder.onnx_opset import onnx_operators
from popart.builder.versions import (
    AI_ONNX,
    DEFAULT_AI_GRAPHCORE,
    DEFAULT_AI_ONNX,
    DEFAULT_AI_ONNX_ML,
)
from popart.operator_definitions import OpDefinition, definition_of_schema

__all__ = [
    "defaultAiGraphcoreOpset",
    "defaultAiOnnxMlOpset",
    "defaultAiOnnxOpset",
    "getSupportedOperations",
    "getSupportedOperationsDefinition",
    "getUnsupportedOperations",
]

defaultAiOnnxOpset = DEFAULT_AI_ONNX
defaultAiOnnxMlOpset = DEFAULT_AI_ONNX_ML
defaultAiGraphcoreOpset = DEFAULT_AI_GRAPHCORE


def getSupportedOperations(includeInternal: bool) -> list[OperatorIdentifier]:
    """Return the operators of all sets that a model may have and the engine supports.

    Parameters
    ----------
    includeInternal
        Whether operators that a builder does not add are meant too: the engine's own.
    """
    supported = _engine_names()
    identifiers = {
        operator.use.identifier
        for version in AI_ONNX
        for operator in onnx_operators(version).values()
        if operator.schema.name in supported
    }
    identifiers |= {
        operator.use.identifier
        for operator in GRAPHCORE_OPERATORS.values()
        if f"ai.graphcore.{operator.type}" in supported
    }
    if includeInternal:
        from tilescope.engine.operators.table import OPERATORS

        identifiers |= {
            OperatorIdentifier("tilescope", name, 1)
            for name, operator in OPERATORS.items()
            if operator.is_primitive
        }
    return sorted(identifiers, key=lambda found: (found.domain, found.type, found.version))


def getSupportedOperationsDefinition(
    includeInternal: bool,
) -> dict[OperatorIdentifier, OpDefinition]:
    """Return what the operators take that `getSupportedOperations` lists.

    Parameters
    ----------
    includeInternal
        As there.
    """
    from tilescope.engine.operators.table import OPERATORS

    definitions = {
        operator.use.identifier: definition_of_schema(
            operator.schema, OPERATORS[operator.schema.name].known_operands
        )
        for version in AI_ONNX
        for operator in onnx_operators(version).values()
        if operator.schema.name in OPERATORS
    }
    definitions |= {
        operator.use.identifier: OpDefinition.of_counts(
            operator.n_inputs[0], operator.n_outputs, [p.name for p in operator.parameters]
        )
        for operator in GRAPHCORE_OPERATORS.values()
    }
    return {
        identifier: definitions.get(identifier, OpDefinition())
        for identifier in getSupportedOperations(includeInternal)
    }


def getUnsupportedOperations(opsetVersion: int) -> list[OperatorIdentifier]:
    """Return the operators of a version of ONNX's set that the engine does not support."""
    supported = _engine_names()
    return [
        operator.use.identifier
        for operator in onnx_operators(opsetVersion).values()
        if operator.schema.name not in supported
    ]


def _engine_names() -> frozenset[str]:
    """Return the names of the engine's operators, those of other domains below their domain."""
    from tilescope.engine.operators.table import supported_operators

    return frozenset(supported_operators())
