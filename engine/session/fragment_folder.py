"""Lowered operations on disk: those of the last programs of a model, to be added again.

An index names files of fragments, one for every compilation that lowered something, and has the
keys of each. A file is read when one of its fragments is asked for; what is missing or damaged is
lowered again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine import program
from tilescope.engine.compiler.cache.programs import ProgramFolder
from tilescope.engine.compiler.executable.container import MALFORMED, Container, NotAnEntry
from tilescope.engine.compiler.executable.executable import EXECUTABLE_KINDS
from tilescope.engine.compiler.executable.objects import RecordReader, RecordWriter
from tilescope.engine.graph.identity.array_digests import DIGEST_BYTES, ArrayDigests
from tilescope.engine.graph.identity.digest import digest_of
from tilescope.engine.lower.fragment import Fragment
from tilescope.engine.planner.embedding import EmbeddingPlan, EmbeddingShape
from tilescope.engine.tiling import ConvolutionShape

__all__ = ["FragmentFolder"]

_log = logging.getLogger(__name__)

_INDEX, _FRAGMENTS = "lowered", "fragments"
#: Files that an index names: those that the last compilation used most.
_MOST_FILES = 16
#: Bytes of the arrays of a file.
_MOST_BYTES = 30_000_000
_PROGRAMS = (getattr(program, name) for name in program.__all__)
_KINDS = (
    *EXECUTABLE_KINDS,
    *(kind for kind in _PROGRAMS if isinstance(kind, type)),
    ConvolutionShape,
    EmbeddingPlan,
    EmbeddingShape,
    Fragment,
)
#: Begin and end of a fragment among the contents of a file, by its key.
Places = Mapping[str, Sequence[int]]


class _Reader(RecordReader):
    """The fragments of a file, and the digests of their arrays."""

    def __init__(self, entry: Container, digests: ArrayDigests) -> None:
        super().__init__(_KINDS, entry.facts["table"], entry.array)
        self._contents = entry.array("contents").data
        self._place_of: Places = entry.facts["places"]
        self._digest = entry.array("digests").reshape(-1, DIGEST_BYTES)
        self._digests = digests

    def array(self, number: int) -> NDArray[Any]:
        """Return an array by its number, whose digest is known from now on."""
        is_new = number not in self._made
        array = super().array(number)
        if is_new:
            self._digests.know(array, self._digest[number].tobytes())
        return array

    def fragment(self, key: str, outer: Sequence[object]) -> Fragment:
        """Return a fragment on other objects.

        Raises
        ------
        Exception
            Of any type where the file is malformed.
        """
        begin, end = self._place_of[key]
        fragment = self.record(self._contents[begin:end], outer)
        if not isinstance(fragment, Fragment):
            raise NotAnEntry("it holds something else than fragments")
        return fragment


class FragmentFolder:
    """The fragments of a model, for one compilation (`tilescope.engine.lower.FragmentStore`).

    Parameters
    ----------
    programs
        Folder of the files.
    near
        What edited models have in common, such as their name: records and plain values.
    digests
        Digests of arrays of this compilation, which it takes from the files and adds to them.
    """

    def __init__(self, programs: ProgramFolder, near: object, digests: ArrayDigests) -> None:
        self._parts = programs.parts((_INDEX, near))
        self._digests = digests
        #: What the index says of every file, the one used most first.
        self._files: dict[str, dict[str, Any]] = self._parts.take(_INDEX, "", _index) or {}
        self._file_of: dict[str, str] = {}
        self._looks: dict[str, list[int]] = {}
        for name, file in reversed(self._files.items()):
            self._file_of |= dict.fromkeys(file["keys"], name)
            self._looks |= file["looks"]
        self._readers: dict[str, _Reader | None] = {}
        self._n_used = dict.fromkeys(self._files, 0)
        self._writer = RecordWriter(_KINDS)
        self._contents: dict[str, bytes] = {}
        self._new_looks: dict[str, list[int]] = {}

    def looks(self, kind: bytes) -> Sequence[int]:
        """Return which operands' contents decided the fragments of a kind; none if unknown."""
        return self._looks.get(kind.hex(), ())

    def find(self, key: bytes, outer: Sequence[object]) -> Fragment | None:
        """Return a new fragment that refers to other objects; None if there is none."""
        name = self._file_of.get(key.hex())
        if name is None:
            return None
        reader = self._reader(name)
        if reader is None:
            return None
        try:
            fragment = reader.fragment(key.hex(), outer)
        except Exception as error:  # a malformed pickle can raise anything
            _log.warning("warning: lowered operations of %s are not usable: %s", name, error)
            self._readers[name] = None
            return None
        self._n_used[name] += 1
        return fragment

    def _reader(self, name: str) -> _Reader | None:
        if name not in self._readers:
            self._readers[name] = self._parts.take(_FRAGMENTS, name, self._read)
        return self._readers[name]

    def _read(self, entry: Container) -> _Reader:
        try:
            return _Reader(entry, self._digests)
        except MALFORMED as error:
            raise NotAnEntry(f"a part is missing or malformed: {error}") from None

    def keep(
        self,
        kind: bytes,
        looks: Sequence[int],
        key: bytes,
        outer: Sequence[object],
        fragment: Fragment,
    ) -> None:
        """Take a fragment as it is now, to be stored by `save`.

        Raises
        ------
        TypeError
            When it holds something of a type that cannot be stored.
        BadExecutable
            When another process could not find a codelet.
        """
        arranged = [v for v in fragment.variables if v.arrangement is not None]
        values = [variable.values for variable in arranged]
        for variable in arranged:
            variable.values = None  # follows from the weights
        try:
            self._contents[key.hex()] = self._writer.content(fragment, outer)
        finally:
            for variable, array in zip(arranged, values, strict=True):
                variable.values = array
        if looks:
            self._looks[kind.hex()] = self._new_looks[kind.hex()] = [*looks]

    def save(self) -> None:
        """Store the fragments that were kept, unless there are none, or too many."""
        if not self._contents:
            return
        facts, arrays = self._writer.table()
        if sum(array.nbytes for array in arrays.values()) > _MOST_BYTES:
            _log.info("lowered operations are not stored: they are too large")
            return
        places, end = {}, 0
        for key, content in self._contents.items():
            places[key] = [end, end + len(content)]
            end += len(content)
        arrays["contents"] = np.frombuffer(b"".join(self._contents.values()), np.uint8)
        digests = b"".join(self._digests.of(array) for array in self._writer.arrays)
        arrays["digests"] = np.frombuffer(digests, np.uint8)
        name = digest_of([*places])
        self._parts.keep(_FRAGMENTS, name, {"table": facts, "places": places}, arrays, [*arrays])
        used = sorted(self._files, key=lambda name: -self._n_used[name])
        new = {name: {"keys": [*places], "looks": self._new_looks}}
        files = new | {old: self._files[old] for old in used if old != name}
        self._parts.keep(_INDEX, "", {"files": dict([*files.items()][:_MOST_FILES])}, {})


def _index(entry: Container) -> dict[str, dict[str, Any]]:
    """Return the keys of fragments, and what decided them, by files."""
    files = entry.facts["files"]
    if not all({"keys", "looks"} == set(file) for file in files.values()):
        raise NotAnEntry("it is not an index")
    return dict(files)
