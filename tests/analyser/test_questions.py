"""Queries on the small report: (query, expected result)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.analyser.small_report import Shape

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import Source, format_source, parse_source, target
from tilescope.analyser.memory import liveness, lowered_variables
from tilescope.analyser.memory import tile_memory as memory
from tilescope.analyser.program import programs
from tilescope.analyser.program.plans import plans
from tilescope.analyser.summary.metrics import METRICS
from tilescope.analyser.summary.summarise import summarise
from tilescope.analyser.time import runs
from tilescope.reports import Report

# Cases: a query as a function of the report, and its result.
CASES: dict[str, tuple[Callable[[Report], Any], Any]] = {
    "tiles": (lambda r: target(r).n_tiles, 8),
    "total per tile": (
        lambda r: memory.tile_memory(r).series["Total"].tolist(),
        [280, 264, 264, 264, 248, 232, 112, 112],
    ),
    "total with gaps": (
        lambda r: memory.tile_memory(r, "none", True).total_bytes.tolist(),
        [288, 264, 264, 264, 252, 232, 112, 112],
    ),
    "regions": (
        lambda r: {
            label: int(values.sum())
            for label, values in memory.tile_memory(r, "region", True).series.items()
        },
        {"Non-interleaved": 1456, "Interleaved": 320, "Overflowed": 0, "Gaps": 12},
    ),
    "categories on tile 4": (
        lambda r: {
            label: int(values[4])
            for label, values in memory.tile_memory(r, "category").series.items()
        },
        {
            "Variable": 0,
            "Constant": 40,
            "Message": 16,
            "Controlcode": 8,
            "Vertexcode": 160,
            "Internalexchangecode": 24,
        },
    ),
    "liveness per tile": (
        lambda r: memory.tile_memory(r, "liveness").series["Not always live"].tolist(),
        [32, 32, 32, 32, 16, 0, 0, 0],
    ),
    "fullest tiles": (
        lambda r: memory.largest_tiles(r, 3).tile_id.tolist(),
        [0, 1, 2],
    ),
    "variables of tile 4": (
        lambda r: [
            (name, int(offset), int(size), bool(always), region)
            for name, offset, size, always, region in zip(
                *(
                    getattr(lowered_variables.tile_variables(r, 4), column)
                    for column in ("name", "offset_bytes", "bytes", "is_always_live", "region")
                ),
                strict=True,
            )
        ],
        [
            ("layer1/conv/exchange", 32, 16, False, "Non-interleaved"),
            ("weights", 400, 40, True, "Non-interleaved"),
        ],
    ),
    "a variable over the tiles": (
        lambda r: lowered_variables.variable_memory(r, 3).tolist(),
        [16, 0, 0, 0, 16, 0, 0, 0],
    ),
    "curve": (
        lambda r: liveness.curve(r).not_always_live_bytes.tolist(),
        [64, 64, 96, 128, 64, 64, 64],
    ),
    "curve of IPU 1": (
        lambda r: liveness.curve(r, ("ipu", 1)).not_always_live_bytes.tolist(),
        [0, 0, 16, 0, 0, 0, 0],
    ),
    "curve of tile 0": (
        lambda r: liveness.curve(r, ("tile", 0)).not_always_live_bytes.tolist(),
        [16, 16, 32, 32, 16, 16, 16],
    ),
    "always live on tile 0": (lambda r: liveness.curve(r, ("tile", 0)).always_live_bytes, 232),
    "peak": (liveness.peak_step, 3),
    "live at 2": (
        lambda r: dict(_named(liveness.step_variables(r, 2))),
        {"in": 64, "layer1/conv/exchange": 32},
    ),
    "live at 2 on IPU 1": (
        lambda r: dict(_named(liveness.step_variables(r, 2, ("ipu", 1)))),
        {"layer1/conv/exchange": 16},
    ),
    "live at the last step of in": (
        lambda r: dict(_named(liveness.step_variables(r, 3))),
        {"in": 64, "act": 64},
    ),
    "shapes": (lambda r: liveness.step_variables(r, 3).shape, ((16,), (4, 8))),
    "always live": (
        lambda r: _named(liveness.always_live_variables(r)),
        [
            ("vertexCode", 1040),
            ("weights", 320),
            ("internalExchangeCode", 192),
            ("controlCode", 64),
        ],
    ),
    "roots": (
        lambda r: [(root.root_kind, root.label) for root in programs.roots(r)],
        [("control", "Sequence (main)"), ("function", "Sequence (unused)")],
    ),
    "children": (
        lambda r: [child.label for child in programs.children(r, 5)],
        ["DoExchange (layer1/relu/exchange)", "OnTileExecute (layer1/relu)"],
    ),
    "a nameless program": (lambda r: programs.node(r, 2).node.label, "Sync"),
    "children of a leaf": (lambda r: programs.children(r, 1), ()),
    "executions of relu": (
        lambda r: [(cost.ipu_id, cost.n_executions) for cost in programs.node(r, 7).costs],
        [(0, 6), (1, 6)],
    ),
    "path": (lambda r: [program.program_id for program in programs.node(r, 7).path], [0, 5]),
    "codelets": (
        lambda r: [(v.vertex_type, v.n_vertices) for v in programs.node(r, 4).vertices],
        [("conv<float>", 6)],
    ),
    "debug contexts": (
        lambda r: [context.layer for context in programs.node(r, 4).debug_contexts],
        ["library", "onnx"],
    ),
    "search": (
        lambda r: [(m.node.program_id, m.ancestors) for m in programs.search(r, "RELU").matches],
        [(6, (0, 5)), (7, (0, 5))],
    ),
    "search by kind": (lambda r: programs.search(r, "streamcopy", 1).n_matches, 2),
    "search for a sign of LIKE": (
        lambda r: [m.node.name for m in programs.search(r, "100%").matches],
        ["out_100%"],
    ),
    "search for an underscore only": (lambda r: programs.search(r, "t_1").n_matches, 1),
    "search for nothing": (lambda r: programs.search(r, "").n_matches, 0),
    "runs": (
        lambda r: [(run.name, run.cycles_by_ipu) for run in runs.runs(r)],
        [("run 0", (485, 440)), ("run 1", (485, 440))],
    ),
    "executions in a run": (
        lambda r: runs.executed(r, 1).step_id.tolist(),
        [0, 1, 2, 3, 4, 5, 4, 5, 4, 5, 6],
    ),
    "starts on IPU 0": (
        lambda r: runs.executed(r, 0).start_cycle[:, 0].tolist(),
        [0, 100, 110, 130, 330, 335, 365, 370, 400, 405, 435],
    ),
    "busy tiles": (
        lambda r: runs.tile_cycles(r, int(runs.executed(r, 0).pattern_id[3, 0])).tolist(),
        [200, 150, 100, 50],
    ),
    "plans": (
        lambda r: [(p.name, p.split) for p in plans(r)],
        [("layer1/conv", {"rows": 6, "inputs": 1})],
    ),
}


def _named(found: liveness.LiveVariables) -> list[tuple[str, int]]:
    return list(zip(found.name, found.bytes.tolist(), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_a_query_has_its_result(small: Report, case: str) -> None:
    ask, expected = CASES[case]
    assert ask(small) == expected
    assert ask(small) == expected  # the second time from memory


BAD_QUESTIONS: dict[str, tuple[Callable[[Report], Any], str]] = {
    "tile": (lambda r: lowered_variables.tile_variables(r, 8), "tiles 0 to 7"),
    "negative tile": (lambda r: memory.memory_table(r, [-1]), "tiles 0 to 7"),
    "ipu": (lambda r: liveness.curve(r, ("ipu", 2)), "ipus 0 to 1"),
    "step": (lambda r: liveness.step_variables(r, 7), "steps 0 to 6"),
    "negative step": (lambda r: liveness.step_program(r, -1), "steps 0 to 6"),
    "program": (lambda r: programs.node(r, 99), "10 programs"),
    "children of no program": (lambda r: programs.children(r, 10), "10 programs"),
    "breakdown": (lambda r: memory.tile_memory(r, "size"), "none, region"),  # type: ignore[arg-type]
    "variable": (lambda r: lowered_variables.variable_memory(r, 4), "variable 4"),
    "run": (lambda r: runs.executed(r, 2), "2 runs"),
    "pattern": (lambda r: runs.tile_cycles(r, 1000), "pattern 1000"),
}


@pytest.mark.parametrize("case", BAD_QUESTIONS)
def test_a_bad_query_states_what_is_allowed(small: Report, case: str) -> None:
    ask, text = BAD_QUESTIONS[case]
    with pytest.raises(BadQuestion, match=text) as error:
        ask(small)
    assert error.value.exit_code == 2


@pytest.mark.parametrize("source", ["all", ("ipu", 0), ("ipu", 1), ("tile", 0), ("tile", 4)])
def test_variables_of_a_step_add_up_to_the_curve(small: Report, source: Source) -> None:
    live = liveness.curve(small, source)
    for step in range(len(live)):
        actual = liveness.step_variables(small, step, source)
        assert actual.total_bytes == live.not_always_live_bytes[step]


@pytest.mark.parametrize("source", ["all", ("ipu", 1), ("tile", 0)])
def test_always_live_rows_add_up(small: Report, source: Source) -> None:
    rows = liveness.always_live_variables(small, source)
    assert rows.total_bytes == liveness.curve(small, source).always_live_bytes


def test_ipus_add_up_to_all_tiles(small: Report) -> None:
    parts = [liveness.curve(small, ("ipu", ipu)).not_always_live_bytes for ipu in range(2)]
    assert np.array_equal(parts[0] + parts[1], liveness.curve(small).not_always_live_bytes)


@pytest.mark.parametrize("breakdown", ["region", "category"])
def test_a_stack_adds_up_to_the_total(small: Report, breakdown: memory.Breakdown) -> None:
    actual = memory.tile_memory(small, breakdown, include_gaps=True)
    assert np.array_equal(sum(actual.series.values()), actual.total_bytes)


def test_columns_of_tiles_add_up_to_all_tiles(small: Report) -> None:
    every = memory.memory_table(small, range(8))
    total = memory.memory_table(small)
    assert every.columns[3] == "Tile 3"
    assert [row.key for row in every.rows] == [row.key for row in total.rows]
    for first, second in zip(every.rows, total.rows, strict=True):
        assert sum(first.bytes) == second.bytes[0]


def test_nested_rows_of_the_table_add_up(small: Report) -> None:
    rows = {row.key: row for row in memory.memory_table(small).rows}
    root = "excluding_gaps/by_category"
    children = [key for key in rows if key.startswith(f"{root}/") and key.count("/") == 2]
    assert len(children) == 2
    assert sum(rows[key].bytes[0] for key in children) == rows[root].bytes[0]
    assert rows[f"{root}/overlapped/message"].depth == 3


def test_summary_shows_the_metrics(small: Report) -> None:
    actual = summarise(small)
    text = {row.key: row for rows in actual.sections.values() for row in rows}
    assert text["total_cycles"].value == METRICS["cycles.total"].compute(small)
    assert text["max_tile_bytes"].text == "280 B"
    assert text["tile_memory_bytes"].value == 1000
    assert text["machine_time_s"].text == "970 ns"
    assert text["compute_cycles"].text == "580 cycles (59.8%)"
    assert actual.milestones == ("created", "compiled", "finished")
    assert [option.name for option in actual.options] == ["autoReport.all"]
    assert actual.notices[0].severity == "warning"


def test_summary_of_a_report_without_runs_says_so(variation: Callable[[Shape], Report]) -> None:
    rows = summarise(variation(Shape(n_runs=0))).execution
    assert [(row.label, row.value) for row in rows] == [("Recorded runs", 0)]


def test_keys_of_a_section_are_distinct(small: Report) -> None:
    for rows in summarise(small).sections.values():
        assert len({row.key for row in rows}) == len(rows)


@pytest.mark.parametrize("text", ["all", "ipu:3", "tile:17"])
def test_sources_read_as_they_are_written(text: str) -> None:
    assert format_source(parse_source(text)) == text


@pytest.mark.parametrize(
    "text", ["", "tile", "tile:", "tile:-1", "ipu:1.5", "all:1", "core:2", "tile:²"]
)
def test_other_sources_are_refused(text: str) -> None:
    with pytest.raises(BadQuestion, match="ipu:N"):
        parse_source(text)
