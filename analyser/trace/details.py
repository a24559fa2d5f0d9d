"""One step in full: what it costs on each IPU and why, how its tiles fare, what it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.program.compute_sets import ComputeSetVertices, compute_set_vertices
from tilescope.analyser.program.training_links import TrainingLinks, links_of_step
from tilescope.analyser.time.execution import costs, steps
from tilescope.analyser.trace.index import trace_of
from tilescope.reports import figures, schema
from tilescope.reports.bars.kinds import KINDS
from tilescope.reports.schema.vocabulary import SYNC_ZONES

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "StepCost",
    "StepDetails",
    "TileHistogram",
    "VertexRow",
    "step_details",
    "tile_histogram",
]

_N_BINS = 20


@dataclass(frozen=True)
class TileHistogram:
    """How many tiles need how many cycles; idle tiles are counted apart.

    Attributes
    ----------
    edges_cycles : ndarray of int64, shape (n_bins + 1,), cycles
        Bounds of the bins; the last includes its upper bound.
    n_tiles : ndarray of int64, shape (n_bins,)
        Tiles in each.
    n_idle_tiles
        Tiles without work.
    """

    edges_cycles: np.ndarray
    n_tiles: np.ndarray
    n_idle_tiles: int


@dataclass(frozen=True)
class StepCost:
    """What one execution costs on one IPU, by cause; ``tile_balance`` 0 to 1 over all its tiles."""

    ipu_id: int
    cycles: int
    n_active_tiles: int
    max_tile_cycles: int
    mean_tile_cycles: float
    tile_balance: float | None
    max_sent_bytes: int
    max_received_bytes: int
    total_sent_bytes: int
    total_received_bytes: int
    total_paired_bytes: int
    n_fragments: int
    host_in_bytes: int
    host_out_bytes: int
    remote_in_bytes: int
    remote_out_bytes: int
    link_in_bytes: int
    link_out_bytes: int
    sync_zone: str
    flops: int
    histogram: TileHistogram

    @property
    def flops_per_cycle(self) -> float | None:
        """Useful operations a cycle on this IPU; None for a step that takes none."""
        return self.flops / self.cycles if self.cycles else None


@dataclass(frozen=True)
class VertexRow:
    """One codelet of the step's compute set; cycles as its law counts them."""

    name: str
    n_vertices: int
    n_tiles: int
    max_cycles: int
    total_cycles: int
    flops: int
    state_bytes: int


@dataclass(frozen=True)
class StepDetails:
    """A step: its name, what it is, its cost per IPU, and its vertices.

    ``training`` is how its operation belongs to others in a training step, None outside training.
    """

    step_id: int
    name: str
    kind: str
    program_kind: str
    program_id: int
    compute_set: str | None
    is_data_dependent: bool
    costs: list[StepCost]
    vertices: list[VertexRow]
    training: TrainingLinks | None = None

    @property
    def flops(self) -> int:
        """Useful floating-point operations of one execution over all IPUs."""
        return sum(cost.flops for cost in self.costs)


def step_details(report: Report, step_id: int) -> StepDetails:
    """Return what is known of one step.

    Raises
    ------
    BadQuestion
        If the report has no such step.
    """
    trace = trace_of(report)
    every = steps(report)
    if not 0 <= step_id < len(every):
        known = f"its steps are 0 to {len(every) - 1}" if len(every) else "it has none"
        raise BadQuestion(f"step {step_id} does not exist in this report; {known}")
    compute_set_id = report.column(schema.step, "compute_set_id")[step_id]
    named, vertices = compute_set_vertices(report, compute_set_id)
    return StepDetails(
        step_id,
        every.name[step_id],
        KINDS[int(trace.step_kinds[step_id])].name,
        every.kind[step_id],
        int(every.program_id[step_id]),
        named,
        bool(every.is_data_dependent[step_id]),
        _costs(report, step_id, trace.tiles_per_ipu),
        _vertex_rows(vertices),
        links_of_step(report, step_id),
    )


_COST_NAMES = (
    "ipu_id",
    "cycles",
    "n_active_tiles",
    "max_tile_cycles",
    "max_sent_bytes",
    "max_received_bytes",
    "total_sent_bytes",
    "total_received_bytes",
    "total_paired_bytes",
    "n_fragments",
    "host_in_bytes",
    "host_out_bytes",
    "remote_in_bytes",
    "remote_out_bytes",
    "link_in_bytes",
    "link_out_bytes",
    "sync_zone",
    "flops",
)


def _costs(report: Report, step_id: int, n_tiles: int) -> list[StepCost]:
    """Return the cost of a step on each IPU."""
    column = costs(report).column
    rows = np.flatnonzero(column["step_id"] == step_id)
    zones = {code: name for name, code in SYNC_ZONES.items()}
    patterns = report.array("cycles.pattern")
    answer = []
    for row in rows.tolist():
        named: dict[str, Any] = {name: int(column[name][row]) for name in _COST_NAMES}
        named["sync_zone"] = zones[named["sync_zone"]]
        total = int(column["total_tile_cycles"][row])
        answer.append(
            StepCost(
                mean_tile_cycles=total / n_tiles,
                tile_balance=figures.tile_balance(total, named["max_tile_cycles"], n_tiles),
                histogram=tile_histogram(np.asarray(patterns.row(int(column["pattern_id"][row])))),
                **named,
            )
        )
    return answer


def tile_histogram(cycles: np.ndarray) -> TileHistogram:
    """Return how the busy cycles of tiles are spread.

    Parameters
    ----------
    cycles : ndarray of int, shape (n_tiles,), cycles
    """
    busy = cycles[cycles > 0]
    n_idle = int(len(cycles) - len(busy))
    if len(busy) == 0:
        return TileHistogram(np.zeros(1, np.int64), np.zeros(0, np.int64), n_idle)
    low, high = int(busy.min()), int(busy.max())
    n_bins = min(_N_BINS, high - low + 1)
    edges = low + (high - low) * np.arange(n_bins + 1, dtype=np.int64) // n_bins
    counts, _ = np.histogram(busy, bins=edges) if high > low else (np.asarray([len(busy)]), None)
    return TileHistogram(edges, counts.astype(np.int64), n_idle)


def _vertex_rows(vertices: Iterable[ComputeSetVertices]) -> list[VertexRow]:
    """Return the codelets of a compute set, the most cycles first."""
    return [
        VertexRow(
            vertex.vertex_type,
            vertex.n_vertices,
            vertex.n_tiles,
            vertex.max_cycles,
            vertex.total_cycles,
            vertex.flops,
            vertex.state_bytes,
        )
        for vertex in sorted(
            vertices, key=lambda vertex: (-vertex.total_cycles, vertex.vertex_type)
        )
    ]
