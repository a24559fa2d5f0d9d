"""Kinds of arguments, and calls that are refused as the binding refuses them.

A call that fits no form of a function raises ``TypeError`` with the forms that exist.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "ARRAY",
    "BOOL",
    "FLOAT",
    "FLOATS",
    "INT",
    "INTS",
    "NAMES",
    "REQUIRED",
    "TEXT",
    "TEXTS",
    "Kind",
    "Mismatch",
    "Parameter",
    "Signature",
    "instance",
    "list_of",
    "mapping",
    "match_call",
    "optional",
    "set_of",
]


class Mismatch(TypeError):
    """A value that is not of the kind that an argument has."""


@dataclass(frozen=True)
class Kind:
    """What an argument may be.

    Parameters
    ----------
    label
        As the binding prints it.
    convert
        Returns the value in Python's own types, or raises `Mismatch`.
    """

    label: str
    convert: Callable[[Any], Any]


class _Required:
    """The default of a parameter that has none."""


REQUIRED = _Required()


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function of the binding."""

    name: str
    kind: Kind
    default: Any = REQUIRED

    def __str__(self) -> str:
        text = f"{self.name}: {self.kind.label}"
        return text if self.default is REQUIRED else f"{text} = {self.default!r}"


#: What the name of a call is called by releases before 2.3, and by functions on subgraphs.
_OLD_NAMES = frozenset({"debugPrefix", "debugName", "name"})


@dataclass(frozen=True)
class Signature:
    """One form of a function of the binding."""

    parameters: tuple[Parameter, ...]
    result: str = "None"

    def bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the converted arguments by the names of the parameters; raise `Mismatch`."""
        if len(arguments) > len(self.parameters):
            raise Mismatch("too many arguments")
        given = dict(zip((p.name for p in self.parameters), arguments, strict=False))
        for name, value in named.items():
            known = "debugContext" if name in _OLD_NAMES and not self._has(name) else name
            if known in given or not self._has(known):
                raise Mismatch(f"unexpected argument {name}")
            given[known] = value
        bound = {}
        for parameter in self.parameters:
            if parameter.name in given:
                bound[parameter.name] = parameter.kind.convert(given[parameter.name])
            elif parameter.default is REQUIRED:
                raise Mismatch(f"missing argument {parameter.name}")
            else:
                bound[parameter.name] = parameter.default
        return bound

    def _has(self, name: str) -> bool:
        return any(parameter.name == name for parameter in self.parameters)


def match_call(
    owner: str,
    name: str,
    signatures: Sequence[Signature],
    arguments: Sequence[Any],
    named: Mapping[str, Any],
) -> tuple[int, dict[str, Any]]:
    """Return the index of the first form that a call fits, and its arguments by name.

    Raises
    ------
    TypeError
        When it fits none.
    """
    for index, signature in enumerate(signatures):
        try:
            return index, signature.bind(arguments, named)
        except Mismatch:
            continue
    forms = "\n".join(
        f"    {index}. ({', '.join([f'self: {owner}', *map(str, signature.parameters)])})"
        f" -> {signature.result}"
        for index, signature in enumerate(signatures, 1)
    )
    invoked = [*map(repr, arguments), *(f"{key}={value!r}" for key, value in named.items())]
    raise TypeError(
        f"{name}(): incompatible function arguments. The following argument types are"
        f" supported:\n{forms}\n\nInvoked with: {', '.join(invoked)}"
    )


def _int(value: Any) -> int:
    if isinstance(value, float | np.floating):
        raise Mismatch("not an integer")
    try:
        return operator.index(value)
    except TypeError as error:
        raise Mismatch("not an integer") from error


def _float(value: Any) -> float:
    if isinstance(value, str | bytes | Enum) or not hasattr(value, "__float__"):
        if hasattr(value, "__index__") and not isinstance(value, Enum):
            return float(operator.index(value))
        raise Mismatch("not a number")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise Mismatch("not a number") from error


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise Mismatch("not a string")
    return str(value)


def _bool(value: Any) -> bool:
    if value is None or isinstance(value, bool | np.bool_ | int | float | np.number):
        return bool(value)
    raise Mismatch("not a bool")


def _array(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, str | bytes | Mapping) or value is None:
        raise Mismatch("not an array")
    array = np.asarray(value)
    if array.dtype == object:
        raise Mismatch("not an array")
    return np.require(array, requirements="C")


def _entries(value: Any) -> Iterable[Any]:
    is_sequence = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    if not is_sequence or isinstance(value, str | bytes | Mapping):
        raise Mismatch("not a sequence")
    if isinstance(value, np.ndarray) and value.ndim == 0:
        raise Mismatch("not a sequence")
    return value  # type: ignore[no-any-return]


def list_of(kind: Kind) -> Kind:
    """Return the kind of a list, tuple or array whose entries are of a kind."""
    return Kind(
        f"List[{kind.label}]", lambda value: [kind.convert(entry) for entry in _entries(value)]
    )


def set_of(kind: Kind) -> Kind:
    """Return the kind of a set or sequence whose entries are of a kind."""

    def convert(value: Any) -> set[Any]:
        entries = value if isinstance(value, set | frozenset) else _entries(value)
        return {kind.convert(entry) for entry in entries}

    return Kind(f"Set[{kind.label}]", convert)


def mapping(key: Kind, value: Kind) -> Kind:
    """Return the kind of a dict with keys and values of two kinds."""

    def convert(given: Any) -> dict[Any, Any]:
        if not isinstance(given, Mapping):
            raise Mismatch("not a dict")
        return {key.convert(name): value.convert(entry) for name, entry in given.items()}

    return Kind(f"Dict[{key.label}, {value.label}]", convert)


def optional(kind: Kind) -> Kind:
    """Return the kind of None or a value of a kind."""
    return Kind(
        f"Optional[{kind.label}]", lambda value: None if value is None else kind.convert(value)
    )


_T = TypeVar("_T")


def instance(cls: type[_T]) -> Kind:
    """Return the kind of an object of a class."""

    def convert(value: Any) -> _T:
        if not isinstance(value, cls):
            raise Mismatch(f"not a {cls.__name__}")
        return value

    return Kind(f"popart.{cls.__name__}", convert)


INT = Kind("int", _int)
FLOAT = Kind("float", _float)
TEXT = Kind("str", _text)
BOOL = Kind("bool", _bool)
ARRAY = Kind("numpy.ndarray", _array)
INTS, FLOATS, TEXTS = list_of(INT), list_of(FLOAT), list_of(TEXT)
NAMES = set_of(TEXT)
