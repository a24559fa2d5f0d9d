"""ONNX models: read and checked, then imported node by node as whole operators.

What reads models is imported on first access.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilescope.engine.frontend.onnx.load import load_onnx
    from tilescope.engine.frontend.onnx.nodes.settings import inputs_to_set

__all__ = ["inputs_to_set", "load_onnx"]

_MODULES = {"inputs_to_set": "nodes.settings", "load_onnx": "load"}


def __getattr__(name: str) -> Any:
    """Return a name of a module that is imported on first access.

    Raises
    ------
    AttributeError
        When the name is unknown.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
