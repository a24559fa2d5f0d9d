"""Files of a user that register operators."""

from __future__ import annotations

import sys
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from tilescope.engine.errors import BadInput, EngineError, said

__all__ = ["load_operators"]

#: Endings of compiled libraries, in which PopART's custom operators are.
_COMPILED = (".so", ".dll", ".dylib", ".cpp")


def load_operators(path: Path | str) -> ModuleType:
    """Run a Python file that registers operators with `custom_operator`.

    A file that was loaded before is not run again. It is a module of the file's name, so that other
    processes find its codelets, and may import the modules beside it.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    ModuleType
        The module.

    Raises
    ------
    BadInput
        When the file does not exist, is not Python, or fails.
    BadModel
        As `custom_operator`.
    """
    path = Path(path).resolve()
    if path.suffix in _COMPILED:
        raise BadInput(
            f"{path.name} is a custom operator in C++, which is not supported: write it in Python,"
            " with engine.custom_operator and engine.codelet, and give that file"
        )
    if not path.is_file():
        raise BadInput(f"Operators file {path} does not exist")
    name = _module_name(path)
    if name in sys.modules:
        return sys.modules[name]
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None, "a file with a loader has a spec"
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, EngineError) or not isinstance(error, Exception):
            raise
        raise BadInput(f"Operators file {path.name} failed: {_located(error, path)}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _module_name(path: Path) -> str:
    """Return the name of a file's module: its own, or one with a digest if that is another's."""
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return name
    try:
        is_taken = known is not None or find_spec(name) is not None
    except (ImportError, ValueError):
        is_taken = True
    if is_taken or not name.isidentifier():
        return f"operators_{sha256(str(path).encode()).hexdigest()[:12]}"
    return name


def _located(error: Exception, path: Path) -> str:
    """Return an error with the line of the file that it is from."""
    line, traceback = getattr(error, "lineno", 0) or 0, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == str(path):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return f"{said(error)} (line {line})" if line else said(error)
