"""Generator of large, valid, plausible reports for tests and benchmarks, without simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.generated_report.execution import write_execution
from tests.generated_report.memory import write_memory
from tests.generated_report.program import plan_program, write_program
from tests.generated_report.training import write_training

from tilescope.reports.schema import engine_option, provenance, target
from tilescope.reports.writing.writer import ReportWriter

__all__ = ["generate_report"]

_SYNC_CYCLES = 150


def generate_report(
    directory: Path | str,
    *,
    n_tiles: int = 1472,
    n_ipus: int = 1,
    n_steps: int = 20_000,
    n_variables: int = 2_000,
    n_runs: int = 1,
    seed: int = 0,
    distinct_patterns: int = 400,
    n_training_steps: int = 0,
    has_distinct_runs: bool = False,
) -> Path:
    """Write the report of a transformer-like program and return its path.

    The same arguments give the same data. The data is consistent, as in a report of the engine:
    liveness with lifetimes and parts, costs with patterns, the trace with the costs.

    Parameters
    ----------
    directory : Path or str
        Directory for ``profile.pop``.
    n_tiles, n_ipus : int
        Tiles of one IPU, and IPUs.
    n_steps : int
        Steps of the program, at least 24; all of them execute in every run.
    n_variables : int
        Variables including message buffers.
    n_runs : int
        Recorded runs, may be 0; a run adds ``n_steps`` entries per IPU to the trace.
    seed : int
        Random seed.
    distinct_patterns : int
        Maximum number of distinct rows of cycles per tile and of live bytes per tile.
    n_training_steps : int
        Steps of a training; without any, the program is one of inference.
    has_distinct_runs : bool
        Whether no run repeats another one, so that the trace of every run is stored.

    Raises
    ------
    ReportInUse
        Another engine is writing there.
    ReportNotWritable
        The directory cannot be written.
    """
    if min(n_tiles, n_ipus, n_variables) < 1 or n_steps < 24 or n_runs < 0 or distinct_patterns < 4:
        raise ValueError("a report needs tiles, IPUs, variables, 24 steps and 4 patterns")
    random = np.random.default_rng(seed)
    plan = plan_program(n_steps, (n_ipus, n_tiles), random)
    with ReportWriter.create(directory) as writer:
        _write_header(writer, n_tiles, n_ipus, seed)
        write_program(writer, plan, is_training=n_training_steps > 0)
        write_memory(writer, plan, n_variables, distinct_patterns, random)
        shape = (n_ipus, n_tiles)
        write_execution(
            writer,
            plan,
            shape,
            n_runs,
            distinct_patterns,
            random,
            has_distinct_runs=has_distinct_runs,
        )
        if n_training_steps:
            write_training(writer, n_training_steps, n_runs)
        return writer.finish()


def _write_header(writer: ReportWriter, n_tiles: int, n_ipus: int, seed: int) -> None:
    facts = {"model_name": "generated", "seed": str(seed), "engine_name": "generator"}
    writer.add(provenance, [{"key": key, "value": value} for key, value in facts.items()])
    writer.add(
        engine_option,
        [
            {"name": name, "value": value, "origin": origin, "has_effect": True}
            for name, value, origin in (
                ("autoReport.all", "true", "environment"),
                ("autoReport.directory", "./report", "default"),
                ("autoReport.executionProfileProgramRunCount", "2", "default"),
                ("debug.instrument", "true", "code"),
            )
        ],
    )
    writer.add(
        target,
        [
            {
                "target_id": 1,
                "name": "gc200",
                "target_type": "IPUModel",
                "architecture": "ipu2",
                "parameter_set": "hardware",
                "n_ipus": n_ipus,
                "n_replicas": 1,
                "tiles_per_ipu": n_tiles,
                "bytes_per_tile": 638_976,
                "non_interleaved_bytes": 376_832,
                "interleaved_bytes": 262_144,
                "n_worker_contexts": 6,
                "clock_hz": 1.33e9,
                "exchange_bytes_per_cycle": 4.0,
                "host_bytes_per_cycle": 16.0,
                "sync_cycles": _SYNC_CYCLES,
                "preset_tiles_per_ipu": 1_472,
            }
        ],
    )
