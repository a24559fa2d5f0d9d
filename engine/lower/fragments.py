"""Operations that were lowered before: what decides an operation's fragment, and its look-up."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set
from collections.abc import Sequence as Items
from hashlib import blake2b
from typing import Any, Protocol

from tilescope.engine.errors import BadExecutable
from tilescope.engine.graph import Joined, Tensor, Variable, View
from tilescope.engine.graph.identity.array_digests import ArrayDigests
from tilescope.engine.ir import NarrowConstant, Operation, Value
from tilescope.engine.ir.digest import OperatorKeys, described
from tilescope.engine.ir.value import looked_at
from tilescope.engine.library.builder import Builder
from tilescope.engine.lower.fragment import Beginning, Fragment, Unrepeatable
from tilescope.engine.lower.remote import is_remote

__all__ = ["FragmentStore", "Fragments", "lowered"]

_log = logging.getLogger(__name__)


class FragmentStore(Protocol):
    """A store of fragments that outlives the process."""

    def looks(self, kind: bytes) -> Items[int]:
        """Return which operands' contents decided the fragments of a kind; none if unknown.

        Parameters
        ----------
        kind
            Digest of all that decides a fragment but the contents of operands.
        """

    def find(self, key: bytes, outer: Items[object]) -> Fragment | None:
        """Return a new fragment that refers to other objects; None if there is none for the key.

        Parameters
        ----------
        key
            Digest of all that decides the fragment.
        outer
            What it refers to and does not own, in a fixed order.
        """

    def keep(
        self,
        kind: bytes,
        looks: Items[int],
        key: bytes,
        outer: Items[object],
        fragment: Fragment,
    ) -> None:
        """Store a fragment as it is now.

        Parameters
        ----------
        kind, looks
            As for `looks`, which returns these numbers from now on.
        key, outer
            As for `find`.
        fragment
            The fragment.

        Raises
        ------
        TypeError
            When it holds something of a type that cannot be stored.
        BadExecutable
            When another process could not find a codelet.
        """


class Place(Protocol):
    """Where an operation is lowered to: a `tilescope.engine.lower.Lowering`."""

    @property
    def builder(self) -> Builder:
        """What library calls write into."""

    @property
    def front_end(self) -> str:
        """Of the model."""

    @property
    def tensors(self) -> Mapping[Value, Tensor]:
        """Of the values computed so far."""

    @property
    def weights(self) -> set[Value]:
        """Values whose contents were handed out to be laid out."""

    def is_free(self, value: Value) -> bool:
        """Return whether the operation may write over an operand."""


class Fragments:
    """Lowers operations, equal ones of earlier programs by their fragments.

    Parameters
    ----------
    store
        Where fragments are looked up and kept.
    digests
        Of the arrays of a program.

    Notes
    -----
    The key holds all that a lowering reads: the operation with the names and types of its values;
    the tensors of its operands, with their variables' names, mappings and plans, and whether they
    are free; the state of the builder. It holds the contents of those operands that the lowering
    looked at: others it only lays out, which is done again. Operations with regions are lowered
    anew, the operations inside them like others; so are copies from and to streaming memory.
    """

    def __init__(self, store: FragmentStore, digests: ArrayDigests) -> None:
        self._store, self._digests = store, digests
        self._options: dict[object, str] = {}
        self._keys = OperatorKeys()
        #: Operations lowered anew and taken from the store.
        self.n_lowered, self.n_taken = 0, 0

    def lower(self, lowering: Place, operation: Operation) -> tuple[Tensor, ...]:
        """Return the tensors of an operation's results, after adding what computes them."""
        builder = lowering.builder
        operands = _variables(lowering, operation)
        outer = [builder.debug, *operands]
        is_alone = bool(operation.regions) or is_remote(operation)
        kind = None if is_alone else self._kind(lowering, operation, operands)
        if kind is None:
            self.n_lowered += 1
            return lowered(lowering, operation)
        looks = self._store.looks(kind)
        fragment = self._store.find(_key(kind, operation, looks), outer)
        if fragment is not None:
            self.n_taken += 1
            return fragment.add_to(builder, operation, operands)
        self.n_lowered += 1
        beginning = Beginning(builder, operands)
        lowering.weights.clear()
        with looked_at() as values:
            results = lowered(lowering, operation)
        try:
            new = beginning.fragment(operation, results)
            values |= lowering.weights - {operation.operands[number] for number in new.laid_out}
            looks = sorted({*looks, *_numbers(operation, values)})
            self._store.keep(kind, looks, _key(kind, operation, looks), outer, new)
        except (TypeError, Unrepeatable, BadExecutable) as error:
            _log.debug("%s is not kept: %s", operation, error)
        return results

    def _kind(
        self, lowering: Place, operation: Operation, operands: Items[Variable]
    ) -> bytes | None:
        """Return a digest of all that decides what an operation adds but the contents of operands.

        None if that is unknown.
        """
        builder = lowering.builder
        numbers = {variable: number for number, variable in enumerate(operands)}
        of_inputs = [
            None
            if value is None
            else (
                _of_value(value),
                self._of_view(lowering.tensors.get(value), numbers),
                lowering.is_free(value),
            )
            for value in operation.inputs
        ]
        try:
            parts = (
                self._keys.of(operation.operator),
                (operation.name, operation.source, operation.version, operation.n_outputs),
                described(operation.attributes),
                described(operation.hints.stated()),
                operation.training_pass and operation.training_pass.value,
                of_inputs,
                [None if value is None else _of_value(value) for value in operation.outputs],
                [self._of_variable(variable) for variable in operands],
                (lowering.front_end, builder.debug.name, builder.plan_id, builder.serial_part),
                self._of_options(builder),
                (self._digests.of(builder.tiles.ids), builder.tiles.next_start),
                builder.graph.n_io_tiles,
            )
        except TypeError as error:
            _log.debug("%s is not kept: %s", operation, error)
            return None
        return _digest(parts)

    def _of_options(self, builder: Builder) -> str:
        """Describe the options of plans."""
        options = builder.available_memory, builder.partials
        if options not in self._options:
            self._options[options] = repr(described(options))
        return self._options[options]

    def _of_variable(self, variable: Variable) -> tuple[Any, ...]:
        """Describe the variable of an operand."""
        partial = variable.partial_mapping
        mapping = (variable.map_start, variable.map_tile, *(partial or ()))
        return (
            variable.name,
            variable.dtype.name,
            variable.shape,
            variable.category,
            variable.values is not None,
            [self._digests.of(array) for array in mapping],
            None if variable.allocated_for is None else described(variable.allocated_for),
        )

    def _of_view(self, view: View | None, numbers: dict[Variable, int]) -> Any:
        """Describe a view on numbered variables."""
        if isinstance(view, Joined):
            return view.dim, [self._of_view(part, numbers) for part in view.parts]
        return None if view is None else (numbers[view.variable], view.offset, view.dims)


def _digest(parts: object) -> bytes:
    """Return the digest of plain values."""
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _key(kind: bytes, operation: Operation, looks: Items[int]) -> bytes:
    """Return a digest of all that decides what an operation adds."""
    contents = [(number, operation.operands[number].digest) for number in looks]
    return _digest((kind, contents)) if contents else kind


def _numbers(operation: Operation, values: Set[Value]) -> list[int]:
    """Return the numbers of operands among values; others were made by the lowering."""
    return [number for number, value in enumerate(operation.operands) if value in values]


def lowered(lowering: Place, operation: Operation) -> tuple[Tensor, ...]:
    """Return the tensors of the results of an operation that is lowered anew."""
    assert operation.operator.lower is not None
    result = operation.operator.lower(lowering, operation)
    return result if isinstance(result, tuple) else (result,)


def _variables(lowering: Place, operation: Operation) -> list[Variable]:
    """Return the variables of an operation's operands, without duplicates."""
    views = [lowering.tensors[value] for value in operation.operands if value in lowering.tensors]
    return list(dict.fromkeys(v for view in views for v in view.variables))


def _of_value(value: Value) -> tuple[Any, ...]:
    """Describe a value without its content."""
    narrow = value.narrow_dtype if isinstance(value, NarrowConstant) else ""
    kind = type(value).__name__
    return kind, value.name, value.dtype, value.shape, value.is_known, narrow, value.is_held
