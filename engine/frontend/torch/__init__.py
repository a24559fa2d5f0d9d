"""PyTorch modules: exported by PyTorch, then imported node by node as whole operators.

PyTorch is imported when a module is loaded; the tables of its operators need none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilescope.engine.frontend.torch.load import load_torch
    from tilescope.engine.frontend.torch.program import TorchProgram
    from tilescope.engine.frontend.torch.torch_file import TorchFile

__all__ = ["TorchFile", "TorchProgram", "load_torch"]

_MODULES = {"TorchFile": "torch_file", "TorchProgram": "program", "load_torch": "load"}


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
