"""Plans of operations that share a name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilescope import engine
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.program.plan_explanation import explain_plan
from tilescope.analyser.program.plans import plans
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.program import Sequence
from tilescope.reports import open_report
from tilescope.reports.schema import debug_context


@pytest.mark.parametrize("names", [("matmul", "matmul"), ("first", "second")])
def test_a_name_of_several_plans_is_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=16))
    builder = engine.Builder(graph, Sequence("main"))
    for name, size in zip(names, (8, 24), strict=True):
        operands = [graph.add_variable("float32", (1, size, size), side) for side in "ab"]
        for operand in operands:
            graph.map_linearly(operand)
        matmul(builder, operands[0], operands[1], name)
    requested = json.dumps({"autoReport.all": "true", "autoReport.directory": str(tmp_path)})
    options = engine.resolve_options(environ={"POPLAR_ENGINE_OPTIONS": requested})
    executable = engine.compile_programs(graph, [builder.sequence], plans=builder.plans)
    engine.Engine(executable, options).close()
    with open_report(tmp_path / "profile.pop") as report:
        if names[0] == names[1]:
            with pytest.raises(BadQuestion, match="2 products or convolutions are called 'matmul'"):
                explain_plan(report, "matmul")
            for plan, size in zip(plans(report), (24, 8), strict=True):  # longest first
                details = dict(report.rows(debug_context, "debug_context_id", "detail"))
                detail = details[plan.debug_context_id]
                assert json.loads(detail)["a"] == [1, size, size]
        else:
            assert [explain_plan(report, name).plan.name for name in names] == [*names]
