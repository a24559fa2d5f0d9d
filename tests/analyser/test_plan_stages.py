"""The report records the plan and stage of every step, independent of names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilescope import engine
from tilescope.analyser.program.plan_explanation import explanation
from tilescope.analyser.program.plans import plans
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.program import Sequence
from tilescope.reports import check_report, open_report
from tilescope.reports.schema import plan_stage, step


def _report(tmp_path: Path, *names: str) -> Path:
    """Write the report of products with these names, all split into two serial parts."""
    graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=16))
    builder = engine.Builder(graph, Sequence("main"))
    for name in names:
        operands = [graph.add_variable("float32", (1, 32, 32), side) for side in "ab"]
        for operand in operands:
            graph.map_linearly(operand)
        matmul(builder, operands[0], operands[1], name, split={"serial outputs": 2})
    executable = engine.compile_programs(graph, [builder.sequence], plans=builder.plans)
    options = {"autoReport.all": True, "autoReport.directory": str(tmp_path)}
    engine.Engine(executable, engine.resolve_options(code=options)).close()
    return tmp_path / "profile.pop"


@pytest.mark.parametrize("names", [("product",), ("serial0", "serial0"), ("a/convolve", "reduce")])
def test_every_step_of_a_plan_names_its_stage_and_part(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    path = _report(tmp_path, *names)
    assert check_report(path) == []
    with open_report(path) as report:
        stages = report.rows(plan_stage, "plan_stage_id", "plan_id", "name")
        stage = {stage_id: (plan_id, name) for stage_id, plan_id, name in stages}
        rows = [
            (*stage[stage_id], part, kind)
            for stage_id, part, kind in report.rows(step, "plan_stage_id", "plan_part", "kind")
            if stage_id is not None
        ]
        for plan_id in range(len(names)):
            local = [row[1:] for row in rows if row[0] == plan_id]
            for part in range(2):
                assert [row for row in local if row[0] == "compute" and row[1] == part] == [
                    ("compute", part, "OnTileExecute")
                ]
            assert {name for name, part, _ in local if part is not None} >= {"compute", "update"}
        costs = [
            {part.part: part.compiled_cycles for part in explanation(report, plan).parts}
            for plan in plans(report)
        ]
    assert len(costs) == len(names)
    assert all(cost == costs[0] for cost in costs), "equal products cost the same"
    assert costs[0]["compute"]
