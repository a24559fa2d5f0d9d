"""Stored programs: what a later process needs to run a model without compiling it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from tilescope.engine.compiler.cache import plans
from tilescope.engine.compiler.cache.description import describe
from tilescope.engine.compiler.cache.store import CacheFolder
from tilescope.engine.compiler.executable.container import Container

__all__ = ["ProgramFolder", "ProgramParts", "lowered_folder", "programs_folder"]

T = TypeVar("T")

#: Bytes of all programs kept beside the plans, and of all lowered operations.
_MOST_BYTES = 1 << 30


def programs_folder() -> Path:
    """Return the folder of programs that belongs to this version of the engine."""
    return plans.memo_folder() / "programs"


def lowered_folder() -> Path:
    """Return the folder of lowered operations that belongs to this version of the engine."""
    return plans.memo_folder() / "lowered"


class ProgramFolder:
    """A directory of programs, each in parts: see `ProgramParts`.

    Parameters
    ----------
    directory
        Directory of the executable cache, from which nothing is removed; if None, one beside the
        plans of the engine, from which the parts used longest ago are removed beyond 1 GiB.
    beside_plans
        Returns that one.
    """

    def __init__(
        self,
        directory: Path | str | None = None,
        beside_plans: Callable[[], Path] = programs_folder,
    ) -> None:
        self._directory, self._beside_plans = directory, beside_plans

    def folder(self, kind: str) -> CacheFolder:
        """Return the folder as that of one kind of part."""
        if self._directory is None:
            folder = self._beside_plans()
            return CacheFolder(folder, kind, most_bytes=_MOST_BYTES, is_requested=False)
        return CacheFolder(self._directory, kind)

    def parts(self, question: object) -> ProgramParts:
        """Return the parts of the program that answers a question.

        Parameters
        ----------
        question
            All that decides the program besides the engine: records and plain values.

        Raises
        ------
        TypeError
            When it holds a value of an unsupported type.
        """
        return ProgramParts(self, describe(question).decode())

    def named(self, question: str) -> ProgramParts:
        """Return the parts of the program that answers a question described before."""
        return ProgramParts(self, question)


class ProgramParts:
    """The files of one program (`tilescope.engine.compiler.executable.parts.Parts`).

    Parameters
    ----------
    folder
        Where they are.
    question
        What the program answers, in full.
    """

    def __init__(self, folder: ProgramFolder, question: str) -> None:
        self._folder, self.question = folder, question
        self._folders: dict[str, CacheFolder] = {}

    def take(self, kind: str, about: object, build: Callable[[Container], T]) -> T | None:
        """Return what is built of a part; None if there is none that can be used."""
        return self._of(kind).open(self._described(about), build)

    def keep(
        self,
        kind: str,
        about: object,
        facts: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        plain: Collection[str] = (),
    ) -> None:
        """Store a part."""
        self._of(kind).store(self._described(about), facts, dict(arrays), plain)

    def _of(self, kind: str) -> CacheFolder:
        if kind not in self._folders:
            self._folders[kind] = self._folder.folder(kind)
        return self._folders[kind]

    def _described(self, about: object) -> bytes:
        content = {"program": self.question, "about": describe(about).decode()}
        return json.dumps(content, sort_keys=True).encode()
