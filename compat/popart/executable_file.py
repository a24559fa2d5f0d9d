"""Compiled programs in files: exported, loaded by other sessions, and kept in a cache."""

from __future__ import annotations

from pathlib import Path

from popart.errors import popart_exception
from tilescope.engine.errors import BadExecutable
from tilescope.engine.session import program_file
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.program_file import ProgramQuestion

__all__ = ["export_file", "load_program", "save_program"]

_DEFAULT_NAME = "executable.popef"


def export_file(path: str) -> Path:
    """Return the file that a program is saved to, with the folders above it.

    Parameters
    ----------
    path
        The file, or a directory for a file ``executable.popef``.

    Raises
    ------
    OSError
        When folders cannot be made, as Python does.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        return file / _DEFAULT_NAME
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def save_program(question: ProgramQuestion, compiled: CompiledModel, file: Path) -> str:
    """Write a program into a file.

    Returns
    -------
    str
        Why no other process could take it, and there is no file; empty if one can.

    Raises
    ------
    popart_exception
        When it cannot be written.
    """
    try:
        return program_file.save_program(question, compiled, file)
    except BadExecutable as error:
        raise popart_exception(str(error)) from None


def load_program(question: ProgramQuestion, file: Path, folder: Path) -> CompiledModel:
    """Return the program in a file.

    Parameters
    ----------
    question
        What it must be the program of.
    file
        Written by `save_program`.
    folder
        Directory for its parts, which stay until the session ends.

    Raises
    ------
    popart_exception
        When the file is missing, or has the program of another model, device or options.
    """
    try:
        return program_file.load_program(question, file, folder)
    except BadExecutable as error:
        raise popart_exception(str(error)) from None
