"""The scope in which models are made for the IPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from tilescope.keras.model import on_ipu

__all__ = ["IPUStrategy"]


class IPUStrategy:
    """Models that are made in its scope run on the IPU.

    Parameters
    ----------
    ipu_device, enable_dataset_iterators
        As Graphcore has them; without effect.
    """

    def __init__(self, ipu_device: str = "", enable_dataset_iterators: bool = True) -> None:
        del ipu_device, enable_dataset_iterators

    @property
    def num_replicas_in_sync(self) -> int:
        """Always 1: replicas are within a model, which takes as many IPUs as are configured."""
        return 1

    @contextmanager
    def scope(self) -> Iterator[IPUStrategy]:
        """Let models that are made in it run on the IPU."""
        make = keras.Model.__new__

        def make_on_ipu(cls: type, *args: Any, **kwargs: Any) -> Any:
            model = make(cls, *args, **kwargs)
            kind: Any = type(model)
            model.__class__ = on_ipu(kind)
            return model

        keras.Model.__new__ = make_on_ipu
        try:
            yield self
        finally:
            keras.Model.__new__ = make

    def run(self, function: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function, on the host."""
        return function(*args, **(kwargs or {}))
