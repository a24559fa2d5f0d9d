"""Programs of the tree: roots, children, details of a node, time, search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import target
from tilescope.analyser.program.compute_sets import ComputeSetVertices, compute_set_vertices
from tilescope.analyser.program.contexts import DebugContext, enclosing
from tilescope.analyser.program.program_tree import (
    ProgramNode,
    all_programs,
    ancestors,
    child_ids,
    inside_ids,
    program,
)
from tilescope.analyser.program.training_links import TrainingLinks, training_links
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.time.execution import costs, execution, taken_cycles
from tilescope.analyser.time.selection import Selection, selected_step_cycles
from tilescope.analyser.validation import require
from tilescope.reports import figures

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "NodeCost",
    "ProgramDetails",
    "ProgramMatch",
    "ProgramSearch",
    "children",
    "cycles_inside",
    "first_program",
    "node",
    "program_cycles",
    "roots",
    "search",
    "unique_programs",
]


@dataclass(frozen=True)
class NodeCost:
    """What one execution of a leaf costs on one IPU, and how often it ran there in all runs.

    ``cycles`` are its own; ``taken_cycles`` those of all its executions in the recorded runs, with
    what an IPU or a track that was early waited in it. A step without cycles of its own, such as
    the join at the end of an Overlap, stands in a trace only where it waited, and only then is
    counted in ``n_executions``.

    ``tile_balance`` is the mean over the maximum of the cycles of its tiles, idle ones included,
    0 to 1; None where no tile works.
    """

    ipu_id: int
    cycles: int
    n_active_tiles: int
    max_tile_cycles: int
    total_tile_cycles: int
    tile_balance: float | None
    sent_bytes: int
    received_bytes: int
    host_in_bytes: int
    host_out_bytes: int
    remote_in_bytes: int
    remote_out_bytes: int
    flops: int
    n_executions: int
    taken_cycles: int


@dataclass(frozen=True)
class ProgramDetails:
    """A node with where it stands and what it costs; ``path`` leads from the root to its parent.

    ``debug_contexts`` leads from the innermost context outwards. ``code_inside_bytes`` is the code
    of the program and of all programs in it, over all tiles. ``cycles`` are those of
    `program_cycles`, None without a step in it, in ``n_runs`` recorded runs. ``training`` is how
    its operation belongs to others in a training step, None outside training.
    """

    node: ProgramNode
    path: tuple[ProgramNode, ...]
    costs: tuple[NodeCost, ...]
    compute_set_name: str | None
    vertices: tuple[ComputeSetVertices, ...]
    debug_contexts: tuple[DebugContext, ...]
    code_inside_bytes: int
    cycles: int | None
    n_runs: int
    training: TrainingLinks | None = None


@dataclass(frozen=True)
class ProgramMatch:
    """A node found; ``ancestors`` are the ids to open, from the root to its parent."""

    node: ProgramNode
    ancestors: tuple[int, ...]


@dataclass(frozen=True)
class ProgramSearch:
    """The first matches in program order, and how many there are in all."""

    matches: tuple[ProgramMatch, ...]
    n_matches: int


def roots(report: Report) -> tuple[ProgramNode, ...]:
    """Return the control programs, then the functions, each list in order of its numbers."""
    roots_ = [root for root in all_programs(report).values() if root.parent_id is None]
    roots_.sort(key=lambda root: (root.root_kind or "", root.root_index or 0, root.position))
    return tuple(roots_)


def children(report: Report, program_id: int) -> tuple[ProgramNode, ...]:
    """Return the children of a program in order; none for a leaf.

    Raises
    ------
    BadQuestion
        When the program does not exist.
    """
    program(report, program_id)
    return _nodes(report, child_ids(report).get(program_id, ()))


def node(report: Report, program_id: int, run_id: int | None = None) -> ProgramDetails:
    """Return a program with its path, its cost on each IPU and the codelets it runs.

    Executions are those of all recorded runs or one.

    Raises
    ------
    BadQuestion
        When the program or the run does not exist.
    """
    program_ = program(report, program_id)
    name, vertices = compute_set_vertices(report, program_.compute_set_id)
    return ProgramDetails(
        program_,
        _nodes(report, ancestors(report, program_id)),
        _costs(report, program_.step_id, run_id),
        name,
        vertices,
        enclosing(report, program_.debug_context_id),
        sum(program(report, inside_id).code_bytes for inside_id in inside_ids(report, program_id)),
        program_cycles(report, run_id).get(program_id),
        execution(report, run_id).n_runs,
        training_links(report, program_.debug_context_id),
    )


@cached
def program_cycles(report: Report, run_id: int | None = None) -> dict[int, int]:
    """Return the time of every program with a step in it, by id, cycles.

    The time of a step is that of all its executions on the critical path, in all recorded runs or
    one; of one execution when no run was recorded. That of a sequence or loop is the sum of the
    steps in it. Steps of a function count in the function, not in its calls.

    Raises
    ------
    BadQuestion
        When the run does not exist.
    """
    return cycles_inside(report, selected_step_cycles(report, Selection(run_id=run_id)))


def cycles_inside(report: Report, step_cycles: NDArray[np.int64]) -> dict[int, int]:
    """Return the sum of the steps in every program with a step in it, by id, cycles.

    Parameters
    ----------
    report
        The report.
    step_cycles : ndarray of int64, shape (n_steps,), cycles
        The time of every step.
    """
    every = all_programs(report)
    cycles_by_program: dict[int, int] = {}
    for number, program_ in every.items():
        if program_.step_id is None:
            continue
        require(
            report,
            0 <= program_.step_id < len(step_cycles),
            f"step {program_.step_id} does not exist",
        )
        cycles = int(step_cycles[program_.step_id])
        for outer in (number, *ancestors(report, number)):
            cycles_by_program[outer] = cycles_by_program.get(outer, 0) + cycles
    return cycles_by_program


def search(report: Report, text: str, limit: int = 100) -> ProgramSearch:
    """Return programs whose kind and name hold all words of a text, whatever their case."""
    words = search_words(text)
    if not words:
        return ProgramSearch((), 0)
    results = [
        program_
        for program_ in all_programs(report).values()
        if words_fit(words, program_.kind, program_.name)
    ]
    matches = results[: max(limit, 0)]
    return ProgramSearch(
        tuple(
            ProgramMatch(program_, ancestors(report, program_.program_id)) for program_ in matches
        ),
        len(results),
    )


@cached
def unique_programs(report: Report) -> dict[int, tuple[int, ...]]:
    """Return the programs of a report by the first of those that are one.

    Calls of a function run the same compute sets: the executions of a compute set are one program,
    with the number of the first.
    """
    firsts: dict[int, int] = {}
    ids_by_key: dict[int, list[int]] = {}
    for number, program_ in all_programs(report).items():
        first = number
        if program_.compute_set_id is not None:
            first = firsts.setdefault(program_.compute_set_id, number)
        ids_by_key.setdefault(first, []).append(number)
    return {first: tuple(numbers) for first, numbers in ids_by_key.items()}


@cached
def first_program(report: Report) -> dict[int, int]:
    """Return the number that `unique_programs` gives every program."""
    return {
        number: first for first, numbers in unique_programs(report).items() for number in numbers
    }


def _nodes(report: Report, ids: Sequence[int]) -> tuple[ProgramNode, ...]:
    """Return programs by id, in the order of the ids."""
    every = all_programs(report)
    return tuple(every[program_id] for program_id in ids)


def _costs(report: Report, step_id: int | None, run_id: int | None) -> tuple[NodeCost, ...]:
    """Return the cost of a step on each IPU."""
    executions = execution(report, run_id).executions
    if step_id is None:
        return ()
    cost = costs(report).column
    used = taken_cycles(report, run_id)
    n_tiles = target(report).tiles_per_ipu
    answer = []
    for row in (cost["step_id"] == step_id).nonzero()[0]:
        value = {name: int(values[row]) for name, values in cost.items()}
        answer.append(
            NodeCost(
                value["ipu_id"],
                value["cycles"],
                value["n_active_tiles"],
                value["max_tile_cycles"],
                value["total_tile_cycles"],
                figures.tile_balance(value["total_tile_cycles"], value["max_tile_cycles"], n_tiles),
                value["total_sent_bytes"],
                value["total_received_bytes"],
                value["host_in_bytes"],
                value["host_out_bytes"],
                value["remote_in_bytes"],
                value["remote_out_bytes"],
                value["flops"],
                int(executions[value["ipu_id"], step_id]),
                int(used[value["ipu_id"], step_id]),
            )
        )
    return tuple(sorted(answer, key=lambda cost: cost.ipu_id))
