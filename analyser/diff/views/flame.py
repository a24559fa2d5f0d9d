"""Cycles of two reports by the path of step names: the difference flame."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.diff.alignment.aligned import aligned_steps, cached_for_two
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import execution, steps
from tilescope.reports.bars.kinds import KINDS, classify
from tilescope.reports.bars.paths import PathTable, build_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.analyser.diff.alignment.steps import StepPairs
    from tilescope.reports import Report

__all__ = ["FlameDifference", "PathChange", "difference_flame"]

#: Name of the time that no step accounts for.
REST = "(outside steps)"


@dataclass(frozen=True)
class PathChange:
    """One path with everything below it.

    ``row`` is its row in `FlameDifference`, ``parent`` that of the path around it, -1 for the
    whole. ``verdict`` is ``changed`` also where only what is below differs. ``width_cycles`` is
    what it is drawn with: the larger side of every step, summed. ``offset_cycles`` is where it
    begins, among the paths around it, counted from the whole.
    """

    row: int
    parent: int
    depth: int
    label: str
    name: str
    verdict: Literal["added", "removed", "changed", "same"]
    baseline_cycles: int
    candidate_cycles: int
    delta_cycles: int
    offset_cycles: int
    width_cycles: int
    baseline_step_id: int | None
    candidate_step_id: int | None


@dataclass(frozen=True, eq=False)
class FlameDifference:
    """The paths of two reports as a tree, one row a path, parents before what is below them.

    Row 0 is the whole, with the cycles of the two reports: on the critical path of one run on
    average, to a whole number in every step, if ``basis`` is ``runs``, of one execution of every
    step if a report has none. The cycles of a row are those of the rows below it, summed.

    Attributes
    ----------
    labels : tuple of str
        Last level of each path.
    parent, depth : ndarray of int32, shape (n_rows,)
        Row around each row, -1 for the whole; levels above it.
    cycles : ndarray of int64, shape (2, n_rows), cycles
        Of the baseline and of the candidate.
    width, offset : ndarray of int64, shape (n_rows,), cycles
        The larger side of every step, summed, and where that begins.
    n_steps : ndarray of int64, shape (2, n_rows)
        Steps of the baseline and of the candidate below each row.
    n_changed : ndarray of int64, shape (n_rows,)
        Steps below each row that only one side has or that differ.
    step_id : ndarray of int64, shape (2, n_rows)
        The first step of each side below a row, -1 for none.
    """

    basis: Literal["runs", "estimate"]
    n_runs: tuple[int, int]
    labels: tuple[str, ...]
    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    cycles: NDArray[np.int64]
    width: NDArray[np.int64]
    offset: NDArray[np.int64]
    n_steps: NDArray[np.int64]
    n_changed: NDArray[np.int64]
    step_id: NDArray[np.int64]

    def name(self, row: int) -> str:
        """Return the whole path of a row, without the whole itself."""
        levels: list[str] = []
        while row > 0:
            levels.append(self.labels[row])
            row = int(self.parent[row])
        return "/".join(reversed(levels))

    def find(self, name: str) -> int:
        """Return the row of a path; the whole for an empty one.

        Raises
        ------
        BadQuestion
            When neither report has that path.
        """
        row = 0
        for level in [part for part in name.split("/") if part]:
            below = [child for child in self.below[row] if self.labels[child] == level]
            if not below:
                raise BadQuestion(f"no step of the two reports is below '{name[:80]}'")
            row = below[0]
        return row

    def rows(self, root: int = 0, *, smallest: float = 0.0) -> tuple[PathChange, ...]:
        """Return the rows at and below one, parents first, in the order of the program.

        Parameters
        ----------
        root
            Where to begin.
        smallest
            Rows narrower than this part of the root are left out, 0 to 1.
        """
        smallest_width = smallest * float(self.width[root])
        rows_, waiting = [], [root]
        while waiting:
            row = waiting.pop()
            rows_.append(self.row(row))
            waiting += [
                child for child in reversed(self.below[row]) if self.width[child] >= smallest_width
            ]
        return tuple(rows_)

    def row(self, row: int) -> PathChange:
        """Return one row."""
        before, after = (int(side[row]) for side in self.cycles)
        first, second = (int(side[row]) for side in self.step_id)
        is_rest = row > 0 and not self.n_steps[:, row].any()
        verdict: Literal["added", "removed", "changed", "same"] = "changed"
        if not (before - after or self.n_changed[row]):
            verdict = "same"
        elif not is_rest and row and not self.n_steps[0, row]:
            verdict = "added"
        elif not is_rest and row and not self.n_steps[1, row]:
            verdict = "removed"
        return PathChange(
            row,
            int(self.parent[row]),
            int(self.depth[row]),
            self.labels[row],
            self.name(row),
            verdict,
            before,
            after,
            after - before,
            int(self.offset[row]),
            int(self.width[row]),
            first if first >= 0 else None,
            second if second >= 0 else None,
        )

    @cached_property
    def below(self) -> tuple[tuple[int, ...], ...]:
        """Rows right below every row, in the order of the program."""
        children: list[list[int]] = [[] for _ in self.labels]
        for row, above in enumerate(self.parent.tolist()):
            if above >= 0:
                children[above].append(row)
        return tuple(map(tuple, children))


@cached_for_two
def difference_flame(baseline: Report, candidate: Report) -> FlameDifference:
    """Return the cycles of two reports by the path of step names.

    Steps are the same as in `align_steps`; a pair stands at its path in the baseline. Steps of
    several kinds with one name are parted by their kind, one level below the name.
    """
    aligned = aligned_steps(baseline, candidate)
    sides, is_changed = _leaves(baseline, candidate, aligned)
    paths = _paths((baseline, candidate), sides)
    n_leaves, n_rows = sides.shape[1], len(paths.labels) + 1
    cycles = np.zeros((2, n_leaves), np.int64)
    for side, numbers in enumerate(sides):
        sums = aligned.cycles[side][numbers[numbers >= 0]]
        cycles[side][numbers >= 0] = np.rint(sums / aligned.n_runs[side])
    parent = np.concatenate([[-1], np.asarray(paths.parents, np.int32) + 1]).astype(np.int32)
    row = paths.leaf + 1

    def total(values: NDArray[np.int64]) -> NDArray[np.int64]:
        answer = np.zeros(n_rows, np.int64)
        np.add.at(answer, row, values)
        for start in range(n_rows - 1, 0, -1):
            answer[parent[start]] += answer[start]
        return answer

    summed = np.stack([total(side) for side in cycles])
    width = total(cycles.max(axis=0))
    n_steps = np.stack([total((side >= 0).astype(np.int64)) for side in sides])
    n_changed = total(is_changed.astype(np.int64))
    first = np.full((2, n_rows), -1, np.int64)
    for side, numbers in enumerate(sides):
        for start in range(n_leaves - 1, -1, -1):
            if numbers[start] >= 0:
                first[side][row[start]] = numbers[start]
        for start in range(n_rows - 1, 0, -1):
            known = first[side][[start, parent[start]]]
            first[side][parent[start]] = min(known[known >= 0], default=-1)
    labels = ("", *paths.labels)
    rest = _rest(baseline, candidate, aligned.has_runs, summed[:, 0])
    if any(rest):
        labels = (*labels, REST)
        parent = np.append(parent, np.int32(0))
        summed = np.concatenate([summed, [[rest[0]], [rest[1]]]], axis=1)
        width = np.append(width, max(rest))
        summed[:, 0] += rest
        width[0] += max(rest)
        empty = np.zeros((2, 1), np.int64)
        n_steps = np.concatenate([n_steps, empty], axis=1)
        n_changed = np.append(n_changed, int(rest[0] != rest[1]))
        n_changed[0] += n_changed[-1]
        first = np.concatenate([first, empty - 1], axis=1)
    depth = np.zeros(len(labels), np.int32)
    offset = np.zeros(len(labels), np.int64)
    taken_cycles = np.zeros(len(labels), np.int64)
    for start in range(1, len(labels)):
        above = int(parent[start])
        depth[start] = depth[above] + 1
        offset[start] = offset[above] + taken_cycles[above]
        taken_cycles[above] += width[start]
    return FlameDifference(
        "runs" if aligned.has_runs else "estimate",
        (execution(baseline).n_runs, execution(candidate).n_runs),
        labels,
        parent,
        depth,
        summed,
        width,
        offset,
        n_steps,
        n_changed,
        first,
    )


def _leaves(
    baseline: Report, candidate: Report, aligned: StepPairs
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return step ids of both sides, -1 for none, in the order of the program, and what differs.

    A step that only the candidate has follows the pair before it.
    """
    n_baseline, n_candidate = len(steps(baseline)), len(steps(candidate))
    partner = np.full(n_candidate, -1, np.int64)
    partner_of_step = np.full(n_baseline, -1, np.int64)
    is_changed = np.ones(n_baseline, np.bool_)
    for (first, two), is_same in zip(aligned.pairs, aligned.is_same, strict=True):
        partner[two], partner_of_step[first] = first, two
        is_changed[first] = not is_same
    added = np.flatnonzero(partner < 0)
    before = np.maximum.accumulate(np.where(partner >= 0, np.arange(n_candidate), -1))
    row = np.where(before >= 0, partner[before], -1)[added] if n_candidate else added
    key = np.concatenate([2 * np.arange(n_baseline), 2 * row + 1])
    order = np.argsort(key, kind="stable")
    one_side = np.concatenate([np.arange(n_baseline), np.full(len(added), -1)])[order]
    other_side = np.concatenate([partner_of_step, added])[order]
    changed = np.concatenate([is_changed, np.ones(len(added), np.bool_)])[order]
    return np.stack([one_side, other_side]).astype(np.int64), changed


def _paths(reports: tuple[Report, Report], sides: NDArray[np.int64]) -> PathTable:
    """Return the paths of leaves; steps of several kinds with one name are parted by kind."""
    tables = [steps(report) for report in reports]
    kinds = [classify(table.kind, ()) for table in tables]
    names, labels = [], []
    for before, after in sides.T.tolist():
        side, number = (0, before) if before >= 0 else (1, after)
        names.append(tables[side].name[number] or "(no name)")
        labels.append(KINDS[int(kinds[side][number])].label)
    plain = build_paths(names)
    has_below = np.zeros(len(plain.labels), np.bool_)
    above = np.asarray(plain.parents, np.int64)
    has_below[above[above >= 0]] = True
    kinds_of: dict[int, set[str]] = {}
    for leaf, label in zip(plain.leaf.tolist(), labels, strict=True):
        kinds_of.setdefault(leaf, set()).add(label)
    return build_paths(
        [
            f"{name}/{label}" if has_below[leaf] or len(kinds_of[leaf]) > 1 else name
            for name, leaf, label in zip(names, plain.leaf.tolist(), labels, strict=True)
        ]
    )


def _rest(
    baseline: Report, candidate: Report, has_runs: bool, summed: Sequence[int] | NDArray[np.int64]
) -> tuple[int, int]:
    """Return the cycles of the two reports in no step."""
    if not has_runs:
        return 0, 0
    runs = execution(baseline), execution(candidate)
    totals = [round(side.total_cycles / side.n_runs) for side in runs]
    return totals[0] - int(summed[0]), totals[1] - int(summed[1])
