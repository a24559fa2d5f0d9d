"""Lowered operations and their costs on disk: those of the last programs of a model's name."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from tilescope.engine import program
from tilescope.engine.compiler.cache.programs import ProgramFolder
from tilescope.engine.compiler.exchange.transfer import Transfer
from tilescope.engine.compiler.executable.container import Container, NotAnEntry
from tilescope.engine.compiler.executable.executable import EXECUTABLE_KINDS
from tilescope.engine.graph.identity.array_digests import ArrayDigests
from tilescope.engine.lower.fragment import Fragment
from tilescope.engine.planner.embedding import EmbeddingPlan, EmbeddingShape
from tilescope.engine.session.record_files import RecordFiles
from tilescope.engine.tiling import ConvolutionShape

__all__ = ["LoweredFolder"]

_log = logging.getLogger(__name__)

_INDEX, _FRAGMENTS, _COSTS = "lowered", "fragments", "costs"
_PROGRAMS = (getattr(program, name) for name in program.__all__)
_FRAGMENT_KINDS = (
    *EXECUTABLE_KINDS,
    *(kind for kind in _PROGRAMS if isinstance(kind, type)),
    ConvolutionShape,
    EmbeddingPlan,
    EmbeddingShape,
    Fragment,
)
_COST_KINDS = (*EXECUTABLE_KINDS, Transfer)


class LoweredFolder:
    """What a compilation takes from earlier ones, and keeps for later ones.

    It is the `tilescope.engine.lower.fragments.FragmentStore` of a compilation, and its
    `tilescope.engine.compiler.exchange.exchanges.CostStore`.

    Parameters
    ----------
    programs
        Folder of the files.
    near
        What edited models have in common, such as their name: records and plain values.
    digests
        Digests of arrays of this compilation.
    """

    def __init__(self, programs: ProgramFolder, near: object, digests: ArrayDigests) -> None:
        self._parts = programs.parts((_INDEX, near))
        index = self._parts.take(_INDEX, "", _index) or {_FRAGMENTS: {}, _COSTS: {}, "looks": {}}
        self._index = index
        self._looks: dict[str, list[int]] = index["looks"]
        self._fragments = RecordFiles(
            self._parts, _FRAGMENTS, index[_FRAGMENTS], _FRAGMENT_KINDS, digests
        )
        self._costs = RecordFiles(
            self._parts, _COSTS, index[_COSTS], _COST_KINDS, digests, are_shared=True
        )

    def looks(self, kind: bytes) -> Sequence[int]:
        """Return which operands' contents decided the fragments of a kind; none if unknown."""
        return self._looks.get(kind.hex(), ())

    def find(self, key: bytes, outer: Sequence[object]) -> Fragment | None:
        """Return a new fragment that refers to other objects; None if there is none."""
        fragment = self._fragments.find(key, outer)
        return fragment if isinstance(fragment, Fragment) else None

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
            own = (*fragment.variables, *fragment.compute_sets)
            self._fragments.keep(key, fragment, outer, own)
        finally:
            for variable, array in zip(arranged, values, strict=True):
                variable.values = array
        if looks:
            self._looks[kind.hex()] = [*looks]

    def find_cost(self, key: bytes) -> Any:
        """Return the costs of a phase, as they were kept; None if there are none."""
        return self._costs.find(key)

    def keep_cost(self, key: bytes, cost: object) -> None:
        """Take the costs of a phase, to be stored by `save`."""
        self._costs.keep(key, cost)

    def save(self) -> None:
        """Store what was kept."""
        fragments = costs = None
        try:
            fragments, costs = self._fragments.save(), self._costs.save()
        except TypeError as error:
            _log.info("costs are not stored: %s", error)
        if fragments is None and costs is None:
            return
        fragments = self._index[_FRAGMENTS] if fragments is None else fragments
        costs = self._index[_COSTS] if costs is None else costs
        index = {_FRAGMENTS: fragments, _COSTS: costs, "looks": self._looks}
        self._parts.keep(_INDEX, "", index, {})


def _index(entry: Container) -> dict[str, Any]:
    """Return the keys in files, by kind, and which operands decided fragments."""
    index = {name: entry.facts[name] for name in (_FRAGMENTS, _COSTS, "looks")}
    if not all(isinstance(part, dict) for part in index.values()):
        raise NotAnEntry("it is not an index")
    return index
