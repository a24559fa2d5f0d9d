"""Records that refer to each other as bytes and arrays; a part of them is read when it is needed.

Objects are pickled, but only those of listed types, which are data: nothing else is made or called
when they are read. Their arrays are apart, concatenated by group and type. What was one object or
array is one again when read. What `Deferred` records read later is in a pickle per class, which
refers to shared objects of the first one by number.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.column import Column
from tilescope.engine.compiler.executable.codelet_place import CodeletPlace, codelet_at, place_of
from tilescope.engine.compiler.executable.container import NotAnEntry, narrowed
from tilescope.engine.graph import ComputeSet, RemoteBuffer, Variable
from tilescope.engine.graph.deferred import Deferred
from tilescope.engine.graph.freeze import read_only
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.number.dtype import DType, dtype_of

__all__ = [
    "WEIGHTS",
    "ObjectReader",
    "RecordReader",
    "RecordWriter",
    "read_objects",
    "write_objects",
]

T = TypeVar("T")

#: Group of the arrays that are read at once, and of the contents of variables.
_AT_ONCE, WEIGHTS = "now", "weights"
#: Name of the pickle that is read at once.
_ROOT = "objects"
_PROTOCOL = 5


def _frozen_map(items: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    """Return a mapping that cannot be changed."""
    return MappingProxyType(items)


def _revived(kind: type[Deferred], state: dict[str, Any], read: Callable[[], Any]) -> Deferred:
    """Return a record whose deferred attributes come from a function."""
    record = kind.__new__(kind)
    record.__dict__.update(state)
    record.come_later(read)
    return record


def _zeros(size: int) -> Column:
    """Return the column of zeros, which is one object."""
    return Column.zeros(size)


class _Names:
    """Names in pickles of what is kept elsewhere; the reader's own methods take their place."""

    @staticmethod
    def array(number: int) -> None:
        """Stand for an array of the table."""

    @staticmethod
    def codelet(number: int) -> None:
        """Stand for a codelet of the table."""

    @staticmethod
    def dtype(name: str) -> None:
        """Stand for a device type."""

    @staticmethod
    def shared(number: int) -> None:
        """Stand for an object of the first pickle."""

    @staticmethod
    def later(kind: str, number: int) -> None:
        """Stand for the deferred attributes of a record."""

    @staticmethod
    def outer(number: int) -> None:
        """Stand for what belongs to others."""


_NAMES = ("array", "codelet", "dtype", "shared", "later", "outer")
#: Functions that pickles may name.
_CALLED = frozenset({_frozen_map, _revived, _zeros, *(getattr(_Names, name) for name in _NAMES)})


@dataclass(frozen=True)
class _Later:
    """Where the deferred attributes of a record are: the pickle of its class, and their number."""

    kind: str
    number: int


class _Arrays:
    """The distinct arrays of a program, by group; those that are frozen cannot be written to."""

    def __init__(self, *, is_frozen: bool) -> None:
        self._is_frozen = is_frozen
        self._numbers: dict[tuple[Any, ...], int] = {}
        self.arrays: list[NDArray[Any]] = []
        self.groups: list[str] = []

    def number(self, array: NDArray[Any], group: str) -> int:
        """Return the number of an array, which belongs to the first group that has it."""
        if array.dtype.hasobject:
            raise TypeError("object arrays are not part of a program")
        address, is_read_only = array.__array_interface__["data"]
        is_read_only |= self._is_frozen
        # An empty array may have any address and any strides.
        memory = (address, array.strides) if array.size else ()
        key = (memory, is_read_only, array.shape, array.dtype.str)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.arrays)
            self.arrays.append(array)
            self.groups.append(group)
        return number

    def to_arrays(self) -> tuple[list[str], dict[str, NDArray[Any]]]:
        """Return the names of groups by type, and arrays by name: elements, then their table."""
        stored = [self._stored(array) for array in self.arrays]
        places = [
            f"{group}.{rows.dtype.str}"
            + (f" {array.dtype.str}" if rows.dtype != array.dtype else "")
            for group, array, rows in zip(self.groups, self.arrays, stored, strict=True)
        ]
        names = list(dict.fromkeys(places))
        number = {name: index for index, name in enumerate(names)}
        members: list[list[NDArray[Any]]] = [[] for _ in names]
        begins, ends = [], [0] * len(names)
        for place, rows in zip(places, stored, strict=True):
            members[number[place]].append(rows.reshape(-1))
            begins.append(ends[number[place]])
            ends[number[place]] += rows.size
        arrays = {name: np.concatenate(same) for name, same in zip(names, members, strict=True)}
        sizes = [size for array in self.arrays for size in array.shape]
        arrays["array_place"] = np.array([number[place] for place in places], np.int64)
        arrays["array_begin"] = np.array(begins, np.int64)
        arrays["array_n_dims"] = np.array([array.ndim for array in self.arrays], np.int64)
        arrays["array_shape"] = np.array(sizes, np.int64)
        arrays["array_is_writeable"] = np.array(
            [array.flags.writeable and not self._is_frozen for array in self.arrays], np.bool_
        )
        arrays["array_is_one_row"] = np.array([*map(_is_one_row, self.arrays)], np.bool_)
        return names, arrays

    def _stored(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return what is stored of an array: one row where all agree; narrow where it is frozen."""
        rows = array[:1] if _is_one_row(array) else array
        return narrowed(rows) if self._is_frozen else rows


def _is_one_row(array: NDArray[Any]) -> bool:
    """Return whether an array stores one row, or element, for all."""
    return array.ndim > 0 and len(array) > 1 and array.strides[0] == 0


#: What belongs to one graph: a record that refers to that of others would copy it.
_OWNED = (Variable, ComputeSet, RemoteBuffer)


class _Writer(pickle.Pickler):
    """Pickles records; what they refer to besides each other gets a number.

    Each refers to it through a function of `_Names`, so that no plain value is looked at.
    """

    def __init__(
        self,
        program: _Program,
        group: str,
        outer: Sequence[object] = (),
        own: Sequence[object] | None = None,
    ) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, _PROTOCOL)
        self._program, self._group = program, group
        self._outer = {id(value): number for number, value in enumerate(outer)}
        self._own = None if own is None else {id(value) for value in own}

    def content(self, value: object) -> bytes:
        """Return a value as bytes."""
        self.dump(value)
        content = self._file.getvalue()
        self._file.seek(0)
        self._file.truncate()
        return content

    def reducer_override(self, value: Any) -> Any:
        """Return how a value is made again; other types than those listed are refused."""
        if id(value) in self._outer:
            return _Names.outer, (self._outer[id(value)],)
        kind, program = type(value), self._program
        if kind in program.kinds:
            if self._own is not None and kind in _OWNED and id(value) not in self._own:
                raise TypeError(f"a {kind.__name__} belongs to another record")
            if self._group != _AT_ONCE and kind in program.shared_kinds:
                return _Names.shared, (program.shared_number(value),)
            if kind is Column and value is Column.zeros(value.size):
                return _zeros, (value.size,)
            if isinstance(value, Deferred):
                return program.reduced(value, is_split=self._group == _AT_ONCE)
            return NotImplemented
        match value:
            case np.ndarray():
                return _Names.array, (program.arrays.number(value, self._group),)
            case Codelet():
                return _Names.codelet, (program.codelet(value),)
            case DType():
                return _Names.dtype, (value.name,)
            case _Later():
                return _Names.later, (value.kind, value.number)
            case MappingProxyType():
                return _frozen_map, (dict(value),)
            case type() | FunctionType():
                if value in program.kinds or value in _CALLED:
                    return NotImplemented  # by its name, which the reader checks
                raise TypeError(f"{value.__name__} is not part of a program")
            case np.generic():
                raise TypeError(f"a number of numpy, {value!r}, is not part of a program")
        raise TypeError(f"{kind.__name__} is not part of a program")


class _Program:
    """What the pickles of one program share while they are written."""

    def __init__(
        self,
        kinds: Sequence[type],
        shared_kinds: Sequence[type] = (),
        *,
        is_split: bool = False,
        is_frozen: bool = False,
    ) -> None:
        self.kinds, self.shared_kinds = frozenset(kinds), frozenset(shared_kinds)
        self.arrays = _Arrays(is_frozen=is_frozen)
        self.codelets: list[CodeletPlace] = []
        self.shared: list[Any] = []
        #: By class: the deferred attributes of its records.
        self.later: dict[type, list[tuple[Any, ...]]] = {}
        self._is_split = is_split
        self._codelet_numbers: dict[Codelet, int] = {}
        self._shared_numbers: dict[int, int] = {}

    def codelet(self, codelet: Codelet) -> int:
        number = self._codelet_numbers.get(codelet)
        if number is None:
            number = self._codelet_numbers[codelet] = len(self.codelets)
            self.codelets.append(place_of(codelet))
        return number

    def table(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what records refer to by number, as JSON types and arrays by name."""
        places, arrays = self.arrays.to_arrays()
        codelets = [[place.module, place.name, place.digest] for place in self.codelets]
        return {"places": places, "codelets": codelets}, arrays

    def shared_number(self, value: Any) -> int:
        # All are reachable from the root, so no id is reused.
        number = self._shared_numbers.get(id(value))
        if number is None:
            number = self._shared_numbers[id(value)] = len(self.shared)
            self.shared.append(value)
        return number

    def reduced(self, record: Deferred, *, is_split: bool) -> Any:
        """Return how a record is made again, with its later part apart if that pays."""
        kind = type(record)
        later = tuple(getattr(record, name) for name in kind.deferred)
        if not (is_split and self._is_split and record.is_worth_deferring):
            return NotImplemented
        state = {k: v for k, v in record.__dict__.items() if k not in kind.deferred}
        numbered = self.later.setdefault(kind, [])
        numbered.append(later)
        return _revived, (kind, state, _Later(kind.__name__, len(numbered) - 1))


def write_objects(
    root: object,
    kinds: Sequence[type],
    shared_kinds: Sequence[type] = (),
    weights: Sequence[NDArray[Any]] = (),
    *,
    is_split: bool = False,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a record, and all that it refers to, as JSON types and arrays.

    Parameters
    ----------
    root
        The record.
    kinds
        The dataclasses and enums that may occur; codelets and device types are always allowed.
    shared_kinds
        Those of them that deferred parts share with the part that is read at once.
    weights
        Arrays that are a group of their own, ``weights``.
    is_split
        Whether deferred parts are apart.

    Raises
    ------
    TypeError
        When something of another type occurs.
    BadExecutable
        When another process could not find a codelet.
    """
    program = _Program(kinds, shared_kinds, is_split=is_split)
    for array in weights:
        program.arrays.number(array, WEIGHTS)
    writer = _Writer(program, _AT_ONCE)
    try:
        content = writer.content(root)
        later = {
            kind.__name__: _Writer(program, kind.__name__).content(parts)
            for kind, parts in program.later.items()
        }
        # By the same pickler: what is shared is the same object again.
        shared = writer.content(program.shared)
    except (pickle.PicklingError, RecursionError) as error:
        raise TypeError(str(error)) from None
    facts, arrays = program.table()
    facts["lengths"] = [len(content), len(shared)]
    arrays[_ROOT] = np.frombuffer(content + shared, np.uint8)
    for name, part in later.items():
        arrays[f"{_ROOT}.{name}"] = np.frombuffer(part, np.uint8)
    return facts, arrays


class RecordWriter:
    """Takes records apart that are read one by one; what they refer to shares one table of arrays.

    Arrays are read-only when they are read.

    Parameters
    ----------
    kinds
        The dataclasses and enums that may occur; codelets and device types are always allowed.
    """

    def __init__(self, kinds: Sequence[type]) -> None:
        self._program = _Program(kinds, is_frozen=True)

    def content(
        self,
        record: object,
        outer: Sequence[object] = (),
        own: Sequence[object] | None = None,
    ) -> bytes:
        """Return a record as bytes.

        Parameters
        ----------
        record
            The record; its arrays must not change any more.
        outer
            What it refers to and does not own: the reader gives others for them.
        own
            Its variables, compute sets and remote buffers; None for any.

        Raises
        ------
        TypeError
            When something of another type occurs, or a variable, compute set or remote buffer of
            others.
        BadExecutable
            When another process could not find a codelet.
        """
        try:
            return _Writer(self._program, _AT_ONCE, outer, own).content(record)
        except (pickle.PicklingError, RecursionError) as error:
            raise TypeError(str(error)) from None

    @property
    def arrays(self) -> Sequence[NDArray[Any]]:
        """The distinct arrays of all records, by number."""
        return self._program.arrays.arrays

    def table(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what all records refer to, as JSON types and arrays by name."""
        return self._program.table()


class _Reader(pickle.Unpickler):
    """Makes records again; only those of listed types."""

    def __init__(
        self, program: RecordReader, content: bytes | memoryview, outer: Sequence[object] = ()
    ) -> None:
        super().__init__(io.BytesIO(content))
        self._program, self._outer = program, outer

    def find_class(self, module: str, name: str) -> Any:
        """Return a listed type, by its names, or what reads what is kept elsewhere."""
        if module == __name__ and name in _READ_BY:
            return getattr(self, _READ_BY[name], None) or getattr(self._program, _READ_BY[name])
        found = self._program.known.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a program")
        return found

    def outer(self, number: int) -> object:
        """Return what belongs to others, by its number."""
        return self._outer[number]


#: Names of the methods that take the place of `_Names`, by its functions' names in pickles.
_READ_BY = {f"{_Names.__qualname__}.{name}": name for name in _NAMES}


class RecordReader:
    """Makes records again that a `RecordWriter` took apart.

    Parameters
    ----------
    kinds
        As for the writer.
    facts
        First result of its `table`.
    array
        Returns an array of the second result by name; it may read it only then.

    Raises
    ------
    Exception
        Of any type where facts or arrays are malformed.
    """

    def __init__(
        self,
        kinds: Sequence[type],
        facts: Mapping[str, Any],
        array: Callable[[str], NDArray[Any]],
    ) -> None:
        known: list[Any] = [*kinds, _frozen_map, _revived, _zeros]
        self.known = {(kind.__module__, kind.__qualname__): kind for kind in known}
        self.shared_objects: list[Any] = []
        self._array, self._places = array, facts["places"]
        self._codelets = [CodeletPlace(*place) for place in facts["codelets"]]
        self._elements: dict[int, NDArray[Any]] = {}
        self._made: dict[int, NDArray[Any]] = {}
        self._found: dict[int, Codelet] = {}
        place = array("array_place").tolist()
        n_dims = array("array_n_dims").tolist()
        shape = array("array_shape").tolist()
        self._table: list[tuple[int, int, tuple[int, ...], bool, bool]] = []
        end = 0
        rows = zip(
            place,
            array("array_begin").tolist(),
            n_dims,
            array("array_is_writeable").tolist(),
            array("array_is_one_row").tolist(),
            strict=True,
        )
        for position, begin, n, *flags in rows:
            self._table.append((position, begin, tuple(shape[end : end + n]), *flags))
            end += n

    def record(self, content: bytes | memoryview, outer: Sequence[object] = ()) -> Any:
        """Return the record of a content.

        Parameters
        ----------
        content
            What `RecordWriter.content` returned.
        outer
            What it refers to, in the place of what the writer was given.

        Raises
        ------
        Exception
            Of any type where the content is malformed.
        BadExecutable
            When a codelet is missing.
        """
        return _Reader(self, content, outer).load()

    def dtype(self, name: str) -> DType:
        """Return a device type by its name."""
        return dtype_of(name)

    def shared(self, number: int) -> Any:
        """Return an object that was read at once, by its number."""
        return self.shared_objects[number]

    def later(self, kind: str, number: int) -> Callable[[], Mapping[str, Any]]:
        """Return a function that reads the deferred attributes of a record: here are none."""
        raise pickle.UnpicklingError(f"{kind} {number} is in no part of its own")

    def array(self, number: int) -> NDArray[Any]:
        """Return an array by its number."""
        array = self._made.get(number)
        if array is None:
            array = self._made[number] = self._new_array(number)
        return array

    def _new_array(self, number: int) -> NDArray[Any]:
        place, begin, whole, is_writeable, is_one_row = self._table[number]
        shape = (1, *whole[1:]) if is_one_row else whole
        elements = self._elements.get(place)
        if elements is None:
            elements = self._elements[place] = self._elements_of(self._places[place])
        n_elements = 1
        for size in shape:
            n_elements *= size
        array = elements[begin : begin + n_elements]
        if len(shape) != 1:
            array = array.reshape(shape)
        if is_one_row:
            return np.broadcast_to(array, whole)
        return array.copy() if is_writeable else array

    def _elements_of(self, place: str) -> NDArray[Any]:
        """Return the elements of a group of arrays, in their type if they are stored in another."""
        elements, wide = self._array(place), place.partition(" ")[2]
        return read_only(elements.astype(wide) if wide else elements)

    def codelet(self, number: int) -> Codelet:
        """Return a codelet by its number."""
        found = self._found.get(number)
        if found is None:
            found = self._found[number] = codelet_at(self._codelets[number])
        return found


class ObjectReader(RecordReader):
    """Makes the record again that `write_objects` took apart.

    Parameters
    ----------
    kinds
        As for `write_objects`.
    facts
        Its first result.
    array
        Returns an array of its second result by name; it may read it only then.

    Attributes
    ----------
    root
        The record.

    Raises
    ------
    Exception
        Of any type where facts or arrays are malformed.
    BadExecutable
        When a codelet is missing.
    """

    def __init__(
        self,
        kinds: Sequence[type],
        facts: Mapping[str, Any],
        array: Callable[[str], NDArray[Any]],
    ) -> None:
        super().__init__(kinds, facts, array)
        self._deferring = {kind.__name__: kind for kind in kinds if issubclass(kind, Deferred)}
        self._parts: dict[str, list[Any]] = {}
        content = array(_ROOT).data
        first, second = facts["lengths"]
        reader = _Reader(self, content)
        if first + second != len(content):
            raise ValueError("the objects are cut short")
        self.root = reader.load()
        self.shared_objects = reader.load()

    def later(self, kind: str, number: int) -> Callable[[], Mapping[str, Any]]:
        """Return a function that reads the deferred attributes of a record."""
        names = self._deferring[kind].deferred
        return lambda: dict(zip(names, self._later_parts(kind)[number], strict=True))

    def _later_parts(self, kind: str) -> list[Any]:
        parts = self._parts.get(kind)
        if parts is None:
            content = self._array(f"{_ROOT}.{kind}").data
            parts = self._parts[kind] = _Reader(self, content).load()
        return parts


def read_objects(
    kind: type[T],
    kinds: Sequence[type],
    facts: Mapping[str, Any],
    array: Callable[[str], NDArray[Any]],
) -> T:
    """Return the record that `write_objects` took apart for a file.

    Parameters
    ----------
    kind
        Its type.
    kinds, facts, array
        As for `ObjectReader`.

    Raises
    ------
    NotAnEntry
        When it is malformed, or of another type.
    """
    try:
        root = ObjectReader(kinds, facts, array).root
    except NotAnEntry:
        raise
    except Exception as error:  # a malformed pickle can raise anything
        raise NotAnEntry(f"its objects are malformed: {error}") from None
    if not isinstance(root, kind):
        raise NotAnEntry(f"it holds something else than a {kind.__name__}")
    return root
