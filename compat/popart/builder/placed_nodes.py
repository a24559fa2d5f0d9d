"""Where and when nodes run: on which IPU, in which stage and phase, named or by scopes."""

from __future__ import annotations

from typing import Any, overload

from popart.arguments import (
    FLOAT,
    INT,
    TEXT,
    TEXTS,
    Parameter,
    Signature,
    instance,
    mapping,
    match_call,
    set_of,
)
from popart.builder import reserved
from popart.builder.node_settings import NodeSettings, Outputs
from popart.builder.scope import (
    AttributeContextManager,
    KeyValueContextManager,
    NameContextManager,
)
from popart.enums import RecomputeType
from popart.errors import popart_exception
from popart.placement import TensorLocation

__all__ = ["PlacedNodes"]

_OUTPUT = Parameter("nodeOutputNames", TEXT)
_OUTPUTS = Parameter("nodeOutputNames", set_of(TEXT))


class PlacedNodes(NodeSettings):
    """Settings that hold for a node, or in a ``with`` block for all nodes that it adds.

    ``builder.virtualGraph(output, 1)`` places a node, ``with builder.virtualGraph(1):`` all nodes
    that are added in the block.
    """

    def _place(
        self, name: str, attribute: str, arguments: Any, named: Any
    ) -> AttributeContextManager | None:
        """Set an integer on a node, or return the scope that sets it."""
        number = Parameter("value", INT)
        set_on = Parameter("value", INT, 0)
        forms = (
            Signature((_OUTPUT, set_on)),
            Signature((_OUTPUTS, set_on)),
            Signature((number,), "popart.AttributeContextManager"),
        )
        form, bound = match_call("popart.Builder", name, forms, arguments, named)
        if form == len(forms) - 1:
            return AttributeContextManager(self._impl, attribute, bound["value"])
        self.addNodeAttribute(attribute, bound["value"], bound["nodeOutputNames"])
        return None

    @overload
    def virtualGraph(self, value: int, /) -> AttributeContextManager: ...
    @overload
    def virtualGraph(self, nodeOutputNames: Outputs, value: int = 0, /) -> None: ...
    @overload
    def virtualGraph(self, *arguments: Any, **named: Any) -> Any: ...
    def virtualGraph(self, *arguments: Any, **named: Any) -> AttributeContextManager | None:
        """Choose the IPU of a node, or of the nodes of a ``with`` block."""
        return self._place("virtualGraph", reserved.VIRTUAL_GRAPH, arguments, named)

    @overload
    def executionPhase(self, value: int, /) -> AttributeContextManager: ...
    @overload
    def executionPhase(self, nodeOutputNames: Outputs, value: int = 0, /) -> None: ...
    @overload
    def executionPhase(self, *arguments: Any, **named: Any) -> Any: ...
    def executionPhase(self, *arguments: Any, **named: Any) -> AttributeContextManager | None:
        """Choose the phase of a node, or of the nodes of a ``with`` block."""
        return self._place("executionPhase", reserved.EXECUTION_PHASE, arguments, named)

    @overload
    def pipelineStage(self, value: int, /) -> AttributeContextManager: ...
    @overload
    def pipelineStage(self, nodeOutputNames: Outputs, value: int = 0, /) -> None: ...
    @overload
    def pipelineStage(self, *arguments: Any, **named: Any) -> Any: ...
    def pipelineStage(self, *arguments: Any, **named: Any) -> AttributeContextManager | None:
        """Choose the stage of a node, or of the nodes of a ``with`` block."""
        return self._place("pipelineStage", reserved.PIPELINE_STAGE, arguments, named)

    def recomputeOutput(self, *arguments: Any, **named: Any) -> Any:
        """Choose whether the outputs of a node, or those of a ``with`` block, are recomputed."""
        value = Parameter("value", instance(RecomputeType), RecomputeType.Undefined)
        forms = (
            Signature((_OUTPUT, value)),
            Signature((value,), "popart.AttributeContextManager"),
        )
        form, bound = match_call("popart.Builder", "recomputeOutput", forms, arguments, named)
        if form:
            return AttributeContextManager(self._impl, reserved.RECOMPUTE, int(bound["value"]))
        self.addNodeAttribute(reserved.RECOMPUTE, int(bound["value"]), bound["nodeOutputNames"])
        return None

    def outputTensorLocation(self, *arguments: Any, **named: Any) -> Any:
        """Choose where the outputs of a node, or those of a ``with`` block, are kept."""
        value = Parameter("value", instance(TensorLocation), TensorLocation())
        forms = (
            Signature((_OUTPUT, value)),
            Signature((value,), "popart.AttributeContextManager"),
        )
        form, bound = match_call("popart.Builder", "outputTensorLocation", forms, arguments, named)
        location = bound["value"].serialize()
        if form:
            return AttributeContextManager(self._impl, reserved.OUTPUT_LOCATION, location)
        self.addNodeAttribute(reserved.OUTPUT_LOCATION, location, bound["nodeOutputNames"])
        return None

    def schedulePriority(self, value: float) -> AttributeContextManager:
        """Return a scope whose nodes run before those of lower priority."""
        priority = float(FLOAT.convert(value))
        return AttributeContextManager(self._impl, reserved.SCHEDULE_PRIORITY, priority)

    def commGroup(self, type: int = 0, groupSize: int = 0) -> AttributeContextManager:
        """Return a scope whose collectives join groups of replicas."""
        group = [INT.convert(type), INT.convert(groupSize)]
        return AttributeContextManager(self._impl, reserved.COLLECTIVE_GROUP, group)

    def outlineAttributes(self, pairs: dict[str, Any]) -> KeyValueContextManager:
        """Return a scope whose nodes are outlined with nodes of the same pairs only."""
        texts = {str(key): str(value) for key, value in pairs.items()}
        return KeyValueContextManager(self._impl, mapping(TEXT, TEXT).convert(texts))

    def nameScope(self, name: str) -> NameContextManager:
        """Return a scope whose tensors and nodes have a name before their own."""
        return NameContextManager(self._impl, TEXT.convert(name))

    def getNameScope(self, name: str = "") -> str:
        """Return a name below the scopes that are open."""
        return self._impl.scoped(name)

    def _in_scope(self, attribute: str, what: str) -> int:
        if attribute not in self._impl.attributes:
            raise popart_exception(f"{what} not set in current scope.")
        return int(self._impl.attributes[attribute])

    def getPipelineStage(self) -> int:
        """Return the stage of the scope; refused outside one."""
        return self._in_scope(reserved.PIPELINE_STAGE, "Pipeline stage")

    def hasPipelineStage(self) -> bool:
        """Whether the scope has a stage."""
        return reserved.PIPELINE_STAGE in self._impl.attributes

    def getExecutionPhase(self) -> int:
        """Return the phase of the scope; refused outside one."""
        return self._in_scope(reserved.EXECUTION_PHASE, "Execution phase")

    def hasExecutionPhase(self) -> bool:
        """Whether the scope has a phase."""
        return reserved.EXECUTION_PHASE in self._impl.attributes

    def getVirtualGraph(self, nodeOutputNames: Outputs | None = None) -> int:
        """Return the IPU of a node, or that of the scope."""
        if nodeOutputNames is None:
            return self._in_scope(reserved.VIRTUAL_GRAPH, "Virtual graph")
        return self.getInt64NodeAttribute(reserved.VIRTUAL_GRAPH, nodeOutputNames)

    def hasVirtualGraph(self) -> bool:
        """Whether the scope has an IPU."""
        return reserved.VIRTUAL_GRAPH in self._impl.attributes

    def checkpointOutput(self, nodeOutputNames: list[str]) -> list[str]:
        """Add nodes whose outputs are kept for the backward pass, and return their names."""
        kept = []
        for name in TEXTS.convert(nodeOutputNames):
            output = self._identity(name)
            self.addNodeAttribute(reserved.RECOMPUTE, int(RecomputeType.Checkpoint), output)
            self.excludePatterns(output, ["PreUniRepl", "PostNRepl"])
            kept.append(output)
        return kept

    def _identity(self, name: str) -> str:
        """Add an identity of ONNX's set and return its output."""
        raise NotImplementedError
