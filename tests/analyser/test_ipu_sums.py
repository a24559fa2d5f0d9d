"""Live bytes of an IPU come from sums that the writer stores; they are those of its tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.generated_report import generate_report

from tilescope.analyser.memory.liveness import curve, not_always_live_bytes, peak_step
from tilescope.reports import PackedArray, ReportWriter, check_report, open_report
from tilescope.reports.writing import store

_SIZE: dict[str, Any] = {"n_tiles": 24, "n_steps": 120, "n_variables": 60}


@pytest.mark.parametrize("n_ipus", [1, 3])
def test_sums_give_the_figures_of_the_tiles(tmp_path: Path, n_ipus: int) -> None:
    with patch.dict(store._SUMS, clear=True):
        without = generate_report(tmp_path / "without", **_SIZE, n_ipus=n_ipus)
    path = generate_report(tmp_path / "with", **_SIZE, n_ipus=n_ipus)
    with open_report(path) as report, open_report(without) as other:
        assert not len(other.array("liveness.ipu_bytes"))
        for ipu_id in range(n_ipus):
            expected = not_always_live_bytes(other, ("ipu", ipu_id))
            np.testing.assert_array_equal(not_always_live_bytes(report, ("ipu", ipu_id)), expected)
            assert peak_step(report, ("ipu", ipu_id)) == peak_step(other, ("ipu", ipu_id))


def test_liveness_of_an_ipu_unpacks_no_tiles(tmp_path: Path) -> None:
    path = generate_report(tmp_path, **_SIZE, n_ipus=4)
    read = PackedArray.read

    def read_but_patterns(array: PackedArray, *arguments: int) -> np.ndarray:
        assert array.name != "liveness.pattern"
        return read(array, *arguments)

    with open_report(path) as report, patch.object(PackedArray, "read", read_but_patterns):
        assert len(curve(report, ("ipu", 3))) == 120


def test_wrong_sums_are_a_problem(tmp_path: Path) -> None:
    append = store.ReportStore.append

    def append_wrong(self: store.ReportStore, name: str, values: np.ndarray) -> int:
        return append(self, name, values + (name == "liveness.ipu_bytes"))

    with patch.object(store.ReportStore, "append", append_wrong):
        path = generate_report(tmp_path, **_SIZE, n_ipus=2)
    assert [problem.sentence for problem in check_report(path)] == [
        "The live bytes of an IPU differ from the sum over its tiles."
    ]


def test_verifying_a_report_unpacks_nothing(tmp_path: Path) -> None:
    path = generate_report(tmp_path, **_SIZE)
    with (
        open_report(path) as report,
        patch("tilescope.reports.integrity.chunks._decompress", side_effect=AssertionError),
    ):
        report.verify()


def test_sums_need_no_machine(tmp_path: Path) -> None:
    with ReportWriter.create(tmp_path) as writer:
        assert writer.pattern("liveness.pattern", np.arange(6)) == 0
        path = writer.finish()
    with open_report(path) as report:
        assert not len(report.array("liveness.ipu_bytes"))
