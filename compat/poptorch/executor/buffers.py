"""Buffers of a module: what forward may do to them, and which replicas may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase

from poptorch.errors import createPoptorchError
from poptorch.options import Options
from tilescope.engine.frontend.torch import TorchProgram

__all__ = ["check_buffers", "watched_buffers"]


@contextmanager
def watched_buffers(module: torch.nn.Module) -> Iterator[Callable[[], None]]:
    """Give a function that refuses buffers that are others than when ``forward`` began.

    Parameters
    ----------
    module
        Whose ``forward`` runs meanwhile.
    """
    before: dict[str, torch.Tensor] = {}

    def note(*_: Any) -> None:
        before.update(module.named_buffers(remove_duplicate=False))

    hook = module.register_forward_pre_hook(note)
    try:
        yield lambda: _compare(before, dict(module.named_buffers(remove_duplicate=False)))
    finally:
        hook.remove()


def _compare(before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]) -> None:
    """Refuse buffers that are others than before.

    Raises
    ------
    Error
        When a buffer is removed, or another tensor has its name.
    """
    for name, buffer in before.items():
        if name not in after:
            raise createPoptorchError(
                f"Buffer {name} is removed from the model when calling the forward method."
            )
        if after[name] is not buffer:
            raise createPoptorchError(
                f"Buffer {name} is reassigned within the model when calling the forward method."
                f" This is not supported. Consider using self.{name}.copy_(src) to copy data"
                " from a source tensor, where src is the name of the source tensor."
            )


def check_buffers(module: torch.nn.Module, interface: TorchProgram, options: Options) -> None:
    """Refuse options that name no buffer, and buffers that replicas would change apart.

    Parameters
    ----------
    module
        The module. Replicas keep running statistics of normalisations for themselves.
    interface
        What goes in and out of it.
    options
        Of the model: replicas, ``broadcastBuffers`` and ``updatableNamedBuffers``.

    Raises
    ------
    Error
        Names the buffer.
    """
    for name in options._Popart.options.get("updatableNamedBuffers") or ():
        if name not in interface.buffers:
            known = ", ".join(interface.buffers) or "none"
            raise createPoptorchError(
                f"Options.updatableNamedBuffers: {name!r} is not a buffer of the model; its"
                f" buffers are {known}"
            )
    if options.replication_factor == 1 or not options.broadcast_buffers:
        return
    statistics = {
        f"{path}.{name}" if path else name
        for path, layer in module.named_modules(remove_duplicate=False)
        if isinstance(layer, _NormBase)
        for name, _ in layer.named_buffers(recurse=False)
    }
    apart = {name for path, name in interface.buffers.items() if path not in statistics}
    for update in interface.model.updates:
        if update.held.name in apart:
            raise createPoptorchError(
                f"Buffer {update.held.name} changes: PopTorch does not support broadcasting"
                " buffers. If your model is able to tolerate buffers becoming out of sync between"
                " replicas, you can disable buffer broadcasting using"
                " poptorch.Options.broadcastBuffers(False)."
            )
