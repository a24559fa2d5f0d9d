"""Whether a path names a file, before anything reads a model from it."""

from __future__ import annotations

from pathlib import Path

from tilescope.engine.errors import BadModel
from tilescope.engine.models import all_models

__all__ = ["check_is_file"]

_MOST_SHOWN = 80


def check_is_file(path: Path) -> None:
    """Raise an error unless a path names a file; the name of a model to fetch is told apart.

    Raises
    ------
    BadModel
        When the path does not exist, is a directory, or another kind of special file.
    """
    try:
        if path.is_file():
            return
        problem = "does not exist"
        if path.is_dir():
            problem = "is a directory"
        elif path.exists():
            problem = "is not a regular file"
    except (OSError, ValueError):  # too long, a NUL
        raise BadModel(
            f"Model {str(path)[:_MOST_SHOWN]!r} is not the name of a file: give the path of an"
            " .onnx file"
        ) from None
    advice = "give the path of an .onnx file"
    if str(path) in all_models():
        advice += f"; 'tilescope models fetch {path}' prints that of the model in the catalogue"
    raise BadModel(f"Model {path} {problem}: {advice}")
