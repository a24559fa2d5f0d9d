"""What a builder sets on nodes that it has added, named by their outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import onnx

from popart.arguments import BOOL, FLOAT, INT, NAMES, TEXT, TEXTS, Mismatch, instance, mapping
from popart.builder import reserved
from popart.builder.attribute import value_of
from popart.builder.graph import Graph
from popart.enums import RecomputeType
from popart.errors import popart_exception

__all__ = ["NodeSettings", "Outputs"]

_Types = onnx.AttributeProto
#: An output, or all outputs of a node.
Outputs = str | Collection[str]


def _names(outputs: Outputs) -> set[str]:
    if isinstance(outputs, str):
        return {outputs}
    try:
        return NAMES.convert(outputs)  # type: ignore[no-any-return]
    except Mismatch as error:
        raise TypeError(
            f"incompatible function arguments: expected the outputs of a node, got {outputs!r}"
        ) from error


class NodeSettings:
    """Attributes of nodes, and PopART's settings among them.

    Parameters
    ----------
    graph
        The graph of the nodes.
    """

    def __init__(self, graph: Graph) -> None:
        self._impl = graph

    def addNodeAttribute(
        self, attributeName: str, attributeValue: Any, nodeOutputNames: Outputs
    ) -> None:
        """Add an attribute to a node; refuse one that it has.

        Parameters
        ----------
        attributeName
            Name of the attribute.
        attributeValue
            An int, float, string, or list of one of them.
        nodeOutputNames
            All outputs of the node.
        """
        try:
            self._impl.add_attribute(attributeName, attributeValue, _names(nodeOutputNames))
        except Mismatch as error:
            raise TypeError(
                "addNodeAttribute(): incompatible function arguments: expected an int, a float, a"
                f" string or a list of one of them, got {attributeValue!r}"
            ) from error

    def nodeHasAttribute(self, attributeName: str, nodeOutputNames: Outputs) -> bool:
        """Whether a node has an attribute."""
        return self._impl.attribute(attributeName, _names(nodeOutputNames)) is not None

    def _attribute(self, name: str, outputs: Outputs, kind: int) -> Any:
        attribute = self._impl.attribute(name, _names(outputs))
        if attribute is None:
            raise popart_exception(f"Node does not have an attribute {name}.")
        return value_of(attribute, kind)

    def getInt64NodeAttribute(self, attributeName: str, nodeOutputNames: Outputs) -> int:
        """Return an attribute that is an integer."""
        return int(self._attribute(attributeName, nodeOutputNames, _Types.INT))

    def getInt64VectorNodeAttribute(
        self, attributeName: str, nodeOutputNames: Outputs
    ) -> list[int]:
        """Return an attribute that is a list of integers."""
        return list(self._attribute(attributeName, nodeOutputNames, _Types.INTS))

    def getFloatNodeAttribute(self, attributeName: str, nodeOutputNames: Outputs) -> float:
        """Return an attribute that is a number of single precision."""
        return float(self._attribute(attributeName, nodeOutputNames, _Types.FLOAT))

    def getFloatVectorNodeAttribute(
        self, attributeName: str, nodeOutputNames: Outputs
    ) -> list[float]:
        """Return an attribute that is a list of numbers of single precision."""
        return list(self._attribute(attributeName, nodeOutputNames, _Types.FLOATS))

    def getStringNodeAttribute(self, attributeName: str, nodeOutputNames: Outputs) -> str:
        """Return an attribute that is a string."""
        return str(self._attribute(attributeName, nodeOutputNames, _Types.STRING))

    def getStringVectorNodeAttribute(
        self, attributeName: str, nodeOutputNames: Outputs
    ) -> list[str]:
        """Return an attribute that is a list of strings."""
        return list(self._attribute(attributeName, nodeOutputNames, _Types.STRINGS))

    def getAllNodeAttributeNames(self, nodeOutputNames: Outputs) -> list[str]:
        """Return the names of a node's attributes."""
        node = self._impl.node_with_outputs(_names(nodeOutputNames))
        return [attribute.name for attribute in node.attribute]

    def removeNodeAttribute(self, attributeName: str, nodeOutputNames: Outputs) -> None:
        """Remove an attribute of a node; refuse one that it lacks."""
        self._impl.remove_attribute(attributeName, _names(nodeOutputNames))

    # PopART's settings

    def recomputeOutputInBackwardPass(
        self, nodeOutputNames: Outputs, value: RecomputeType = RecomputeType.Recompute
    ) -> None:
        """Choose whether outputs are kept for the backward pass or computed again."""
        kind = instance(RecomputeType).convert(value)
        self.addNodeAttribute(reserved.RECOMPUTE, int(kind), nodeOutputNames)

    def getRecomputeOutputInBackwardPass(self, nodeOutputNames: Outputs) -> bool:
        """Whether something is chosen for outputs in the backward pass."""
        return bool(self.getInt64NodeAttribute(reserved.RECOMPUTE, nodeOutputNames))

    def excludePatterns(self, nodeOutputName: Outputs, patternNames: Collection[str]) -> None:
        """Name patterns that leave a node as it is."""
        self.addNodeAttribute(
            reserved.EXCLUDED_PATTERNS, TEXTS.convert(patternNames), nodeOutputName
        )

    def setInplacePreferences(self, nodeOutputName: str, prefs: Mapping[str, float]) -> None:
        """Set the priorities of the variants of a node that work in place, by their names."""
        priorities = dict(sorted(mapping(TEXT, FLOAT).convert(prefs).items()))
        self.addNodeAttribute(reserved.INPLACE_NAMES, list(priorities), nodeOutputName)
        self.addNodeAttribute(
            reserved.INPLACE_PRIORITIES, [*map(float, priorities.values())], nodeOutputName
        )

    def setPartialsType(self, nodeOutputName: str, partialsType: str) -> None:
        """Set the type of the partial sums of a convolution or product, such as ``HALF``."""
        kind = self._impl.node_with_outputs({nodeOutputName}).op_type
        if kind not in ("Conv", "MatMul"):
            raise popart_exception(
                "Builder::setPartialsType should only be called on operators: Conv, MatMul; but"
                f" was given: {kind}"
            )
        self.addNodeAttribute(reserved.PARTIALS_TYPE, TEXT.convert(partialsType), nodeOutputName)

    def getPartialsType(self, nodeOutputName: str) -> str:
        """Return the type of the partial sums of a node; ``FLOAT`` if none is set."""
        if not self.nodeHasAttribute(reserved.PARTIALS_TYPE, nodeOutputName):
            return "FLOAT"
        return self.getStringNodeAttribute(reserved.PARTIALS_TYPE, nodeOutputName)

    def setAvailableMemoryProportion(
        self, nodeOutputNames: Outputs, availableMemoryProportion: float
    ) -> None:
        """Set the share of a tile's memory that a node may use meanwhile, above 0 and up to 1."""
        share = FLOAT.convert(availableMemoryProportion)
        if not 0 < share <= 1:
            raise popart_exception("availableMemoryProportion must be in (0,1]")
        if self.nodeHasAttribute(reserved.AVAILABLE_MEMORY, nodeOutputNames):
            self.removeNodeAttribute(reserved.AVAILABLE_MEMORY, nodeOutputNames)
        self.addNodeAttribute(reserved.AVAILABLE_MEMORY, share, nodeOutputNames)

    def setEnableConvDithering(self, nodeOutputName: str, enableConvDithering: int) -> None:
        """Choose whether equal convolutions begin on different tiles."""
        if INT.convert(enableConvDithering) not in (0, 1):
            raise popart_exception("enableConvDithering must be a bool value")
        kind = self._impl.node_with_outputs({nodeOutputName}).op_type
        if kind != "Conv":
            raise popart_exception(
                "Builder::setEnableConvDithering should only be called on convolutions but was"
                f" given: {kind}"
            )
        self.addNodeAttribute(reserved.CONV_DITHERING, int(enableConvDithering), nodeOutputName)

    def setSerializeMatMul(
        self,
        nodeOutputName: Outputs,
        mode: str,
        factor: int = 0,
        keep_precision: bool = False,
    ) -> None:
        """Cut a product into parts that are computed one after another.

        Parameters
        ----------
        nodeOutputName
            The product.
        mode
            ``input_channels``, ``reducing_dim``, ``output_channels``, or ``none``.
        factor
            Number of parts.
        keep_precision
            Whether parts of half precision are added up in single.
        """
        if mode == "none":
            return
        if mode not in reserved.SERIALIZE_MODES:
            raise popart_exception(
                f"Unsupported mat mul serialization mode '{mode}'. Supported modes are"
                " 'input_channels', 'reducing_dim', 'output_channels' or 'none'"
            )
        self.addNodeAttribute(reserved.SERIALIZE_MODE, mode, nodeOutputName)
        self.addNodeAttribute(reserved.SERIALIZE_FACTOR, INT.convert(factor), nodeOutputName)
        self.addNodeAttribute(
            reserved.SERIALIZE_PRECISION, int(BOOL.convert(keep_precision)), nodeOutputName
        )
