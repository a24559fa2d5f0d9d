"""Small sound reports that are damaged: of the engine, with a loop, and generated."""

from __future__ import annotations

from pathlib import Path

from tests.analyser.small_report import Shape, write_small_report
from tests.generated_report import generate_report
from tests.golden.recipe import GOLDEN

__all__ = ["sound_reports"]


def sound_reports(directory: Path) -> dict[str, bytes]:
    """Return the bytes of reports by name; files are made in a directory."""
    generated = generate_report(
        directory / "generated", n_tiles=8, n_steps=30, n_variables=9, distinct_patterns=6, n_runs=2
    )
    # Two IPUs, a loop, steps whose cycles depend on data, plans, notices.
    loop = write_small_report(directory / "loop", Shape(is_data_dependent=True))
    paths = {"engine": GOLDEN, "loop": loop, "generated": generated}
    return {name: path.read_bytes() for name, path in paths.items()}
