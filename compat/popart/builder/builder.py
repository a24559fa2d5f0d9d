"""`Builder`: makes a model by calls."""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from popart.arguments import (
    ARRAY,
    INT,
    INTS,
    TEXT,
    TEXTS,
    Parameter,
    Signature,
    instance,
    match_call,
)
from popart.builder import reserved
from popart.builder.attribute import custom_attribute
from popart.builder.custom_types import is_own_domain
from popart.builder.external import save_initializers
from popart.builder.graph import Graph, OperatorIdentifier, OperatorUse
from popart.builder.graphcore_opset import AiGraphcore, AiGraphcoreOpset1
from popart.builder.model_file import check, read_model
from popart.builder.onnx_opset import AiOnnxMlOpset1, Opset
from popart.builder.placed_nodes import PlacedNodes
from popart.builder.tensor import initializer_of, type_of
from popart.builder.versions import AI_ONNX, DEFAULT_AI_GRAPHCORE, DEFAULT_AI_ONNX, AiOnnx6
from popart.debug_info import DEBUG_CONTEXT
from popart.errors import popart_exception
from popart.placement import InputSettings
from popart.replicas import VariableSettings
from popart.tensor_info import TensorInfo, getTensorInfo, type_of_onnx_element

__all__ = ["Builder"]

_NAME = Parameter("debugContext", DEBUG_CONTEXT, "")
_INFO = Parameter("tensorInfo", instance(TensorInfo))
_TYPED = (Parameter("dataType", TEXT), Parameter("shape", INTS))
_SETTINGS = Parameter("settings", instance(InputSettings))
_INPUT_FORMS = (
    Signature((_INFO, _NAME), "str"),
    Signature((*_TYPED, _NAME), "str"),
    Signature((_INFO, _SETTINGS, _NAME), "str"),
    Signature((*_TYPED, _SETTINGS, _NAME), "str"),
)
_INITIAL = Parameter("initVal", ARRAY)
_INITIAL_FORMS = (
    Signature((_INITIAL, _NAME), "str"),
    Signature((_INITIAL, Parameter("variableSettings", instance(VariableSettings)), _NAME), "str"),
)
_LOWER_CASE = {"FLOAT": "float32", "DOUBLE": "float64"}


class Builder(PlacedNodes):
    """Makes a model: inputs, weights, nodes and outputs, named by strings.

    Parameters
    ----------
    modelProtoOrFilename
        A model to begin with: its bytes or path.
    opsets
        Versions of ``ai.onnx`` and ``ai.graphcore``. Without them, the first set that is used
        chooses that of ONNX, and ``aiOnnx`` chooses version 10.
    builderCore
        The graph of a builder to share.
    """

    def __init__(
        self,
        modelProtoOrFilename: str | bytes | None = None,
        opsets: Mapping[str, int] | None = None,
        builderCore: Graph | None = None,
    ) -> None:
        super().__init__(Graph() if builderCore is None else builderCore)
        if modelProtoOrFilename is not None:
            self._impl.load(read_model(modelProtoOrFilename))
        graphcore = opsets["ai.graphcore"] if opsets else DEFAULT_AI_GRAPHCORE
        self.aiGraphcore = AiGraphcore(self, graphcore)
        self.aiGraphcoreOpset1 = AiGraphcoreOpset1(self, graphcore)
        self.aiOnnxMl = self.aiOnnxMlOpset1 = AiOnnxMlOpset1(self, 1)
        self._default_onnx = DEFAULT_AI_ONNX
        self._onnx: AiOnnx6 | None = None
        if opsets:
            self._select(opsets["ai.onnx"])

    def _select(self, version: int) -> AiOnnx6:
        if version not in AI_ONNX:
            raise ValueError(f"Unsupported or unrecognized ai.Onnx version: {version}")
        self._onnx = AI_ONNX[version](self, version)
        return self._onnx

    def aiOnnxOpsetVersion(self, version: int) -> None:
        """Choose the version of ONNX's set for ``aiOnnx``."""
        self._select(version)

    def _opset(self, version: int) -> AiOnnx6:
        chosen = self._onnx or self._select(version)
        if chosen.version != version:
            raise RuntimeError(
                f"Invalid opset 'aiOnnxOpset{version}' selected. Opset for domain ai.onnx already"
                f" defined as {chosen.version}"
            )
        return chosen

    @property
    def aiOnnx(self) -> AiOnnx6:
        """The operators of the chosen version of ONNX's set."""
        return self._onnx or self._select(self._default_onnx)

    @property
    def aiOnnxOpset6(self) -> AiOnnx6:
        """Version 6 of ONNX's set; refused if another one is chosen."""
        return self._opset(6)

    @property
    def aiOnnxOpset7(self) -> AiOnnx6:
        """Version 7 of ONNX's set; refused if another one is chosen."""
        return self._opset(7)

    @property
    def aiOnnxOpset8(self) -> AiOnnx6:
        """Version 8 of ONNX's set; refused if another one is chosen."""
        return self._opset(8)

    @property
    def aiOnnxOpset9(self) -> AiOnnx6:
        """Version 9 of ONNX's set; refused if another one is chosen."""
        return self._opset(9)

    @property
    def aiOnnxOpset10(self) -> AiOnnx6:
        """Version 10 of ONNX's set; refused if another one is chosen."""
        return self._opset(10)

    @property
    def aiOnnxOpset11(self) -> AiOnnx6:
        """Version 11 of ONNX's set; refused if another one is chosen."""
        return self._opset(11)

    def __getattr__(self, name: str) -> Any:
        close = get_close_matches(name, dir(type(self)), 3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise AttributeError(f"'Builder' has no attribute '{name}'{hint}")

    # Graphs

    def createSubgraphBuilder(self) -> Builder:
        """Return a builder of a graph that a node of this one will call, loop over or choose."""
        child = Builder(builderCore=Graph(self._impl))
        child._default_onnx = self._onnx.version if self._onnx else self._default_onnx
        return child

    def setGraphName(self, name: str) -> None:
        """Name the graph."""
        self._impl.set_name(TEXT.convert(name))

    def embedReplicationFactor(self, replicationFactor: int) -> None:
        """State in the model for how many replicas it is."""
        self._impl.n_replicas = INT.convert(replicationFactor)
        self._impl.add_metadata(reserved.REPLICATION_FACTOR, self._impl.n_replicas)

    def getModelProto(self) -> bytes:
        """Return the model as the bytes of an ONNX file."""
        return bytes(self._impl.proto.SerializeToString())

    def saveModelProto(self, filename: str) -> None:
        """Check the model and write it to a file."""
        check(self._impl.proto)
        Path(filename).write_bytes(self.getModelProto())

    def saveInitializersExternally(self, ids: Sequence[str], filename: str) -> None:
        """Move the contents of initializers into a file beside the model.

        Parameters
        ----------
        ids
            Names of the initializers.
        filename
            The file; what it holds is replaced.
        """
        save_initializers(self._impl.graph, TEXTS.convert(ids), str(filename))

    # Inputs and outputs

    def addInputTensor(self, *arguments: Any, **named: Any) -> str:
        """Add an input and return its name.

        ``addInputTensor(info)`` or ``addInputTensor("FLOAT", [1, 2])``, then `InputSettings`, then
        a name.
        """
        _, bound = match_call("popart.Builder", "addInputTensor", _INPUT_FORMS, arguments, named)
        info = bound.get("tensorInfo") or TensorInfo(bound["dataType"], bound["shape"])
        settings = bound.get("settings", InputSettings())
        name = self._impl.new_name(bound["debugContext"] or "input")
        self._impl.add_input(name, type_of(info))
        for key, value in (
            (reserved.TILE_SET, settings.tileSet()),
            (reserved.EXCHANGE_STRATEGY, settings.exchangeStrategy()),
            (reserved.STREAM_MODE, settings.replicatedStreamMode()),
        ):
            self._impl.add_metadata(key, int(value), name)
        return name

    def addUntypedInputTensor(self, debugContext: Any = "") -> str:
        """Add an input of a subgraph whose type follows from the node that has it."""
        if self._impl.parent is None:
            raise popart_exception(
                "Can not add untyped tensors to the top-level graph. Use"
                " Builder::addInputTensor(const TensorInfo &tensorInfo, const std::string"
                " &debugPrefix) instead."
            )
        name = self._impl.new_name(DEBUG_CONTEXT.convert(debugContext) or "input")
        self._impl.add_input(name)
        return name

    def addInputTensorFromParentGraph(self, tensorId: str) -> None:
        """Add a tensor of a graph above as an input of a subgraph."""
        self._impl.add_parent_input(TEXT.convert(tensorId))

    def addInitializedInputTensor(self, *arguments: Any, **named: Any) -> str:
        """Add a weight and return its name.

        ``addInitializedInputTensor(array)``, then `VariableSettings`, then a name.
        """
        _, bound = match_call(
            "popart.Builder", "addInitializedInputTensor", _INITIAL_FORMS, arguments, named
        )
        array: NDArray[Any] = bound["initVal"]
        settings = bound.get("variableSettings", VariableSettings())
        info = getTensorInfo(array)
        name = self._impl.new_name(bound["debugContext"] or "init_input")
        content = initializer_of(array, name)
        n_replicas = self._impl.root.n_replicas
        own = array[0] if n_replicas > 1 and settings.getGroupCount(n_replicas) > 1 else array
        self._impl.add_input(name, type_of(info), type_of(getTensorInfo(own)))
        self._impl.graph.initializer.append(content)
        self._impl.add_content(content if own is array else initializer_of(own, name))
        domain = settings.getSharedVariableDomain()
        for key, value in (
            (reserved.COMM_GROUP_TYPE, int(domain.type)),
            (reserved.COMM_GROUP_SIZE, domain.replicaGroupSize),
            (reserved.VARIABLE_SETTINGS, int(settings.getRetrievalMode())),
        ):
            self._impl.add_metadata(key, value, name)
        return name

    def addOutputTensor(self, outputName: str) -> None:
        """Make a tensor an output of the model."""
        self._impl.add_output(TEXT.convert(outputName))

    # Nodes

    def customOp(
        self,
        opName: str,
        opVersion: int,
        domain: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any],
        numOutputs: int = 1,
        name: str = "",
    ) -> list[str]:
        """Add a node of any operator and return the names of its outputs.

        Parameters
        ----------
        opName
            The operator.
        opVersion
            Its version.
        domain
            Its domain.
        inputs
            Names of tensors.
        attributes
            Strings, numbers, and lists of equal numbers, by name.
        numOutputs
            Number of outputs.
        name
            Of the node.
        """
        settings = {key: custom_attribute(key, value) for key, value in attributes.items()}
        identifier = OperatorIdentifier(TEXT.convert(domain), TEXT.convert(opName), opVersion)
        opset = opVersion if is_own_domain(domain) else self._impl.opsets.get(domain, 1)
        use = OperatorUse(identifier, opset)
        return self._impl.add_node(
            use, TEXTS.convert(inputs), numOutputs, settings, DEBUG_CONTEXT.convert(name)
        )

    def reshape_const(
        self, aiOnnx: Opset, args: Sequence[str], shape: Collection[int], debugContext: str = ""
    ) -> str:
        """Add a reshape to a shape that is known, and return the name of its output.

        Parameters
        ----------
        aiOnnx
            The set of operators.
        args
            The tensor.
        shape
            Its new shape.
        debugContext
            Name of the node.
        """
        sizes = np.array(list(shape), np.int64)
        stated = aiOnnx.constant(sizes, f"{debugContext}_const")  # type: ignore[attr-defined]
        return str(aiOnnx.reshape([args[0], stated], debugContext))  # type: ignore[attr-defined]

    def _identity(self, name: str) -> str:
        return str(self.aiOnnx.identity([name], "Checkpoint"))

    # Questions

    def getInputTensorIds(self) -> list[str]:
        """Return the names of the inputs, weights included."""
        return [value.name for value in self._impl.graph.input]

    def getOutputTensorIds(self) -> list[str]:
        """Return the names of the outputs."""
        return [value.name for value in self._impl.graph.output]

    def getValueTensorIds(self) -> list[str]:
        """Return the names of the outputs of nodes."""
        return [value.name for value in self._impl.graph.value_info]

    def getTrainableTensorIds(self) -> list[str]:
        """Return the names of the weights."""
        return [content.name for content in self._impl.graph.initializer]

    def isInitializer(self, id: str) -> bool:
        """Whether a tensor is a weight."""
        return id in self.getTrainableTensorIds()

    def hasValueInfo(self, id: str) -> bool:
        """Whether a tensor is an input, an output, or the output of a node."""
        return self._impl.has_tensor(id)

    def getTensorShape(self, id: str) -> list[int]:
        """Return the shape of a tensor as it is inferred; empty if it is not known."""
        return self._impl.described(TEXT.convert(id))[0]

    def getTensorDtypeString(self, id: str) -> str:
        """Return numpy's name of the type of a tensor; ``undefined`` if it is not known."""
        element = self._impl.described(TEXT.convert(id))[1]
        name = type_of_onnx_element(element).name
        return _LOWER_CASE.get(name, name.lower())


# For editors and stubs: the operator sets that have attributes of their own.
Builder.__getattr__.__annotations__["return"] = functools.reduce(operator.or_, AI_ONNX.values())
