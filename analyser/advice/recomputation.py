"""What recomputation would gain in a training that computes nothing again, and what it would cost.

The operations of the forward pass that a kind of recomputation computes again are in the report.
Their steps are put once more in front of the first operation of the backward pass that needs
them, and lives of variables follow from their uses in this longer program.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.patterns import pattern
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.liveness import liveness_step_ids
from tilescope.analyser.memory.lowered_variables import variable_columns, variable_positions
from tilescope.analyser.memory.tile_memory import categories, category_bytes
from tilescope.analyser.memory.uses import lives_with_uses, uses
from tilescope.analyser.program.contexts import contexts
from tilescope.analyser.time.execution import costs, execution
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Recomputed", "code_again", "recomputation_kinds", "recomputed"]

#: Categories of memory that every step adds to.
_BY_STEP = ("controlCode", "instrumentationResults")


@dataclass(frozen=True)
class Recomputed:
    """A program in which operations of the forward pass are computed again.

    Attributes
    ----------
    kind
        As ``tilescope train --recompute`` takes it.
    n_operations
        Operations that are computed again.
    step_ids : ndarray of int64, shape (n_again,)
        Their liveness steps.
    cycles
        What a run takes longer by them.
    place : ndarray of int64, shape (n_steps,)
        New positions of the liveness steps.
    again : ndarray of int64, shape (n_steps,)
        Positions of the copies of liveness steps; -1 where there is none.
    chosen, whole
        Operations that the kind computes again, needed or not; those of them whose results for
        other forward operations are made again too.
    is_forward : ndarray of bool, shape (n_steps,)
        Liveness steps of the forward pass.
    operation : ndarray of int64, shape (n_steps,)
        Debug context of the operation of every liveness step; -1 for none.
    is_carried : ndarray of bool, shape (n_steps,)
        Liveness steps that copy values into or out of a function that several calls share.
    """

    kind: str
    n_operations: int
    step_ids: NDArray[np.int64]
    cycles: int
    place: NDArray[np.int64]
    again: NDArray[np.int64]
    chosen: NDArray[np.int64]
    whole: NDArray[np.int64]
    is_forward: NDArray[np.bool_]
    operation: NDArray[np.int64]
    is_carried: NDArray[np.bool_]

    def lives(
        self,
        report: Report,
        variable: NDArray[np.integer],
        start: NDArray[np.integer],
        end: NDArray[np.integer],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return when variables live in the longer program.

        Parameters
        ----------
        report
            The report.
        variable, start, end : ndarray of integers, shape (n_lives,)
            Variables, and half-open ranges of liveness steps in which they live.

        Returns
        -------
        life, start, end : ndarray of int64, shape (n,)
            Position of the life, and a half-open range of new positions; what is computed again
            lives twice.
        """
        n_lives, n_steps = len(variable), len(self.place)
        first, last = start.astype(np.int64), end.astype(np.int64) - 1
        life, step = lives_with_uses(report, variable, start, end)
        is_forward, is_copied = self.is_forward[step], self.again[step] >= 0
        is_carried = self.is_carried[step]

        def latest(chosen: NDArray[np.bool_], places: NDArray[np.int64]) -> NDArray[np.int64]:
            answer = np.full(n_lives, -1, np.int64)
            np.maximum.at(answer, life[chosen], places[step[chosen]])
            return answer

        def earliest(chosen: NDArray[np.bool_], places: NDArray[np.int64]) -> NDArray[np.int64]:
            answer = np.full(n_lives, np.iinfo(np.int64).max)
            np.minimum.at(answer, life[chosen], places[step[chosen]])
            return answer

        numbers = np.arange(n_steps)
        # The last forward operation that writes over a variable makes what is read later.
        is_written = np.isin(variable[life] * n_steps + step, _written_over(report))
        written = np.maximum(first, latest(is_written & is_forward, numbers))
        made_in = _operations_of_variables(report, variable)
        maker = np.where(self.is_carried[first], made_in, self.operation[written])
        is_passed_on = latest(is_forward & (self.operation[step] != maker[life]), numbers) > written
        is_read_later = latest(~is_forward, numbers) >= 0
        again_from = self._made_again(maker, first)
        # A life that ends without a use is carried around a loop, and stays.
        is_freed = latest(np.ones(len(step), np.bool_), numbers) == last
        is_freed &= np.isin(maker, self.chosen) & self.is_forward[first]
        is_freed &= np.isin(maker, self.whole) | ~is_passed_on
        # What the backward pass reads of an operation that is not computed again is another's.
        is_freed &= ~is_read_later | (again_from >= 0)
        # A variable of a function that calls share has its value from another one, or passes it on
        # to another one: a copy of what reads it reads that.
        is_function = self.is_carried[first] | (latest(is_carried, numbers) > first)
        is_function &= _are_shared(report, variable)
        # Copies of what wrote it before it had its value have a variable of their own.
        is_before = is_copied & (step <= written[life]) & ~is_freed[life]
        is_extended = is_copied & ~is_before & ~is_function[life]
        kept_end = np.maximum(self.place[last], latest(is_extended, self.again))
        freed_end = np.maximum(self.place[first], latest(is_forward, self.place))
        again_to = np.maximum(
            np.maximum(again_from, latest(is_copied, self.again)), latest(~is_forward, self.place)
        )
        # What a function of the backward pass is given, and is made again, is made within it.
        given_from = self._made_again(made_in, first)
        is_given = is_function & self.is_carried[first] & ~self.is_forward[first]
        is_inside = (self.place[first] <= given_from) & (given_from < self.place[last])
        own_use = np.minimum(earliest(~is_carried, self.place), self.place[last])
        begin = np.where(
            is_given & (given_from >= 0),
            np.where(is_inside, given_from, own_use),
            self.place[first],
        )
        twice = np.flatnonzero(is_freed & (again_from >= 0))
        is_apart = is_before | (is_copied & is_function[life] & ~is_freed[life])
        apart_from, apart_to = earliest(is_apart, self.again), latest(is_apart, self.again)
        apart = np.flatnonzero(apart_to >= 0)
        return (
            np.concatenate([np.arange(n_lives), twice, apart]),
            np.concatenate([begin, again_from[twice], apart_from[apart]]),
            1
            + np.concatenate(
                [np.where(is_freed, freed_end, kept_end), again_to[twice], apart_to[apart]]
            ),
        )

    def _made_again(self, maker: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where what operations make at liveness steps is made again; -1 if it is not."""
        copied = np.flatnonzero(self.again >= 0)
        last = dict(zip(self.operation[copied].tolist(), self.again[copied].tolist(), strict=True))
        ends = np.array([last.get(number, -1) for number in maker.tolist()], np.int64)
        return np.where(self.again[first] >= 0, self.again[first], ends)

    @cached_property
    def n_places(self) -> int:
        """Steps of the longer program."""
        return len(self.place) + len(self.step_ids)


@cached
def recomputation_kinds(report: Report) -> tuple[str, ...]:
    """Return the kinds of recomputation that would compute anything again.

    None in reports of anything but trainings without recomputation.
    """
    return tuple(_operations_by_kind(report, "recomputed_by"))


@cached
def _operations_by_kind(report: Report, key: str) -> dict[str, list[int]]:
    """Return forward operations, by debug context, by the kinds that their detail has at a key."""
    by_kind: dict[str, list[int]] = {}
    for number, context in contexts(report).items():
        if context.training_pass == "forward" and key in context.detail:
            for kind in json.loads(context.detail).get(key, ()):
                by_kind.setdefault(kind, []).append(number)
    return by_kind


@cached
def recomputed(report: Report, kind: str) -> Recomputed:
    """Return the program in which a kind of recomputation computes operations again."""
    step_ids = liveness_step_ids(report)
    operation, is_forward = _operations(report, step_ids)
    chosen = np.array(_operations_by_kind(report, "recomputed_by")[kind], np.int64)
    whole = np.array(_operations_by_kind(report, "with_its_result_by").get(kind, []), np.int64)
    is_chosen = np.isin(operation, chosen)
    is_partly = is_chosen & ~np.isin(operation, whole)
    steps_of: dict[int, list[int]] = {}
    for position, number in enumerate(operation.tolist()):
        if number >= 0:
            steps_of.setdefault(number, []).append(position)
    needed = _needed(report, step_ids, operation, is_chosen, is_partly, is_forward)
    copied: list[int] = []
    before: dict[int, list[int]] = {}
    for reader, numbers in needed.items():
        positions = [position for number in numbers for position in steps_of.get(number, ())]
        before.setdefault(steps_of[reader][0], []).extend(positions)
        copied += positions
    shift = np.zeros(len(step_ids) + 1, np.int64)
    for anchor, positions in before.items():
        shift[anchor] += len(positions)
    place = np.arange(len(step_ids)) + np.cumsum(shift)[:-1]
    again = np.full(len(step_ids), -1, np.int64)
    for anchor, positions in before.items():
        again[positions] = place[anchor] - len(positions) + np.arange(len(positions))
    n_runs = max(execution(report).n_runs, 1)
    cycles = execution(report).step_cycles
    if not execution(report).n_runs:
        cycles = _compiled(report, len(cycles))
    return Recomputed(
        kind,
        sum(map(len, needed.values())),
        np.array(copied, np.int64),
        int(cycles[step_ids[copied]].sum()) // n_runs,
        place,
        again,
        chosen,
        whole,
        is_forward,
        operation,
        _is_carried(report, step_ids),
    )


@cached
def code_again(report: Report, kind: str) -> NDArray[np.int64]:
    """Return the code of what is computed again on every tile: int64, shape (n_tiles,), bytes.

    Control code and counters are those of as many steps on average; exchanges and vertices count
    where no other call shares them.
    """
    again = recomputed(report, kind)
    steps_again = liveness_step_ids(report)[again.step_ids]
    n_steps = max(report.n_rows(schema.step), 1)
    sizes = dict(
        zip((item.name for item in categories(report)), category_bytes(report), strict=True)
    )
    n_bytes = sum(
        (sizes[name] for name in _BY_STEP if name in sizes),
        np.zeros(target(report).n_tiles, np.int64),
    )
    n_bytes = n_bytes * len(steps_again) // n_steps
    rows = report.rows(schema.program, "step_id", "code_pattern_id", "compute_set_id")
    n_calls = Counter(row[2] for row in rows)
    chosen = set(steps_again.tolist())
    compute_sets = set()
    for step_id, code, compute_set in rows:
        if step_id in chosen and code is not None:
            n_bytes = n_bytes + pattern(report, "code.pattern", code)
        if step_id in chosen and compute_set is not None and n_calls[compute_set] == 1:
            compute_sets.add(compute_set)
    columns = ("compute_set_id", "n_vertices", "state_bytes", "vertices_pattern_id")
    for compute_set, n, state, row in report.rows(schema.compute_set_vertex, *columns):
        if compute_set in compute_sets and n:
            n_bytes = n_bytes + pattern(report, "vertices.pattern", row) * state // n
    return n_bytes.astype(np.int64)


def _compiled(report: Report, n_steps: int) -> NDArray[np.int64]:
    """Return what one execution of every step takes on the IPU that takes longest."""
    cycles = np.zeros(n_steps, np.int64)
    column = costs(report).column
    np.maximum.at(cycles, column["step_id"], column["cycles"])
    return cycles


#: Names of the steps that copy values into and out of a function that several calls share.
_CARRIES = ("/outlineIn/", "/outlineOut/")


def _is_carried(report: Report, step_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which liveness steps copy values into or out of a function of several calls."""
    names = report.column(schema.step, "name")
    return np.array([any(word in names[step_id] for word in _CARRIES) for step_id in step_ids])


@cached
def _operation_of_variable(report: Report) -> dict[int, int]:
    """Return the operation of the training in which a variable was made, by its number."""
    of_context = _operation_of_context(report)
    rows = report.rows(schema.variable, "variable_id", "debug_context_id")
    return {
        number: of_context.get(-1 if context is None else context, -1) for number, context in rows
    }


@cached
def _written_over(report: Report) -> NDArray[np.int64]:
    """Return the uses that write over what a variable holds: variable times steps, plus step.

    A step that changes none but variables that it reads writes over one of them: over those whose
    later readers have it as their source, otherwise over the largest.
    """
    step_ids = liveness_step_ids(report)
    n_steps = len(step_ids)
    variable, step, _ = uses(report)
    target, read, source = _flows(report, step_ids)
    keys = variable * n_steps + step
    is_read = np.isin(keys, read * n_steps + target)
    changes = np.zeros(n_steps, np.bool_)
    changes[step[~is_read]] = True
    over = np.flatnonzero(~changes[step])
    is_source = np.isin(keys[over], read * n_steps + source)
    has_source = np.zeros(n_steps, np.bool_)
    has_source[step[over[is_source]]] = True
    columns = variable_columns(report)
    size = np.array(columns["bytes"], np.int64)[variable_positions(report, variable[over])]
    largest = np.zeros(n_steps, np.int64)
    np.maximum.at(largest, step[over], size)
    is_largest = ~has_source[step[over]] & (size == largest[step[over]])
    return np.unique(keys[over[is_source | is_largest]])


def _flows(
    report: Report, step_ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the liveness step of every reader, what it reads, and that of what wrote it."""
    position = np.full(int(step_ids.max(initial=0)) + 1, -1, np.int64)
    position[step_ids[::-1]] = np.arange(len(step_ids))[::-1]
    target, variable, source = (
        report.array(f"dataflow.{name}").read().astype(np.int64)
        for name in ("target_step_id", "variable_id", "source_step_id")
    )
    target, source = position[target], position[source]
    rows = (target >= 0) & (source >= 0)
    return target[rows], variable[rows], source[rows]


@cached
def _shared(report: Report) -> frozenset[int]:
    """Return the variables of functions that several calls share."""
    rows = report.rows(schema.variable, "variable_id", "name")
    return frozenset(number for number, name in rows if name.endswith("/outlined"))


def _are_shared(report: Report, variable: NDArray[np.integer]) -> NDArray[np.bool_]:
    shared = _shared(report)
    return np.array([number in shared for number in variable.tolist()], np.bool_)


def _operations_of_variables(report: Report, variable: NDArray[np.integer]) -> NDArray[np.int64]:
    known = _operation_of_variable(report)
    return np.array([known.get(number, -1) for number in variable.tolist()], np.int64)


@cached
def _operation_of_context(report: Report) -> dict[int, int]:
    """Return the operation of the training that a debug context belongs to; -1 for none."""
    of_context: dict[int, int] = {}
    for number, context in contexts(report).items():
        parent = -1 if context.parent_id is None else of_context.get(context.parent_id, -1)
        of_context[number] = number if context.training_pass else parent
    return of_context


def _operations(
    report: Report, step_ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the operation of the training of every liveness step, and which are forward.

    Operations are debug contexts; -1 for none.
    """
    of_context = _operation_of_context(report)
    of_step = np.full(report.n_rows(schema.step), -1, np.int64)
    for step_id, number in report.rows(schema.program, "step_id", "debug_context_id"):
        if step_id is not None and number is not None:
            of_step[step_id] = of_context.get(number, -1)
    operation = of_step[step_ids]
    every = contexts(report).items()
    forward = [number for number, item in every if item.training_pass == "forward"]
    return operation, np.isin(operation, forward)


def _needed(
    report: Report,
    step_ids: NDArray[np.int64],
    operation: NDArray[np.int64],
    is_chosen: NDArray[np.bool_],
    is_partly: NDArray[np.bool_],
    is_forward: NDArray[np.bool_],
) -> dict[int, list[int]]:
    """Return the operations that are computed again, by the one of the backward pass before which.

    Those that an operation needs come before it, as the engine orders them.
    """
    target, variable, source = _flows(report, step_ids)
    rows = is_chosen[source] & (operation[target] >= 0)
    rows &= operation[target] != operation[source]
    target, variable, source = target[rows], variable[rows], source[rows]
    # What other forward operations read of one that is computed again in parts stays.
    key = operation[source] * (int(variable.max(initial=0)) + 1) + variable
    stays = is_partly[source] & np.isin(key, key[is_forward[target]])
    target, source = target[~stays], source[~stays]
    order = np.argsort(target, kind="stable")
    reads: dict[int, dict[int, None]] = {}
    readers: dict[int, None] = {}
    for reader, number in zip(
        operation[target[order]].tolist(), operation[source[order]].tolist(), strict=True
    ):
        reads.setdefault(reader, {})[number] = None
    for place in np.flatnonzero(~is_forward & (operation >= 0)).tolist():
        readers[int(operation[place])] = None
    done: set[int] = set()
    needed: dict[int, list[int]] = {}
    for reader in readers:
        pending = [*reversed(reads.get(reader, ()))]
        while pending:
            number = pending[-1]
            missing = [n for n in reads.get(number, ()) if n not in done]
            if number in done or not missing:
                if number not in done:
                    done.add(number)
                    needed.setdefault(reader, []).append(number)
                pending.pop()
            else:
                pending += reversed(missing)
    return needed
