"""Which region every execution belongs to: run, batch, micro-batch, phase or layer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, get_args

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.program.contexts import contexts
from tilescope.analyser.program.operations import numbers_of_steps
from tilescope.analyser.program.rounds import RoundLoop, StepOfRound, round_loops
from tilescope.analyser.program.stages import pipeline
from tilescope.analyser.program.training import has_training, pass_label, passes_of_steps
from tilescope.analyser.time.execution import steps
from tilescope.analyser.time.runs import runs
from tilescope.analyser.trace.causes import GAP
from tilescope.analyser.trace.stage_slices import StageSlice, stage_picture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.analyser.trace.run_cuts import RunCut
    from tilescope.reports import Report

__all__ = ["NO_REGION", "REGIONS", "RegionBy", "RegionLabels", "region_labels"]

RegionBy: TypeAlias = Literal["layer", "phase", "micro-batch", "batch", "run"]
#: What regions may be of, the shortest first.
REGIONS: tuple[RegionBy, ...] = get_args(RegionBy)
#: Label of time in no step.
NO_REGION = -1


class RegionLabels(Protocol):
    """Labels executions by the region that they belong to.

    ``names`` are those of the labels. ``is_counted`` states that a label depends on what came
    before in the run, so that runs are needed from their beginning.
    """

    @property
    def names(self) -> Sequence[str]:
        """Names of the labels."""
        ...

    @property
    def is_counted(self) -> bool:
        """Whether labels count from the beginning of a run."""
        ...

    def labels(self, ipu_id: int, cut: RunCut) -> NDArray[np.int64]:
        """Return the label of every execution, ``NO_REGION`` for time in no step."""
        ...


def region_labels(report: Report, by: str) -> RegionLabels:
    """Return what labels the executions of a report.

    Raises
    ------
    BadQuestion
        For an unknown kind of region, or where the program has none of them.
    """
    known: dict[str, Callable[[Report], RegionLabels]] = {
        "layer": _layers,
        "phase": _phases,
        "micro-batch": _MicroBatches,
        "batch": _Batches,
        "run": _Runs,
    }
    if by not in known:
        raise BadQuestion(f"unknown regions {by[:40]!r}; use {', '.join(REGIONS)}")
    return known[by](report)


class _BySteps:
    """Labels that depend on the step alone."""

    is_counted = False

    def __init__(self, names_of_steps: Sequence[str]) -> None:
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names_of_steps))}
        self.names = tuple(numbers)
        # One row more, that of time in no step.
        labels = [*(numbers[name] for name in names_of_steps), NO_REGION]
        self._of_step = np.array(labels, np.int64)

    def labels(self, ipu_id: int, cut: RunCut) -> NDArray[np.int64]:  # noqa: ARG002
        """Return the label of every execution."""
        labels: NDArray[np.int64] = self._of_step[cut.step]
        return labels


def _layers(report: Report) -> RegionLabels:
    """Return labels by operation of the model; of a step of none, by the first part of its name.

    Steps that the compiler adds to an operation begin with its name.
    """
    every, numbers = contexts(report), numbers_of_steps(report, "model").tolist()
    operations = {every[number].name for number in numbers if number >= 0}
    names = []
    for name, number in zip(steps(report).name, numbers, strict=True):
        paths = accumulate(name.split("/"), lambda path, part: f"{path}/{part}")
        layer = next((path for path in paths if path in operations and path != name), None)
        names.append(every[number].name if number >= 0 else layer or _outside(name, operations))
    return _BySteps(names)


def _outside(name: str, operations: Collection[str]) -> str:
    """Return the layer of a step of no operation: a host copy may be called like one."""
    first = next((part for part in name.split("/") if part), "(no name)")
    return f"{first} (outside the operation)" if first in operations else first


def _phases(report: Report) -> RegionLabels:
    """Return labels by pass of a training."""
    if not has_training(report):
        raise BadQuestion(
            f"{report.name} trains nothing, so its runs have no phases; list its regions by"
            " layer or run"
        )
    return _BySteps([pass_label(name) or "(outside phases)" for name in passes_of_steps(report)])


class _Runs:
    """Labels by the name of the run."""

    is_counted = False

    def __init__(self, report: Report) -> None:
        self.names = tuple(dict.fromkeys(run.name for run in runs(report)))
        self._of_run = {run.run_id: self.names.index(run.name) for run in runs(report)}

    def labels(self, ipu_id: int, cut: RunCut) -> NDArray[np.int64]:  # noqa: ARG002
        """Return the label of every execution."""
        return np.where(cut.step == GAP, NO_REGION, self._of_run[cut.run_id])


class _MicroBatches:
    """Labels by the micro-batch that a stage of a pipeline works on."""

    is_counted = False

    def __init__(self, report: Report) -> None:
        self._report = report
        if pipeline(report) is None:
            raise BadQuestion(
                f"{report.name} is of no pipeline, so its runs have no micro-batches on IPUs;"
                " list its regions by batch, layer or run"
            )
        slices = [item for run in runs(report) for item in self._slices(run.run_id)]
        n_batches = max((item.micro_batch + 1 for item in slices), default=0)
        batches = (f"micro-batch {number}" for number in range(n_batches))
        self.names = ("(outside micro-batches)", *batches)

    def _slices(self, run_id: int) -> tuple[StageSlice, ...]:
        """Return the executions of stages in a run."""
        picture = stage_picture(self._report, run_id)
        return () if picture is None else picture.slices

    def labels(self, ipu_id: int, cut: RunCut) -> NDArray[np.int64]:
        """Return the label of every execution: that of the last stage that began before it."""
        slices = [item for item in self._slices(cut.run_id) if item.ipu_id == ipu_id]
        labels = np.zeros(len(cut.step), np.int64)
        for item in slices:
            first = np.searchsorted(cut.end, item.start_cycle, side="right")
            stop = np.searchsorted(cut.start, item.end_cycle, side="left")
            labels[first:stop] = item.micro_batch + 1
        return np.where(cut.step == GAP, NO_REGION, labels)


class _Batches:
    """Labels by the round of a loop around the operations."""

    is_counted = True

    def __init__(self, report: Report) -> None:
        self._loops = round_loops(report)
        if pipeline(report) is not None:
            raise BadQuestion(
                f"{report.name} is of a pipeline, whose stages work on several batches at a time;"
                " list its regions by micro-batch"
            )
        if not self._loops:
            raise BadQuestion(
                f"no part of {report.name} repeats within a run, so it has no batches; list its"
                " regions by run or layer"
            )
        self.names = ("(outside batches)", *self._names())

    def _names(self) -> list[str]:
        """Return the names of the rounds of all loops."""
        if len(self._loops) == 1:
            return [f"batch {number}" for number in range(self._loops[0].n_rounds)]
        return [
            f"{loop.name} {place}: batch {number}"
            for place, loop in enumerate(self._loops)
            for number in range(loop.n_rounds)
        ]

    def labels(self, ipu_id: int, cut: RunCut) -> NDArray[np.int64]:  # noqa: ARG002
        """Return the label of every execution."""
        is_step = cut.step != GAP
        ran = cut.step[is_step]
        numbers = np.zeros(len(ran), np.int64)
        first = 1
        for loop in self._loops:
            rounds = _rounds(loop, ran)
            is_inside = rounds >= 0
            numbers[is_inside] = first + np.minimum(rounds[is_inside], loop.n_rounds - 1)
            first += loop.n_rounds
        labels = np.full(len(cut.step), NO_REGION)
        labels[is_step] = numbers
        return labels


def _rounds(loop: RoundLoop, ran: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the round of every execution of a run, -1 outside the loop.

    A step that every round runs, and nothing else does, tells the rounds apart. What a round runs
    before and after it may run elsewhere, too, in a function: it is as many executions of the
    loop's steps as the program states, less those in branches not taken.
    """
    answer = np.full(len(ran), -1, np.int64)
    present = set(np.unique(ran).tolist())
    place = next(
        (
            place
            for place, step in enumerate(loop.steps)
            if step.is_only and step.is_certain and step.n_times == 1 and step.step_id in present
        ),
        None,
    )
    if place is None:
        return answer
    marks = np.flatnonzero(ran == loop.steps[place].step_id)
    before, after = (
        [step for step in part if step.step_id in present]
        for part in (loop.steps[:place], loop.steps[place + 1 :])
    )
    starts = [mark - _reach(before, ran[:mark][::-1]) for mark in marks.tolist()]
    stop = int(marks[-1]) + 1 + _reach(after, ran[marks[-1] + 1 :])
    answer[starts[0] : stop] = np.searchsorted(starts, np.arange(starts[0], stop), side="right") - 1
    return answer


def _reach(expected: Sequence[StepOfRound], row: NDArray[np.int64]) -> int:
    """Return how many executions at the beginning of a row are of some steps."""
    row = row[: sum(step.n_times for step in expected)]
    is_expected = np.isin(row, [step.step_id for step in expected])
    return len(row) if is_expected.all() else int(is_expected.argmin())
