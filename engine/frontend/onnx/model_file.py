"""Whether a path names a file, before anything reads a model from it."""

from __future__ import annotations

from pathlib import Path

from tilescope.engine.errors import BadModel
from tilescope.engine.models import all_models

__all__ = ["check_is_file"]


def check_is_file(path: Path) -> None:
    """Raise an error unless a path names a file; the name of a model to fetch is told apart.

    Raises
    ------
    BadModel
        When the path does not exist or is a directory.
    """
    if path.is_file():
        return
    what = "is a directory" if path.is_dir() else "does not exist"
    advice = "give the path of an .onnx file"
    if str(path) in all_models():
        advice += f"; 'tilescope models fetch {path}' prints that of the model in the catalogue"
    raise BadModel(f"Model {path} {what}: {advice}")
