"""Flattens records that refer to each other into JSON types and a few arrays.

Every object becomes a row of a table: its kind, and its fields in order. Rows follow the rows that
they refer to, and a shared object has one row, so that it is one object again when read.
The elements of all arrays of one type are concatenated; of arrays with one row for all, that row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.codelet_place import CodeletPlace, codelet_at, place_of
from tilescope.engine.graph.freeze import Freezable, read_only
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.number.dtype import DType, dtype_of

__all__ = ["TableReader", "TableWriter"]

Arrays = Mapping[str, NDArray[Any]]

_CODELET = "Codelet"


class TableWriter:
    """Flattens objects into rows.

    Parameters
    ----------
    kinds
        The dataclasses and enums that may occur; codelets and device types are always allowed.

    Attributes
    ----------
    rows
        Rows of the table, as JSON types.
    """

    def __init__(self, kinds: Sequence[type]) -> None:
        self.rows: list[list[Any]] = []
        self._kinds = {kind: kind.__name__ for kind in kinds}
        self._numbers: dict[int, int] = {}
        self._array_numbers: dict[tuple[Any, ...], int] = {}
        self._arrays: list[NDArray[Any]] = []

    def describe(self, value: Any) -> Any:
        """Return a value as JSON types; objects and arrays are given by their number.

        Raises
        ------
        TypeError
            When it is of a type that does not occur in an executable.
        BadExecutable
            When another process could not find a codelet.
        """
        match value:
            case Enum() if type(value) in self._kinds:
                return ["enum", self._kinds[type(value)], value.value]
            case None | bool() | int() | float() | str():
                return value
            case np.ndarray():
                return ["array", self._array(value)]
            case np.generic():
                return value.item()
            case list() | tuple():
                kind = "list" if isinstance(value, list) else "tuple"
                return [kind, [self.describe(item) for item in value]]
            case Mapping():
                kind = "map" if isinstance(value, dict) else "frozen map"
                return [kind, [[self.describe(k), self.describe(v)] for k, v in value.items()]]
            case DType():
                return ["dtype", value.name]
        return ["object", self._object(value)]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays: elements by type, then the type and shape of every array."""
        types = list(dict.fromkeys(array.dtype.str for array in self._arrays))
        arrays_by_name: dict[str, NDArray[Any]] = {}
        for name in types:
            same = [_stored(a).reshape(-1) for a in self._arrays if a.dtype.str == name]
            arrays_by_name[f"elements.{name}"] = np.concatenate(same)
        number = {name: i for i, name in enumerate(types)}
        shapes = [size for array in self._arrays for size in array.shape]
        is_writeable = [array.flags.writeable for array in self._arrays]
        arrays_by_name["array_type"] = np.array(
            [number[a.dtype.str] for a in self._arrays], np.int64
        )
        arrays_by_name["array_n_dims"] = np.array([array.ndim for array in self._arrays], np.int64)
        arrays_by_name["array_shape"] = np.array(shapes, np.int64)
        arrays_by_name["array_is_writeable"] = np.array(is_writeable, np.bool_)
        is_one_row = [_is_one_row(array) for array in self._arrays]
        arrays_by_name["array_is_one_row"] = np.array(is_one_row, np.bool_)
        return arrays_by_name

    def _object(self, value: Any) -> int:
        # All objects are reachable from one root, so no id is reused.
        number = self._numbers.get(id(value))
        if number is None:
            row = self._row(value)
            number = self._numbers[id(value)] = len(self.rows)
            self.rows.append(row)
        return number

    def _row(self, value: Any) -> list[Any]:
        if isinstance(value, Codelet):
            return [_CODELET, list(dataclasses.astuple(place_of(value)))]
        kind = self._kinds.get(type(value))
        if kind is None:
            raise TypeError(f"{type(value).__name__} is not part of an executable")
        fields = dataclasses.fields(value)
        return [kind, [self.describe(getattr(value, field.name)) for field in fields]]

    def _array(self, array: NDArray[Any]) -> int:
        if array.dtype.hasobject:
            raise TypeError("object arrays are not part of an executable")
        address, is_read_only = array.__array_interface__["data"]
        # An empty array may have any address and any strides.
        memory = (address, array.strides) if array.size else ()
        key = (memory, is_read_only, array.shape, array.dtype.str)
        number = self._array_numbers.get(key)
        if number is None:
            number = self._array_numbers[key] = len(self._arrays)
            self._arrays.append(array)
        return number


def _is_one_row(array: NDArray[Any]) -> bool:
    """Return whether an array stores one row, or element, for all."""
    return array.ndim > 0 and len(array) > 1 and array.strides[0] == 0


def _stored(array: NDArray[Any]) -> NDArray[Any]:
    return array[:1] if _is_one_row(array) else array


class TableReader:
    """Rebuilds objects from rows.

    Parameters
    ----------
    kinds
        As for `TableWriter`.
    rows, arrays
        Output of a `TableWriter`.

    Raises
    ------
    KeyError, ValueError, TypeError, IndexError
        When rows or arrays are malformed.
    BadExecutable
        When a codelet is missing.
    """

    def __init__(self, kinds: Sequence[type], rows: Sequence[Any], arrays: Arrays) -> None:
        self._kinds = {kind.__name__: kind for kind in kinds}
        self._arrays = _parted(arrays)
        self._objects: list[Any] = []
        for kind, fields in rows:
            self._objects.append(self._made(kind, fields))

    def value(self, described: Any) -> Any:
        """Return the value that `TableWriter.describe` flattened."""
        if not isinstance(described, list):
            return described
        match described:
            case ["object", int(number)]:
                return self._objects[number]
            case ["array", int(number)]:
                return self._arrays[number]
            case ["tuple", list(values)]:
                return tuple(self.value(item) for item in values)
            case ["list", list(values)]:
                return [self.value(item) for item in values]
            case ["map", list(items)]:
                return {self.value(k): self.value(v) for k, v in items}
            case ["frozen map", list(items)]:
                return MappingProxyType({self.value(k): self.value(v) for k, v in items})
            case ["dtype", str(name)]:
                return dtype_of(name)
            case ["enum", str(kind), value]:
                return self._kinds[kind](value)
        raise ValueError("a value is of an unknown kind")

    def _made(self, kind: str, fields: Sequence[Any]) -> Any:
        if kind == _CODELET:
            return codelet_at(CodeletPlace(*fields))
        instance = self._kinds[kind](*(self.value(field) for field in fields))
        if isinstance(instance, Freezable):
            instance.freeze()
        return instance


def _parted(arrays: Arrays) -> list[NDArray[Any]]:
    """Split the concatenated arrays from `TableWriter.arrays`."""
    elements = [array for name, array in arrays.items() if name.startswith("elements.")]
    for array in elements:
        array.flags.writeable = False
    begins = [0] * len(elements)
    ends = [0, *np.cumsum(arrays["array_n_dims"]).tolist()]
    sizes = arrays["array_shape"].tolist()
    part_arrays: list[NDArray[Any]] = []
    names = ("array_type", "array_is_writeable", "array_is_one_row")
    columns = (*(arrays[name].tolist() for name in names), pairwise(ends))
    for number, is_writeable, is_one_row, (first, end) in zip(*columns, strict=True):
        whole = sizes[first:end]
        shape = [1, *whole[1:]] if is_one_row else whole
        begin, stop = begins[number], begins[number] + prod(shape)
        begins[number] = stop
        array = elements[number][begin:stop].reshape(shape)
        if is_one_row:
            part_arrays.append(np.broadcast_to(array, whole))
        else:
            part_arrays.append(array.copy() if is_writeable else read_only(array))
    return part_arrays
