"""What two reports hold that causes are found in: aligned calls, steps and variables, and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.diff.alignment.steps import step_contexts
from tilescope.analyser.diff.causes.cause import impact_words
from tilescope.analyser.diff.causes.impact import Side, step_impacts
from tilescope.analyser.machine.target import target
from tilescope.analyser.quantities import format_change
from tilescope.analyser.time.execution import (
    costs,
    execution,
    external_syncs,
    steps,
    taken_cycles,
)

if TYPE_CHECKING:
    from tilescope.analyser.diff.alignment.calls import CallPairs
    from tilescope.analyser.diff.alignment.steps import StepPairs
    from tilescope.analyser.diff.alignment.variables import VariableFacts, VariablePairs
    from tilescope.analyser.diff.context import ContextChange
    from tilescope.analyser.diff.measures import MetricChange
    from tilescope.reports import Report

__all__ = ["Evidence", "Group"]


@dataclass(frozen=True, eq=False)
class Group:
    """An outermost call, or steps of one name outside of calls, on the sides that have it.

    Attributes
    ----------
    calls
        Debug contexts of both sides; None for a side without, and for steps outside of calls.
    before, after : ndarray of int64, shape (n_ipus,), cycles
        Time in its steps on every IPU, without waiting for other IPUs.
    cycles
        What the whole run gains or loses by its change; see `step_impacts`.
    before_bytes, after_bytes
        Its variables and message buffers over all tiles.
    steps
        Pairs of its steps that are on both sides, by id.
    """

    name: str
    calls: tuple[int | None, int | None]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    cycles: int
    before_bytes: int
    after_bytes: int
    steps: tuple[tuple[int, int], ...]

    @property
    def is_on_both(self) -> bool:
        """Whether both sides have it."""
        return (self.calls[0] is None) == (self.calls[1] is None)

    @cached_property
    def ipu_id(self) -> int:
        """The IPU where its time changed most."""
        return int(np.abs(self.after - self.before).argmax())

    @property
    def own_cycles(self) -> int:
        """Change of its time on that IPU."""
        return int(self.after[self.ipu_id] - self.before[self.ipu_id])

    @property
    def impact(self) -> str:
        """What its change means for the run in words; empty without any."""
        own_cycles, ipu = self.own_cycles, f"on IPU {self.ipu_id}"
        if own_cycles == self.cycles:
            before = int(self.before[self.ipu_id]) if self.is_on_both else None
            return impact_words(own_cycles, self.bytes, before)
        words = [f"{format_change(own_cycles, 'cycles')} {ipu}", self.effect]
        return ", ".join((*words, impact_words(0, self.bytes))).removesuffix(", ")

    @property
    def effect(self) -> str:
        """What the run gains or loses where that is not the change of its own time."""
        if self.own_cycles == self.cycles:
            return ""
        if self.cycles:
            return f"{format_change(self.cycles, 'cycles')} of the run"
        return "none of the run, which another IPU bounds"

    @property
    def bytes(self) -> int:
        """Change of its bytes."""
        return self.after_bytes - self.before_bytes


@dataclass(frozen=True, eq=False)
class Evidence:
    """Two reports with what was aligned."""

    baseline: Report
    candidate: Report
    calls: CallPairs
    steps: StepPairs
    variables: VariablePairs
    context: tuple[ContextChange, ...]
    metrics: tuple[MetricChange, ...]

    @property
    def sides(self) -> tuple[Report, Report]:
        """Baseline and candidate."""
        return self.baseline, self.candidate

    def metric(self, name: str) -> MetricChange:
        """Return the change of a metric."""
        return next(metric for metric in self.metrics if metric.name == name)

    @cached_property
    def n_runs(self) -> tuple[int, int]:
        """Recorded runs of both sides."""
        return execution(self.baseline).n_runs, execution(self.candidate).n_runs

    @cached_property
    def producers(self) -> tuple[dict[str, int], dict[str, int]]:
        """The outermost call that computes every value of a model, by the value's name."""
        before, after = (
            {
                operand[0]: number
                for number in tree.children(None)
                for operand in tree.call(number).outputs
            }
            for tree in (self.calls.baseline, self.calls.candidate)
        )
        return before, after

    @cached_property
    def own_cycles(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Time of every step without waiting for other IPUs: int64, shape (n_ipus, n_steps).

        Of one run on average.
        """
        cycles_of_sides = []
        for report in self.sides:
            if not self.steps.has_runs:
                cycles_of_sides.append(_compiled_cycles(report))
                continue
            own_cycles_ = taken_cycles(report) - execution(report).waiting_cycles
            cycles_of_sides.append(np.rint(own_cycles_ / execution(report).n_runs).astype(np.int64))
        return cycles_of_sides[0], cycles_of_sides[1]

    @cached_property
    def waiting_cycles(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Time that IPUs wait for others, of one run on average: int64, shape (n_ipus,)."""
        before, after = (
            np.rint(execution(report).waiting_cycles.sum(axis=1) / max(n_runs, 1)).astype(np.int64)
            for report, n_runs in zip(self.sides, self.n_runs, strict=True)
        )
        return before, after

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All outermost calls and other steps, in the order of the baseline, then of the candidate.

        Steps of one name outside of calls are one group.
        """
        keys = self._step_keys
        members: dict[object, list[tuple[int, int]]] = {}
        positions: dict[object, int] = {}
        for side in (0, 1):
            for key in keys[side]:
                positions.setdefault(key, len(positions))
            for root in self._roots(side):
                positions.setdefault(root, len(positions))
        for before, after in self.steps.pairs:
            if keys[0][before] == keys[1][after]:
                members.setdefault(keys[0][before], []).append((before, after))
        n_ipus = max(target(report).n_ipus for report in self.sides)
        time, impacts = np.zeros((2, n_ipus, len(positions)), np.int64), np.zeros(len(positions))
        for side, own_cycles in enumerate(self.own_cycles):
            where = np.array([positions[key] for key in keys[side]], np.int64)
            for ipu_id, values in enumerate(own_cycles):
                np.add.at(time[side, ipu_id], where, values)
            np.add.at(impacts, where, self.step_impacts[side])
        sizes = self._bytes(positions)
        return tuple(
            Group(
                self._name(key),
                key[1:] if isinstance(key, tuple) and key[0] == "call" else (None, None),
                time[0, :, position],
                time[1, :, position],
                int(np.rint(impacts[position])),
                int(sizes[0, position]),
                int(sizes[1, position]),
                tuple(members.get(key, ())),
            )
            for key, position in positions.items()
        )

    @cached_property
    def step_impacts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What a run gains or loses by every step, cycles; that of a pair is at its baseline's."""
        numbers: dict[object, int] = {}
        sides: list[Side] = []
        for side, report in enumerate(self.sides):
            group = [numbers.setdefault(key, len(numbers)) for key in self._step_keys[side]]
            critical = None
            if self.steps.has_runs:
                total = execution(report).step_cycles
                critical = np.rint(total / execution(report).n_runs).astype(np.int64)
            meetings = external_syncs(report)
            own_cycles = self.own_cycles[side]
            sides.append(Side(own_cycles, critical, meetings, np.array(group, np.int64)))
        return step_impacts(sides[0], sides[1], self.steps.pairs)

    @cached_property
    def _step_keys(self) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
        """The group of every step of both sides."""
        partner = {after: before for before, after in self.steps.pairs}
        names = steps(self.baseline).name, steps(self.candidate).name
        kinds = steps(self.baseline).kind, steps(self.candidate).kind
        keys: list[list[tuple[object, ...]]] = [[], []]
        for side, report in enumerate(self.sides):
            for step_id, context in enumerate(step_contexts(report).tolist()):
                root = self._root(side, context)
                if root is not None:
                    keys[side].append(root)
                    continue
                # A renamed step keeps the baseline's name.
                known = (0, partner[step_id]) if side and step_id in partner else (side, step_id)
                label = names[known[0]][known[1]] or kinds[known[0]][known[1]]
                keys[side].append(("steps", label))
        return keys[0], keys[1]

    def _root(self, side: int, context: int | None) -> tuple[object, ...] | None:
        """Return the group of a debug context: the outermost pair of calls around it."""
        return None if context is None else self._root_keys[side].get(context)

    @cached_property
    def _root_keys(self) -> tuple[dict[int, tuple[object, ...]], dict[int, tuple[object, ...]]]:
        """The group of every call of both sides."""
        pairs, reverse = self.calls.pairs, self._reverse
        roots = self.calls.baseline.root_of, self.calls.candidate.root_of
        keys: tuple[dict[int, tuple[object, ...]], ...] = (
            {root: ("call", root, pairs.get(root)) for root in set(roots[0].values())},
            {root: ("call", reverse.get(root), root) for root in set(roots[1].values())},
        )
        before, after = (
            {number: of_side[root] for number, root in side.items()}
            for side, of_side in zip(roots, keys, strict=True)
        )
        return before, after

    @cached_property
    def _reverse(self) -> dict[int, int]:
        """Calls of the baseline by those of the candidate."""
        return {after: before for before, after in self.calls.pairs.items()}

    def _roots(self, side: int) -> Sequence[tuple[object, ...]]:
        """Return the groups of all outermost calls of a side."""
        tree = (self.calls.baseline, self.calls.candidate)[side]
        roots = [self._root(side, number) for number in tree.children(None)]
        return [root for root in roots if root is not None]

    def _name(self, key: object) -> str:
        """Return the name of a group: the baseline's if it is there."""
        assert isinstance(key, tuple)
        if key[0] == "steps":
            return str(key[1])
        _, before, after = key
        tree = self.calls.candidate if before is None else self.calls.baseline
        return tree.contexts[after if before is None else before].name

    def _bytes(self, positions: dict[object, int]) -> NDArray[np.int64]:
        """Return the bytes of variables of every group on both sides."""
        bytes_of_sides = np.zeros((2, len(positions)), np.int64)
        aligned = self.variables
        sides = (
            (*(before for before, _ in aligned.pairs), *aligned.removed),
            (*(after for _, after in aligned.pairs), *aligned.added),
        )
        for side, variables in enumerate(sides):
            for variable in variables:
                key = self._root(side, variable.debug_context_id)
                if key is not None:
                    bytes_of_sides[side, positions[key]] += variable.bytes
        return bytes_of_sides

    def owner(self, variable: VariableFacts, side: int) -> tuple[object, ...] | None:
        """Return the group of a variable; None for one outside of calls."""
        return self._root(side, variable.debug_context_id)


def _compiled_cycles(report: Report) -> NDArray[np.int64]:
    """Return what one execution of every step takes on every IPU."""
    cycles = np.zeros((target(report).n_ipus, len(steps(report))), np.int64)
    column = costs(report).column
    np.add.at(cycles, (column["ipu_id"], column["step_id"]), column["cycles"])
    return cycles
