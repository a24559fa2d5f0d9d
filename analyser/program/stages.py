"""Stages of a pipeline: which steps belong to them, and which of them work in the same cycle.

The functions of a pipelined program say which stages they are of; the calls in the control program
are its schedule. Reports of before schema 9 do not have this: they show no stages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.program.contexts import contexts
from tilescope.analyser.program.program_tree import (
    ProgramNode,
    all_programs,
    ancestors,
    child_ids,
    inside_ids,
)
from tilescope.analyser.program.training import passes_of_steps
from tilescope.analyser.time.execution import PHASES, external_syncs, steps
from tilescope.analyser.validation import require

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "Cycle",
    "Direction",
    "Pipeline",
    "Role",
    "Stage",
    "first_copy_step",
    "pipeline",
    "roles_of_steps",
    "stages_of_steps",
]

Direction: TypeAlias = Literal["forward", "backward"]
#: What a step does for a program of several IPUs: work, copies between IPUs, copies of the host,
#: collectives of replicas, and all else.
Role: TypeAlias = Literal["work", "copy", "host", "collective", "other"]
#: Stages of a function as a report has them: ``forward 0``, ``forward 2, backward 2``.
_STAGES = re.compile(r"(forward|backward) (\d{1,9})(, backward \2)?")
_COPIES = "copies"


class Stage(NamedTuple):
    """The forward or backward part of a stage, by the number of its author."""

    direction: Direction
    number: int

    @property
    def name(self) -> str:
        """``forward 0``."""
        return f"{self.direction} {self.number}"


@dataclass(frozen=True)
class Cycle:
    """Cycles of a pipeline that follow each other and in which the same stages work.

    Attributes
    ----------
    root_index
        The control program that they are in.
    n_cycles
        Their number in one execution of the program.
    stages
        Places in `Pipeline.stages`, ascending.
    """

    root_index: int
    n_cycles: int
    stages: tuple[int, ...]


@dataclass(frozen=True)
class Pipeline:
    """The stages of a program.

    Attributes
    ----------
    stages
        In the order in which a micro-batch passes them.
    cycles
        In program order.
    share : ndarray of float64, shape (n_steps, n_stages)
        Share of the executions of every step that are work of every stage. A step of a function
        that several stages call is work of all of them; the others are of one stage or none.
    """

    stages: tuple[Stage, ...]
    cycles: tuple[Cycle, ...]
    share: NDArray[np.float64]


@dataclass(frozen=True)
class _Function:
    """What a function of a pipeline is for: ``work``, ``load`` or ``store`` of its stages."""

    stages: tuple[Stage, ...]
    kind: str


def _function(report: Report, root: ProgramNode) -> _Function | None:
    """Return what a root of the tree is for; None where it is not a function of a stage.

    Raises
    ------
    DamagedReport
        When its stages are none.
    """
    if root.pipeline_part is None or root.pipeline_part == _COPIES:
        return None
    match = _STAGES.fullmatch(root.pipeline_stages or "")
    require(report, match is not None, f"{root.pipeline_stages!r} are no stages of a pipeline")
    assert match is not None, "required"
    first: Direction = "forward" if match[1] == "forward" else "backward"
    stages = [Stage(first, int(match[2]))]
    if match[3]:
        stages.append(Stage("backward", int(match[2])))
    return _Function(tuple(stages), root.pipeline_part)


@cached
def pipeline(report: Report) -> Pipeline | None:
    """Return the stages of a program; None where it is not a pipeline."""
    every = all_programs(report)
    roots = {root.name: root for root in every.values() if root.parent_id is None}
    functions = {
        name: function
        for name, root in roots.items()
        if (function := _function(report, root)) is not None
    }
    work = {name: item.stages for name, item in functions.items() if item.kind == "work"}
    if not work:
        return None
    found = {stage for stages in work.values() for stage in stages}
    stages = tuple(sorted(found, key=_order))
    places = {name: tuple(map(stages.index, of)) for name, of in work.items()}
    cycles = tuple(_cycles(report, places))
    return Pipeline(stages, cycles, _shares(report, places, len(stages), cycles))


def _order(stage: Stage) -> tuple[bool, int]:
    """Return a key that sorts stages as a micro-batch passes them."""
    is_backward = stage.direction == "backward"
    return is_backward, -stage.number if is_backward else stage.number


def _cycles(report: Report, places: dict[str, tuple[int, ...]]) -> Iterator[Cycle]:
    """Yield the cycles that the control program calls stages in."""
    every, below = all_programs(report), child_ids(report)
    for number, program in every.items():
        if program.root_kind == "function":
            continue
        calls = [every[child] for child in below.get(number, ()) if every[child].kind == "Call"]
        active = {place for call in calls for place in places.get(call.name, ())}
        if active:
            yield Cycle(program.root_index, _n_times(report, number), tuple(sorted(active)))


def _n_times(report: Report, program_id: int) -> int:
    """Return how often a program runs in one execution of its root."""
    every = all_programs(report)
    chain = (program_id, *ancestors(report, program_id))
    return prod(max(every[number].repeat_count, 1) for number in chain)


def _shares(
    report: Report,
    places: dict[str, tuple[int, ...]],
    n_stages: int,
    cycles: tuple[Cycle, ...],
) -> NDArray[np.float64]:
    """Return the share of every step's executions by stage, shape (n_steps, n_stages)."""
    every = all_programs(report)
    names = passes_of_steps(report)
    answer = np.zeros((len(steps(report)), n_stages))
    scheduled = {
        name: sum(cycle.n_cycles for cycle in cycles if of[0] in cycle.stages)
        for name, of in places.items()
    }
    calls = _Calls(report)
    for name, of in places.items():
        for root, times in calls.within(name).items():
            for number in inside_ids(report, root):
                step = every[number].step_id
                if step is not None:
                    # The last stage is forward and backward in one: its passes tell which.
                    is_forward = names[step] in (None, "forward")
                    place = of[0] if len(of) == 1 or is_forward else of[1]
                    answer[step, place] += times * scheduled[name]
    total = answer.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = np.zeros_like(answer)
    np.divide(answer, total, out=shares, where=total > 0)
    shares.flags.writeable = False
    return shares


@dataclass
class _Calls:
    """Which functions run in an execution of a function, and how often."""

    report: Report
    _known: dict[str, dict[int, int]] = field(default_factory=dict)

    def within(self, name: str) -> dict[int, int]:
        """Return the roots of a function, once, and of all that it calls, with their number."""
        if name not in self._known:
            self._known[name] = {}  # what a damaged report calls within itself counts once
            every = all_programs(self.report)
            answer = {self._roots[name]: 1}
            for number in inside_ids(self.report, self._roots[name]):
                program = every[number]
                if program.kind == "Call" and program.name in self._roots:
                    times = _n_times(self.report, number)
                    for root, n_executions in self.within(program.name).items():
                        answer[root] = answer.get(root, 0) + times * n_executions
            self._known[name] = answer
        return self._known[name]

    @cached_property
    def _roots(self) -> dict[str, int]:
        roots = (p for p in all_programs(self.report).values() if p.parent_id is None)
        return {root.name: root.program_id for root in roots if root.root_kind == "function"}


@cached
def stages_of_steps(report: Report) -> tuple[Stage | None, ...]:
    """Return the stage that every step is mostly work of; None for those of none.

    Loads and stores belong to the stage that asks for them.
    """
    found = pipeline(report)
    if found is None:
        return (None,) * len(steps(report))
    largest, has_any = found.share.argmax(axis=1), np.asarray(found.share.any(axis=1))
    answer: list[Stage | None] = [
        found.stages[place] if is_work else None
        for place, is_work in zip(largest.tolist(), has_any.tolist(), strict=True)
    ]
    for root in all_programs(report).values():
        function = _function(report, root)
        if function is not None and function.kind != "work":
            for step in _steps_inside(report, root):
                answer[step] = function.stages[0]
    return tuple(answer)


@cached
def roles_of_steps(report: Report) -> tuple[Role, ...]:
    """Return what every step does for a program of several IPUs.

    Collectives are those of `gcl`, wherever they run. A step of a stage is work, unless it copies
    from or to the host. Syncs of all IPUs outside stages are part of the copies between IPUs.
    """
    every, found = steps(report), pipeline(report)
    is_work = np.zeros(len(every), np.bool_)
    if found is not None:
        is_work |= found.share.any(axis=1)
    is_host = every.phase == PHASES.index("stream_copy")
    is_copy = (every.phase == PHASES.index("global_exchange")) | external_syncs(report)
    is_collective = np.zeros(len(every), np.bool_)
    collective = _collective_contexts(report)
    for program in all_programs(report).values():
        if program.step_id is not None and program.debug_context_id in collective:
            is_collective[program.step_id] = True
        function = _function(report, program)
        if function is not None and function.kind != "work":
            is_host[_steps_inside(report, program)] = True
        elif program.pipeline_part == _COPIES:
            is_copy[_steps_inside(report, program)] = True
    masks: dict[Role, NDArray[np.bool_]] = {
        "collective": is_collective,
        "host": is_host,
        "work": is_work,
        "copy": is_copy,
    }
    answer: list[Role] = ["other"] * len(every)
    for role, mask in reversed(masks.items()):
        for step in np.flatnonzero(mask).tolist():
            answer[step] = role
    return tuple(answer)


def first_copy_step(report: Report) -> int | None:
    """Return the step in which IPUs meet before the copies of a cycle; None without copies."""
    for program in all_programs(report).values():
        if program.pipeline_part == _COPIES:
            return next(iter(_steps_inside(report, program)), None)
    return None


def _steps_inside(report: Report, program: ProgramNode) -> list[int]:
    """Return the steps in a program, ascending."""
    every = all_programs(report)
    ids = (every[number].step_id for number in inside_ids(report, program.program_id))
    return sorted(step for step in ids if step is not None)


def _collective_contexts(report: Report) -> set[int]:
    """Return the debug contexts of collectives of replicas, and all in them."""
    answer: set[int] = set()
    for number, context in contexts(report).items():
        if context.operation.startswith("gcl.") or context.parent_id in answer:
            answer.add(number)
    return answer
