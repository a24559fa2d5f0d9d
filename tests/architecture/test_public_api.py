"""``__all__`` is complete and correct."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
ROOTS = ("tilescope", "libpvti", "popart", "pva")
FOLDERS = (
    "tilescope",
    "webapp",
    "analyser",
    "engine",
    "reports",
    "compat/libpvti",
    "compat/popart",
    "compat/poptorch",
    "compat/pva",
)


def module_names() -> list[str]:
    names = []
    for root in ROOTS:
        package = importlib.import_module(root)
        names.append(root)
        names += [
            module.name
            for module in pkgutil.walk_packages(package.__path__, prefix=f"{root}.")
            if not module.name.rsplit(".", 1)[-1].startswith("_")
            and module.name != "tilescope.keras"  # it needs Keras, which is not installed here
        ]
    return names


def defined_here(module: ModuleType) -> set[str]:
    """Return the public functions and classes that a module defines itself."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and getattr(value, "__module__", None) == module.__name__
    }


@cache
def names_imported_somewhere() -> frozenset[str]:
    """Return the names that modules of the product import from one another."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return frozenset(
        alias.name
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


def fault_of(name: str) -> str:
    """Return what is wrong with the ``__all__`` of a module; empty if nothing is."""
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    if listed is None:
        return "defines public names and has no __all__" if defined_here(module) else ""
    if len(set(listed)) < len(listed):
        return "lists a name twice"
    missing = [entry for entry in listed if not hasattr(module, entry)]
    if missing:
        return f"lists {missing}, which it has not"
    if name.startswith("tilescope.commands."):  # its functions are registered, not imported
        return ""
    unlisted = defined_here(module) - set(listed) - names_imported_somewhere()
    if unlisted:
        return f"list {sorted(unlisted)} in __all__, or begin them with an underscore"
    return ""


def test_all_is_complete_and_true() -> None:
    names = module_names()
    assert len(names) > 500
    assert {name: fault for name in names if (fault := fault_of(name))} == {}
