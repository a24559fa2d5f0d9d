"""The time that replicas take for their sums."""

from __future__ import annotations

from pathlib import Path

from tests.engine.test_data_parallel import data, network

from tilescope import analyser
from tilescope.analyser.advice.time_insights import time_insights
from tilescope.analyser.program.contexts import enclosing
from tilescope.analyser.program.program_tree import all_programs
from tilescope.analyser.summary.stage_figures import collective_cycles, ipu_times
from tilescope.analyser.summary.summarise import summarise
from tilescope.analyser.time.execution import execution
from tilescope.engine import load_machine, resolve_options
from tilescope.engine.session.trainer import Trainer
from tilescope.engine.training import Loss, Sgd, for_training


def test_sums_of_replicas_are_counted_and_named(tmp_path: Path) -> None:
    machine = load_machine("gc200", n_replicas=2, tiles_per_ipu=8)
    model = for_training(network(), Loss(kind="cross-entropy"), Sgd(lr=0.1), n_replicas=2)
    x, labels = data(2, 4)
    code = {"autoReport.all": True, "autoReport.directory": str(tmp_path)}
    options = resolve_options(environ={}, code=code)
    with Trainer(model, machine, options) as trainer:
        trainer.step({"x": x, "labels": labels})
    with analyser.open(tmp_path) as report:
        cycles = execution(report).critical_cycles.sum(axis=0)
        expected = sum(
            int(cycles[program.step_id])
            for program in all_programs(report).values()
            if program.step_id is not None
            and any(
                context.operation.startswith("gcl.")
                for context in enclosing(report, program.debug_context_id)
            )
        )
        assert collective_cycles(report) == expected > 0
        (ipu,) = ipu_times(report)
        assert ipu.collective_cycles == expected
        insight = next(row for row in time_insights(report).found if row.kind == "collectives")
        assert insight.cost_cycles == expected
        rows = {row.key: row.value for row in summarise(report).sections["Replicas"]}
        assert (rows["n_replicas"], rows["collective_cycles"]) == (2, expected)
