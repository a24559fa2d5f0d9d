"""Values under valid digests that contradict each other are refused when they are read."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from tests.faults.resealed_mutations import array_values, write_array

from tilescope.analyser.time.runs import executed
from tilescope.reports import DamagedReport, open_report
from tilescope.reports.schema import ARRAYS, HOST_EVENT_COLUMNS, TABLES, variable

Tamper = Callable[[], AbstractContextManager[apsw.Connection]]

_ROWS = {
    "a missing program": ("step", "program_id = 1000000"),
    "a negative step": ("program", "step_id = -1"),
    "a context in itself": ("debug_context", "parent_id = debug_context_id"),
    "a parent after its child": ("program", "parent_id = program_id + 1"),
    "an unknown kind": ("program", "kind = 'Jump'"),
    "a container as a step": ("step", "kind = 'Sequence'"),
    "an unknown category": ("variable", "category = 'other'"),
    "an unknown bound": ("plan", "bound = ''"),
    "a missing IPU": ("run_trace", "ipu_id = 1"),
    "a missing pattern": ("program", "code_pattern_id = 1000000"),
    "entries past the trace": ("run_trace", "n_entries = n_entries + 1000000"),
    "entries that overlap": ("run_trace", "first_entry = 0, shift_cycles = NULL"),
    "entries that no earlier run has": ("run_trace", "n_entries = n_entries - 1, shift_cycles = 0"),
    "a run that ends before it starts": ("run_trace", "end_cycle = start_cycle - 1"),
    "negative bytes": ("variable", "bytes = -1"),
    "a number that no float holds": ("variable", "n_elements = 9007199254740993"),
    "a sum of more than 64 bits": ("variable", "bytes = 9007199254740991 / 8 * 8"),
    "a clock that stands": ("target", "clock_hz = 0.0"),
    "an endless clock": ("target", "clock_hz = 9e999"),
    "an unknown pass": ("debug_context", "training_pass = 'sideways'"),
    "a missing forward operation": ("debug_context", "origin_id = 1000000"),
    "a missing run of a training step": ("training_step", "run_id = 1000000"),
    "a negative step of a training": ("training_step", "step = -1"),
    "a negative rate": ("training_step", "rate = -0.5"),
    "a rate without end": ("training_step", "rate = 9e999"),
    "no IPU": ("target", "n_ipus = 0"),
    "too many IPUs": ("target", "n_ipus = 1000000"),
}


#: Those of other reports: test_host_trace.py.
_OF_TRACES = {f"host_event.{name}" for name in HOST_EVENT_COLUMNS}


def _read_everything(path: Path) -> None:
    with open_report(path) as report:
        for table in TABLES.values():
            report.table(table)
        for name in ARRAYS:
            report.array(name).read()


def test_a_sound_report_keeps_to_all_constraints(small_report: Path) -> None:
    _read_everything(small_report)


@pytest.mark.parametrize(("table", "change"), _ROWS.values(), ids=_ROWS.keys())
def test_rows_that_contradict_others_are_refused(
    small_report: Path, tamper: Tamper, table: str, change: str
) -> None:
    with tamper() as connection:
        if change.startswith("bytes = 9"):
            connection.executemany(
                TABLES[table].insert, _more_rows(connection, table, n_rows=1_000)
            )
        connection.execute(f"UPDATE {table} SET {change}")
    with pytest.raises(DamagedReport) as caught:
        _read_everything(small_report)
    assert str(small_report) in str(caught.value)
    assert "\n" not in str(caught.value)


def _more_rows(connection: apsw.Connection, table: str, n_rows: int) -> list[tuple[Any, ...]]:
    rows = connection.execute(f'SELECT * FROM "{table}" ORDER BY 1').fetchall()
    (*_, last) = rows
    return [(len(rows) + number, *last[1:]) for number in range(n_rows)]


def test_a_removed_row_leaves_a_gap_that_is_refused(small_report: Path, tamper: Tamper) -> None:
    with tamper() as connection:
        connection.execute("DELETE FROM variable WHERE variable_id = 3")
    with (
        open_report(small_report) as report,
        pytest.raises(DamagedReport, match="not numbered from 0"),
    ):
        report.table(variable)


@pytest.mark.parametrize("name", sorted(set(ARRAYS) - {"lowered.tile_start"} - _OF_TRACES))
def test_an_array_of_another_length_or_of_extreme_values_is_refused(
    small_report: Path, tamper: Tamper, name: str
) -> None:
    sound = small_report.read_bytes()
    limits = np.iinfo(ARRAYS[name].dtype)
    is_plain, is_fixed = ARRAYS[name].columns == "one", name.startswith("memory.")
    for how in ("shorter", "longer", "negative", "extreme"):
        if how in ("shorter", "longer") and not (is_plain or is_fixed):
            continue
        if how == "extreme" and limits.max < 2**53 and ARRAYS[name].refers_to is None:
            continue  # counts of 32 bits have no other limit
        small_report.write_bytes(sound)
        with tamper() as connection:
            stored = array_values(connection, name)
            assert stored is not None
            array_id, values = stored
            changed = {
                "shorter": values[:-1],
                "longer": np.concatenate([values, values[-1:]]),
                "negative": np.where(np.arange(len(values))[:, None] == 0, -1, values),
                "extreme": np.where(values == values.max(), limits.max, values),
            }[how]
            write_array(connection, array_id, name, changed.astype(values.dtype))
        with pytest.raises(DamagedReport):
            _read_everything(small_report)


def test_a_chunk_that_belies_its_summary_is_refused(small_report: Path, tamper: Tamper) -> None:
    generator = random.Random(3)
    sound = small_report.read_bytes()
    for column in ("minimum", "maximum", "total"):
        small_report.write_bytes(sound)
        with tamper() as connection:
            ((n_chunks,),) = connection.execute("SELECT count(*) FROM array_chunk").fetchall()
            number = generator.randrange(int(str(n_chunks)))
            connection.execute(
                f"UPDATE array_chunk SET {column} = {column} + 1 WHERE array_chunk_id = ?",
                (number,),
            )
        with pytest.raises(DamagedReport):
            _read_everything(small_report)


def test_repetitions_without_a_period_are_not_written_out(
    small_report: Path, tamper: Tamper
) -> None:
    with tamper() as connection:
        stored = array_values(connection, "trace.count")
        assert stored is not None
        array_id, values = stored
        values[3] = 1 << 20
        write_array(connection, array_id, "trace.count", values)
    with (
        open_report(small_report) as report,
        pytest.raises(DamagedReport, match="repeat without a period"),
    ):
        executed(report, 0)
