"""Tensors in nested tuples, lists, dictionaries and types that a program registers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch.errors import createPoptorchError

__all__ = [
    "ICustomArgParser",
    "flatten",
    "map_tensors",
    "parser_of",
    "rebuild",
    "registerCustomArgParser",
    "register_containers",
]


class ICustomArgParser(ABC):
    """Takes the tensors out of values of a type, and makes others of that type."""

    @abstractmethod
    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        """Return the tensors of a value."""

    @abstractmethod
    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        """Return a value as another one, with the next tensors."""


_parsers: dict[type, ICustomArgParser] = {}


def registerCustomArgParser(arg_data_type: type, arg_parser: ICustomArgParser | None) -> None:
    """Register what takes tensors out of values of a type; None removes it.

    Raises
    ------
    Error
        When it is not an `ICustomArgParser`.
    """
    if arg_parser is not None and not isinstance(arg_parser, ICustomArgParser):
        raise createPoptorchError("arg_parser must inherit from ICustomArgParser")
    if _parsers.pop(arg_data_type, None) is not None:
        pytree._deregister_pytree_node(arg_data_type)
    if arg_parser is not None:
        _parsers[arg_data_type] = arg_parser
        taken_apart, together = partial(_taken_apart, arg_parser), partial(_together, arg_parser)
        _register(arg_data_type, taken_apart, together)


def _register(kind: type, taken_apart: Callable[..., Any], together: Callable[..., Any]) -> None:
    """Tell exports of PyTorch how to take a type apart, and that its parts have numbers."""

    def with_keys(value: Any) -> Any:
        parts, context = taken_apart(value)
        return [(pytree.SequenceKey(number), part) for number, part in enumerate(parts)], context

    pytree.register_pytree_node(kind, taken_apart, together, flatten_with_keys_fn=with_keys)


@dataclass(frozen=True)
class _Original:
    """A value whose tensors were taken out; those of one type are alike."""

    kind: type
    value: Any = field(compare=False)

    def __deepcopy__(self, _: object) -> _Original:
        """Return itself: exports of PyTorch copy it, and its tensors may have no data."""
        return self


def _taken_apart(parser: ICustomArgParser, value: Any) -> tuple[list[torch.Tensor], _Original]:
    """Return the tensors of a value, as exports of PyTorch ask for them."""
    # A copy: the module may give the value more tensors before it returns it.
    return [*parser.yieldTensors(value)], _Original(type(value), copy(value))


def _together(parser: ICustomArgParser, tensors: Iterable[Any], original: _Original) -> Any:
    """Return a value with other tensors."""
    return parser.reconstruct(original.value, iter(tensors))


def register_containers(value: Any) -> None:
    """Let exports of PyTorch take apart the containers of a program's own types in a value.

    Parameters
    ----------
    value
        Nested; what it has of subclasses of dict, list and tuple is registered.
    """
    if not isinstance(value, (dict, list, tuple)):
        return
    kind = type(value)
    if kind not in pytree.SUPPORTED_NODES and not hasattr(value, "_fields"):
        _register(kind, _items_of, _container_of)
    for item in value.values() if isinstance(value, dict) else value:
        register_containers(item)


def _items_of(value: Any) -> tuple[list[Any], tuple[type, Any]]:
    if isinstance(value, dict):
        return [*value.values()], (type(value), tuple(value))
    return [*value], (type(value), None)


def _container_of(items: Iterable[Any], form: tuple[type, Any]) -> Any:
    kind, keys = form
    return kind(items) if keys is None else kind(zip(keys, items, strict=True))


def parser_of(value: Any) -> ICustomArgParser | None:
    """Return what takes tensors out of a value; None for types without one."""
    if type(value) in _parsers:
        return _parsers[type(value)]
    return next((parser for kind, parser in _parsers.items() if isinstance(value, kind)), None)


def flatten(value: Any, order: Any = None) -> list[torch.Tensor]:
    """Return the tensors of a nested value.

    Parameters
    ----------
    value
        The value.
    order
        A value of the same structure, whose dictionaries have their keys in the wanted order.
    """
    return list(_tensors(value, order))


def _tensors(value: Any, order: Any) -> Iterator[torch.Tensor]:
    parser = parser_of(value)
    if parser is not None:
        yield from parser.yieldTensors(value)
    elif isinstance(value, dict):
        keys = value if order is None else order
        for key in keys:
            yield from _tensors(value[key], None if order is None else order[key])
    elif isinstance(value, (list, tuple)):
        orders = [None] * len(value) if order is None else order
        for item, of_item in zip(value, orders, strict=False):
            yield from _tensors(item, of_item)
    elif isinstance(value, torch.Tensor):
        yield value


def rebuild(structure: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """Return a nested value as another one, with the next tensors."""
    parser = parser_of(structure)
    if parser is not None:
        return parser.reconstruct(structure, tensors)
    if isinstance(structure, dict):
        return type(structure)({key: rebuild(item, tensors) for key, item in structure.items()})
    if isinstance(structure, (list, tuple)):
        items = [rebuild(item, tensors) for item in structure]
        return type(structure)(*items) if hasattr(structure, "_fields") else type(structure)(items)
    return next(tensors) if isinstance(structure, torch.Tensor) else structure


def map_tensors(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """Return a nested value with a function of its tensors."""
    return rebuild(value, iter([function(tensor) for tensor in flatten(value)]))
