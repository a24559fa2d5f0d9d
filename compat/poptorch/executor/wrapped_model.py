"""Modules whose parameters are read from the device when a program looks at them."""

from __future__ import annotations

import copy
import copyreg
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from poptorch.errors import createPoptorchError

__all__ = ["is_wrapped", "unwrap", "unwrapped", "wrap"]

#: Brings the weights of the device to the host if they are newer; returns whether they were.
_Refresh = Callable[[], bool]

#: Classes that stand in front of a user's, all of them made here.
_wrappers: set[type] = set()


def is_wrapped(value: object) -> bool:
    """Whether a module, parameter or buffer brings weights to the host when it is looked at."""
    return type(value) in _wrappers


def _plain(value: Any) -> Any:
    """Give a value the class that it had, and return it."""
    if is_wrapped(value):
        value.__class__ = type(value).__bases__[0]
    return value


def _pickled(value: Any) -> tuple[Any, ...]:
    """Return how a copy of a value is made: one of the class that it had."""
    wrapper = type(value)
    value.__class__ = wrapper.__bases__[0]
    try:
        return (_plain, (copy.copy(value),))
    finally:
        value.__class__ = wrapper


def _registered(wrapper: type) -> type:
    _wrappers.add(wrapper)
    copyreg.pickle(wrapper, _pickled)
    return wrapper


def wrap(model: torch.nn.Module, refresh: _Refresh, destroy: Callable[[], None]) -> None:
    """Let a module, its parameters and buffers bring weights to the host when looked at.

    Parameters
    ----------
    model
        The module, whose class changes to one in front of it.
    refresh
        Brings the weights to the host; held weakly if it is a method.
    destroy
        Ends the program on the device; likewise.

    Raises
    ------
    Error
        When a buffer is of a class of its own.
    """
    refreshed, destroyed = weakref.WeakMethod(refresh), weakref.WeakMethod(destroy)

    def bring() -> bool:
        function = refreshed()
        return False if function is None else function()

    for buffer in model.buffers():
        if type(buffer) is not torch.Tensor and not is_wrapped(buffer):
            raise createPoptorchError(
                f"All buffers must be an instance of torch.Tensor (Got {type(buffer)})"
            )
    parameter_class, buffer_class = (
        _tensor_class(torch.nn.Parameter, bring),
        _tensor_class(torch.Tensor, bring),
    )
    for parameter in model.parameters():
        parameter.__class__ = parameter_class
    for buffer in model.buffers():
        buffer.__class__ = buffer_class
    model.__class__ = _model_class(type(model), bring, destroyed)


def _tensor_class(base: Any, bring: Callable[[], bool]) -> type:
    def look(self: Any, name: str) -> Any:
        bring()
        return base.__getattribute__(self, name)

    def call(_: type, func: Any, __: Any, args: Any = (), kwargs: Any = None) -> Any:
        bring()
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    members = {"__getattribute__": look, "__torch_function__": classmethod(call)}
    return _registered(type(f"Poptorch{base.__name__}", (base,), members))


def _model_class(base: Any, bring: Callable[[], bool], destroyed: Any) -> type:
    def look(self: Any, name: str) -> Any:
        if name in ("_buffers", "_parameters", "forward"):
            bring()
        return base.__getattribute__(self, name)

    def refresh(_: Any) -> bool:
        return bring()

    def destroy(_: Any) -> None:
        function = destroyed()
        if function is not None:
            function()

    def state_dict(
        self: Any, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        bring()
        stated = base.state_dict(
            self, *args, destination=destination, prefix=prefix, keep_vars=keep_vars
        )
        copies: dict[int, Any] = {}
        out = OrderedDict()
        for name, value in stated.items():
            if isinstance(value, torch.Tensor) and id(value) not in copies:
                copies[id(value)] = _plain(copy.copy(value))
            out[name] = copies.get(id(value), value)
        return out

    members = {
        "__getattribute__": look,
        "__module__": base.__module__,
        "copyWeightsToHostIfNeeded": refresh,
        "destroy": destroy,
        "state_dict": state_dict,
    }
    return _registered(type(f"Poptorch{base.__name__}", (base,), members))


def _parts(model: torch.nn.Module) -> Iterator[Any]:
    yield from model.parameters()
    yield from model.buffers()
    yield model


def unwrap(model: torch.nn.Module) -> None:
    """Give a module, its parameters and buffers the classes that they had."""
    for part in [*_parts(model)]:
        _plain(part)


@contextmanager
def unwrapped(model: torch.nn.Module) -> Iterator[None]:
    """Give a module, its parameters and buffers the classes that they had, meanwhile.

    The weights that an executor trains on the device are on the host then.
    """
    parts = [(part, type(part)) for part in _parts(model)]
    for part, kind in parts:
        if kind in _wrappers:
            _ = part.__dict__  # looked at
        _plain(part)
    try:
        yield
    finally:
        for part, kind in parts:
            part.__class__ = kind
