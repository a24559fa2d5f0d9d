"""The examples run unmodified; they check their own results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilescope.reports import check_report, open_report

ROOT = Path(__file__).parents[2]


EXAMPLES = [(path.name,) for path in sorted((ROOT / "examples").glob("*.py"))]
BLUR_IN_HALF = ("blur.py", "--machine", "gc2", "--type", "half")


@pytest.mark.parametrize("example", [*EXAMPLES, BLUR_IN_HALF], ids=" ".join)
def test_example_runs_and_leaves_a_sound_report(example: tuple[str, ...], tmp_path: Path) -> None:
    options = f'{{"autoReport.all": "true", "autoReport.directory": "{tmp_path}/report"}}'
    process = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example[0]), *example[1:]],
        env={**os.environ, "PYTHONPATH": str(ROOT), "POPLAR_ENGINE_OPTIONS": options},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert check_report(tmp_path / "report") == []
    with open_report(tmp_path / "report") as report:
        assert report.is_complete
