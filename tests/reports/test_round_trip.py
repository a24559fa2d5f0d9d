from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tilescope.reports import ReportWriter, open_report
from tilescope.reports.schema import (
    ARRAYS,
    array_chunk,
    chunk,
    plan,
    provenance,
    run,
    step,
    target,
    wall_clock,
)


def test_rows_come_back_as_they_were_given(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.add(provenance, [{"key": "seed", "value": "7"}, {"key": "model_name", "value": "ü"}])
        writer.commit("compiled")
        writer.add(provenance, [{"key": "late", "value": "\x00'\""}])
        path = writer.finish()
    assert path == tmp_path / "profile.pop"
    with open_report(tmp_path) as report:
        assert report.is_complete
        assert not report.is_copy
        assert report.milestones == ["created", "compiled", "finished"]
        assert report.table(provenance) == {
            "provenance_id": [0, 1, 2],
            "key": ["seed", "model_name", "late"],
            "value": ["7", "ü", "\x00'\""],
        }
        assert report.column(provenance, "value") == ("7", "ü", "\x00'\"")
        assert report.rows(provenance, "value", "provenance_id")[0] == ("7", 0)


def test_booleans_and_missing_values_keep_their_kind(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.add_columns(
            step,
            {
                "program_id": np.arange(3),
                "kind": "OnTileExecute",
                "name": ["a", "b", "c"],
                "compute_set_id": [None, 1, 2],
                "is_data_dependent": np.array([True, False, True]),
            },
        )
        writer.finish()
    with open_report(tmp_path) as report:
        assert report.table(step)["is_data_dependent"] == [True, False, True]
        rows = report.rows(step, "compute_set_id", "is_data_dependent")
        assert rows == [(None, True), (1, False), (2, True)]


@pytest.mark.parametrize(
    "row",
    [
        {"key": "a"},
        {"key": "a", "value": "b", "other": 1},
        {"key": 5, "value": "b"},
        {"key": None, "value": "b"},
    ],
)
def test_a_row_that_does_not_fit_its_table_is_refused(tmp_path, row):
    with ReportWriter.create(tmp_path) as writer, pytest.raises(ValueError, match="provenance"):
        writer.add(provenance, [row])


@pytest.mark.parametrize("value", [1.5, 2**63, float("nan"), "7", b"8"])
def test_a_number_that_would_change_is_refused(tmp_path, value):
    columns: dict[str, Any] = {
        "program_id": [value],
        "kind": "Sync",
        "name": "a",
        "is_data_dependent": 0,
    }
    with ReportWriter.create(tmp_path) as writer, pytest.raises(ValueError, match="program_id"):
        writer.add_columns(step, columns)


def test_a_text_that_is_too_long_is_refused(tmp_path):
    with ReportWriter.create(tmp_path) as writer, pytest.raises(ValueError, match="longer"):
        writer.add(provenance, [{"key": "a", "value": "é" * 600_000}])


def test_invalid_characters_are_replaced(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.add(provenance, [{"key": "model_name", "value": "mod\udce9l.onnx"}])
        writer.finish()
    with open_report(tmp_path) as report:
        assert report.table(provenance)["value"] == ["mod?l.onnx"]


def test_two_rows_with_one_name_are_refused_and_leave_what_was_committed(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.commit("compiled")
        writer.add(provenance, [{"key": "a", "value": ""}, {"key": "a", "value": ""}])
        with pytest.raises(ValueError, match="unique"):
            writer.commit("run")
    with open_report(tmp_path) as report:
        assert report.milestones == ["created", "compiled"]


def test_the_last_milestone_is_the_writers_own(tmp_path):
    with ReportWriter.create(tmp_path) as writer, pytest.raises(ValueError, match="reserved for"):
        writer.commit("finished")


def test_rows_must_ascend(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.add(provenance, [{"provenance_id": i, "key": str(i), "value": ""} for i in (3, 1)])
        writer.add(provenance, [{"key": "next", "value": ""}])
        writer.commit("compiled")
        with pytest.raises(ValueError, match="order"):
            writer.add(provenance, [{"provenance_id": 4, "key": "4", "value": ""}])
        writer.finish()
    with open_report(tmp_path) as report:
        assert report.table(provenance)["provenance_id"] == [1, 3, 4]


def test_the_writer_refuses_to_write_its_own_tables(tmp_path):
    with ReportWriter.create(tmp_path) as writer, pytest.raises(ValueError, match="append"):
        writer.add(chunk, [])


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("round-trip")


@settings(max_examples=25, deadline=None)
@given(
    parts=st.lists(
        npst.arrays(np.int64, st.integers(0, 40)) | st.just(np.arange(66_000)), max_size=5
    ),
    commit_after=st.integers(0, 5),
)
def test_a_plain_column_comes_back_however_it_was_cut(scratch, parts, commit_after):
    with ReportWriter.create(scratch) as writer:
        for index, part in enumerate(parts):
            first = writer.append("trace.start_cycle", part)
            assert first == sum(map(len, parts[:index]))
            if index == commit_after:
                writer.commit("compiled")
        writer.finish()
    full = np.concatenate([*parts, np.zeros(0, np.int64)])
    with open_report(scratch) as report:
        array = report.array("trace.start_cycle")
        assert array.shape == full.shape
        np.testing.assert_array_equal(array.read(), full)
        middle = len(full) // 2
        np.testing.assert_array_equal(
            array.read(middle - 3, middle + 5000), full[max(0, middle - 3) : middle + 5000]
        )
        ids = np.arange(len(full))[::-7]
        np.testing.assert_array_equal(array.rows(ids), full[ids])


@settings(max_examples=15, deadline=None)
@given(
    n_rows=st.integers(1, 600),
    n_tiles=st.sampled_from([1, 63, 64, 65, 200]),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_values_per_tile_come_back_as_rows_columns_and_rectangles(
    scratch, n_rows, n_tiles, seed, data
):
    full = np.random.default_rng(seed).integers(0, 1000, (n_rows, n_tiles))
    cut = data.draw(st.integers(0, n_rows))
    with ReportWriter.create(scratch) as writer:
        writer.append("liveness.pattern", full[:cut])
        writer.commit("compiled")
        writer.append("liveness.pattern", full[cut:])
        writer.finish()
    row, column = data.draw(st.integers(0, n_rows - 1)), data.draw(st.integers(0, n_tiles - 1))
    with open_report(scratch) as report:
        array = report.array("liveness.pattern")
        assert array.shape == full.shape
        np.testing.assert_array_equal(array.row(row), full[row])
        np.testing.assert_array_equal(array.column(column), full[:, column])
        np.testing.assert_array_equal(
            array.read(row, row + 70, column), full[row : row + 70, column:]
        )
        summary = array.summary()
        assert summary.n_rows.sum() == n_rows
        assert summary.total.sum() == full.sum()
        assert summary.maximum.max() == full.max()
        assert summary.minimum.min() == full.min()


def test_equal_patterns_and_equal_chunks_are_stored_once(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        ids = [writer.pattern("cycles.pattern", np.full(128, value)) for value in (0, 5, 0, 5, 7)]
        writer.append("trace.period", np.zeros(3 * 65_536, np.int64))
        writer.finish()
    assert ids == [0, 1, 0, 1, 2]
    with open_report(tmp_path) as report:
        assert report.array("cycles.pattern").shape == (3, 128)
        assert not report.array("trace.period").read().any()
        assert (report.n_rows(array_chunk), report.n_rows(chunk)) == (5, 2)


def test_noise_that_does_not_compress_still_makes_small_chunks(tmp_path):
    noise = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 65_536)
    with ReportWriter.create(tmp_path) as writer:
        writer.append("trace.start_cycle", noise)
        writer.finish()
    with open_report(tmp_path) as report:
        np.testing.assert_array_equal(report.array("trace.start_cycle").read(), noise)
    connection = apsw.Connection(str(tmp_path / "profile.pop"))
    n_large = connection.execute("SELECT 1 FROM chunk WHERE length(data) > 524288").fetchall()
    connection.close()
    assert not n_large


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("trace.step_id", np.array([2**31])),
        ("trace.step_id", np.array([0.5])),
        ("trace.step_id", np.zeros((2, 2))),
        ("no.such", np.zeros(1)),
    ],
)
def test_values_that_would_change_are_refused(tmp_path, name, values):
    with ReportWriter.create(tmp_path) as writer, pytest.raises(ValueError, match=r"no\.such|step"):
        writer.append(name, values)


def test_an_array_that_was_never_written_has_no_rows(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.finish()
    with open_report(tmp_path) as report:
        for name in ARRAYS:
            assert len(report.array(name)) == 0
            assert report.array(name).read().size == 0
            assert report.array(name).summary().total.size == 0


def test_an_array_may_get_its_first_values_late(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.append("lifetime.start_step", np.zeros(0, np.int64))
        writer.append("trace.period", np.arange(3))
        writer.commit("compiled")
        writer.append("lifetime.start_step", np.arange(2))
        writer.append("trace.period", np.arange(1))
        writer.finish()
    with open_report(tmp_path) as report:
        assert report.array("lifetime.start_step").read().tolist() == [0, 1]
        assert report.array("trace.period").read().tolist() == [0, 1, 2, 0]


def test_large_numbers_of_rows_are_cut_into_blocks(tmp_path):
    n = 10_000
    with ReportWriter.create(tmp_path) as writer:
        writer.add(provenance, ({"key": f"k{i}", "value": str(i * i)} for i in range(n)))
        writer.finish()
    with open_report(tmp_path) as report:
        assert report.table(provenance)["value"][9_999] == str(9_999**2)
        assert report.table(plan) == {column.name: [] for column in plan.columns}


def test_times_may_be_late_and_many(tmp_path):
    """Their sum is no quantity: 2**63 is less than 30,000 runs at 10**15 cycles."""
    facts: dict[str, Any] = {
        column.name: 1 for column in target.columns if column.kind in ("integer", "real")
    }
    facts |= {column.name: "x" for column in target.columns if column.kind == "text"}
    n_runs, start = 30_000, 10**15
    late = np.arange(n_runs) + start
    with ReportWriter.create(tmp_path) as writer:
        writer.add(target, [facts])
        columns: dict[str, Any] = {
            "name": "",
            "program_index": 0,
            "is_data_dependent": False,
        }
        writer.add_columns(run, columns | {"start_cycle": late, "end_cycle": late + 1})
        times: dict[str, Any] = {"event": "run", "run_id": np.arange(n_runs), "wall_duration_us": 5}
        writer.add_columns(wall_clock, times | {"wall_start_us": late})
        writer.append("trace.start_cycle", late)
        path = writer.finish()
    with open_report(path) as report:
        assert report.column(run, "start_cycle")[-1] == start + n_runs - 1
        assert report.column(wall_clock, "wall_start_us")[0] == start
        assert report.array("trace.start_cycle").read()[-1] == start + n_runs - 1
