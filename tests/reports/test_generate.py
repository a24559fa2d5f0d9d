import numpy as np
import pytest
from tests.generated_report import generate_report

from tilescope.reports import open_report
from tilescope.reports.schema import ARRAYS, TABLES, run_trace


@pytest.mark.parametrize(("n_ipus", "n_runs"), [(1, 1), (4, 3), (2, 0)])
def test_trace_agrees_with_costs(tmp_path, n_ipus, n_runs):
    generate_report(tmp_path, n_tiles=96, n_ipus=n_ipus, n_steps=300, n_variables=50, n_runs=n_runs)
    with open_report(tmp_path) as report:
        names = ("step_id", "ipu_id", "cycles")
        step_id, ipu_id, n_cycles = (report.array(f"cost.{name}").read() for name in names)
        cycles = dict(zip(zip(step_id, ipu_id, strict=True), n_cycles, strict=True))
        start, end = (report.array(f"trace.{side}_cycle").read() for side in ("start", "end"))
        steps = report.array("trace.step_id").read()
        period, count = report.array("trace.period").read(), report.array("trace.count").read()
        traces = report.table(run_trace)
        assert len(traces["run_id"]) == n_runs * n_ipus
        assert sum(traces["n_entries"]) == n_runs * n_ipus * 300
        assert len(start) == (n_ipus * 300 if n_runs else 0), "runs that repeat each other share"
        for ipu, first, n, until, shift in zip(
            *(traces[name] for name in ("ipu_id", "first_entry", "n_entries", "end_cycle")),
            traces["shift_cycles"],
            strict=True,
        ):
            part = slice(first, first + n)
            assert (np.diff(start[part]) >= 0).all()
            lasted = (end - start)[part].tolist()
            assert lasted == [cycles[step, ipu] for step in steps[part].tolist()]
            assert (end + period * (count - 1))[part].max() + (shift or 0) <= until


def test_liveness_agrees_with_lifetimes_and_parts(tmp_path):
    generate_report(tmp_path, n_tiles=40, n_ipus=2, n_steps=200, n_variables=80)
    with open_report(tmp_path) as report:
        parts = {
            n: report.array(f"lowered.{n}").read() for n in ("bytes", "start_step", "end_step")
        }
        tile_start = report.array("lowered.tile_start").read()
        tile = np.repeat(np.arange(80), np.diff(tile_start))
        always = (parts["start_step"] == 0) & (parts["end_step"] == 200)
        names = ("pattern_id", "not_always_live_bytes")
        liveness = {name: report.array(f"liveness.{name}").read() for name in names}
        patterns = report.array("liveness.pattern")
        for step in range(0, 200, 7):
            live = (parts["start_step"] <= step) & (step < parts["end_step"]) & ~always
            expected = np.bincount(tile[live], parts["bytes"][live], 80)
            np.testing.assert_array_equal(patterns.row(liveness["pattern_id"][step]), expected)
            assert liveness["not_always_live_bytes"][step] == expected.sum()


def test_the_same_seed_gives_the_same_data_and_another_seed_does_not(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate_report(tmp_path / name, n_tiles=32, n_steps=64, n_variables=20, seed=seed)

    def content(name):
        with open_report(tmp_path / name) as report:
            tables = {t.name: report.table(t) for t in TABLES.values()}
            return tables, {array: report.array(array).read().tolist() for array in ARRAYS}

    assert content("a") == content("b")
    assert content("a") != content("c")
