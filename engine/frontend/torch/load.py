"""From a module of PyTorch to the operator graph: whole operators, static shapes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from tilescope.collection import without_collection
from tilescope.engine.errors import BadInput, BadModel
from tilescope.engine.frontend.torch.capture import captured, torch_module
from tilescope.engine.frontend.torch.functional import WRITTEN_CONSTANTS
from tilescope.engine.frontend.torch.import_graph import GraphImport
from tilescope.engine.frontend.torch.program import MarkedLoss, OutputName, TorchProgram
from tilescope.engine.frontend.torch.promotion import dtype_name
from tilescope.engine.frontend.torch.sizes import sizes_of
from tilescope.engine.frontend.torch.structure import leaf_names
from tilescope.engine.ir import IrBuilder, Parameter, Purpose, ReplicaGroup, State, Update, Value
from tilescope.engine.notice import Notice

__all__ = ["load_torch"]


@without_collection()
def load_torch(  # noqa: PLR0913 # what a module leaves open
    source: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    is_training: bool = False,
    trained: Collection[str] = ("*",),
    frozen: Collection[str] = (),
    dims: Mapping[str, int] | None = None,
    name: str = "",
    holds_weights: bool = False,
    returns_written: bool = False,
    shared_by: Mapping[str, ReplicaGroup] | None = None,
) -> TorchProgram:
    """Return the operator graph of a module, with the structure of its arguments and results.

    Parameters
    ----------
    source
        A ``torch.nn.Module``, which stays as it is; a ``torch.export.ExportedProgram``; or the
        path of a ``.pt2`` file. A module in training mode gets the dropouts and the batch
        statistics of training.
    args, kwargs
        What the module is called with: tensors whose shapes and types count, and Python objects
        whose values do.
    is_training
        Whether parameters are trainable: those that require gradients and are chosen.
    trained, frozen
        Paths of parameters that training updates, as patterns of the shell, and of those that stay
        as they are all the same.
    dims
        Sizes of the dimensions that an exported program leaves open, by the name of the
        ``torch.export.Dim`` or of the symbol.
    name
        Of the model; that of the module's class if empty.
    holds_weights
        Whether the device holds all parameters, and the buffers of floating-point numbers, from run
        to run, so that the host can change them. Otherwise those that nothing changes are
        constants.
    returns_written
        Whether the model has what the module writes into its arguments among its outputs; see
        `TorchProgram.written`.
    shared_by
        The replicas that share a parameter, by its module path, where not all do. The module has
        what the first group has.

    Raises
    ------
    BadInput
        When PyTorch or the file is missing, a dimension has no size, or a pattern chooses nothing.
    BadModel
        When PyTorch cannot export the module, or it has a type that the machine does not have.
    UnsupportedOperators
        Lists every operator without a rule, with module and line.
    """
    torch = torch_module()
    program = captured(source, args, kwargs or {})
    builder = IrBuilder(name or _name_of(source))
    builder.keeps_draws = True
    held = _Held.of(program, holds_weights)
    held.shared_by = {held.names[path]: group for path, group in (shared_by or {}).items()}
    chosen = held.chosen(trained, frozen) if is_training else frozenset()
    sizes = sizes_of(program, args, kwargs or {}, dims or {})
    facts: dict[str, Any] = {}
    graph = GraphImport(builder, program.graph_module, {}, sizes, facts)
    names = leaf_names(program)
    taken = set(held.names.values())
    in_leaves: list[tuple[str, Any]] = []
    labels: dict[str, str] = {}
    for spec, node in zip(program.graph_signature.input_specs, _placeholders(program), strict=True):
        kind = spec.kind.name
        if kind == "USER_INPUT":
            label = names.inputs[len(in_leaves)]
            while label in taken:
                label += "_"
            labels[node.name] = label
            if isinstance(node.meta.get("val"), torch.Tensor):
                dtype = dtype_name(node.meta["val"].dtype, f"Argument {label!r}")
                shape = [graph.size_of(size) for size in node.meta["val"].shape]
                graph.values[node.name] = builder.input(label, shape, dtype)
                in_leaves.append((label, None))
            else:
                graph.values[node.name] = given = graph.size_of(_constant(spec, node))
                in_leaves.append((label, given))
        elif kind in ("PARAMETER", "BUFFER"):
            graph.values[node.name] = held.value(spec.target, chosen)
        elif kind == "CONSTANT_TENSOR":
            array = program.constants[spec.target].detach().cpu().numpy()
            graph.values[node.name] = builder.constant(array, spec.target)
        else:
            raise BadModel(f"The module has an input of kind {kind.lower()}, which is unsupported")
    results = graph.add_nodes()
    returned = _Results(names.outputs, labels, returns_written)
    returned.notices += [
        Notice(
            "info",
            "constant_written",
            f"The module writes into its tensor {path!r}, which is as before in the next run:"
            " register it as a buffer to keep what is written",
        )
        for path in program.graph_module.meta.get(WRITTEN_CONSTANTS, ())
    ]
    for spec, result in zip(program.graph_signature.output_specs, results, strict=True):
        returned.add(spec, result, lambda path: held.value(path, chosen))
    outputs = returned.outputs
    marked: Mapping[Value, str] = facts.get("losses", {})
    losses = [MarkedLoss(label, marked[v]) for label, v in outputs if v in marked]
    model = replace(
        builder.finish(outputs),
        front_end="torch",
        updates=tuple(returned.updates),
        notices=tuple(returned.notices),
    )
    return TorchProgram(
        model,
        parameters={path: held.names[path] for path in held.parameters},
        buffers={path: held.names[path] for path in held.buffers},
        losses=tuple(losses),
        written=returned.written,
        in_spec=program.call_spec.in_spec,
        out_spec=program.call_spec.out_spec,
        in_leaves=tuple(in_leaves),
        out_leaves=tuple(returned.leaves),
    )


@dataclass
class _Results:
    """What the results of a program are.

    Parameters
    ----------
    names
        Of what the module returns.
    labels
        Names of inputs by those of their nodes.
    returns_written
        Whether what the module writes into its arguments is among the outputs.

    Attributes
    ----------
    outputs
        Of the model.
    leaves
        What the module returns: names of outputs, and constants.
    updates
        Of what the device holds.
    written
        Outputs by the names of the inputs that they are written into.
    notices
        Writes that do not reach the arguments.
    """

    names: Sequence[str]
    labels: Mapping[str, str]
    returns_written: bool
    outputs: list[tuple[str, Value]] = field(default_factory=list)
    leaves: list[Any] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    def add(self, spec: Any, result: Any, held: Callable[[str], Value]) -> None:
        """Take a result.

        Parameters
        ----------
        spec
            What PyTorch says of it.
        result
            The value, or a constant that the module returns.
        held
            Returns what the device holds of a parameter or buffer.

        Raises
        ------
        BadModel
            When it is of a kind that models do not have.
        """
        kind = spec.kind.name
        if kind == "USER_OUTPUT":
            label = self.names[len(self.leaves)]
            if isinstance(result, Value):
                self.outputs.append((label, result))
                self.leaves.append(OutputName(label))
            else:
                self.leaves.append(result)
        elif kind in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
            state = held(spec.target)
            assert isinstance(state, Parameter | State), "what changes is held"
            self.updates.append(Update(state, result))
        elif kind != "USER_INPUT_MUTATION":
            raise BadModel(f"The module has a result of kind {kind.lower()}, which is unsupported")
        elif self.returns_written:
            label = self.labels[spec.target]
            self.written[label] = f"{label}/written"
            self.outputs.append((self.written[label], result))
        else:
            message = f"The module writes into its argument {spec.target!r}, which stays as it is"
            self.notices.append(Notice("info", "argument_written", message))


@dataclass
class _Held:
    """Parameters and buffers of a program.

    Parameters
    ----------
    tensors
        By module path.
    parameters, buffers
        Module paths.
    names
        Name of the value by module path: the first path of those that share a tensor.
    changing
        Names of those that the program writes.
    is_held
        Whether the device holds floating-point numbers that nothing changes, too.
    shared_by
        The replicas that share a value, by its name, where not all do.
    """

    tensors: Mapping[str, Any]
    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    names: Mapping[str, str]
    changing: frozenset[str]
    is_held: bool = False
    values: dict[str, Value] = field(default_factory=dict)
    shared_by: Mapping[str, ReplicaGroup] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Any, holds_weights: bool = False) -> _Held:
        """Return those of a program."""
        tensors = {**program.state_dict, **program.constants}
        names: dict[str, str] = {}
        first: dict[tuple[Any, ...], str] = {}
        for path, tensor in tensors.items():
            if not hasattr(tensor, "data_ptr"):
                continue
            place = (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
            is_shared = tensor.numel() > 0
            names[path] = first.setdefault(place, path) if is_shared else path
        signature = program.graph_signature
        buffers = {spec.target for spec in signature.input_specs if spec.kind.name == "BUFFER"}
        parameters = [
            path for path in names if path in program.state_dict and _is_weight(tensors[path])
        ]
        changing = {
            names[spec.target]
            for spec in signature.output_specs
            if spec.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION")
        }
        return cls(
            tensors,
            tuple(path for path in parameters if path not in buffers),
            tuple(path for path in names if path in buffers),
            names,
            frozenset(changing),
            holds_weights,
        )

    def chosen(self, trained: Collection[str], frozen: Collection[str]) -> frozenset[str]:
        """Return the names of the parameters that patterns choose.

        Raises
        ------
        BadInput
            When a pattern chooses nothing.
        """

        def matches(pattern: str) -> set[str]:
            found = {
                self.names[path]
                for path in self.parameters
                if fnmatchcase(path, pattern) and self.tensors[path].requires_grad
            }
            if not found and pattern != "*":
                raise BadInput(
                    f"No parameter of the module that requires a gradient matches {pattern!r}"
                )
            return found

        selected: set[str] = set()
        for pattern in trained:
            selected |= matches(pattern)
        for pattern in frozen:
            selected -= matches(pattern)
        return frozenset(selected)

    def value(self, path: str, chosen: frozenset[str]) -> Value:
        """Return the value of a parameter or buffer."""
        label = self.names[path]
        if label not in self.values:
            tensor = self.tensors[path]
            dtype = dtype_name(tensor.dtype, repr(label))
            array = np.array(tensor.detach().cpu().numpy())
            is_held = self.is_held and label not in chosen and dtype.startswith("float")
            if label in self.changing or is_held:
                value: Value = State(label, array.shape, dtype, array, purpose=Purpose.WEIGHT)
            else:
                value = Parameter(
                    label,
                    array.shape,
                    dtype,
                    array,
                    is_trainable=label in chosen,
                    shared_by=self.shared_by.get(label),
                )
            self.values[label] = value
        return self.values[label]


def _is_weight(tensor: Any) -> bool:
    import torch

    return isinstance(tensor, torch.nn.Parameter)


def _name_of(source: Any) -> str:
    """Return the name of a module's class, or that of a file without its ending."""
    from pathlib import Path

    if isinstance(source, str | Path):
        return Path(source).stem
    kind = type(source).__name__
    return "module" if kind == "ExportedProgram" else kind


def _placeholders(program: Any) -> list[Any]:
    return [node for node in program.graph.nodes if node.op == "placeholder"]


def _constant(spec: Any, node: Any) -> Any:
    """Return the value of an argument that is not a tensor."""
    held = getattr(spec.arg, "value", None)
    return node.meta.get("val") if held is None else held
