"""Compiled programs in files of their own, which other processes take in place of compiling."""

from __future__ import annotations

import tempfile
import zipfile
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from tilescope.engine.compiler.cache.programs import ProgramFolder, ProgramParts
from tilescope.engine.compiler.executable.parts import Parts
from tilescope.engine.errors import BadExecutable
from tilescope.engine.ir import Model
from tilescope.engine.machine import Machine
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.settings import CompileSettings
from tilescope.engine.session.stored_program import keep_program, parts_of, take_program

__all__ = ["ProgramQuestion", "load_program", "save_program"]


@dataclass(frozen=True)
class ProgramQuestion:
    """All that decides a program.

    Parameters
    ----------
    model
        The operator graph.
    machine
        What it is compiled for.
    settings
        Of the compilation.
    has_weights
        Whether the values of weights decide it, too: not where the host writes all of them before
        the first run.
    """

    model: Model
    machine: Machine
    settings: CompileSettings
    has_weights: bool = True

    def cache_name(self, *others: object) -> str:
        """Return the name of the file in a cache, which other facts decide, too.

        It is empty where nothing can stand for the model.
        """
        parts = self.parts_in(Path())
        if not isinstance(parts, ProgramParts):
            return ""
        digest = blake2b(repr((parts.question, others)).encode(), digest_size=8).digest()
        return f"{int.from_bytes(digest)}.popef"

    def parts_in(self, folder: Path) -> Parts | None:
        """Return the parts of the program in a folder; None if nothing stands for the model."""
        return parts_of(
            ProgramFolder(folder),
            self.model,
            self.machine,
            self.settings,
            has_weights=self.has_weights,
        )


def save_program(question: ProgramQuestion, compiled: CompiledModel, file: Path) -> str:
    """Write a program into a file.

    Returns
    -------
    str
        Why no other process could take it, and there is no file; empty if one can.

    Raises
    ------
    BadExecutable
        When it cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="tilescope-program-") as folder:
        parts = question.parts_in(Path(folder))
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
            raise BadExecutable(f"Unable to open file '{file}': {error.strerror}") from None
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
        Directory for its parts, which stay as long as the program is used.

    Raises
    ------
    BadExecutable
        When the file is missing, or has the program of another model, machine or settings.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if Path(name).name == name:  # no part is elsewhere
                    (folder / name).write_bytes(archive.read(name))
    except (OSError, zipfile.BadZipFile) as error:
        raise BadExecutable(f"Could not open file {file}: {error}") from None
    parts = question.parts_in(folder)
    try:
        compiled = None if parts is None else take_program(parts)
    except BadExecutable as error:
        raise BadExecutable(f"Failed to load the executable in {file}: {error}") from None
    if compiled is None:
        raise BadExecutable(
            f"The executable in {file} does not fit this session: it was compiled for another"
            " model, device or options, or by another version"
        )
    return compiled
