"""Scopes of a builder: attributes and names that nodes get while a ``with`` block is open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from popart.builder import reserved
from popart.builder.graph import Graph

__all__ = ["AttributeContextManager", "KeyValueContextManager", "NameContextManager"]


class AttributeContextManager:
    """Gives an attribute to the nodes that are added in the block."""

    def __init__(self, graph: Graph, attribute: str, value: Any) -> None:
        self._graph, self._attribute, self._value = graph, attribute, value
        self._outer: list[Any] = []

    def __enter__(self) -> None:
        attributes = self._graph.attributes
        self._outer.append(attributes.get(self._attribute))
        attributes[self._attribute] = self._value_inside(self._outer[-1])

    def __exit__(self, *_: object) -> None:
        outer = self._outer.pop()
        if outer is None:
            del self._graph.attributes[self._attribute]
        else:
            self._graph.attributes[self._attribute] = outer

    def _value_inside(self, outer: Any) -> Any:
        del outer
        return self._value


class KeyValueContextManager(AttributeContextManager):
    """Gives pairs of strings to the nodes that are added in the block, beside those around it."""

    def __init__(self, graph: Graph, pairs: Mapping[str, str]) -> None:
        super().__init__(graph, reserved.OUTLINE, pairs)

    def _value_inside(self, outer: Any) -> Any:
        pairs = dict(zip(outer[::2], outer[1::2], strict=True)) if outer else {}
        for key, value in self._value.items():
            pairs.setdefault(str(key), str(value))
        return [text for pair in sorted(pairs.items()) for text in pair]


class NameContextManager:
    """Puts a name before those of tensors and nodes that are added in the block."""

    def __init__(self, graph: Graph, name: str) -> None:
        self._graph, self._name = graph, name

    def __enter__(self) -> None:
        self._graph.scopes.append(self._name)

    def __exit__(self, *_: object) -> None:
        self._graph.scopes.pop()
