"""Compiled programs in files: exported, loaded by other sessions, and kept in a cache."""

from __future__ import annotations

import tempfile
import zipfile
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from popart.errors import popart_exception
from tilescope.engine.compiler.cache.programs import ProgramFolder, ProgramParts
from tilescope.engine.errors import BadExecutable
from tilescope.engine.ir import Model
from tilescope.engine.machine import Machine
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.settings import CompileSettings
from tilescope.engine.session.stored_program import keep_program, parts_of, take_program

__all__ = ["ProgramQuestion", "export_file", "load_program", "save_program"]

_DEFAULT_NAME = "executable.popef"


@dataclass(frozen=True)
class ProgramQuestion:
    """All that decides the program of a session.

    Parameters
    ----------
    model
        The operator graph.
    machine
        What it is compiled for.
    settings
        Of the compilation.
    """

    model: Model
    machine: Machine
    settings: CompileSettings

    def cache_name(self, *others: object) -> str:
        """Return the name of the file in a cache, which other facts of the session decide, too.

        It is empty where nothing can stand for the model.
        """
        parts = parts_of(ProgramFolder("."), self.model, self.machine, self.settings)
        if not isinstance(parts, ProgramParts):
            return ""
        digest = blake2b(repr((parts.question, others)).encode(), digest_size=8).digest()
        return f"{int.from_bytes(digest)}.popef"


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
    with tempfile.TemporaryDirectory(prefix="popart-program-") as folder:
        parts = parts_of(ProgramFolder(folder), question.model, question.machine, question.settings)
        if parts is None:
            return "an operator of its model has no digest"
        reason = keep_program(parts, compiled)
        if reason:
            return reason
        try:
            with zipfile.ZipFile(file, "w") as archive:
                for part in sorted(Path(folder).iterdir()):
                    archive.write(part, part.name)
        except OSError as error:
            raise popart_exception(f"Unable to open file '{file}': {error.strerror}") from None
    return ""


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
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if Path(name).name == name:  # no part is elsewhere
                    (folder / name).write_bytes(archive.read(name))
    except (OSError, zipfile.BadZipFile) as error:
        raise popart_exception(f"Could not open file {file}: {error}") from None
    parts = parts_of(ProgramFolder(folder), question.model, question.machine, question.settings)
    try:
        compiled = None if parts is None else take_program(parts)
    except BadExecutable as error:
        raise popart_exception(f"Failed to load the executable in {file}: {error}") from None
    if compiled is None:
        raise popart_exception(
            f"The executable in {file} does not fit this session: it was compiled for another"
            " model, device or options, or by another version"
        )
    return compiled
