"""One step of the search for labels: candidates, their merging and ranks, and the next beams.

Source: graphcore/poplibs sdk-release-3.4, lib/popnn/CTCInference.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popnn.ctc_beams import (
    COPY_CANDIDATES,
    EXTEND_CANDIDATES,
    MERGE_CANDIDATES,
    RANK_CANDIDATES,
    REDUCE_CANDIDATES,
    SELECT_COPY_CANDIDATES,
    SELECT_EXTEND_CANDIDATES,
    UPDATE,
)
from tilescope.engine.graph import ComputeSet, Regions, Tensor
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.ctc.beam_layout import BeamLayout, Candidates
from tilescope.engine.library.popops.elementwise.operations import copy_together
from tilescope.engine.planner.ctc_beams import SortStage

__all__ = ["BeamStep", "Beams", "SortVariables"]

Counts = NDArray[np.int64]


class Beams(NamedTuple):
    """Beams, with a copy on every part: int32 but for `logs`.

    Attributes
    ----------
    logs
        Logarithms of probabilities by kind: not blank, blank, both; shape (batch, parts, 3, width).
    addends, parents
        By step, from none on: last classes of beams, and the places of what is before them in both
        variables; shape (batch, parts, steps + 1, width).
    lengths
        Of labels, after even and after odd steps, shape (batch, parts, 2, width).
    last
        Last classes, shape (batch, parts, width).
    done, complete, steps
        Steps that are done, whether they are all, and how many there are: shape (batch, parts).
    """

    logs: Tensor
    addends: Tensor
    parents: Tensor
    lengths: Tensor
    last: Tensor
    done: Tensor
    complete: Tensor
    steps: Tensor


class SortVariables(NamedTuple):
    """Variables of a stage of the sort.

    Attributes
    ----------
    numbers, logs
        Candidates of parts at their ranks, and 0 at others: shape (batch, parts, width, 2 or 3).
    results
        The most probable ones of every group, shape (batch, groups · width).
    """

    numbers: Tensor
    logs: Tensor
    results: Candidates


@dataclass(frozen=True)
class BeamStep:
    """Adds the vertices of a step.

    Parameters
    ----------
    builder
        Of the body of the loop.
    layout
        Where variables lie.
    probabilities
        Logarithms, with a copy on every part: shape (batch, parts, steps, classes).
    beams
        What the step reads and writes.
    blank
        The class of no label.
    zero
        The logarithm of no probability.
    """

    builder: Builder
    layout: BeamLayout
    probabilities: Tensor
    beams: Beams
    blank: int
    zero: float

    @property
    def _width(self) -> int:
        return self.layout.plan.shape.width

    @property
    def _n_others(self) -> int:
        """Classes without the blank."""
        return self.layout.plan.shape.n_classes - 1

    def of_part(self, name: str, part: Counts) -> Regions:
        """Return what lies on a part of a variable with a copy on every part."""
        tensor = getattr(self.beams, name) if name != "probabilities" else self.probabilities
        n = tensor.n_elements // (tensor.shape[0] * tensor.shape[1])
        return self.layout.seen(tensor, part * n, n)

    def add(
        self,
        copies: Candidates,
        extended: Candidates,
        merged: Candidates,
        candidates: Candidates,
        sorts: list[SortVariables],
    ) -> None:
        """Add the step.

        Parameters
        ----------
        copies, extended
            Candidates as they are generated: shapes (batch, width), (batch, classes - 1, width).
        merged
            Those without a class, by the parent of those that they are merged with: shape
            (batch, width, width).
        candidates
            All: shape (batch, width, classes), those without a class first.
        sorts
            Variables by stage.
        """
        compute_set = self.builder.compute_set("generate")
        self._generate_copies(compute_set, copies)
        self._generate_extended(compute_set, extended)
        self._exchange(copies, extended, merged, candidates)
        self._merge(merged, candidates)
        compute_set = self.builder.compute_set("select")
        self._select_copies(compute_set, merged, candidates)
        self._select_extended(compute_set, merged, candidates)
        found = candidates
        for stage, variables in zip(self.layout.plan.stages, sorts, strict=True):
            self._rank(stage, found, variables)
            self._reduce(stage, variables)
            found = variables.results
        self._update(found)

    def _vertices(
        self,
        compute_set: ComputeSet,
        codelet: Codelet,
        part: Counts,
        fields: Mapping[str, Regions],
        **scalars: Any,
    ) -> None:
        n_batch = self.layout.plan.shape.n_batch
        columns = {
            name: np.tile(value, n_batch) if isinstance(value, np.ndarray) else value
            for name, value in scalars.items()
        }
        ordered = {field.name: fields[field.name] for field in codelet.fields}
        self.builder.vertices(compute_set, codelet, self.layout.tiles(part), ordered, columns)

    def _common(self, part: Counts) -> dict[str, Regions]:
        """Return what both kinds of candidates are made from."""
        names = {"beams": "logs", "probabilities": "probabilities"}
        names |= {"count": "done", "last": "last", "complete": "complete"}
        return {field: self.of_part(name, part) for field, name in names.items()}

    def _generate_copies(self, compute_set: ComputeSet, copies: Candidates) -> None:
        part, seen = self.layout.plan.beam_part, self.layout.seen
        beam = np.arange(self._width)
        fields = {
            **self._common(part),
            "numbers": seen(copies.numbers, 2 * beam, 2),
            "logs": seen(copies.logs, 2 * beam, 2),
            "total": seen(copies.totals, beam, 1),
        }
        scalars = {"beam": beam, "n_classes": self._n_others + 1, "blank": self.blank}
        self._vertices(compute_set, COPY_CANDIDATES, part, fields, **scalars, zero=self.zero)

    def _generate_extended(self, compute_set: ComputeSet, extended: Candidates) -> None:
        plan, seen = self.layout.plan, self.layout.seen
        n_beams = -(-self._width // plan.vertices_per_class)
        begin = np.arange(0, self._width, n_beams)
        place, first = (x.reshape(-1) for x in np.meshgrid(np.arange(self._n_others), begin))
        n = np.minimum(first + n_beams, self._width) - first
        at = place * self._width + first
        part = plan.class_part[place]
        fields = {
            **self._common(part),
            "numbers": seen(extended.numbers, 2 * at, 2 * n),
            "logs": seen(extended.logs, 2 * at, 2 * n),
            "totals": seen(extended.totals, at, n),
        }
        scalars = {"first": first, "symbol": place + (place >= self.blank)}
        self._vertices(
            compute_set,
            EXTEND_CANDIDATES,
            part,
            fields,
            **scalars,
            n_classes=self._n_others + 1,
            zero=self.zero,
        )

    def _exchange(
        self,
        copies: Candidates,
        extended: Candidates,
        merged: Candidates,
        candidates: Candidates,
    ) -> None:
        """Copy candidates to where they are merged: to all parents, and by parent."""
        pairs = []
        for source, target in zip(copies, merged, strict=True):
            n_batch, _, *inner = source.shape
            wide = source.reshape(n_batch, 1, self._width, *inner[:1])
            pairs.append((wide.broadcast_to(target.shape), target))
        for source, target in zip(extended, candidates, strict=True):
            turned = source.dim_shuffle(0, 2, 1, *range(3, len(source.shape)))
            pairs.append((turned, target.slice(2, 1, self._n_others + 1)))
        copy_together(self.builder, pairs, "toParents")

    def _merge(self, merged: Candidates, candidates: Candidates) -> None:
        width, n, seen = self._width, self._n_others, self.layout.seen
        parent, copy = np.divmod(np.arange(width * width), width)
        part = self.layout.plan.beam_part[parent]
        names = ("last", "addends", "parents", "lengths", "complete")
        first = parent * (n + 1) + 1
        fields = {
            **{name: self.of_part(name, part) for name in names},
            "count": self.of_part("done", part),
            "extended": seen(candidates.numbers, 2 * first, 2 * n),
            "extended_logs": seen(candidates.logs, 2 * first, 2 * n),
            "numbers": seen(merged.numbers, 2 * (parent * width + copy), 2),
            "logs": seen(merged.logs, 2 * (parent * width + copy), 2),
            "total": seen(merged.totals, parent * width + copy, 1),
        }
        compute_set = self.builder.compute_set("merge")
        self._vertices(compute_set, MERGE_CANDIDATES, part, fields, copy=copy, blank=self.blank)

    def _select_copies(
        self, compute_set: ComputeSet, merged: Candidates, candidates: Candidates
    ) -> None:
        width, seen, rows = self._width, self.layout.seen, self.layout.rows
        beam, part = np.arange(width), self.layout.plan.beam_part
        first = beam * (self._n_others + 1)
        fields = {
            "numbers": rows(merged.numbers, 2 * beam, width, 2 * width, 2),
            "logs": rows(merged.logs, 2 * beam, width, 2 * width, 2),
            "totals": rows(merged.totals, beam, width, width, 1),
            "complete": self.of_part("complete", part),
            "out": seen(candidates.numbers, 2 * first, 2),
            "out_logs": seen(candidates.logs, 2 * first, 2),
            "out_total": seen(candidates.totals, first, 1),
        }
        self._vertices(compute_set, SELECT_COPY_CANDIDATES, part, fields)

    def _select_extended(
        self, compute_set: ComputeSet, merged: Candidates, candidates: Candidates
    ) -> None:
        width, n, seen = self._width, self._n_others, self.layout.seen
        parent, part = np.arange(width), self.layout.plan.beam_part
        first = parent * (n + 1) + 1
        fields = {
            "merged": seen(merged.numbers, 2 * width * parent, 2 * width),
            "complete": self.of_part("complete", part),
            "numbers": seen(candidates.numbers, 2 * first, 2 * n),
            "totals": seen(candidates.totals, first, n),
        }
        scalars = {"blank": self.blank, "zero": self.zero}
        self._vertices(compute_set, SELECT_EXTEND_CANDIDATES, part, fields, **scalars)

    def _rank(self, stage: SortStage, found: Candidates, variables: SortVariables) -> None:
        """Rank every candidate among those of its group; a part has some of them."""
        seen, width = self.layout.seen, self._width
        starts = stage.group_edges
        rows = [
            (group, rank, starts[group], starts[group + 1], begin, end)
            for group in range(stage.groups)
            for rank, (begin, end) in enumerate(_pairs(stage.rank_edges(group)))
            if end > begin
        ]
        group, rank, first, last, begin, end = np.array(rows, np.int64).T
        part, place = stage.part(group, rank), group * stage.ranks + rank
        fields = {
            "totals": seen(found.totals, first, last - first),
            "numbers": seen(found.numbers, 2 * (first + begin), 2 * (end - begin)),
            "logs": seen(found.logs, 2 * (first + begin), 2 * (end - begin)),
            "complete": self.of_part("complete", part),
            "out": seen(variables.numbers, 2 * width * place, 2 * width),
            "out_logs": seen(variables.logs, 3 * width * place, 3 * width),
        }
        compute_set = self.builder.compute_set("rank")
        self._vertices(compute_set, RANK_CANDIDATES, part, fields, begin=begin, width=width)

    def _reduce(self, stage: SortStage, variables: SortVariables) -> None:
        """Put together what the parts of a group have ranked."""
        seen, rows, width = self.layout.seen, self.layout.rows, self._width
        result = np.arange(stage.groups * width)
        group, rank = np.divmod(result, width)
        first, n = group * stage.ranks * width + rank, stage.ranks
        fields = {
            "numbers": rows(variables.numbers, 2 * first, n, 2 * width, 2),
            "logs": rows(variables.logs, 3 * first, n, 3 * width, 3),
            "out": seen(variables.results.numbers, 2 * result, 2),
            "out_logs": seen(variables.results.logs, 2 * result, 2),
            "out_total": seen(variables.results.totals, result, 1),
        }
        part = self.layout.plan.result_part(stage)
        self._vertices(self.builder.compute_set("reduce"), REDUCE_CANDIDATES, part, fields)

    def _update(self, found: Candidates) -> None:
        seen, part, width = self.layout.seen, self.layout.all_parts, self._width
        names = ("addends", "parents", "lengths", "last", "complete")
        fields = {
            "numbers": seen(found.numbers, 0 * part, 2 * width),
            "logs": seen(found.logs, 0 * part, 2 * width),
            "totals": seen(found.totals, 0 * part, width),
            "n_steps": self.of_part("steps", part),
            "beams": self.of_part("logs", part),
            "count": self.of_part("done", part),
            **{name: self.of_part(name, part) for name in names},
        }
        self._vertices(self.builder.compute_set("update"), UPDATE, part, fields, zero=self.zero)


def _pairs(edges: Counts) -> list[tuple[int, int]]:
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
