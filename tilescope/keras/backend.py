"""Keras on PyTorch, or a sentence that says what is missing."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from tilescope.engine.errors import BadInput

__all__ = ["require_keras"]

_BACKEND = "KERAS_BACKEND"


def require_keras() -> None:
    """Let Keras be imported on PyTorch.

    Raises
    ------
    ImportError
        When Keras or PyTorch is not installed.
    BadInput
        When Keras was imported on another backend.
    """
    missing = [name for name in ("keras", "torch") if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"tilescope.keras needs {' and '.join(missing)}: install tilescope[keras], and a"
            " PyTorch for your processor"
        )
    if "keras" not in sys.modules:
        stated = os.environ.setdefault(_BACKEND, "torch")
    else:
        import keras

        stated = keras.backend.backend()
    if stated != "torch":
        raise BadInput(
            f"Keras runs on {stated!r}, and tilescope.keras imports models from PyTorch: set"
            f" {_BACKEND}=torch, or import tilescope.keras before keras"
        )
