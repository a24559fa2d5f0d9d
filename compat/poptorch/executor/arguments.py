"""Arguments of a call of a model: bound to names, compared with those that it was compiled for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any

import torch

from poptorch._logging import logger
from poptorch.errors import Error, createPoptorchError
from poptorch.trees import flatten, map_tensors

__all__ = ["ArgumentBinder", "Arguments", "on_device"]

_ADVICE = (
    "\nThis error occurred because the inputs passed at runtime don't match the inputs used to"
    " compile the model.\nTo recompile the model for the new inputs create a new inferenceModel /"
    " trainingModel wrapper or call destroy() on the current one and try again."
)


@dataclass
class Arguments:
    """The arguments of a call.

    Parameters
    ----------
    args
        Those by position, defaults included.
    names
        Their names.
    kwargs
        Those that the model takes by name only.
    """

    args: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)

    def map(self, function: Callable[[torch.Tensor], Any]) -> Arguments:
        """Return arguments with a function of their tensors."""
        args, kwargs = map_tensors(function, (self.args, self.kwargs))
        return Arguments(args, [*self.names], kwargs)

    def tensors(self) -> list[torch.Tensor]:
        """Return the tensors, in the order of the arguments."""
        return flatten((self.args, self.kwargs))

    def tensors_like(self, compiled: Arguments) -> list[torch.Tensor]:
        """Return the tensors in the order of the arguments that the model was compiled for."""
        return flatten((self.args, self.kwargs), (compiled.args, compiled.kwargs))

    def check(self, given: Arguments) -> None:
        """Refuse other arguments than those that the model was compiled for.

        Raises
        ------
        Error
            Names the argument.
        """
        if len(given.args) != len(self.args):
            raise createPoptorchError(
                "Number of positional arguments mismatch: expected"
                f" {len(self.args)} arguments but got {len(given.args)}.{_ADVICE}"
            )
        for name, compiled, value in zip(self.names, self.args, given.args, strict=True):
            _compare(name, compiled, value)
        _compare_mappings("named arguments", self.kwargs, given.kwargs, str)


def _mismatch(kind: str, name: str, expected: Any, given: Any) -> Error:
    return createPoptorchError(
        f"{kind} mismatch for {name}: expected {expected} but got {given}.{_ADVICE}"
    )


def _compare(name: str, compiled: Any, given: Any) -> None:
    """Refuse a value that differs in type, structure, shape, or where it has no tensors in value.

    Raises
    ------
    Error
        Names it.
    """
    if type(compiled) is not type(given):
        raise _mismatch("Type", name, type(compiled), type(given))
    if isinstance(compiled, tuple):
        if len(compiled) != len(given):
            raise _mismatch("Length", name, f"{len(compiled)} elements", len(given))
        for index, (one, other) in enumerate(zip(compiled, given, strict=True)):
            _compare(f"{name}[{index}]", one, other)
    elif isinstance(compiled, dict):
        _compare_mappings(name, compiled, given, lambda key: f"{name}[{key}]")
    elif isinstance(compiled, torch.Tensor):
        if compiled.dtype != given.dtype:
            raise _mismatch("Data type", name, compiled.dtype, given.dtype)
        if compiled.shape != given.shape:
            raise _mismatch("Shape", name, compiled.shape, given.shape)
    elif tensors := flatten(compiled):
        _compare(name, tuple(tensors), tuple(flatten(given)))
    elif compiled != given:
        raise _mismatch("Value", name, compiled, given)


def _compare_mappings(
    name: str,
    compiled: Mapping[str, Any],
    given: Mapping[str, Any],
    label: Callable[[str], str],
) -> None:
    """Refuse other keys, and compare the values.

    Raises
    ------
    Error
        Names what differs.
    """
    details = [
        f"{what}: {', '.join(sorted(map(str, keys)))}"
        for what, keys in (
            ("Unexpected arguments", given.keys() - compiled.keys()),
            ("Missing arguments", compiled.keys() - given.keys()),
        )
        if keys
    ]
    if details:
        raise createPoptorchError(f"Keys mismatch for {name}: {'. '.join(details)}.{_ADVICE}")
    for key, value in compiled.items():
        _compare(label(key), value, given[key])


class ArgumentBinder:
    """Binds the arguments of calls to the parameters of a module's ``forward``.

    Parameters
    ----------
    model
        A module, or a function.

    Raises
    ------
    TypeError
        When it is neither.
    """

    def __init__(self, model: Any) -> None:
        if not isinstance(model, torch.nn.Module) and not callable(model):
            raise TypeError("Expected a torch.nn.Module or a callable")
        function = model.forward if isinstance(model, torch.nn.Module) else model
        self._parameters = [*inspect.signature(function).parameters.values()]
        kinds = {parameter.kind for parameter in self._parameters}
        self._is_variadic = bool(kinds & {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD})
        self._has_warned = False

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """Return the arguments of a call, with contiguous tensors.

        Raises
        ------
        AssertionError
            When there are too many, one is unknown, or one is given twice.
        Error
            When one is missing.
        """
        names = [parameter.name for parameter in self._parameters]
        if not self._is_variadic:
            n_given = len(args) + len(kwargs)
            assert n_given <= len(names), (
                f"Too many arguments provided: expected {names} ({len(names)}) but got {n_given}"
            )
            for name in kwargs:
                assert name in names, f"{name} is not a valid parameter. Allowed values are {names}"
        bound = self._bound(args, kwargs)
        if any(not tensor.is_contiguous() for tensor in bound.tensors()):
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "At least one input tensor is not contiguous: non-contiguous tensors will be"
                    " converted."
                )
            return bound.map(torch.Tensor.contiguous)
        return bound

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        bound, is_by_name, seen = Arguments(), False, set()
        for index, parameter in enumerate(self._parameters):
            name = parameter.name
            if parameter.kind is Parameter.VAR_KEYWORD:
                bound.kwargs |= {key: v for key, v in kwargs.items() if key not in seen}
                continue
            seen.add(name)
            if parameter.kind is Parameter.VAR_POSITIONAL:
                rest = args[index:]
                bound.args += rest
                bound.names += [f"*{name}[{number}]" for number in range(len(rest))]
                is_by_name = True
                continue
            is_by_name = is_by_name or parameter.kind is Parameter.KEYWORD_ONLY
            if index < len(args) and not is_by_name:
                assert name not in kwargs, f"Parameter {name} was passed more than once"
                value = args[index]
            elif name in kwargs:
                value = kwargs[name]
            elif parameter.default is not Parameter.empty:
                value = parameter.default
            else:
                raise createPoptorchError(f"Mandatory parameter {name} missing")
            if is_by_name:
                bound.kwargs[name] = value
            else:
                bound.args.append(value)
                bound.names.append(name)
        return bound


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in a type that the device has."""
    return tensor.float() if tensor.dtype == torch.float64 else tensor
