"""Digests of a model: of its structure without names and weights, of its weights, and of all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields, is_dataclass
from enum import Enum
from functools import cache, cached_property
from typing import Any

import numpy as np

from tilescope.engine.graph.identity.digest import digest_of, joint_digest
from tilescope.engine.ir.model import Model
from tilescope.engine.ir.operation import Operation, Operator, Region
from tilescope.engine.ir.registered import registered_digest
from tilescope.engine.ir.training import Training
from tilescope.engine.ir.value import NarrowConstant, Parameter, Purpose, State, Update, Value

__all__ = ["OperatorKeys", "described", "model_digests", "model_identity"]


def model_digests(model: Model) -> tuple[str, str]:
    """Return the digest of a model's structure and that of its weights.

    The structure is operators, attributes, hints, types, shapes and edges. Constant operands of
    type int64, which ONNX uses for shapes, axes and indices, belong to it with their content.
    """
    walk = _Structure()
    inputs = [walk.value(value) for value in model.inputs]
    operations = [walk.operation(operation) for operation in model.operations]
    outputs = [walk.value(value) for _, value in model.outputs]
    parts: list[Any] = [inputs, operations, outputs]
    if model.updates or model.training:
        parts += [walk.updates(model.updates), model.n_rounds, _training(model.training)]
        parts += [[walk.operation(operation) for operation in model.closing]]
        parts += [walk.updates(model.closing_updates)]
    if model.is_pipelined:
        parts += ["pipelined", model.n_rounds]
    if model.batch_parts.n_parts > 1:
        parts += ["parts", astuple(model.batch_parts)]
    if not model.locations.is_on_chip:
        parts += ["locations", repr(model.locations)]
    structure = json.dumps(parts, sort_keys=True, default=_as_text)
    return digest_of([structure]), joint_digest(walk.weights) or digest_of([])


class _Structure:
    """Describes operations with their values numbered in order of first use."""

    def __init__(self) -> None:
        self.weights: list[str] = []
        self._numbers: dict[Value, int] = {}

    def value(self, value: Value | None) -> Any:
        """Return the number of a value, with its type where it is new."""
        if value is None or value in self._numbers:
            return None if value is None else self._numbers[value]
        number = self._numbers[value] = len(self._numbers)
        described = [number, value.dtype, list(value.shape)]
        if isinstance(value, NarrowConstant):
            described.append(value.narrow_dtype)
        if value.is_held:
            return [*described, "held"]
        if value.known is not None:
            self.weights.append(value.digest)
            return [*described, value.digest if value.dtype == "int64" else "weights"]
        return described

    def updates(self, updates: Sequence[Update]) -> list[Any]:
        """Return pairs of what is updated and by what."""
        return [[self.value(update.held), self.value(update.value)] for update in updates]

    def operation(self, operation: Operation) -> Any:
        """Return an operation without its names."""
        return [
            operation.operator.key,
            operation.version,
            dict(operation.attributes),
            operation.hints.stated(),
            [self.value(value) for value in operation.inputs],
            self._regions(operation.regions),
            [self.value(value) for value in operation.outputs],
            *([astuple(operation.placement)] if operation.placement.is_stated else []),
        ]

    def _regions(self, regions: Mapping[str, Region]) -> Any:
        return {
            key: [
                self._values(region.inputs),
                [self.operation(operation) for operation in region.operations],
                self._values(region.outputs),
                *([region.error] if region.error else []),
            ]
            for key, region in regions.items()
        }

    def _values(self, values: Sequence[Value]) -> list[Any]:
        return [self.value(value) for value in values]


def _training(training: Training | None) -> str:
    return "" if training is None else repr(training)


def _as_text(value: object) -> str:
    """Return an attribute that is not of a JSON type as text."""
    return digest_of([value]) if isinstance(value, np.ndarray) else str(value)


def model_identity(model: Model, *, has_weights: bool = True) -> str:
    """Return a digest of all that a model says: structure, names, weights and training.

    Models of one identity compile to one program, with one report.

    Parameters
    ----------
    model
        The operator graph.
    has_weights
        Whether the values of weights that the device holds count. Without them, models of one
        identity compile to one program but for what it begins with.

    Raises
    ------
    TypeError
        When it refers to something that has no digest.
    """
    whole = _Whole(has_weights=has_weights)
    return digest_of([json.dumps(whole.described(model), separators=(",", ":"))])


def described(value: object) -> Any:
    """Return a value as JSON types: plain values, arrays by their digest, and records of both.

    Raises
    ------
    TypeError
        When it holds something that has no digest.
    """
    return _Whole().described(value)


class _Whole:
    """Describes records with all their fields, and each of them once."""

    def __init__(self, *, has_weights: bool = True) -> None:
        self._has_weights = has_weights
        self._numbers: dict[int, int] = {}
        self._keys = OperatorKeys()
        self._seen: list[Any] = []  # what has a number stays: no id is used again

    def described(self, value: Any) -> Any:
        """Return a value as JSON types; a record that came before by its number."""
        match value:
            case None | bool() | int() | str():  # also those that are a StrEnum
                return value
            case float():
                return value.hex()
            case np.ndarray():
                return ["array", value.dtype.str, list(value.shape), digest_of([value])]
            case np.generic():
                return ["number", value.dtype.str, value.tobytes().hex()]
            case bytes():
                return ["bytes", digest_of([value.hex()])]
            case Mapping():
                return ["map", [[self.described(k), self.described(v)] for k, v in value.items()]]
            case tuple() | list():
                return [self.described(item) for item in value]
            case set() | frozenset():
                return ["set", sorted(json.dumps(self.described(item)) for item in value)]
            case Enum():
                return ["enum", type(value).__name__, self.described(value.value)]
            case Operator():
                return ["operator", self._keys.of(value)]
        if not is_dataclass(value) or isinstance(value, type):
            raise TypeError(f"{type(value).__name__} has no digest")
        number = self._numbers.get(id(value))
        if number is not None:
            return ["record", number]
        self._numbers[id(value)] = len(self._seen)
        self._seen.append(value)
        if isinstance(value, Value) and value.known is not None:
            content: Any = {"digest": value.digest}
        else:
            content = {}
        has_array = not content and (self._has_weights or not _is_held_weight(value))
        names = [f.name for f in fields(value) if has_array or f.name != "array"]
        return [
            type(value).__name__,
            content,
            [self.described(getattr(value, name)) for name in names],
        ]


def _is_held_weight(value: object) -> bool:
    """Return whether a value is a weight that the host can write before a run."""
    if isinstance(value, State):
        return value.purpose is Purpose.WEIGHT
    return isinstance(value, Parameter) and value.is_trainable


class OperatorKeys:
    """Keys of operators: names of the engine's; of a user's, with a digest of the user's code.

    A user's operator may emit others by their names: the digest is that of all that are registered.
    It is taken once, for the keys of one model.
    """

    def __init__(self) -> None:
        self._own: dict[Operator, str] = {}

    def of(self, operator: Operator) -> str:
        """Return the key of an operator.

        Raises
        ------
        TypeError
            When a function of it uses an object without a digest, or is neither the engine's nor
            registered.
        """
        if operator.definition is None:
            return _key_of_own(operator)
        if operator not in self._own:
            digest = operator.definition.digest
            self._own[operator] = f"{operator.key} {digest} {self._registered}"
        return self._own[operator]

    @cached_property
    def _registered(self) -> str:
        return registered_digest()


@cache
def _key_of_own(operator: Operator) -> str:
    """Return the key of an operator of the engine.

    Raises
    ------
    TypeError
        When a function of it is defined elsewhere.
    """
    for field in fields(operator):
        function = getattr(operator, field.name)
        module = getattr(function, "__module__", "") if callable(function) else ""
        if module and not module.startswith("tilescope.engine."):
            raise TypeError(f"operator {operator.key} is defined in {module}")
    return operator.key
