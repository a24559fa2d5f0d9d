"""Programs whose operators write nothing, without a second trace by PyTorch."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tilescope.engine.frontend.torch.table import is_whole

__all__ = ["WRITTEN_CONSTANTS", "functional"]

#: Key of a graph's facts: the paths of constants that the program writes.
WRITTEN_CONSTANTS = "written_constants"

#: Arguments by which a normalisation replaces its running statistics.
_TRAINING_FLAGS = ("training", "train", "use_input_stats")
#: Modules of the functions that compute sizes.
_SIZE_MODULES = ("_operator", "math", "torch", "torch.fx.experimental.sym_node")


class _SharedMemoryError(Exception):
    """What is written is read under another name, or is not the program's own."""


def functional(torch: Any, program: Any) -> Any:
    """Return a program whose operators write nothing; None where PyTorch has to trace it again.

    An operator that writes into a tensor becomes the one that returns a new tensor, which all
    later readers of the tensor take. Of tensors that share memory, one may be written only if no
    other is read afterwards; of arguments, only buffers, whose new values become results, and
    constants, which are as before in the next run.

    Parameters
    ----------
    torch
        PyTorch.
    program
        A ``torch.export.ExportedProgram``, which stays as it is.

    Returns
    -------
    torch.export.ExportedProgram or None
        None, too, if an operator has no rule or calls a graph.
    """
    calls = [node for node in program.graph.nodes if node.op.startswith("call_")]
    if not all(_is_operator(torch, node) or _is_of_sizes(node) for node in calls):
        return None
    try:
        rewritten = _Rewrite(torch, program).program() if any(map(_writes, calls)) else program
    except _SharedMemoryError:
        return None
    operators = (node for node in rewritten.graph.nodes if _is_operator(torch, node))
    return rewritten if all(is_whole(str(node.target)) for node in operators) else None


def _is_operator(torch: Any, node: Any) -> bool:
    return isinstance(node.target, torch._ops.OpOverload)


def _is_of_sizes(node: Any) -> bool:
    """Return whether a node computes a size, or takes one of several results."""
    return node.op == "call_function" and node.target.__module__ in _SIZE_MODULES


def _writes(node: Any) -> bool:
    """Return whether a node writes into an argument, whether or not its operator says so."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    if schema.is_mutable:
        return True
    given = _by_name(node)
    return (
        given.get("running_mean") is not None
        and any(given.get(flag) for flag in _TRAINING_FLAGS)
        and not node.target._opname.endswith("_functional")
    )


def _by_name(node: Any) -> dict[str, Any]:
    """Return the arguments of a node by the names of its operator's schema."""
    arguments = node.target._schema.arguments
    names = [argument.name for argument in arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


@dataclass
class _Rewrite:
    """The new graph of a program, node by node.

    Parameters
    ----------
    newest
        New nodes by old ones; of a tensor that was written, what it holds now.
    tensors
        The tensor that a node returns after it wrote into it, or is under another path.
    memory
        Nodes that share memory with a node, itself included.
    buffers
        Paths by placeholder.
    constants
        Paths of tensors that the module has as plain attributes, by placeholder.
    changed
        Placeholders that were written: of buffers, and of constants.
    placed
        Placeholders with the address of their memory, and the form of their tensor.
    """

    torch: Any
    old: Any
    newest: dict[Any, Any] = field(default_factory=dict)
    tensors: dict[Any, Any] = field(default_factory=dict)
    memory: dict[Any, set[Any]] = field(default_factory=dict)
    buffers: dict[Any, str] = field(default_factory=dict)
    constants: dict[Any, str] = field(default_factory=dict)
    changed: dict[Any, None] = field(default_factory=dict)
    placed: list[tuple[Any, Any, Any]] = field(default_factory=list)

    def program(self) -> Any:
        """Return the new program.

        Raises
        ------
        _SharedMemoryError
            When PyTorch has to find out what a tensor holds.
        """
        self.graph = self.torch.fx.Graph()
        old_nodes = [*self.old.graph.nodes]
        self.order = {node: index for index, node in enumerate(old_nodes)}
        placeholders = [node for node in old_nodes if node.op == "placeholder"]
        signature = self.old.graph_signature
        held = {**self.old.state_dict, **self.old.constants}
        for spec, node in zip(signature.input_specs, placeholders, strict=True):
            if spec.kind.name == "BUFFER":
                self.buffers[node] = spec.target
            elif spec.kind.name == "CONSTANT_TENSOR":
                self.constants[node] = spec.target
            self._place(node, held.get(spec.target))
        for node in old_nodes:
            if node.op == "output":
                results = self.torch.fx.map_arg(node.args[0], self._current)
                updates = [self.newest[held] for held in self.changed if held in self.buffers]
                self.graph.output((*updates, *results)).meta.update(node.meta)
            elif not _writes(node):
                copied = self.newest[node] = self.graph.node_copy(node, self._current)
                if node.op == "placeholder":
                    copied.name = node.name  # also one of Python's own, such as `input`
                if node not in self.memory:
                    self._share(node, self._aliased(node))
            elif node.target is self.torch.ops.aten.batch_norm.default:
                self._normalise(node)
            else:
                self._replace(node)
        module = self.torch.fx.GraphModule(self.old.graph_module, self.graph)
        constants = [self.constants[held] for held in self.changed if held in self.constants]
        module.meta.update(self.old.graph_module.meta | {WRITTEN_CONSTANTS: constants})
        return self.old._update(module, self._signature({n.name: n for n in old_nodes}))

    def _signature(self, old_nodes: dict[str, Any]) -> Any:
        """Return the signature of the new program: results are those of old, and buffers."""
        stated = self.torch.export.graph_signature
        updates = [
            stated.OutputSpec(
                stated.OutputKind.BUFFER_MUTATION,
                stated.TensorArgument(name=self.newest[held].name),
                self.buffers[held],
            )
            for held in self.changed
            if held in self.buffers
        ]
        results = []
        for spec in self.old.graph_signature.output_specs:
            argument = spec.arg
            if getattr(argument, "name", None) in old_nodes:
                name = self._current(old_nodes[argument.name]).name
                argument = type(argument)(**{**vars(argument), "name": name})
            results.append(stated.OutputSpec(spec.kind, argument, spec.target))
        inputs = [*self.old.graph_signature.input_specs]
        return stated.ExportGraphSignature(inputs, [*updates, *results])

    def _current(self, node: Any) -> Any:
        return self.newest[self.tensors.get(node, node)]

    def _place(self, node: Any, tensor: Any) -> None:
        """Note which arguments are one tensor under several paths, or share its memory."""
        self._share(node, ())
        if not hasattr(tensor, "data_ptr") or not tensor.numel():
            return
        address = tensor.untyped_storage().data_ptr()
        form = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
        for other, place, layout in self.placed:
            if layout == form:
                self.tensors[node] = self.tensors.get(other, other)
                return
            if place == address:
                self._share(node, [other])
        self.placed.append((node, address, form))

    def _aliased(self, node: Any) -> list[Any]:
        """Return the nodes with which the results of a node may share memory."""
        if not _is_operator(self.torch, node):
            return [*node.all_input_nodes]
        schema = node.target._schema
        if all(result.alias_info is None for result in schema.returns):
            return []
        given = _by_name(node)
        return [
            given[argument.name]
            for argument in schema.arguments
            if argument.alias_info is not None
            and isinstance(given.get(argument.name), self.torch.fx.Node)
        ]

    def _share(self, node: Any, others: Iterable[Any]) -> None:
        """Note that a node may share memory with others."""
        group = {node}.union(*(self.memory[self.tensors.get(n, n)] for n in others))
        self.memory.update(dict.fromkeys(group, group))

    def _written(self, node: Any, given: Any) -> Any:
        """Return the tensor that a node writes.

        Raises
        ------
        _SharedMemoryError
            When it is read under another name afterwards, or is not the program's own.
        """
        if not isinstance(given, self.torch.fx.Node):
            raise _SharedMemoryError
        tensor = self.tensors.get(given, given)
        group = self.memory[tensor]
        held = {member for member in group if member.op in ("placeholder", "get_attr")}
        if held and (held != {tensor} or tensor not in self.buffers | self.constants):
            raise _SharedMemoryError
        others = group - {tensor}
        others |= {name for name, of in self.tensors.items() if of in others}
        if any(self.order[user] > self.order[node] for name in others for user in name.users):
            raise _SharedMemoryError
        self.memory[tensor] = {tensor}
        if held:
            self.changed[tensor] = None
        return tensor

    def _replace(self, node: Any) -> None:
        """Add the operator that returns what one writes into its first argument."""
        target = self._without_writing(node.target)
        tensor = self._written(node, node.args[0] if node.args else None)
        value = self._computed(target, node.args, node.kwargs)
        if value.dtype != node.meta["val"].dtype:  # what is written has no other
            raise _SharedMemoryError
        new = self.graph.node_copy(node, self._current)
        new.target, new.meta["val"] = target, value
        self.tensors[node], self.newest[tensor] = tensor, new

    def _without_writing(self, target: Any) -> Any:
        """Return the operator that returns what another one writes into its first argument."""
        arguments = target._schema.arguments
        is_written = [a.alias_info is not None and a.alias_info.is_write for a in arguments]
        packet = getattr(getattr(self.torch.ops, target.namespace), target._opname[:-1], None)
        if target._opname.endswith("_") and is_written.count(True) == 1 and is_written[0]:
            kinds = [str(argument.type) for argument in arguments]
            for name in packet.overloads() if packet is not None else ():
                overload = getattr(packet, name)
                schema = overload._schema
                if [str(a.type) for a in schema.arguments] == kinds and not schema.is_mutable:
                    return overload
        raise _SharedMemoryError

    def _computed(self, target: Any, args: Any, kwargs: Any = None) -> Any:
        """Return what an operator returns, as PyTorch's tensors without numbers."""
        args, kwargs = self.torch.fx.map_arg((args, kwargs or {}), lambda node: node.meta["val"])
        with self.torch.no_grad():
            return target(*args, **kwargs)

    def _normalise(self, node: Any) -> None:
        """Add a batch normalisation that returns its running statistics."""
        target = self.torch.ops.aten._native_batch_norm_legit_functional.default
        args = node.args[: len(target._schema.arguments)]
        values = self._computed(target, args)
        mean, variance = (self._written(node, args[index]) for index in (3, 4))
        results = self.graph.call_function(target, self.torch.fx.map_arg(args, self._current))
        results.meta.update({**node.meta, "val": values})
        for tensor, index in ((node, 0), (mean, 3), (variance, 4)):
            result = self.graph.call_function(operator.getitem, (results, index))
            result.meta.update({**node.meta, "val": values[index]})
            self.newest[tensor] = result
        self._share(node, ())
