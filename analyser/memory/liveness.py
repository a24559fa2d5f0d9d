"""Liveness: how much memory is live at each step, and which variables hold it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.absence import absence
from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.patterns import pattern
from tilescope.analyser.machine.target import Source, target, tile_range
from tilescope.analyser.memory.lowered_variables import (
    lowered_parts,
    variable_columns,
    variable_positions,
)
from tilescope.analyser.memory.tile_memory import categories, category_bytes
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.time.execution import steps
from tilescope.analyser.time.figures import tile_rows
from tilescope.analyser.validation import require_below
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "Curve",
    "LiveVariables",
    "always_live_variables",
    "curve",
    "lifetimes",
    "liveness_step_ids",
    "named_lifetimes",
    "not_always_live_bytes",
    "parsed_shape",
    "peak_step",
    "step_facts",
    "step_program",
    "step_tile_bytes",
    "step_variables",
    "variable_lives",
]

#: Rows of a pattern array read at a time, the rows of its chunks.
_PATTERN_ROWS = 256


@dataclass(frozen=True)
class Curve:
    """Live memory over the program, one entry per liveness step.

    Attributes
    ----------
    step_id : ndarray of int64, shape (n_steps,)
        Position in the liveness report, from 0; what ``step_variables`` takes.
    name, kind
        Debug name and kind of the program of each step.
    not_always_live_bytes : ndarray of int64, shape (n_steps,), bytes
    always_live_bytes
        What lies below all of it, the same at each step, bytes.
    capacity_bytes
        Memory of the tiles in question.
    """

    source: Source
    step_id: NDArray[np.int64]
    name: tuple[str, ...]
    kind: tuple[str, ...]
    not_always_live_bytes: NDArray[np.int64]
    always_live_bytes: int
    capacity_bytes: int

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.step_id)

    def matching(self, text: str) -> NDArray[np.int64]:
        """Return the positions of steps whose kind and name hold all words, int64, ascending."""
        words = search_words(text)
        if not words:
            return np.arange(len(self), dtype=np.int64)
        matches = [
            position
            for position, (name, kind) in enumerate(zip(self.name, self.kind, strict=True))
            if words_fit(words, kind, name)
        ]
        return np.array(matches, dtype=np.int64)

    def fullest(self, n: int, text: str = "") -> NDArray[np.int64]:
        """Return the positions of the steps with most live memory among those that match."""
        matching = self.matching(text)
        order = np.argsort(-self.not_always_live_bytes[matching], kind="stable")
        return matching[order][:n]


@dataclass(frozen=True)
class LiveVariables:
    """Variables that hold memory, largest first; ``bytes`` is int64 on the tiles in question.

    ``variable_id`` is -1, and ``shape`` and ``dtype`` are empty, for code and state, which belong
    to no variable. Steps are half-open; ``category`` is a name of ``memory_category``.
    """

    variable_id: NDArray[np.int64]
    name: tuple[str, ...]
    category: tuple[str, ...]
    bytes: NDArray[np.int64]
    shape: tuple[tuple[int, ...], ...]
    dtype: tuple[str, ...]
    start_step: NDArray[np.int64]
    end_step: NDArray[np.int64]

    @property
    def total_bytes(self) -> int:
        """Sum of all rows, bytes."""
        return int(self.bytes.sum())

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.name)


class _LivenessSteps(NamedTuple):
    """The columns ``liveness.*``; ``step_id`` is that of the program's step."""

    step_id: NDArray[np.int64]
    program_id: NDArray[np.int64]
    not_always_live_bytes: NDArray[np.int64]
    pattern_id: NDArray[np.int64]


@cached
def _liveness_steps(report: Report) -> _LivenessSteps:
    """Return the steps of the liveness report."""
    liveness_steps = _LivenessSteps(
        *(
            report.array(f"liveness.{name}").read().astype(np.int64)
            for name in _LivenessSteps._fields
        )
    )
    n_patterns = report.array("liveness.pattern").shape[0]
    require_below(report, liveness_steps.step_id, report.n_rows(schema.step), "step")
    require_below(report, liveness_steps.pattern_id, n_patterns, "pattern of liveness")
    return liveness_steps


def liveness_step_ids(report: Report) -> NDArray[np.int64]:
    """Return the program's step of every liveness step, int64, shape (n_steps,)."""
    return _liveness_steps(report).step_id


@cached
def curve(report: Report, source: Source = "all") -> Curve:
    """Return live memory at each step on all tiles, one IPU or one tile.

    Raises
    ------
    BadQuestion
        When the machine has no such IPU or tile.
    """
    tiles, all_steps = tile_range(report, source), steps(report)
    program_steps = _liveness_steps(report).step_id.tolist()
    always = tile_rows(report)["always_live"][tiles.start : tiles.stop]
    return Curve(
        source,
        np.arange(len(program_steps), dtype=np.int64),
        tuple(all_steps.name[step] for step in program_steps),
        tuple(all_steps.kind[step] for step in program_steps),
        not_always_live_bytes(report, source),
        int(always.sum()),
        target(report).capacity_bytes * len(tiles),
    )


@cached
def not_always_live_bytes(report: Report, source: Source = "all") -> NDArray[np.int64]:
    """Return what is live but not always at each step, int64, shape (n_steps,), bytes.

    Raises
    ------
    BadQuestion
        When the machine has no such IPU or tile.
    """
    tiles, live = tile_range(report, source), _liveness_steps(report)
    if len(tiles) == target(report).n_tiles:
        return live.not_always_live_bytes
    return _pattern_sums(report, tiles)[live.pattern_id]


def _pattern_sums(report: Report, tiles: range) -> NDArray[np.int64]:
    """Return each liveness pattern summed over some tiles, shape (n_patterns,), bytes."""
    patterns, by_ipu = report.array("liveness.pattern"), report.array("liveness.ipu_bytes")
    tiles_per_ipu = target(report).tiles_per_ipu
    if len(by_ipu) and len(tiles) == tiles_per_ipu and tiles.start % tiles_per_ipu == 0:
        return by_ipu.column(tiles.start // tiles_per_ipu).astype(np.int64)
    answer = np.zeros(patterns.shape[0], dtype=np.int64)
    for row in range(0, patterns.shape[0], _PATTERN_ROWS):
        stop = min(row + _PATTERN_ROWS, patterns.shape[0])
        answer[row:stop] = patterns.read(row, stop, tiles.start, tiles.stop).sum(axis=1)
    return answer


def peak_step(report: Report, source: Source = "all") -> int | None:
    """Return the first step at which most memory is live; None if nothing was compiled.

    Raises
    ------
    BadQuestion
        When the machine has no such IPU or tile.
    """
    live = curve(report, source)
    return int(live.not_always_live_bytes.argmax()) if len(live) else None


def step_program(report: Report, step: int) -> int:
    """Return the id of the program of a liveness step.

    Raises
    ------
    BadQuestion
        When the step does not exist.
    """
    _check_step(report, step)
    return int(_liveness_steps(report).program_id[step])


def step_facts(report: Report, step: int) -> tuple[str, str]:
    """Return kind and name of a liveness step.

    Raises
    ------
    BadQuestion
        When the step does not exist.
    """
    _check_step(report, step)
    number = int(_liveness_steps(report).step_id[step])
    return steps(report).kind[number], steps(report).name[number]


def step_tile_bytes(report: Report, step: int) -> NDArray[np.int64]:
    """Return the not-always-live bytes of every tile at a step, int64 of shape (n_tiles,).

    Raises
    ------
    BadQuestion
        When the step does not exist.
    """
    _check_step(report, step)
    pattern_id = int(_liveness_steps(report).pattern_id[step])
    return pattern(report, "liveness.pattern", pattern_id)


def _check_step(report: Report, step: int) -> None:
    """Reject an unknown step."""
    n_steps = len(_liveness_steps(report).step_id)
    if not n_steps:
        raise BadQuestion(absence(report, "liveness"))
    if not 0 <= step < n_steps:
        raise BadQuestion(
            f"step {step} does not exist; this report has liveness steps 0 to {n_steps - 1}"
        )


@cached
def lifetimes(report: Report) -> dict[str, NDArray[np.int64]]:
    """Return the lifetime.* columns, int64, in order of start step."""
    names = ("variable_id", "start_step", "end_step")
    return {name: report.array(f"lifetime.{name}").read().astype(np.int64) for name in names}


@cached
def variable_lives(report: Report) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return the steps at which every variable lives, by its id: half-open, ascending, apart.

    A variable whose content nobody needs for a while lives several times.
    """
    rows = lifetimes(report)
    lives_by_variable: dict[int, list[tuple[int, int]]] = {}
    for number, start, end in zip(*(values.tolist() for values in rows.values()), strict=True):
        lives_by_variable.setdefault(number, []).append((start, end))
    return {number: _joined(lives) for number, lives in lives_by_variable.items()}


def _joined(lives: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ranges of steps in order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(lives):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        elif start < end:
            joined.append((start, end))
    return tuple(joined)


def named_lifetimes(report: Report, name: str) -> tuple[tuple[int, int], ...]:
    """Return the liveness steps at which a variable of a name lives, half-open and ascending.

    What is always live lives at all steps. A name that no variable has lives at none.
    """
    columns, n_steps = variable_columns(report), len(_liveness_steps(report).step_id)
    rows = [row for row, row_name in enumerate(columns["name"]) if row_name == name]
    if any(columns["is_always_live"][row] for row in rows):
        return ((0, n_steps),) if n_steps else ()
    lives = lifetimes(report)
    ids = np.array([columns["variable_id"][row] for row in rows], dtype=np.int64)
    is_named = np.isin(lives["variable_id"], ids)
    pairs = zip(
        lives["start_step"][is_named].tolist(), lives["end_step"][is_named].tolist(), strict=True
    )
    return _joined(pairs)


def step_variables(report: Report, step: int, source: Source = "all") -> LiveVariables:
    """Return the variables that are live at a step but not always, largest first.

    On all tiles the size of a variable is its whole size; on an IPU or a tile it is what lies
    there at that step.

    Raises
    ------
    BadQuestion
        When the step, IPU or tile does not exist.
    """
    _check_step(report, step)
    tiles = tile_range(report, source)
    variables = variable_columns(report)
    if source == "all":
        rows = lifetimes(report)
        sizes = _sizes(variables)
    else:
        rows = lowered_parts(report, tiles.start, tiles.stop)
        sizes = None
    is_live = (rows["start_step"] <= step) & (step < rows["end_step"])
    index = variable_positions(report, rows["variable_id"][is_live])
    always = np.array(variables["is_always_live"], dtype=np.bool_)
    is_asked = ~always[index] if len(index) else np.zeros(0, np.bool_)
    index = index[is_asked]
    held = sizes[index] if sizes is not None else rows["bytes"][is_live][is_asked]
    starts, ends = (rows[name][is_live][is_asked] for name in ("start_step", "end_step"))
    return _live_variables(variables, _merged(index, held, starts, ends))


def always_live_variables(report: Report, source: Source = "all") -> LiveVariables:
    """Return what is live at every step: variables, then code and state by exact name.

    Rows are sorted by size, largest first.

    Raises
    ------
    BadQuestion
        When the machine has no such IPU or tile.
    """
    tiles = tile_range(report, source)
    variables = variable_columns(report)
    always = np.array(variables["is_always_live"], dtype=np.bool_)
    if source == "all":
        index = np.flatnonzero(always)
        held = _sizes(variables)[index]
    else:
        parts = lowered_parts(report, tiles.start, tiles.stop)
        index = variable_positions(report, parts["variable_id"])
        is_asked = always[index] if len(index) else np.zeros(0, np.bool_)
        index, held = index[is_asked], parts["bytes"][is_asked]
    n_steps = len(_liveness_steps(report).step_id)
    starts, ends = np.zeros(len(index), np.int64), np.full(len(index), n_steps, np.int64)
    live = _live_variables(variables, _merged(index, held, starts, ends))
    by_category = category_bytes(report)[:, tiles.start : tiles.stop].sum(axis=1)
    code = [
        (category.name, int(by_category[row]))
        for row, category in enumerate(categories(report))
        if not MEMORY_CATEGORY[category.name].is_variable and by_category[row]
    ]
    return _with_code(live, code, n_steps)


def _sizes(variables: dict[str, tuple[object, ...]]) -> NDArray[np.int64]:
    """Return the whole size of each variable, bytes."""
    return np.array(variables["bytes"], dtype=np.int64)


def _merged(
    index: NDArray[np.intp],
    held: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return one row per variable: sizes added, lifetimes joined; largest first."""
    unique, inverse = np.unique(index, return_inverse=True)
    total = np.zeros(len(unique), dtype=np.int64)
    np.add.at(total, inverse, held)
    first = np.full(len(unique), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(first, inverse, starts)
    last = np.zeros(len(unique), dtype=np.int64)
    np.maximum.at(last, inverse, ends)
    order = np.lexsort((unique, -total))
    return unique[order], total[order], first[order], last[order]


def _live_variables(
    variables: dict[str, tuple[object, ...]],
    merged: tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
) -> LiveVariables:
    """Return merged rows with the names of their variables."""
    index, held, starts, ends = merged
    picked = index.tolist()

    def texts(name: str) -> tuple[str, ...]:
        return tuple(cast("str", variables[name][row]) for row in picked)

    ids = np.array([cast("int", variables["variable_id"][row]) for row in picked], np.int64)
    shapes = tuple(parsed_shape(text) for text in texts("shape"))
    return LiveVariables(
        ids, texts("name"), texts("category"), held, shapes, texts("dtype"), starts, ends
    )


def parsed_shape(text: str) -> tuple[int, ...]:
    """Return a shape from its JSON; one that is not a list of numbers is empty."""
    try:
        return tuple(int(size) for size in json.loads(text))
    except (OverflowError, RecursionError, TypeError, ValueError):
        return ()


def _with_code(live: LiveVariables, code: list[tuple[str, int]], n_steps: int) -> LiveVariables:
    """Return variables and code together, largest first."""
    n_code = len(code)
    held = np.concatenate([live.bytes, np.array([size for _, size in code], dtype=np.int64)])
    order = np.argsort(-held, kind="stable")
    names = tuple(name for name, _ in code)

    def numbers(values: NDArray[np.int64], filler: int) -> NDArray[np.int64]:
        return np.concatenate([values, np.full(n_code, filler, dtype=np.int64)])[order]

    def picker(values: tuple[str, ...], filler: tuple[str, ...]) -> tuple[str, ...]:
        joined = values + filler
        return tuple(joined[row] for row in order.tolist())

    shapes = live.shape + ((),) * n_code
    return LiveVariables(
        numbers(live.variable_id, -1),
        picker(live.name, names),
        picker(live.category, names),
        held[order],
        tuple(shapes[row] for row in order.tolist()),
        picker(live.dtype, ("",) * n_code),
        numbers(live.start_step, 0),
        numbers(live.end_step, n_steps),
    )
