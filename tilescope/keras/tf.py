"""What programs take from ``tensorflow`` that Keras has, or that reads arrays in batches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import keras
from keras import optimizers

from tilescope.keras.data import Dataset

__all__ = ["data", "keras", "optimizers"]

data = SimpleNamespace(Dataset=Dataset, AUTOTUNE=-1)


def __getattr__(name: str) -> Any:
    """Refuse what is not here.

    Raises
    ------
    AttributeError
        Always.
    """
    raise AttributeError(
        f"tilescope.keras.tf has no {name!r}: it has keras, optimizers and data; use Keras 3's own"
        " operations (keras.ops) in place of TensorFlow's"
    )
