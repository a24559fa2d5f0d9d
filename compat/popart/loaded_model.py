"""A session's model: an ONNX graph whose outputs are the anchors, and its tensors by name."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from popart.builder.tensor import array_of, unpack_halves
from popart.errors import popart_exception
from popart.gradient_flow import GradientFlow
from popart.node_forms import in_forms_of_onnx
from popart.node_refusals import check_node, check_nodes, explanation
from popart.optimizer_states import is_of_optimizer
from popart.sentences import in_words_of_popart
from popart.variable_updates import VariableUpdates
from tilescope.engine.errors import EngineError
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.frontend.onnx.facts.trainables import weight_names
from tilescope.engine.ir import Model, Node, ReplicaGroup, Value, walk

__all__ = ["LoadedModel", "folder_of", "proto_of"]

#: Versions of operator sets that a model does not import, though its subgraphs may use them.
_OPSETS = {"": 10, "ai.graphcore": 1}


def proto_of(model: bytes | str | Path) -> onnx.ModelProto:
    """Return a model of its bytes or of a file.

    Raises
    ------
    popart_exception
        When it is neither.
    """
    if isinstance(model, bytes):
        try:
            return onnx.load_from_string(model)
        except Exception:  # protobuf's errors have no common class
            raise popart_exception(
                f"Failed to load a ModelProto from {len(model):,} bytes: give the result of"
                " Builder.getModelProto(), or the path of an ONNX file"
            ) from None
    path = Path(model)
    if not path.is_file():
        raise popart_exception(
            f"Failed to load a ModelProto from the string: there is no file {str(path)!r}; give a"
            " path, or the result of Builder.getModelProto()"
        )
    try:
        return onnx.load(path, load_external_data=False)
    except Exception as error:  # as above, and missing external data
        raise popart_exception(f"Failed to load a ModelProto from {path}: {error}") from None


def folder_of(model: bytes | str | Path) -> Path | None:
    """Return the folder of a model's file; None for its bytes."""
    return None if isinstance(model, bytes) else Path(model).parent


@dataclass(frozen=True)
class LoadedModel:
    """A model as the engine has it.

    Parameters
    ----------
    model
        Whose outputs are the tensors that were asked for.
    tensors
        Its values by the names of tensors: inputs, initializers, results of nodes.
    initializers
        Arrays of the initializers, by name.
    flow
        How gradients go from the loss to the tensors.
    """

    model: Model
    tensors: Mapping[str, Value]
    initializers: Mapping[str, NDArray[Any]]
    flow: GradientFlow

    @classmethod
    def of(
        cls,
        proto: onnx.ModelProto,
        outputs: Collection[str],
        *,
        shapes: Mapping[str, tuple[int, ...]],
        are_weights_kept: bool,
        gradients: Collection[str] = (),
        shared_by: Mapping[str, ReplicaGroup] | None = None,
    ) -> LoadedModel:
        """Return a model with some tensors as its outputs.

        Parameters
        ----------
        proto
            The model.
        outputs
            Names of tensors of its graph, initializers left out; its own outputs if empty.
        shapes
            Of inputs, where the model leaves them open.
        are_weights_kept
            Whether weights are variables that the device keeps, not constants of the program.
        gradients
            Names of tensors whose gradients are asked for. Constants among them are variables.
        shared_by
            The replicas that share a weight, by its name, where not all do.

        Raises
        ------
        popart_exception
            When the model cannot be used, or has no such tensor.
        """
        known = {info.name for info in proto.graph.input}
        known |= {name for node in proto.graph.node for name in node.output}
        for name in outputs:
            if name not in known:
                raise popart_exception(f"Anchor tensor `{name}' not in Ir Tensors.")
        check_nodes(proto)
        initializers = {t.name: array_of(t) for t in proto.graph.initializer}
        with tempfile.TemporaryDirectory(prefix="popart-") as folder:
            path = Path(folder) / "model.onnx"
            complete = _complete(in_forms_of_onnx(proto))
            path.write_bytes(complete.SerializeToString())
            weights = weight_names(complete.graph) if are_weights_kept else []
            others = [*VariableUpdates.weights(proto.graph), *(shared_by or ())]
            weights += [name for name in others if name not in weights]
            constants = {n.output[0] for n in proto.graph.node if n.op_type == "Constant"}
            flow, updates = GradientFlow(), VariableUpdates()

            def observe(node_proto: onnx.NodeProto, node: Node) -> None:
                check_node(node_proto, node)
                flow.add(node_proto, node)
                updates.add(node_proto, node)

            try:
                model = load_onnx(
                    path,
                    shapes,
                    weights,
                    outputs=[*dict.fromkeys([*outputs, *VariableUpdates.results(proto.graph)])],
                    observer=observe,
                    variables=constants.intersection(gradients),
                    shared_by=shared_by,
                )
            except EngineError as error:
                said = explanation(proto) or in_words_of_popart(str(error))
                raise popart_exception(said) from None
        model = updates.of(model, outputs)
        tensors = {value.name: value for value in model.inputs}
        tensors |= {value.name: value for value in (*model.parameters, *model.held)}
        tensors |= {v.name: v for op in model.operations for v in op.results}
        tensors |= dict(model.outputs)
        model = _without_unread_inputs(model)
        return cls(model, tensors, {k: np.asarray(v) for k, v in initializers.items()}, flow)


def _without_unread_inputs(model: Model) -> Model:
    """Return a model without inputs that nothing reads: a step gives no data for them."""
    read = {value for operation in walk(model.operations) for value in operation.operands}
    read |= {value for _, value in model.outputs} | {update.value for update in model.updates}
    regions = [region for op in walk(model.operations) for region in op.regions.values()]
    read |= {value for region in regions for value in region.outputs}
    return replace(model, inputs=tuple(value for value in model.inputs if value in read))


def _complete(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with all that ONNX's checker asks for: outputs with types, and opsets.

    PopART's builder writes models without outputs, and outputs whose types only a session infers.
    They are placeholders: a session names its outputs itself. What an optimizer kept is left out.
    """
    complete = onnx.ModelProto()
    complete.CopyFrom(proto)
    graph = complete.graph
    for entries in (graph.initializer, graph.input):
        for entry in [entry for entry in entries if is_of_optimizer(entry.name)]:
            entries.remove(entry)
    unpack_halves(graph)
    names = [info.name for info in graph.output]
    names = names or [name for node in graph.node for name in node.output if name][-1:]
    names = names or [info.name for info in graph.input][:1]
    del graph.output[:]
    for name in names:
        graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    known = {opset.domain for opset in complete.opset_import}
    for domain, version in _OPSETS.items():
        if domain not in known:
            complete.opset_import.append(helper.make_opsetid(domain, version))
    return complete
