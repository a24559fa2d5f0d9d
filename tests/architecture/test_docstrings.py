"""Docstrings of public functions list the errors they raise and only existing parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
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
ERROR_FILES = ("engine/errors.py", "reports/errors.py", "analyser/errors.py")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def project_errors() -> set[str]:
    trees = [ast.parse((ROOT / name).read_text(encoding="utf-8")) for name in ERROR_FILES]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


def public_functions() -> Iterator[tuple[str, Function, str]]:
    """Yield location, definition and docstring of every documented public function and method."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            scopes: list[ast.Module | ast.ClassDef] = [tree]
            scopes += [node for node in tree.body if isinstance(node, ast.ClassDef)]
            for scope in scopes:
                for node in scope.body:
                    if isinstance(node, Function) and not node.name.startswith("_"):
                        docstring = ast.get_docstring(node)
                        if docstring:
                            yield f"{path.relative_to(ROOT)}:{node.lineno}", node, docstring


def section(docstring: str, title: str) -> list[str]:
    """Return the entries of a numpydoc section: its lines that are not indented."""
    match = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", docstring, re.M | re.S)
    if match is None:
        return []
    return [line.strip() for line in match[1].splitlines() if line and not line[0].isspace()]


def raised_in(function: Function) -> set[str]:
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call | ast.Name):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(raised, ast.Name):
                names.add(raised.id)
    return names


def test_project_errors_raised_stand_under_raises() -> None:
    errors = project_errors()
    missing = [
        f"{position} {function.name}: {', '.join(sorted(unsaid))}"
        for position, function, docstring in public_functions()
        if (unsaid := (raised_in(function) & errors) - set(section(docstring, "Raises")))
    ]
    assert missing == []


def test_parameters_described_are_parameters() -> None:
    problem = []
    for position, function, docstring in public_functions():
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        names = {argument.arg for argument in every}
        names |= {extra.arg for extra in (arguments.vararg, arguments.kwarg) if extra}
        for entry in section(docstring, "Parameters"):
            described = [name.strip(" *") for name in entry.split(":")[0].split(",")]
            problem += [
                f"{position} {function.name}: {name}" for name in described if name not in names
            ]
    assert problem == []
