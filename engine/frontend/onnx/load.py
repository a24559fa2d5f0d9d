"""From an ONNX file to the operator graph: whole operators, static shapes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from numpy.typing import ArrayLike

from tilescope.collection import without_collection
from tilescope.engine.errors import BadInput, BadModel
from tilescope.engine.frontend.onnx.facts.oddities import oddities
from tilescope.engine.frontend.onnx.facts.symbols import set_symbols
from tilescope.engine.frontend.onnx.facts.trainables import trainable_names
from tilescope.engine.frontend.onnx.nodes.graph import GraphImport, NodeObserver, Scope
from tilescope.engine.frontend.onnx.nodes.outputs import set_outputs
from tilescope.engine.frontend.onnx.nodes.settings import add_settings
from tilescope.engine.frontend.onnx.refusal import refusing_plainly
from tilescope.engine.frontend.onnx.source.read import opsets_of, read_model
from tilescope.engine.frontend.onnx.source.sequences import tensors_only
from tilescope.engine.frontend.onnx.source.tensor_types import (
    check_type,
    element_type,
    input_shape,
    leaves_batch_open,
)
from tilescope.engine.ir import IrBuilder, Model, ReplicaGroup

__all__ = ["load_onnx"]


@refusing_plainly
@without_collection()
def load_onnx(  # noqa: PLR0913 # what a model leaves open
    path: Path | str,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    trainable: Collection[str] = (),
    values: Mapping[str, ArrayLike] | None = None,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    frozen: Collection[str] = (),
    outputs: Collection[str] = (),
    *,
    observer: NodeObserver | None = None,
    variables: Collection[str] = (),
    shared_by: Mapping[str, ReplicaGroup] | None = None,
) -> Model:
    """Return the operator graph of an ONNX file.

    Parameters
    ----------
    path
        The file.
    shapes
        Sizes of inputs whose dimensions the model leaves open, by name.
    trainable
        Names of initializers that training updates, or patterns of them as of a shell: ``*`` is
        all weights. Nothing is folded into them.
    values
        Contents of inputs that are fixed at compile time, by name; they are no inputs of the model
        then. See `inputs_to_set`.
    batch
        Size of the first dimension of every input that leaves it open; 1 if None.
    dims
        Sizes of symbolic dimensions by their names, for all inputs that have them.
    frozen
        Names or patterns of initializers that stay as they are all the same.
    outputs
        Names of inputs, or of results of nodes, that are the outputs in place of the model's own.
    observer
        What is called with every node of the file and what the engine has of it, operands and
        attributes, before it is added. What it raises is passed on.
    variables
        Names of results of Constant nodes that the device holds as states, so that nothing is
        folded into them and their gradients can be asked for.
    shared_by
        The replicas that share an initializer, by its name, where not all do. It has to be
        trainable; the file has the content of the first group.

    Raises
    ------
    BadModel
        Not ONNX, truncated, inconsistent, with types the machine does not have, or with an output
        of another type than it declares.
    UnsupportedOperators
        Lists every operator that is not supported, with the names of its nodes.
    BadInput
        A dimension of an input has no size, or `shapes`, `dims`, `trainable` or `outputs` names
        something that the model does not have.
    """
    path = Path(path)
    proto = read_model(path)
    graph = proto.graph
    if outputs:
        set_outputs(graph, outputs)
    set_symbols(graph, dims or {})
    builder = IrBuilder(graph.name or path.stem)
    builder.keeps_draws = True
    scope = Scope(observer=observer, variables=frozenset(variables), shared_by=shared_by or {})
    imported = GraphImport(builder, graph, opsets_of(proto), path.parent, scope)
    imported.add_parameters(trainable_names(graph, trainable, frozen))
    given_shapes = shapes or {}
    inputs = [info for info in graph.input if info.name not in imported.values]
    add_settings(imported, inputs, values or {})
    inputs = [info for info in inputs if info.name not in (values or {})]
    for name in given_shapes:
        if name not in {info.name for info in inputs} | set(values or {}):
            names = ", ".join(info.name for info in inputs)
            raise BadInput(f"Unknown input {name!r}; the model has {names}")
    for info in inputs:
        if info.type.WhichOneof("value") != "tensor_type":
            raise BadModel(f"Input {info.name!r} is not a tensor; only tensors are supported")
        dtype = element_type(info.type.tensor_type.elem_type, f"Input {info.name!r}")
        check_type(dtype, f"Input {info.name!r}", is_input=True)
        value = builder.input(info.name, input_shape(info, given_shapes, batch), dtype)
        imported.values[info.name] = value
    results = imported.add_nodes()
    tensors_only("The result of the model", results)
    open_inputs = [info.name for info in inputs if leaves_batch_open(info, given_shapes)]
    if batch is not None and not open_inputs:
        raise BadInput(
            "No input leaves its first dimension open, so the batch cannot be set: export the model"
            " with a dynamic batch"
        )
    assumed = open_inputs if batch is None else []
    notices = oddities(graph, builder.operations, results, imported.counts, assumed)
    named = [(info.name, value) for info, value in zip(graph.output, results, strict=True)]
    numbers, counts = imported.counts.of_outputs(named)
    graph_ = builder.finish([*named, *numbers], assumed)
    return replace(
        graph_, counts=counts, notices=notices, opset=opsets_of(proto)[""], front_end="onnx"
    )
