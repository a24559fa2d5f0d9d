"""Which settings of nodes act on the simulated machine, and warnings for those that do not."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from popart.builder import reserved
from popart.effect import Effect, warn_once

__all__ = ["ATTRIBUTE_EFFECTS", "attributes_set", "warn_of_attributes"]

#: The effect of every attribute, what sets it, and in the words of the engine what it means.
ATTRIBUTE_EFFECTS: dict[str, tuple[Effect, str, str]] = {
    reserved.AVAILABLE_MEMORY: (
        Effect.ACTS,
        "setAvailableMemoryProportion",
        "memory that the planner may use",
    ),
    reserved.PARTIALS_TYPE: (Effect.ACTS, "setPartialsType", "type of the partial sums"),
    reserved.RECOMPUTE: (
        Effect.ACTS,
        "recomputeOutput",
        "whether an output is kept for the backward pass",
    ),
    reserved.VIRTUAL_GRAPH: (Effect.ACTS, "virtualGraph", "IPU of a node"),
    reserved.PIPELINE_STAGE: (Effect.ACTS, "pipelineStage", "stage of a pipeline"),
    reserved.EXECUTION_PHASE: (Effect.ACTS, "executionPhase", "phase of a node"),
    reserved.OUTPUT_LOCATION: (
        Effect.ACTS,
        "outputTensorLocation",
        "memory that holds an output for later phases and the backward pass",
    ),
    reserved.COLLECTIVE_GROUP: (Effect.ACTS, "commGroup", "replicas that exchange values"),
    reserved.SERIALIZE_MODE: (Effect.NONE, "setSerializeMatMul", "products are planned whole"),
    reserved.INPLACE_NAMES: (
        Effect.NONE,
        "setInplacePreferences",
        "the engine works in place where nothing reads the operand later",
    ),
    reserved.SCHEDULE_PRIORITY: (
        Effect.NONE,
        "schedulePriority",
        "operations keep the order of the model",
    ),
    reserved.OUTLINE: (Effect.NONE, "outlineAttributes", "the engine outlines equal operations"),
    reserved.EXCLUDED_PATTERNS: (
        Effect.NONE,
        "excludePatterns",
        "the engine's passes are switched for a whole model",
    ),
    reserved.CONV_DITHERING: (
        Effect.NONE,
        "setEnableConvDithering",
        "equal convolutions begin on the same tile",
    ),
}


def attributes_set(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield PopART's settings among the attributes of a graph and its subgraphs."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from attributes_set(attribute.g)
            elif attribute.name in ATTRIBUTE_EFFECTS:
                yield attribute.name


def warn_of_attributes(model: onnx.ModelProto) -> None:
    """Warn of the settings of nodes that do nothing, once in a process by name.

    Parameters
    ----------
    model
        A model with PopART's attributes.
    """
    for name in dict.fromkeys(attributes_set(model.graph)):
        effect, setter, reason = ATTRIBUTE_EFFECTS[name]
        if effect is Effect.NONE:
            warn_once(f"Builder.{setter}", reason)
