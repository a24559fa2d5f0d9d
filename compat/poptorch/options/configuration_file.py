"""Options in a file: one call of a method of `Options` a line."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from poptorch.errors import ConfigFileError

__all__ = ["read_options"]


def read_options(options: Any, filepath: str | Path, names: dict[str, Any]) -> None:
    """Make the calls of a file.

    Parameters
    ----------
    options
        What has the methods.
    filepath
        The file: a call a line, such as ``deviceIterations(4)``; empty lines and ``#`` comments
        are left out.
    names
        What the calls may name, such as ``poptorch``.

    Raises
    ------
    ConfigFileError
        When a line is not such a call.
    """
    path = Path(filepath)
    lines = [line.strip() for line in path.read_text().splitlines()]
    calls = [f"options.{line}" for line in lines if line and not line.startswith("#")]
    for number, call in enumerate(calls, 1):
        try:
            parsed = ast.parse(call, path.name, "eval")
        except SyntaxError as error:
            raise ConfigFileError(
                f"SyntaxError at line {number} of {path.name}: {_detail(error)}\n> {call}"
            ) from error
        _make(parsed.body, {**names, "options": options}, path.name, number)


def _detail(error: SyntaxError) -> str:
    """Return what is wrong, as all versions of Python say it of a call that does not end."""
    message = str(error.msg)
    return "unexpected EOF while parsing" if "was never closed" in message else message


def _make(node: ast.expr, names: dict[str, Any], file: str, number: int) -> Any:
    """Return the value of an expression of names, attributes, calls and literals."""
    match node:
        case ast.Call(func=function, args=arguments, keywords=named):
            called = _make(function, names, file, number)
            values = [_make(argument, names, file, number) for argument in arguments]
            return called(*values, **_named(named, names, file, number))
        case ast.Attribute(value=value, attr=name) if not name.startswith("__"):
            return getattr(_make(value, names, file, number), name)
        case ast.Name(id=name) if name in names:
            return names[name]
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ConfigFileError(
            f"Line {number} of {file} has {ast.unparse(node)!r}: write a call of a method of"
            " poptorch.Options with literals and names of poptorch"
        ) from None


def _named(
    arguments: list[ast.keyword], names: dict[str, Any], file: str, number: int
) -> dict[str, Any]:
    """Return the values of arguments by name."""
    return {arg.arg or "": _make(arg.value, names, file, number) for arg in arguments}
