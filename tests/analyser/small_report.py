"""A small report whose figures can all be computed on paper, and variations of it.

Two IPUs of four tiles. One run: stream copy 100, sync 10, exchange 20 (25 on IPU 1), convolution
200 (150 on IPU 1), three times (exchange 5, relu 30), stream copy 50; 485 cycles on IPU 0 and 440
on IPU 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tilescope.reports import ReportWriter, schema
from tilescope.reports.schema.vocabulary import SYNC_ZONES

N_TILES = 8
CATEGORIES = (
    "variable",
    "constant",
    "message",
    "controlCode",
    "vertexCode",
    "internalExchangeCode",
)


@dataclass(frozen=True)
class Shape:
    """The parameters of a variation."""

    target_name: str = "small"
    architecture: str = "ipu2"
    parameter_set: str = "hardware"
    fidelity_version: str = ""
    conv_detail: str = '{"stride": 1}'
    bytes_per_tile: int = 1000
    n_runs: int = 2
    conv_tile0_cycles: int = 200
    idle_cycles: int = 0
    weights_bytes: int = 320
    has_bias: bool = False
    planted_bytes: int = 0
    """More bytes of the weights, on tile 0."""
    has_steps: bool = True
    is_data_dependent: bool = False
    is_finished: bool = True
    seed: str = "1"
    model_path: str = ""
    wall_host: str = "here"
    options: dict[str, str] = field(default_factory=lambda: {"autoReport.all": "true"})
    conv_name: str = "layer1/conv"
    clock_hz: float = 1.0e9
    has_memory: bool = True
    has_plan: bool = True
    plan_text: str = ""
    """Replaces the JSON texts of the plan."""
    fault: str = ""
    """An implausible number under valid digests, as a hostile writer would store it."""


class _HostileWriter(ReportWriter):
    """Seals what our own writer refuses to seal."""

    def _verify(self) -> None:
        """Accept everything."""


def write_small_report(directory: Path, shape: Shape | None = None) -> Path:
    """Write the report into a directory and return its path."""
    shape = shape or Shape()
    writer = (_HostileWriter if shape.fault else ReportWriter).create(directory)
    _write_header(writer, shape)
    if not shape.has_steps:
        return writer.finish()
    _write_graph(writer, shape)
    if shape.has_memory:
        _write_memory(writer, shape)
    writer.commit("compiled")
    _write_runs(writer, shape)
    if not shape.is_finished:
        writer.commit("run")
        path = writer.path
        writer.abandon()
        return path
    return writer.finish()


def _write_header(writer: ReportWriter, shape: Shape) -> None:
    writer.add(
        schema.target,
        [
            {
                "target_id": 1,
                "name": shape.target_name,
                "target_type": "IPUModel",
                "architecture": shape.architecture,
                "parameter_set": shape.parameter_set,
                "n_ipus": 2,
                "n_replicas": 1,
                "tiles_per_ipu": 1 << 40 if shape.fault == "machine" else 4,
                "bytes_per_tile": shape.bytes_per_tile,
                "non_interleaved_bytes": 600,
                "interleaved_bytes": shape.bytes_per_tile - 600,
                "n_worker_contexts": 6,
                "clock_hz": shape.clock_hz,
                "exchange_bytes_per_cycle": 4.0,
                "host_bytes_per_cycle": 8.0,
                "sync_cycles": 10,
                "preset_tiles_per_ipu": 1_472 if shape.target_name == "gc200" else None,
            }
        ],
    )
    facts = {
        "model_name": "small",
        "seed": shape.seed,
        "tilescope_version": "0.1.0",
        "wall_host": shape.wall_host,
    }
    if shape.fidelity_version:
        facts["fidelity_version"] = shape.fidelity_version
    if shape.model_path:
        facts["model_path"] = shape.model_path
    writer.add(schema.provenance, [{"key": key, "value": facts[key]} for key in facts])
    writer.add(
        schema.engine_option,
        [
            {"name": name, "value": value, "origin": "environment", "has_effect": True}
            for name, value in shape.options.items()
        ],
    )
    writer.add(
        schema.notice,
        [{"severity": "warning", "code": "no_effect", "message": "An option has no effect yet."}],
    )


#: kind, name, compute set, (cycles on IPU 0, on IPU 1)
def _steps(shape: Shape) -> list[tuple[str, str, int | None, tuple[int, int]]]:
    conv = max(shape.conv_tile0_cycles, 150)
    return [
        ("StreamCopyMid", "in", None, (100, 100)),
        ("Sync", "", None, (10, 10)),
        ("DoExchange", f"{shape.conv_name}/exchange", None, (20, 25)),
        ("OnTileExecute", shape.conv_name, 0, (conv, 150)),
        ("DoExchange", "layer1/relu/exchange", None, (5, 5)),
        ("OnTileExecute", "layer1/relu", 1, (30, 30)),
        ("StreamCopyEnd", "out_100%", None, (50, 50)),
    ]


def _write_graph(writer: ReportWriter, shape: Shape) -> None:
    writer.add(
        schema.debug_context,
        [
            {
                "parent_id": None,
                "layer": "onnx",
                "name": "layer1",
                "operation": "Conv",
                "detail": "{}",
            },
            {
                "parent_id": 7 if shape.fault == "context" else 0,
                "layer": "library",
                "name": "layer1/conv",
                "operation": "poplin.convolution",
                "detail": shape.conv_detail,
            },
        ],
    )
    weights = shape.weights_bytes + shape.planted_bytes
    variables = [
        ("in", "float32", "[16]", 64, "variable", False, 4, 16),
        ("weights", "float32", "[80]", weights, "constant", True, 8, 40),
        ("act", "float16", "[4, 8]", 64, "variable", False, 4, 16),
        ("layer1/conv/exchange", "float32", "[8]", 32, "message", False, 2, 16),
    ]
    if shape.has_bias:
        variables.insert(1, ("bias", "float32", "[4]", 16, "constant", True, 1, 16))
    writer.add(
        schema.variable,
        [
            {
                "name": name,
                "dtype": dtype,
                "shape": dims,
                "n_elements": size // 4,
                "bytes": size,
                "category": category,
                "is_always_live": always,
                "n_tiles": n_tiles,
                "max_tile_bytes": largest,
                "debug_context_id": None,
            }
            for name, dtype, dims, size, category, always, n_tiles, largest in variables
        ],
    )
    types = (("conv<float>", "supervisor", 120), ("relu<half>", "worker", 40))
    writer.add(
        schema.vertex_type,
        [
            {
                "name": name,
                "kind": kind,
                "code_bytes": code,
                "is_data_dependent": False,
                "source": "test",
                "is_copy": name.startswith("poplar::"),
            }
            for name, kind, code in types
        ],
    )
    for number, (name, n_vertices, n_edges) in enumerate(
        ((shape.conv_name, 6, 18), ("layer1/relu", 8, 16))
    ):
        writer.add(
            schema.compute_set,
            [
                {
                    "name": name,
                    "n_vertices": n_vertices,
                    "n_edges": n_edges,
                    "debug_context_id": 1,
                }
            ],
        )
        writer.add(
            schema.compute_set_vertex,
            [
                {
                    "compute_set_id": number,
                    "vertex_type_id": number,
                    "n_vertices": n_vertices,
                    "n_tiles": n_vertices,
                    "max_cycles": 200,
                    "total_cycles": 800,
                    "flops": 1000,
                    "state_bytes": 48,
                    "vertices_pattern_id": writer.pattern(
                        "vertices.pattern", np.arange(N_TILES) < n_vertices
                    ),
                }
            ],
        )
    _write_plan(writer, shape)
    _write_programs(writer, shape)
    steps = _steps(shape)
    leaf_program = (1, 2, 3, 4, 6, 7, 8)
    writer.add(
        schema.step,
        [
            {
                "program_id": leaf_program[index],
                "kind": kind,
                "name": name,
                "compute_set_id": compute_set,
                "is_data_dependent": False,
                "plan_stage_id": {3: 0, 5: 1}.get(index) if shape.has_plan else None,
                "plan_part": None,
            }
            for index, (kind, name, compute_set, _) in enumerate(steps)
        ],
    )


#: name, phase, predicted cycles
_STAGES: tuple[tuple[str, str, int | None], ...] = (
    ("compute", "compute", 190),
    ("update", "compute", None),
    ("exchange", "exchange", 20),
)


def _write_plan(writer: ReportWriter, shape: Shape) -> None:
    if not shape.has_plan:
        return
    writer.add(
        schema.plan,
        [
            {
                "name": shape.conv_name,
                "operation": "convolution",
                "family": "amp",
                "grouping": '{"groups": 1, "inputs": 16, "outputs": 16}',
                "swaps_operands": False,
                "split": shape.plan_text or '{"rows": 6, "inputs": 1}',
                "n_tiles": 6,
                "tile_balance": 0.5,
                "predicted_cycles": 210,
                "temporary_bytes": 16,
                "available_memory_proportion": 0.25,
                "bound": "cycles",
                "runner_up": shape.plan_text or "{}",
                "debug_context_id": 1,
            }
        ],
    )
    writer.add(
        schema.plan_stage,
        [
            {
                "plan_id": 0,
                "position": position,
                "name": name,
                "phase": phase,
                "predicted_cycles": cycles,
            }
            for position, (name, phase, cycles) in enumerate(
                (
                    ("compute", "compute", 190),
                    ("update", "compute", None),
                    ("exchange", "exchange", 20),
                )
            )
        ],
    )


def _write_programs(writer: ReportWriter, shape: Shape) -> None:
    # id, parent, position, kind, name, children, repeat, tiles, step, compute set
    steps = _steps(shape)
    rows: list[tuple[int | None, int, str, str, int, int, int, int | None, int | None]] = [
        (None, 0, "Sequence", "main", 6, 1, 0, None, None),
        (0, 0, *steps[0][:2], 0, 1, 8, 0, None),
        (0, 1, *steps[1][:2], 0, 1, 8, 1, None),
        (0, 2, *steps[2][:2], 0, 1, 6, 2, None),
        (0, 3, *steps[3][:2], 0, 1, 6, 3, 0),
        (0, 4, "Repeat", "loop", 2, 3, 0, None, None),
        (5, 0, *steps[4][:2], 0, 1, 8, 4, None),
        (5, 1, *steps[5][:2], 0, 1, 8, 5, 1),
        (0, 5, *steps[6][:2], 0, 1, 8, 6, None),
        (None, 0, "Sequence", "unused", 0, 1, 0, None, None),
    ]
    writer.add(
        schema.program,
        [
            {
                "parent_id": 1 << 60 if shape.fault == "parent" and parent == 5 else parent,
                "position": position,
                "root_kind": "function" if name == "unused" else "control",
                "root_index": 0,
                "kind": kind,
                "name": name,
                "n_children": n_children,
                "repeat_count": repeat,
                "n_tiles": n_tiles,
                "code_bytes": 24 if kind == "DoExchange" else 8,
                "code_pattern_id": writer.pattern(
                    "code.pattern", np.full(N_TILES, 3 if kind == "DoExchange" else 1)
                ),
                "step_id": step,
                "compute_set_id": compute_set,
                "debug_context_id": 1 if compute_set is not None else None,
            }
            for parent, position, kind, name, n_children, repeat, n_tiles, step, compute_set in rows
        ],
    )


def _write_memory(writer: ReportWriter, shape: Shape) -> None:
    on_tile_0 = (16 if shape.has_bias else 0) + shape.planted_bytes
    extra = np.array([on_tile_0] + [0] * 7, dtype=np.int64)
    constant = np.full(N_TILES, shape.weights_bytes // N_TILES, dtype=np.int64) + extra
    by_category = np.array(
        [
            [32, 32, 32, 32, 0, 0, 0, 0],
            constant,
            [16, 0, 0, 0, 16, 0, 0, 0],
            [8] * 8,
            [160, 160, 160, 160, 160, 160, 40, 40],
            [24] * 8,
        ],
        dtype=np.int64,
    )
    overflowed = np.maximum(by_category.sum(axis=0) - shape.bytes_per_tile, 0)
    interleaved = np.zeros_like(by_category)
    interleaved[1] = constant
    plain = by_category - interleaved
    over = np.zeros_like(by_category)
    for row, region in ((4, plain), (1, interleaved)):  # code first, then constants
        over[row] = np.minimum(overflowed, region[row])
        region[row] -= over[row]
        overflowed = overflowed - over[row]
    writer.add(
        schema.memory_category,
        [
            {
                "memory_category_id": row,
                "name": name,
                "label": name.capitalize(),
                "is_overlapped": name == "message",
                "total_bytes": int(by_category[row].sum()),
                "max_tile_bytes": int(by_category[row].max()),
            }
            for row, name in enumerate(CATEGORIES)
        ],
    )
    writer.append("memory.non_interleaved", plain)
    writer.append("memory.interleaved", interleaved)
    writer.append("memory.overflowed", over)
    total = by_category.sum(axis=0)
    # Not always live: first in on tiles 0-3, then also act, with messages on 0 and 4.
    patterns = np.array(
        [[16] * 4 + [0] * 4, [32, 16, 16, 16, 16, 0, 0, 0], [32] * 4 + [0] * 4, [16] * 4 + [0] * 4],
        dtype=np.int64,
    )
    always = total - by_category[0] - by_category[2]
    gaps = np.array([8, 0, 0, 0, 4, 0, 0, 0], dtype=np.int64)
    tile = np.stack(
        [total + gaps, total, always, patterns.max(axis=0), by_category[3:].sum(axis=0)]
    )
    writer.append("memory.tile", tile)
    ids = [writer.pattern("liveness.pattern", pattern) for pattern in patterns]
    of_step = [0, 0, 1, 2, 3, 3, 3]
    leaf_program = (1, 2, 3, 4, 6, 7, 8)
    _add_columns(
        writer,
        "liveness",
        [
            {
                "step_id": step,
                "program_id": leaf_program[step],
                "not_always_live_bytes": int(patterns[of_step[step]].sum()),
                "max_tile_id": int(patterns[of_step[step]].argmax()),
                "max_tile_bytes": int(patterns[of_step[step]].max()),
                "pattern_id": -1 if shape.fault == "pattern" else ids[of_step[step]],
            }
            for step in range(7)
        ],
    )
    _write_lifetimes(writer, shape)


def _write_lifetimes(writer: ReportWriter, shape: Shape) -> None:
    shift = 1 if shape.has_bias else 0
    of_name = {"in": 0, "weights": 1 + shift, "act": 2 + shift, "message": 3 + shift}
    lives = [("in", 0, 4), ("weights", 0, 7), ("message", 2, 3), ("act", 3, 7)]
    if shape.has_bias:
        of_name["bias"] = 1
        lives.insert(1, ("bias", 0, 7))
    if shape.fault == "variable":
        of_name["act"] = 2_000_000_000
    writer.append("lifetime.variable_id", np.array([of_name[life[0]] for life in lives], np.int32))
    writer.append("lifetime.start_step", np.array([life[1] for life in lives], np.int32))
    writer.append("lifetime.end_step", np.array([life[2] for life in lives], np.int32))
    per_tile = shape.weights_bytes // N_TILES
    parts: list[tuple[int, int, int, int, int]] = []
    starts = [0]
    for tile in range(N_TILES):
        planted = shape.planted_bytes if tile == 0 else 0
        here = [(of_name["weights"], 400, per_tile + planted, 0, 7)]
        if tile < 4:
            here += [(of_name["in"], 0, 16, 0, 4), (of_name["act"], 16, 16, 3, 7)]
        if tile in {0, 4}:
            here.append((of_name["message"], 32, 16, 2, 3))
        if shape.has_bias and tile == 0:
            here.append((of_name["bias"], 300, 16, 0, 7))
        parts += sorted(here, key=lambda part: part[1])
        starts.append(len(parts))
    columns = np.array(parts, dtype=np.int32).T
    if shape.fault == "tile_start":
        starts[-1] = 2
    writer.append("lowered.tile_start", np.array(starts, dtype=np.int64))
    for name, values in zip(
        ("variable_id", "offset", "bytes", "start_step", "end_step"), columns, strict=True
    ):
        writer.append(f"lowered.{name}", values)


def _add_columns(writer: ReportWriter, group: str, rows: list[dict[str, int]]) -> None:
    """Append rows to a group of arrays."""
    writer.append_columns(group, {name: [row[name] for row in rows] for name in rows[0]})


def _write_runs(writer: ReportWriter, shape: Shape) -> None:
    busy = {
        3: ([shape.conv_tile0_cycles, 150, 100, 50], [150, 150, 0, 0]),
        5: ([30] * 4, [30] * 4),
    }
    writer.pattern("cycles.pattern", np.zeros(4, dtype=np.int64))
    pattern_of: dict[tuple[int, int], int] = {}
    for step, (_, _, _, cycles) in enumerate(_steps(shape)):
        rows = []
        for ipu in range(2):
            tiles = np.array(busy.get(step, ([0] * 4, [0] * 4))[ipu], dtype=np.int64)
            pattern_of[step, ipu] = writer.pattern("cycles.pattern", tiles)
            is_exchange, is_compute = step in {2, 4}, step in busy
            rows.append(
                {
                    "step_id": step,
                    "ipu_id": 9 if shape.fault == "ipu" else ipu,
                    "cycles": cycles[ipu],
                    "n_active_tiles": int((tiles > 0).sum()),
                    "max_tile_cycles": int(tiles.max()),
                    "total_tile_cycles": int(tiles.sum()),
                    "max_sent_bytes": 16 if is_exchange else 0,
                    "max_received_bytes": 16 if is_exchange else 0,
                    "total_sent_bytes": 32 if is_exchange else 0,
                    "total_received_bytes": 48 if is_exchange else 0,
                    "total_paired_bytes": 0,
                    "n_fragments": 1 if is_exchange else 0,
                    "host_in_bytes": 64 if step == 0 else 0,
                    "host_out_bytes": 40 if step == 6 else 0,
                    "remote_in_bytes": 8 if step == 6 else 0,
                    "remote_out_bytes": 24 if step == 0 else 0,
                    "link_in_bytes": 0,
                    "link_out_bytes": 0,
                    "sync_zone": SYNC_ZONES["internal" if step == 1 else "none"],
                    "flops": 1000 if is_compute else 0,
                    "pattern_id": pattern_of[step, ipu],
                }
            )
        _add_columns(writer, "cost", rows)
    _write_trace(writer, shape, pattern_of)


def _write_trace(
    writer: ReportWriter, shape: Shape, pattern_of: dict[tuple[int, int], int]
) -> None:
    clock = [0, 0]
    for run in range(shape.n_runs):
        begins, ends = list(clock), list(clock)
        for ipu in range(2):
            now = begins[ipu]
            entries = []
            for step, (_, _, _, cycles) in enumerate(_steps(shape)):
                in_loop = step in {4, 5}
                now += shape.idle_cycles if step == 6 else 0
                entries.append(
                    (
                        step,
                        now,
                        now + cycles[ipu],
                        35 if in_loop else 0,
                        3 if in_loop else 1,
                        pattern_of[step, ipu],
                    )
                )
                now += cycles[ipu]
                if step == 5:
                    now += 2 * 35
            columns = np.array(entries, dtype=np.int64).T
            if shape.fault == "step":
                columns[0, 2] = 2_000_000_000
            if shape.fault == "time":
                columns[2, 1] = (1 << 63) - 1
            if shape.fault == "count":
                columns[4, 4] = 2_000_000_000
            names = ("step_id", "start_cycle", "end_cycle", "period", "count", "pattern_id")
            first = writer.append("trace.step_id", columns[0])
            for name, values in zip(names[1:], columns[1:], strict=True):
                writer.append(f"trace.{name}", values)
            ends[ipu] = now
            writer.add(
                schema.run_trace,
                [
                    {
                        "run_id": run,
                        "ipu_id": ipu,
                        "track": 0,
                        "start_cycle": begins[ipu],
                        "end_cycle": now,
                        "first_entry": first + (1 << 40 if shape.fault == "trace" else 0),
                        "n_entries": len(entries),
                    }
                ],
            )
        writer.add(
            schema.run,
            [
                {
                    "name": f"run {run}",
                    "program_index": 0,
                    "start_cycle": min(begins),
                    "end_cycle": max(ends),
                    "is_data_dependent": shape.is_data_dependent,
                }
            ],
        )
        clock = [max(ends)] * 2
        writer.add(
            schema.wall_clock,
            [
                {
                    "event": "run",
                    "run_id": run,
                    "wall_start_us": 1_000_000 + hash(shape.wall_host) % 1000,
                    "wall_duration_us": 5,
                }
            ],
        )
