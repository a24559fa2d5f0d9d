"""Lowers operations one after the other: keeps their tensors and their place in the program."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from collections.abc import Sequence as Items
from dataclasses import dataclass, field, replace
from itertools import takewhile
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.expression import Expression
from tilescope.engine.errors import BadModel
from tilescope.engine.graph import DebugContext, Joined, Tensor, TileSet, Variable, View
from tilescope.engine.graph.identity.arrangement import weight
from tilescope.engine.graph.identity.digest import digest_of, joint_digest
from tilescope.engine.graph.variable import to_host
from tilescope.engine.ir import (
    NarrowConstant,
    Operation,
    Parameter,
    Purpose,
    State,
    TrainingPass,
    Update,
    Value,
)
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.fill import fill_together
from tilescope.engine.library.popops.elementwise.operations import (
    cast,
    copy_to,
    copy_together,
    row_major_copy,
)
from tilescope.engine.lower.fragments import Fragments, lowered
from tilescope.engine.lower.last_use import LastUses
from tilescope.engine.lower.remote import RemoteValues
from tilescope.engine.program import Sequence, StreamCopyIn

__all__ = ["Lowering"]

#: Elements of an array that a debug context states one by one.
_LONGEST_ATTRIBUTE = 256

#: Least bytes of a constant that a tile holds: who reads it all listens to fewer tiles.
_LEAST_BYTES = 128  # Source: graphcore/poplibs, lib/poputil/TileMapping.cpp: minBytesPerTile


@dataclass(frozen=True)
class Lowering:
    """Where operations are lowered to.

    Parameters
    ----------
    builder
        What library calls write into.
    front_end
        Of the model, which names its operations in reports.
    tensors
        Of the values computed so far.
    last_uses
        Of the operations that are being lowered, and the variables of their results.
    readers
        By held value and view of one: the operations that read it, as far as they lay it out.
    fragments
        Looks up what equal operations added to an earlier program; None lowers all anew.
    weights
        Values whose content was returned by `weight`.
    training_pass
        Of the operation whose regions are lowered.
    tiles_of_ipu
        Tiles by IPU, of a model whose operations have IPUs.
    part_constants
        Those that operations on parts of a batch added.
    remote
        The values in streaming memory.
    """

    builder: Builder
    front_end: str
    tensors: dict[Value, Tensor] = field(default_factory=dict)
    last_uses: LastUses = field(default_factory=LastUses)
    readers: dict[Value, list[Operation]] = field(default_factory=dict)
    fragments: Fragments | None = None
    weights: set[Value] = field(default_factory=set)
    training_pass: TrainingPass | None = None
    tiles_of_ipu: Mapping[int, TileSet] = field(default_factory=dict)
    part_constants: list[Variable] = field(default_factory=list)
    remote: RemoteValues = field(default_factory=RemoteValues)

    def on_ipu(self, ipu: int | None) -> Lowering:
        """Return where an IPU's operations are lowered to: its tiles; None for the present ones."""
        tiles = self.builder.tiles if ipu is None else self.tiles_of_ipu[ipu]
        if tiles is self.builder.tiles:
            return self
        return replace(self, builder=replace(self.builder, tiles=tiles))

    def add_input(self, value: Value, content: NDArray[Any] | None = None) -> None:
        """Add a variable for an input of the model, and its copy from the host.

        With a content there is no copy: the input is on the device before the program starts.
        """
        graph = self.builder.graph
        tensor = graph.add_variable(value.dtype, value.shape or (1,), value.name)
        # A row stays together where there are rows enough for the tiles.
        self.builder.spread(tensor, grain=4 if prod(value.shape) >= 4 else 1)
        tensor.variable.purpose = str(Purpose.ACTIVATION)
        self.tensors[value] = _shaped(tensor, value.shape)
        if content is None:
            self.builder.sequence.add(StreamCopyIn(value.name, self.tensors[value]))
        else:
            tensor.variable.values = to_host(content, tensor.dtype, value.name).reshape(-1)

    def add_held(self, value: Parameter | State) -> None:
        """Add the variable of a held value, laid out as its first reader asks for it.

        A state that lies as a parameter is added after that.
        """
        like = self.tensors.get(value.like) if isinstance(value, State) and value.like else None
        if like is None:
            tensor = self.allocated(value) or self.variable(value)
        else:
            graph, debug = self.builder.graph, self.builder.debug
            tensor = graph.clone(like, value.name, value.dtype, debug)
        (variable,) = tensor.variables
        contents = np.zeros(variable.n_elements, variable.dtype.host)
        _fill(contents, tensor, to_host(value.array, variable.dtype, value.name))
        variable.values = contents
        variable.name = value.name  # a reader may have named it as the view that it asked for
        variable.purpose = str(value.purpose if isinstance(value, State) else Purpose.WEIGHT)
        self.tensors[value] = tensor

    def allocated(self, value: Value) -> Tensor | None:
        """Return a new variable for a value, laid out as its first reader asks; None if none does.

        Readers that only change the view of the value ask in the name of their own readers.
        """
        for operation in self.readers.get(value, ()):
            allocate = operation.operator.allocate
            if allocate is not None:
                tensor: Tensor | None = allocate(self, operation, operation.inputs.index(value))
                if tensor is not None:
                    return tensor
        return None

    def add(
        self,
        operations: Items[Operation],
        results: Items[Value],
        updates: Items[Update] = (),
        arrivals: Set[Value] = frozenset(),
    ) -> None:
        """Lower operations in their order, and what replaces held values after them.

        Parameters
        ----------
        operations
            Of a model or a region.
        results
            Values that are read after them.
        updates
            Of held values.
        arrivals
            Values from before that nothing else reads; see `LastUses.of`.

        Raises
        ------
        BadModel
            When one has no lowering.
        """
        sequence, outside = self.builder.sequence, self.builder.debug
        on_chip = [update for update in updates if update.held in self.tensors]
        here = replace(
            self, last_uses=LastUses.of(operations, results, self.tensors, on_chip, arrivals)
        )
        inside = here
        for position, operation in enumerate(operations):
            here.last_uses.begin(operation)
            if inside is here or inside.builder.debug.name != outside.join(operation.name):
                # Operations that stand for one node of the model share its place in the tree.
                node = operation.origin or operation
                weights = []
                for value in node.operands:
                    if value.known is not None:
                        weights.append(value.digest)
                        self.builder.digests.add(value.known, value.digest)
                debug = outside.child(
                    operation.name,
                    self.front_end,
                    operation.source,
                    _detail(node) | _training_detail(operations, position),
                    weights_digest=joint_digest(weights),
                    line=node.line,
                )
                inside = here._at(Sequence(operation.name, debug=debug), debug)
            training_pass = operation.training_pass or self.training_pass
            inside = replace(inside.on_ipu(operation.placement.ipu), training_pass=training_pass)
            if operation.operator.lower is None:
                raise BadModel(f"{operation}: operator {operation.operator.key} has no lowering")
            variables = self.builder.graph.variables
            n_before = len(variables)
            if self.fragments is None:
                tensors = lowered(inside, operation)
            else:
                tensors = self.fragments.lower(inside, operation)
            if operation.is_of_part:
                added = variables[n_before:]
                self.part_constants.extend(v for v in added if v.category == "constant")
            for value, tensor in zip(operation.results, tensors, strict=True):
                self.tensors[value] = tensor
                here.last_uses.keep(value, tensor)
                _state_purpose(tensor, training_pass)
            inner_sequence = inside.builder.sequence
            if inner_sequence.children and inner_sequence not in sequence.children[-1:]:
                sequence.add(inner_sequence)

    def keep(self, operation: Operation, tensor: Tensor) -> None:
        """Record the tensor of the result of an operation, and what it is for."""
        self.tensors[operation.output] = tensor
        _state_purpose(tensor, operation.training_pass)

    def update(self, updates: Items[Update], *, is_training: bool = False) -> None:
        """Copy the values that replace held ones into their variables, unless they are there.

        Those of streaming memory are there: operations have stored them.
        """
        updates = [update for update in updates if update.held in self.tensors]
        filled, targets = [], []
        for update in updates:
            target, number = self.tensors[update.held], self.single(update.value)
            if number is None:
                targets.append((self.tensor(update.value), target))
            else:
                filled.append((target, number))
        held = {v for update in updates for v in self.tensors[update.held].variables}
        pairs = []
        for source, target in targets:
            if source == target:
                continue
            # A held value that replaces another one may itself be replaced.
            is_held = not held.isdisjoint(source.variables)
            pairs.append((row_major_copy(self.builder, source) if is_held else source, target))
        detail = {"pass": str(TrainingPass.UPDATE)} if is_training else None
        if pairs or filled:
            builder = self.builder.inside("updates", "popops.copy", detail, flops=0)
            if pairs:
                copy_together(builder, pairs, "update")
            if filled:
                fill_together(builder, filled, "fill")

    def inside(self, name: str) -> Lowering:
        """Return where a region is lowered to: a sequence that is not part of the program yet."""
        debug = self.builder.debug
        return replace(self._at(Sequence(name, debug=debug), debug), tensors=dict(self.tensors))

    def tensor(self, value: Value) -> Tensor:
        """Return the tensor of a value; a constant becomes a variable where it is used.

        Raises
        ------
        BadModel
            When the value is a parameter that a stream changes.
        """
        if value in self.tensors:
            return self.tensors[value]
        if not value.is_known:
            raise BadModel(f"Parameter {value.name!r} is streamed, which is not supported yet")
        array = self.weight(value)
        narrow_dtype = self.narrow_dtype(value)
        variable = self.builder.graph.add_constant(
            array.reshape(array.shape or (1,)),
            value.name,
            dtype=narrow_dtype or array.dtype,
            debug=self.builder.debug,
        )
        min_elements = -(-_LEAST_BYTES // variable.dtype.n_bytes)
        first = self.builder.tiles.take(variable.n_elements // min_elements + 1)
        grain = 4 // variable.dtype.n_bytes
        self.builder.spread(variable, grain=max(2, grain), minimum=min_elements, first=first)
        if narrow_dtype is not None:
            variable = cast(self.builder, variable, value.dtype)
        return _shaped(variable, value.shape)

    def weight(self, value: Value) -> NDArray[Any]:
        """Return the content of a value that is known, for a variable that holds it.

        Where it is only laid out (see `tilescope.engine.graph.identity.arrangement`), an operation
        with other weights of that shape is not lowered again.
        """
        self.weights.add(value)
        array = weight(value, np.asarray(value.content))
        self.builder.digests.add(array, value.digest)
        return array

    def narrow_dtype(self, value: Value) -> str | None:
        """Return the type in which the device keeps a constant that is widened where it is used.

        None for other values, and where the machine does not have the type.
        """
        has_float8 = self.builder.graph.machine.float8_conv_units > 0
        return value.narrow_dtype if isinstance(value, NarrowConstant) and has_float8 else None

    def is_free(self, value: Value) -> bool:
        """Return whether the operation that is being lowered may write over an operand."""
        return value in self.tensors and self.last_uses.is_free(self.tensors[value])

    @staticmethod
    def single(value: Value) -> float | None:
        """Return the number that all elements of a known value are; None for others."""
        array = value.known
        if array is None or not array.size or (array != array.flat[0]).any():
            return None
        return float(array.flat[0])

    def copied(self, value: Value) -> Tensor:
        """Return a copy of a value, laid out as it is."""
        builder, tensor = self.builder, self.tensor(value)
        copy = builder.graph.clone(tensor, "copy", debug=builder.debug)
        copy_to(builder, tensor, copy, "copy")
        return copy

    def variable(self, value: Value) -> Tensor:
        """Return a new variable that can hold a value, spread over the tiles."""
        graph = self.builder.graph
        tensor = graph.add_variable(
            value.dtype, value.shape or (1,), value.name, self.builder.debug
        )
        self.builder.spread(tensor, grain=2)
        return _shaped(tensor, value.shape)

    def _at(self, sequence: Sequence, debug: DebugContext) -> Lowering:
        return replace(self, builder=replace(self.builder, sequence=sequence, debug=debug))


#: What results of a pass are; those of a weight update replace what is held.
_PURPOSES = {
    None: Purpose.ACTIVATION,
    TrainingPass.FORWARD: Purpose.ACTIVATION,
    TrainingPass.RECOMPUTATION: Purpose.ACTIVATION,
    TrainingPass.DATA_GRADIENT: Purpose.GRADIENT,
    TrainingPass.WEIGHT_GRADIENT: Purpose.GRADIENT,
}


def _state_purpose(tensor: View, training_pass: TrainingPass | None) -> None:
    """Say of the variables that hold a result what they are for, unless it is known."""
    purpose = _PURPOSES.get(training_pass)
    for variable in tensor.variables:
        if purpose is not None and not variable.purpose and variable.category == "variable":
            variable.purpose = str(purpose)


def _fill(contents: NDArray[Any], tensor: View, values: NDArray[Any]) -> None:
    """Write the values of a tensor into the elements of its variable."""
    if isinstance(tensor, Joined):
        for part, of_part in zip(
            tensor.parts, np.split(values, tensor.ends[:-1], tensor.dim), strict=True
        ):
            _fill(contents, part, of_part)
        return
    atoms = [atom for dim in tensor.dims for atom in dim]
    strides = [stride * contents.itemsize for _, stride in atoms]
    view = np.ndarray(
        [size for size, _ in atoms],
        contents.dtype,
        contents,
        tensor.offset * contents.itemsize,
        strides,
    )
    view[...] = values.reshape(view.shape)


def _shaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return tensor if tensor.shape == shape else Tensor(tensor.variable, 0, ())


def _detail(operation: Operation) -> dict[str, Any]:
    """Return what a debug context says of a model's own operation, in JSON types."""
    detail: dict[str, Any] = {
        "attributes": {key: _plain(item) for key, item in operation.attributes.items()},
        "inputs": [_input(value) for value in operation.operands],
        "outputs": [_output(value) for value in operation.results],
    }
    asked = {"hints": operation.hints.stated(), "placement": operation.placement.stated()}
    return detail | {name: stated for name, stated in asked.items() if stated}


def _training_detail(operations: Items[Operation], first: int) -> dict[str, Any]:
    """Return what the context of an operation and its namesakes after it says of training.

    A backward operation has the attributes of the model's own operation, but operands and results
    of its own.
    """
    operation = operations[first]
    training_pass = operation.training_pass
    if training_pass is None:
        return {}
    detail: dict[str, Any] = {"pass": str(training_pass)}
    group = list(takewhile(lambda other: other.name == operation.name, operations[first:]))
    if training_pass is TrainingPass.FORWARD:
        # Of several operations that stand for one node, some may be computed again.
        kinds = dict.fromkeys(kind for other in group for kind in other.recomputed_by)
        if kinds:
            detail["recomputed_by"] = list(kinds)
            detail["with_its_result_by"] = list(group[-1].recomputed_by)
        return detail
    made = dict.fromkeys(value for other in group for value in other.results)
    read = dict.fromkeys(value for other in group for value in other.operands)
    detail["inputs"] = [_input(value) for value in read if value not in made]
    detail["outputs"] = [_output(value) for value in made if value not in read]
    if operation.origin is not None:
        detail["origin"] = operation.origin.name
    return detail


def _input(value: Value) -> list[Any]:
    return [*_output(value), value.known is not None]


def _output(value: Value) -> list[Any]:
    return [value.name, value.dtype, list(value.shape)]


def _plain(value: Any) -> Any:
    """Return an attribute in JSON types; an array of many elements as its digest."""
    if isinstance(value, np.ndarray):
        if value.size > _LONGEST_ATTRIBUTE:
            return f"{value.dtype} {value.shape} {digest_of([value])}"
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Expression):
        numbers = iter(value.numbers)
        return re.sub(r"\bk\d+\b", lambda _: f"{next(numbers):g}", value.text())
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
