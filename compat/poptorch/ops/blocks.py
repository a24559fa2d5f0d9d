"""Blocks: parts of a model that a strategy puts into stages."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from poptorch.errors import createPoptorchError
from poptorch.strategies import current_manager

__all__ = ["BeginBlock", "Block", "BlockFunction", "removeBlocks"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Block(torch.nn.Module):
    """What is computed in a ``with`` is a block.

    Parameters
    ----------
    user_id
        Its name; None gives it the next number.
    ipu_id
        Its IPU.
    """

    def __init__(self, user_id: str | None = None, ipu_id: int | None = None) -> None:
        super().__init__()
        self._user_id, self._ipu_id = user_id, ipu_id

    @staticmethod
    def useAutoId() -> None:
        """Let the next block without a name be number 0."""
        manager = current_manager()
        if manager is not None:
            manager.stages.reset_names()

    @staticmethod
    def start(user_id: str | None = None, ipu_id: int | None = None) -> None:
        """Begin a block, which ends where the next one begins."""
        manager = current_manager()
        if manager is not None:
            manager.begin(user_id, ipu_id)

    def __enter__(self) -> None:
        Block.start(self._user_id, self._ipu_id)

    def __exit__(self, *_: object) -> None:
        manager = current_manager()
        if manager is not None:
            manager.end()


class _Begin:
    """Begins a block before a module is called; it has the same name in all calls."""

    def __init__(self, user_id: str | None, ipu_id: int | None) -> None:
        self._user_id, self._ipu_id = user_id, ipu_id

    def __call__(self, *_: Any) -> None:
        manager = current_manager()
        if manager is None:
            return
        if self._user_id is None:
            self._user_id = manager.stages.next_name()
        manager.begin(self._user_id, self._ipu_id)

    def __repr__(self) -> str:
        return f"BeginBlock(user_id={self._user_id}, ipu_id={self._ipu_id})"


def BeginBlock(layer_to_call: Any, user_id: str | None = None, ipu_id: int | None = None) -> Any:
    """Return a module, or function, whose calls begin a block.

    Parameters
    ----------
    layer_to_call
        The module, which is changed, or the function.
    user_id, ipu_id
        As for `Block`.

    Raises
    ------
    Error
        When it is neither, or begins a block already.
    """
    begin = _Begin(user_id, ipu_id)
    if isinstance(layer_to_call, torch.nn.Module):
        hooks = layer_to_call._forward_pre_hooks.values()
        if any(isinstance(hook, _Begin) for hook in hooks):
            raise createPoptorchError("module has already been assigned to a block.")
        layer_to_call.register_forward_pre_hook(begin)
        return layer_to_call
    if not callable(layer_to_call):
        raise createPoptorchError("module is not an instance of torch.nn.Module or function.")
    return _BegunFunction(layer_to_call, begin)


class _BegunFunction(torch.nn.Module):
    """A function whose calls begin a block."""

    def __init__(self, function: Callable[..., Any], begin: _Begin) -> None:
        super().__init__()
        self._layer_to_call, self._begin = function, begin
        self._user_id, self._ipu_id = begin._user_id, begin._ipu_id

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Begin the block, and return what the function returns."""
        self._begin()
        return self._layer_to_call(*args, **kwargs)


def removeBlocks(module: torch.nn.Module) -> None:
    """Let no module of a module begin a block.

    Raises
    ------
    AssertionError
        When it is not a module.
    """
    assert isinstance(module, torch.nn.Module), f"{module!r} is not a torch.nn.Module"
    for part in module.modules():
        hooks = part._forward_pre_hooks
        part._forward_pre_hooks = OrderedDict(
            (key, hook) for key, hook in hooks.items() if not isinstance(hook, _Begin)
        )


def BlockFunction(
    user_id: str | None = None, ipu_id: int | None = None
) -> Callable[[_Function], _Function]:
    """Return a decorator of functions that are blocks."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with Block(user_id, ipu_id):
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
