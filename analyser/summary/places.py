"""Where one thing of a report stands on all views: a step, program, tile, variable or operation.

Views number things differently: the trace has steps, liveness has moments, the tree has programs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.liveness import liveness_step_ids, variable_lives
from tilescope.analyser.memory.tile_memory import tile_memory
from tilescope.analyser.memory.variable_list import VariableRow, list_variables
from tilescope.analyser.program.operations import (
    LAYERS,
    Operation,
    operation_of,
    operation_steps,
    operations,
)
from tilescope.analyser.program.program_tree import ProgramNode, all_programs, program
from tilescope.analyser.quantities import format_bytes, format_lives
from tilescope.analyser.time.execution import costs

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["KINDS", "Place", "busiest_tile", "place_of"]

#: What can be asked for; ``moment`` is a step of the liveness report.
KINDS = ("step", "moment", "program", "tile", "variable", "operation")


@dataclass(frozen=True)
class Place:
    """One thing with its numbers on other views; None where it stands on none.

    Attributes
    ----------
    kind
        One of ``KINDS`` but ``moment``.
    title, detail
        What it is called, and a short description.
    operation
        Key of the operation in its layer.
    """

    kind: str
    title: str
    detail: str
    step_id: int | None = None
    moment: int | None = None
    program_id: int | None = None
    operation: str | None = None
    layer: str = "library"
    tile_id: int | None = None
    variable: str | None = None


def place_of(report: Report, selection: str) -> Place:
    """Return where a thing stands, named as ``kind:number`` or ``kind:name``.

    Raises
    ------
    BadQuestion
        When the kind is unknown, or the report has no such thing.
    """
    kind, _, value = selection.partition(":")
    if kind not in KINDS or not value:
        raise BadQuestion(
            f"Expected one of {', '.join(f'{name}:…' for name in KINDS)}, got {selection[:80]!r}."
        )
    if kind == "variable":
        return _variable(report, value)
    if kind == "operation":
        return _operation(report, value)
    number = _number(kind, value)
    if kind == "tile":
        return _tile(report, number)
    if kind == "program":
        return _program(report, program(report, number))
    return _step(report, number) if kind == "step" else _moment(report, number)


def _number(kind: str, text: str) -> int:
    """Return the number of a thing; of several, such as ``3,9`` or ``3-5``, the first."""
    first = text.replace("-", ",").split(",")[0].strip()
    if not (first.isascii() and first.isdigit() and len(first) < 10):
        raise BadQuestion(f"Expected a number of a {kind}, got {text[:80]!r}.")
    return int(first)


def _step(report: Report, step_id: int) -> Place:
    node = _node_of_step(report).get(step_id)
    if node is None:
        raise BadQuestion(f"The report has no step {step_id:,}.")
    return _program(report, node)


def _moment(report: Report, moment: int) -> Place:
    step_ids = liveness_step_ids(report)
    if not 0 <= moment < len(step_ids):
        raise BadQuestion(f"The report has no liveness step {moment:,}; it has {len(step_ids):,}.")
    return replace(_step(report, int(step_ids[moment])), moment=moment)


def _program(report: Report, node: ProgramNode) -> Place:
    step_id = node.step_id
    operation = operation_of(report, node.debug_context_id)
    key, layer = (None, "library") if operation is None else operation
    title = f"Step {step_id:,}" if step_id is not None else f"Program {node.program_id:,}"
    return Place(
        "program" if step_id is None else "step",
        title,
        node.label,
        step_id=step_id,
        moment=None if step_id is None else _moments(report).get(step_id),
        program_id=node.program_id,
        operation=key,
        layer=layer,
    )


def _tile(report: Report, tile_id: int) -> Place:
    machine = target(report)
    if tile_id >= machine.n_tiles:
        raise BadQuestion(f"The report has no tile {tile_id:,}; it has {machine.n_tiles:,}.")
    held = int(tile_memory(report, "none", include_gaps=False).total_bytes[tile_id])
    detail = f"IPU {tile_id // machine.tiles_per_ipu}, holds {format_bytes(held)}"
    return Place("tile", f"Tile {tile_id:,}", detail, tile_id=tile_id)


def _variable(report: Report, name: str) -> Place:
    row = _variables(report).get(name)
    if row is None:
        raise BadQuestion(f"The report has no variable {name[:80]!r}.")
    result = variable_lives(report).get(row.variable_id, ())
    moment = result[0][0] if result else None
    lives = f"live in steps {format_lives(result)}" if result else "always live"
    tiles = f"{row.n_tiles:,} tile{'s' * (row.n_tiles != 1)}"
    detail = f"{format_bytes(row.bytes)} on {tiles}, {lives}"
    return Place("variable", row.name, detail, variable=row.name, moment=moment)


def _operation(report: Report, key: str) -> Place:
    for layer in LAYERS:
        operation = operations(report, layer).by_key.get(key)
        if operation is not None:
            return _of_operation(report, key, layer, operation)
    raise BadQuestion(f"The report has no operation {key[:80]!r}.")


def _of_operation(report: Report, key: str, layer: str, operation: Operation) -> Place:
    """Return an operation with its longest step."""
    longest = max(
        operation_steps(report, operation),
        key=lambda step: (step.n_executions > 0, step.cycles),
        default=None,
    )
    return Place(
        "operation",
        operation.name,
        f"{operation.operation}, {operation.cycles:,} cycles",
        step_id=longest.step_id if longest else None,
        moment=_moments(report).get(longest.step_id) if longest else None,
        program_id=longest.program_id if longest else None,
        operation=key,
        layer=layer,
    )


@cached
def _node_of_step(report: Report) -> dict[int, ProgramNode]:
    """Return the program of every step."""
    nodes = all_programs(report).values()
    return {node.step_id: node for node in nodes if node.step_id is not None}


@cached
def _moments(report: Report) -> dict[int, int]:
    """Return the first liveness step of every step."""
    moments: dict[int, int] = {}
    for moment, step_id in enumerate(liveness_step_ids(report).tolist()):
        moments.setdefault(step_id, moment)
    return moments


@cached
def _variables(report: Report) -> dict[str, VariableRow]:
    """Return the largest variable of every name."""
    rows: dict[str, VariableRow] = {}
    for row in list_variables(report).rows:
        rows.setdefault(row.name, row)
    return rows


def busiest_tile(report: Report, step_id: int) -> int | None:
    """Return the tile that computes longest in a step, the first of equals; None if none does."""
    column, patterns = costs(report).column, report.array("cycles.pattern")
    busiest: tuple[int, int] | None = None
    for row in np.flatnonzero(column["step_id"] == step_id).tolist():
        cycles = np.asarray(patterns.row(int(column["pattern_id"][row])))
        largest = int(cycles.max(initial=0))
        if largest and (busiest is None or largest > busiest[0]):
            first = int(column["ipu_id"][row]) * target(report).tiles_per_ipu
            busiest = largest, first + int(cycles.argmax())
    return None if busiest is None else busiest[1]
