from itertools import pairwise

import apsw
import numpy as np
import pytest
from tests.generated_report import generate_report

from tilescope.reports import ReportWriter, check_report
from tilescope.reports.schema import (
    TABLES,
    compute_set,
    compute_set_vertex,
    debug_context,
    engine_option,
    program,
    run_trace,
    step,
    target,
    variable,
    vertex_type,
)


@pytest.mark.parametrize(("n_ipus", "n_runs", "n_tiles"), [(1, 1, 1472), (3, 2, 40), (1, 0, 1)])
def test_generated_reports_are_sound(tmp_path, n_ipus, n_runs, n_tiles):
    path = generate_report(
        tmp_path, n_tiles=n_tiles, n_ipus=n_ipus, n_steps=150, n_variables=60, n_runs=n_runs
    )
    assert check_report(path) == []


def test_the_smallest_report_is_sound(tmp_path):
    path = generate_report(
        tmp_path, n_tiles=1, n_steps=24, n_variables=1, n_runs=1, distinct_patterns=4
    )
    assert check_report(path) == []


def test_an_incomplete_report_is_sound(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.commit("compiled")
    assert check_report(tmp_path) == []


def test_an_unreadable_report_is_a_problem(tmp_path):
    (problem,) = check_report(tmp_path)
    assert problem.code == "report_not_found"


def test_parts_never_share_an_address_at_the_same_time(tmp_path):
    from tilescope.reports import open_report

    generate_report(tmp_path, n_tiles=8, n_steps=200, n_variables=150)
    with open_report(tmp_path) as report:
        columns = ("offset", "bytes", "start_step", "end_step")
        offset, size, start, end = (report.array(f"lowered.{name}").read() for name in columns)
        first = report.array("lowered.tile_start").read()
        for begin, stop in pairwise(first):
            o, n, s, e = (values[begin:stop] for values in (offset, size, start, end))
            in_space = (o[:, None] < (o + n)[None]) & (o[None] < (o + n)[:, None])
            in_time = (s[:, None] < e[None]) & (s[None] < e[:, None])
            assert (in_space & in_time).sum() == len(o)  # parts only overlap themselves


def _target(writer):
    row: dict[str, int | str] = {column.name: 1 for column in target.columns}
    row |= {c.name: "x" for c in target.columns if c.kind == "text"} | {"tiles_per_ipu": 4}
    writer.add(target, [row])


def _lost_reference(writer):
    row = {"step_id": [0], "program_id": [7], "not_always_live_bytes": [0], "max_tile_id": [0]}
    writer.append_columns("liveness", row | {"max_tile_bytes": [0], "pattern_id": [0]})
    writer.append("liveness.pattern", np.zeros((1, 4), int))


def _root(writer, n_children):
    row = {"position": 0, "root_kind": "control", "root_index": 0, "kind": "Sequence", "name": ""}
    row |= {"n_children": n_children, "repeat_count": 1, "n_tiles": 0, "code_bytes": 0}
    writer.add(program, [row])


def _wrong_children(writer):
    _root(writer, 2)


def _unequal_columns(writer):
    writer.append("lifetime.start_step", np.zeros(3, int))


def _entries_without_run(writer):
    _root(writer, 0)
    writer.add(step, [{"program_id": 0, "kind": "Sync", "name": "", "is_data_dependent": False}])
    writer.append("cycles.pattern", np.zeros((1, 4), int))
    for name in ("step_id", "start_cycle", "end_cycle", "period", "pattern_id"):
        writer.append(f"trace.{name}", np.array([0]))
    writer.append("trace.count", np.array([1]))


def _memory_without_rows(writer):
    writer.append("memory.tile", np.array([[1] * 4, [2] * 4, [0] * 4, [0] * 4, [0] * 4]))


def _run_elsewhere(writer):
    row = {"run_id": 0, "ipu_id": 0, "track": 0, "start_cycle": 5, "end_cycle": 4}
    writer.add(run_trace, [row | {"first_entry": 0, "n_entries": 0}])


def _code_without_pattern(writer):
    row = {"position": 0, "root_kind": "control", "root_index": 0, "kind": "Sequence", "name": ""}
    row |= {"n_children": 0, "repeat_count": 1, "n_tiles": 0, "code_bytes": 8}
    writer.add(program, [row])


def _vertices_elsewhere(writer):
    row = {"name": "f", "kind": "worker", "code_bytes": 0, "is_data_dependent": False, "source": ""}
    writer.add(vertex_type, [row])
    writer.add(compute_set, [{"name": "", "n_vertices": 2, "n_edges": 0}])
    counts = dict.fromkeys(("max_cycles", "total_cycles", "flops", "state_bytes"), 0)
    pattern = writer.pattern("vertices.pattern", np.array([0, 1, 0, 0]))
    ids = {"compute_set_id": 0, "vertex_type_id": 0, "vertices_pattern_id": pattern}
    writer.add(compute_set_vertex, [ids | counts | {"n_vertices": 2, "n_tiles": 1}])


def _variables_of_a_sequence(writer):
    _root(writer, 0)
    row = {"name": "", "dtype": "float32", "shape": "[]", "n_elements": 1, "bytes": 4}
    row |= {"category": "variable", "is_always_live": False, "n_tiles": 1, "max_tile_bytes": 4}
    writer.add(variable, [row])
    writer.append("program_variable.program_id", np.array([0]))
    writer.append("program_variable.variable_id", np.array([0]))


def _flow(writer, *rows):
    _root(writer, 0)
    row = {"program_id": 0, "kind": "OnTileExecute", "name": "", "is_data_dependent": False}
    writer.add(step, [row])
    row = {"name": "", "dtype": "float32", "shape": "[]", "n_elements": 1, "bytes": 4}
    row |= {"category": "variable", "is_always_live": False, "n_tiles": 1, "max_tile_bytes": 4}
    writer.add(variable, [row])
    names = ("target_step_id", "variable_id", "source_step_id", "bytes")
    writer.append_columns("dataflow", dict(zip(names, zip(*rows, strict=True), strict=True)))


def _flow_of_nothing(writer):
    _flow(writer, (0, 0, 0, 0))


def _repeated_flow(writer):
    _flow(writer, (0, 0, 0, 4), (0, 0, 0, 4))


def _half_a_line(writer):
    row = {"layer": "library", "name": "x", "operation": "", "detail": "{}", "file_name": "a.py"}
    writer.add(debug_context, [row])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_code_without_pattern, "differs from its pattern"),
        (_vertices_elsewhere, "n_vertices of compute_set_vertex 0 differs"),
        (_variables_of_a_sequence, "not a leaf"),
        (_flow_of_nothing, "A flow between steps has no bytes"),
        (_repeated_flow, "flows between steps are not sorted, or repeat"),
        (_half_a_line, "half a place"),
        (_lost_reference, "is not between 0 and -1"),
        (_wrong_children, "declares 2 children and has 0"),
        (_unequal_columns, "different lengths"),
        (_entries_without_run, "belong to no run"),
        (_memory_without_rows, "more memory without gaps"),
        (_run_elsewhere, "run_id 0 is not between"),
    ],
)
def test_disagreement_is_found(tmp_path, spoil, words):
    with ReportWriter.create(tmp_path) as writer:
        _target(writer)
        spoil(writer)
        path = writer.finish()
    assert any(words in problem.sentence for problem in check_report(path))


def test_a_changed_row_is_found_and_named(tmp_path):
    path = generate_report(tmp_path, n_tiles=8, n_steps=30, n_variables=9)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE engine_option SET value = 'x' WHERE engine_option_id = 1")
    connection.close()
    (problem,) = check_report(path)
    assert problem.where == engine_option.name
    assert "Table engine_option of" in problem.sentence


def test_every_id_column_documents_its_reference():
    #: Ids that do not refer to rows.
    numbers = {"ipu_id", "max_tile_id", "first_id", "last_id"}
    for table in TABLES.values():
        for column in table.columns[1:]:
            if column.name.endswith("_id"):
                is_pattern = column.name.endswith("pattern_id")
                assert column.refers_to or is_pattern or column.name in numbers, column
