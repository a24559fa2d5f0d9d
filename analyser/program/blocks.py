"""Executions of blocks: the named stretches of a program that light-weight profiling times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.program.program_tree import all_programs, child_ids
from tilescope.analyser.time.runs import executed, runs

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["BlockExecution", "block_executions"]

#: Programs that run their children a number of times that only the data decides.
_OPEN = ("If", "Switch", "RepeatWhile")


@dataclass(frozen=True)
class BlockExecution:
    """One execution of a block, or of a stream copy, on an IPU; cycles of its counter."""

    run_id: int
    program_id: int
    start_cycle: int
    end_cycle: int
    is_stream_copy: bool


@cached
def block_executions(report: Report, ipu_id: int) -> tuple[BlockExecution, ...]:
    """Return every execution of a block and of a stream copy on an IPU, in order of time.

    An execution of a block lasts from the first to the last step in it. Steps in a branch, in a
    loop of unknown length or in a called function do not count.
    """
    blocks = _leaves_of_blocks(report)
    copies = [
        program
        for program in all_programs(report).values()
        if program.kind == "StreamCopyMid" and program.step_id is not None
    ]
    executions: list[BlockExecution] = []
    for run in runs(report):
        ran = executed(report, run.run_id)
        takes_part = ran.start_cycle[:, ipu_id] >= 0
        step_id = ran.step_id[takes_part]
        starts, ends = ran.start_cycle[takes_part, ipu_id], ran.end_cycle[takes_part, ipu_id]
        order = np.lexsort((starts, step_id))
        spans = _Spans(step_id[order], starts[order], ends[order])
        here: list[BlockExecution] = []
        for program_id, leaves in blocks.items():
            here += (
                BlockExecution(run.run_id, program_id, start, end, is_stream_copy=False)
                for start, end in spans.of_block(leaves)
            )
        for copy in copies:
            here += (
                BlockExecution(run.run_id, copy.program_id, start, end, is_stream_copy=True)
                for start, end in spans.of_block({int(copy.step_id or 0): 1})
            )
        executions += sorted(here, key=lambda block: (block.start_cycle, block.program_id))
    return tuple(executions)


@dataclass(frozen=True)
class _Spans:
    """Executions of steps in one run on one IPU, sorted by step, then by time."""

    step_id: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    def of_block(self, leaves: dict[int, int]) -> list[tuple[int, int]]:
        """Return start and end of every execution of a block.

        ``leaves`` maps its steps to how often each runs in one execution of the block.
        """
        spans: dict[int, tuple[int, int]] = {}
        for step_id, times in leaves.items():
            first, stop = np.searchsorted(self.step_id, (step_id, step_id + 1)).tolist()
            for position in range(first, stop):
                turn = (position - first) // times
                start, end = int(self.start[position]), int(self.end[position])
                known = spans.get(turn, (start, end))
                spans[turn] = min(known[0], start), max(known[1], end)
        return [spans[turn] for turn in sorted(spans)]


def _leaves_of_blocks(report: Report) -> dict[int, dict[int, int]]:
    """Return the steps in every block, with how often each runs in one execution of it."""
    every, below = all_programs(report), child_ids(report)
    answer: dict[int, dict[int, int]] = {}
    for program in every.values():
        if program.kind != "Block":
            continue
        leaves = answer.setdefault(program.program_id, {})
        waiting = [(child, 1) for child in below.get(program.program_id, ())]
        while waiting:
            program_id, times = waiting.pop()
            inner = every[program_id]
            if inner.step_id is not None:
                leaves[inner.step_id] = times
            if inner.kind in _OPEN:
                continue
            if inner.kind == "Repeat":
                times *= max(inner.repeat_count, 1)
            waiting += [(child, times) for child in below.get(program_id, ())]
    return answer
