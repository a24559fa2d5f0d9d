"""A small report with nested names, two IPUs, two runs and a loop, and a plain-Python oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilescope.reports import (
    Report,
    ReportWriter,
    TraceTrack,
    TraceWriter,
    open_report,
    schema,
)
from tilescope.reports.bars import coarse
from tilescope.reports.check import bars
from tilescope.reports.schema.vocabulary import SYNC_ZONES
from tilescope.reports.writing import trace_bars

STEPS = (
    ("OnTileExecute", "net/conv1/convolve", 40),
    ("DoExchange", "net/conv1/convolve", 10),
    ("Sync", "net/conv1", 5),
    ("OnTileExecute", "net/fc/matmul", 25),
    ("StreamCopyMid", "out", 12),
    ("Sync", "out", 7),
)
Entry = tuple[int, int, int, int, int]
N_TILES = 4


def write_report(
    directory: Path,
    tracks: list[tuple[int, int, int, list[Entry]]],
    n_ipus: int = 1,
    steps: tuple[tuple[str, str, int], ...] = STEPS,
    clock_hz: float = 1.33e9,
    *,
    shares: bool = True,
) -> Path:
    """Write a report from (run, ipu, track, entries of step, start, end, period, count).

    Tracks that repeat each other share their entries unless ``shares`` is false.
    """
    writer = ReportWriter.create(directory)
    writer.add(
        schema.target,
        [
            {
                "target_id": 1,
                "name": "gc200",
                "target_type": "IPUModel",
                "architecture": "ipu2",
                "parameter_set": "hardware",
                "n_ipus": n_ipus,
                "n_replicas": 1,
                "tiles_per_ipu": N_TILES,
                "bytes_per_tile": 638_976,
                "non_interleaved_bytes": 425_984,
                "interleaved_bytes": 212_992,
                "n_worker_contexts": 6,
                "clock_hz": clock_hz,
                "exchange_bytes_per_cycle": 4.0,
                "host_bytes_per_cycle": 8.0,
                "sync_cycles": 40,
            }
        ],
    )
    writer.commit("created")
    patterns = {}
    for step, (kind, _, cycles) in enumerate(steps):
        busy = np.zeros(N_TILES, np.int64)
        if kind == "OnTileExecute":
            busy[:2] = [cycles, cycles // 2]
        patterns[step] = writer.pattern("cycles.pattern", busy)
    writer.add(
        schema.step,
        [
            {
                "program_id": 0,
                "kind": kind,
                "name": name,
                "compute_set_id": 0 if kind == "OnTileExecute" else None,
                "is_data_dependent": False,
            }
            for kind, name, _ in steps
        ],
    )
    writer.add(
        schema.program,
        [
            {
                "parent_id": None,
                "position": 0,
                "root_kind": "control",
                "root_index": 0,
                "kind": "Sequence",
                "name": "",
                "n_children": 0,
                "repeat_count": 1,
                "n_tiles": 0,
                "code_bytes": 0,
                "step_id": None,
                "compute_set_id": None,
                "debug_context_id": None,
            }
        ],
    )
    writer.add(
        schema.compute_set,
        [{"name": "convolve", "n_vertices": 6, "n_edges": 9, "debug_context_id": None}],
    )
    writer.add(
        schema.vertex_type,
        [
            {
                "name": "ConvPartial<float>",
                "kind": "worker",
                "code_bytes": 100,
                "is_data_dependent": False,
                "source": "test",
            }
        ],
    )
    writer.add(
        schema.compute_set_vertex,
        [
            {
                "compute_set_id": 0,
                "vertex_type_id": 0,
                "n_vertices": 6,
                "n_tiles": 2,
                "max_cycles": 40,
                "total_cycles": 60,
                "flops": 123,
                "state_bytes": 24,
                "vertices_pattern_id": writer.pattern(
                    "vertices.pattern", np.repeat([3, 0], [2, n_ipus * N_TILES - 2])
                ),
            }
        ],
    )
    costs = _costs(patterns, n_ipus, steps)
    writer.append_columns("cost", {name: [row[name] for row in costs] for name in costs[0]})
    writer.commit("compiled")
    runs = sorted({run for run, *_ in tracks})
    for run in runs:
        mine = [entries for r, _, _, entries in tracks if r == run]
        writer.add(
            schema.run,
            [
                {
                    "name": f"Engine::run #{run}",
                    "program_index": 0,
                    "start_cycle": min(entries[0][1] for entries in mine),
                    "end_cycle": max(end_of(entries) for entries in mine),
                    "is_data_dependent": False,
                }
            ],
        )
    trace = (TraceWriter if shares else OwnEntries)(writer)
    for run, ipu, track, entries in tracks:
        step_id, low, high, period, count = (
            np.asarray(column, np.int64) for column in zip(*entries, strict=True)
        )
        starts = np.full((1, n_ipus), low[0])
        pattern = np.asarray([patterns[s] for s in step_id.tolist()])
        columns = (step_id, low - low[0], high - low[0], period, count, pattern)
        lasted = end_of(entries) - entries[0][1]
        trace.add([run], starts, [[TraceTrack(ipu, track, lasted, columns)]])
    writer.commit("run")
    return writer.finish()


class OwnEntries(TraceWriter):
    """Stores every track anew, as reports of schema 6 do."""

    def add(self, *arguments: Any) -> None:
        """Add a run as if none came before."""
        self._stored.clear()
        super().add(*arguments)


def end_of(entries: list[Entry]) -> int:
    """Return the first cycle after all executions."""
    return max(end + period * (count - 1) for _, _, end, period, count in entries)


#: Busy cycles of all tiles over the busiest tile's.
WORK = {"OnTileExecute": 1.5, "DoExchange": 2}


def _costs(
    patterns: dict[int, int], n_ipus: int, steps: tuple[tuple[str, str, int], ...]
) -> list[dict[str, int]]:
    return [
        {
            "step_id": step,
            "ipu_id": ipu,
            "cycles": cycles,
            "n_active_tiles": 2 if kind in WORK else 0,
            "max_tile_cycles": cycles if kind in WORK else 0,
            "total_tile_cycles": int(cycles * WORK.get(kind, 0)),
            "max_sent_bytes": 40,
            "max_received_bytes": 40,
            "total_sent_bytes": {"DoExchange": 80, "StreamCopyMid": 96}.get(kind, 0),
            "total_received_bytes": 80 if kind == "DoExchange" else 0,
            "total_paired_bytes": 0,
            "n_fragments": 1,
            "host_in_bytes": 300 if kind == "StreamCopyMid" else 0,
            "host_out_bytes": 96 if kind == "StreamCopyMid" else 0,
            "remote_in_bytes": 20 if kind == "StreamCopyMid" else 0,
            "remote_out_bytes": 12 if kind == "StreamCopyMid" else 0,
            "link_in_bytes": 0,
            "link_out_bytes": 0,
            "sync_zone": SYNC_ZONES[
                ("external" if step == 5 else "internal") if kind == "Sync" else "none"
            ],
            "flops": 0,
            "pattern_id": patterns[step],
        }
        for step, (kind, _, cycles) in enumerate(steps)
        for ipu in range(n_ipus)
    ]


def store_bars(patch: pytest.MonkeyPatch) -> None:
    """Let writers store the bars of short traces, too: some two runs a section, small bins."""
    patch.setattr(trace_bars, "LONG_TRACE_ENTRIES", 0)
    patch.setattr(trace_bars, "SECTION_ENTRIES", 100)
    for module in (bars, coarse, trace_bars):
        patch.setattr(module, "BIN_ENTRIES", (2, 16))


def sequence(
    start: int,
    steps: tuple[int, ...] = (0, 1, 2, 3, 4, 5),
    table: tuple[tuple[str, str, int], ...] = STEPS,
) -> list[Entry]:
    """Return entries of consecutive steps that run once."""
    entries = []
    for step in steps:
        end = start + table[step][2]
        entries.append((step, start, end, 0, 1))
        start = end
    return entries


def loop(start: int, count: int, steps: tuple[int, ...]) -> list[Entry]:
    """Return the entries of a loop over some steps."""
    body = sequence(start, steps)
    period = body[-1][2] - start
    return [(step, low, high, period, count) for step, low, high, _, _ in body]


def executions(entries: list[Entry]) -> list[tuple[int, int, int]]:
    """Return every execution as (start, end, step): the plain meaning of the columns."""
    results = [
        (low + k * period, high + k * period, step)
        for step, low, high, period, count in entries
        for k in range(count)
    ]
    return sorted(results)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Report]]:
    """Return a function that writes a report and opens it; all are closed at the end."""
    opened: list[Report] = []

    def make_report(
        tracks: list[tuple[int, int, int, list[Entry]]], n_ipus: int = 1, **others: Any
    ) -> Report:
        path = write_report(tmp_path / str(len(opened)), tracks, n_ipus, **others)
        opened.append(open_report(path))
        return opened[-1]

    yield make_report
    for report in opened:
        report.close()
