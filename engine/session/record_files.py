"""Records of compilations of one name, in files that an index names.

Every compilation adds the records that it made, a file per kind. The index has the keys of every
file. A file is read when a record of it is asked for; what is missing or damaged is made again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.cache.programs import ProgramParts
from tilescope.engine.compiler.executable.container import MALFORMED, Container, NotAnEntry
from tilescope.engine.compiler.executable.objects import RecordReader, RecordWriter
from tilescope.engine.graph.identity.array_digests import DIGEST_BYTES, ArrayDigests
from tilescope.engine.graph.identity.digest import digest_of

__all__ = ["RecordFiles"]

_log = logging.getLogger(__name__)

#: Files of a kind that an index names: those that the last compilation used most.
_MOST_FILES = 16
#: Bytes of the arrays of a file.
_MOST_BYTES = 30_000_000


class _Reader(RecordReader):
    """The records of a file, and the digests of their arrays."""

    def __init__(self, entry: Container, kinds: Sequence[type], digests: ArrayDigests) -> None:
        super().__init__(kinds, entry.facts["table"], entry.array)
        self._contents = entry.array("contents").data
        self._bounds: Mapping[str, Sequence[int]] = entry.facts["bounds"]
        self._digest = entry.array("digests").tobytes()
        self._digests = digests

    def _new_array(self, number: int) -> NDArray[Any]:
        """Return an array whose digest is known from now on."""
        array = super()._new_array(number)
        begin = DIGEST_BYTES * number
        self._digests.know(array, self._digest[begin : begin + DIGEST_BYTES])
        return array

    def record_of(self, key: str, outer: Sequence[object]) -> Any:
        """Return the record of a key, a new one for every call.

        Raises
        ------
        Exception
            Of any type where the file is malformed.
        """
        begin, end = self._bounds[key]
        return self.record(self._contents[begin:end], outer)

    @cached_property
    def records(self) -> Mapping[str, Any]:
        """The records of a file that were stored together, by key."""
        records: Mapping[str, Any] = self.record(self._contents)
        return records


class RecordFiles:
    """The records of one kind, for one compilation.

    Parameters
    ----------
    parts
        Where the files are.
    kind
        Suffix of the files.
    index
        What the index says: the keys in every file, the one used most first.
    kinds
        The types of records.
    digests
        Digests of arrays of this compilation, which are taken from the files and added to them.
    are_shared
        Whether nobody changes the records: those of a file are read at once.
    """

    def __init__(
        self,
        parts: ProgramParts,
        kind: str,
        index: Mapping[str, list[str]],
        kinds: Sequence[type],
        digests: ArrayDigests,
        *,
        are_shared: bool = False,
    ) -> None:
        self._are_shared = are_shared
        self._parts, self._kind, self._kinds, self._digests = parts, kind, kinds, digests
        self._keys = dict(index)
        self._file_of: dict[str, str] = {}
        for name, keys in reversed(self._keys.items()):
            self._file_of |= dict.fromkeys(keys, name)
        self._readers: dict[str, _Reader | None] = {}
        self._n_used = dict.fromkeys(self._keys, 0)
        self._writer = RecordWriter(kinds)
        self._contents: dict[str, bytes] = {}
        self._shared: dict[str, object] = {}

    def find(self, key: bytes, outer: Sequence[object] = ()) -> Any:
        """Return a record that refers to other objects; None if there is none."""
        name = self._file_of.get(key.hex())
        if name is None:
            return None
        if name not in self._readers:
            self._readers[name] = self._parts.take(self._kind, name, self._read)
        reader = self._readers[name]
        if reader is None:
            return None
        try:
            if self._are_shared:
                record = reader.records[key.hex()]
            else:
                record = reader.record_of(key.hex(), outer)
        except Exception as error:  # a malformed pickle can raise anything
            _log.warning("warning: cached %s %s is not usable: %s", self._kind, name, error)
            self._readers[name] = None
            return None
        self._n_used[name] += 1
        return record

    def _read(self, entry: Container) -> _Reader:
        try:
            return _Reader(entry, self._kinds, self._digests)
        except MALFORMED as error:
            raise NotAnEntry(f"a part is missing or malformed: {error}") from None

    def keep(
        self,
        key: bytes,
        record: object,
        outer: Sequence[object] = (),
        own: Sequence[object] | None = None,
    ) -> None:
        """Take a record as it is now, to be stored by `save`.

        Parameters
        ----------
        key
            What it is found by.
        record, outer, own
            As for `RecordWriter.content`.

        Raises
        ------
        TypeError
            When it holds something that cannot be stored.
        BadExecutable
            When another process could not find a codelet.
        """
        if self._are_shared:
            self._shared[key.hex()] = record
        else:
            self._contents[key.hex()] = self._writer.content(record, outer, own)

    def save(self) -> dict[str, list[str]] | None:
        """Store the records that were kept; return what the index says now.

        None if there are none, or too many.

        Raises
        ------
        TypeError
            When a record that is shared holds something that cannot be stored.
        """
        if self._shared:
            content = self._writer.content(self._shared)
            bounds = {key: [0, len(content)] for key in self._shared}
            contents = [content]
        elif self._contents:
            ends = [*accumulate(map(len, self._contents.values()))]
            places = zip(self._contents, pairwise((0, *ends)), strict=True)
            bounds = {key: [*place] for key, place in places}
            contents = [*self._contents.values()]
        else:
            return None
        facts, arrays = self._writer.table()
        if sum(array.nbytes for array in arrays.values()) > _MOST_BYTES:
            _log.info("%s of a program are not stored: they are too large", self._kind)
            return None
        arrays["contents"] = np.frombuffer(b"".join(contents), np.uint8)
        digests = b"".join(self._digests.of(array) for array in self._writer.arrays)
        arrays["digests"] = np.frombuffer(digests, np.uint8)
        name = digest_of([*bounds])
        self._parts.keep(self._kind, name, {"table": facts, "bounds": bounds}, arrays, [*arrays])
        used = sorted(self._keys, key=lambda name: -self._n_used[name])
        files = {name: [*bounds]} | {old: self._keys[old] for old in used if old != name}
        return dict([*files.items()][:_MOST_FILES])
