"""``tilescope ops``: cost of every operation, or why one of them takes its time, or its plan."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.completion import complete_plan
from tilescope.console import Column, print_json, print_line, print_table, reading, report_json
from tilescope.parameters import (
    AsJson,
    IpuOption,
    ReportPath,
    RunOption,
    TopOption,
    Units,
    UnitsOption,
    examples,
)

if TYPE_CHECKING:
    from tilescope.analyser.advice.operation_time import OperationTime
    from tilescope.analyser.advice.trust import ReportTrust
    from tilescope.analyser.program.operations import Operation, Operations
    from tilescope.analyser.program.plan_explanation import PlanExplanation
    from tilescope.reports import Report

__all__ = ["register"]


class _Pass(StrEnum):
    """A pass of a training step; its operations alone are listed."""

    FORWARD = "forward"
    RECOMPUTATION = "recomputation"
    DATA_GRADIENT = "data-gradient"
    WEIGHT_GRADIENT = "weight-gradient"
    WEIGHT_UPDATE = "weight-update"

    @property
    def code(self) -> str:
        """Its name in reports."""
        return self.value.replace("-", " ")


class _Layer(StrEnum):
    """What is listed: calls of a layer, or steps."""

    LIBRARY = "library"
    MODEL = "model"
    STEP = "step"


def register(app: typer.Typer) -> None:
    """Add the command ``ops``."""

    @app.command(
        epilog=examples(
            "ops report",
            "ops report --layer step --top 50",
            "ops report --ipu 0 --run 0",
            "ops report --why conv1",
            "ops report --plan conv1",
            "ops report --layer model --json",
        )
    )
    def ops(
        path: ReportPath,
        as_json: AsJson = False,
        plan: Annotated[
            str | None,
            typer.Option(
                "--plan",
                metavar="NAME",
                help="Explain the plan of a convolution or product, by the name of the operation or"
                " of the model's node.",
                show_default=False,
                autocompletion=complete_plan,
            ),
        ] = None,
        why: Annotated[
            str | None,
            typer.Option(
                "--why",
                metavar="NAME",
                help="Explain why an operation takes its time: ideal beside actual cycles, its"
                " slowest tiles, what would help.",
                show_default=False,
            ),
        ] = None,
        layer: Annotated[
            _Layer,
            typer.Option(help="List library calls, nodes of the model, or program steps."),
        ] = _Layer.LIBRARY,
        training_pass: Annotated[
            _Pass | None,
            typer.Option(
                "--pass",
                help="List the operations of one pass of a training step.",
                show_default=False,
            ),
        ] = None,
        stage: Annotated[
            str | None,
            typer.Option(
                "--stage",
                metavar="NAME",
                help="List the operations of one stage of a pipeline, such as 'backward 0'.",
                show_default=False,
            ),
        ] = None,
        ipu: IpuOption = None,
        run: RunOption = None,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 20,
    ) -> None:
        """List operations with their cost, or explain the time or the plan of one of them."""
        from tilescope.analyser.advice.trust import report_trust
        from tilescope.analyser.program.operations import operations
        from tilescope.analyser.program.plan_explanation import explain_plan
        from tilescope.analyser.time.selection import Selection
        from tilescope.corpus_trust import packaged_trust

        others = (plan, ipu, run, training_pass, stage)
        if why is not None and any(other is not None for other in others):
            raise typer.BadParameter(
                "--why cannot be combined with --plan, --pass, --stage, --ipu or --run."
            )
        with reading(path) as report:
            if why is not None:
                _explain_time(report, why, layer, as_json)
                return
            if plan is not None:
                explanation = explain_plan(report, plan)
                if as_json:
                    print_json(report_json(report) | _plan_json(explanation))
                else:
                    _print_plan(explanation, units)
                return
            listed = operations(report, layer.value, Selection(ipu, run))
            if training_pass is not None:
                _check_training(report, listed)
                listed = listed.of_pass(training_pass.code)
            if stage is not None:
                _check_stage(report, stage)
                listed = listed.of_stage(stage)
            trust = report_trust(report, packaged_trust(), layer.value)
            if as_json:
                print_json(report_json(report) | _operations_json(listed, trust))
            else:
                _print_operations(report, listed, trust, units, top)


def _check_training(report: Report, listed: Operations) -> None:
    """Refuse a pass of a program that has none."""
    if not listed.has_training:
        raise typer.BadParameter(
            f"{report.path} is not of a training: none of its operations belongs to a pass; leave"
            " out --pass."
        )


def _check_stage(report: Report, name: str) -> None:
    """Refuse a stage that a program does not have."""
    from tilescope.analyser.program.stages import pipeline

    found = pipeline(report)
    if found is None:
        raise typer.BadParameter(
            f"{report.path} is not of a pipeline: none of its operations belongs to a stage; leave"
            " out --stage."
        )
    names = [stage.name for stage in found.stages]
    if name not in names:
        raise typer.BadParameter(f"unknown stage '{name}'; use {', '.join(names)}.")


def _operations_json(listed: Operations, trust: ReportTrust) -> dict[str, object]:
    """Return every operation, the totals by kind, and their expected errors."""
    return {
        "layer": listed.layer,
        **({} if listed.only_pass is None else {"pass": listed.only_pass}),
        "n_runs": listed.n_runs,
        "total_cycles": listed.total_cycles,
        "operations": [asdict(operation) for operation in listed.operations],
        "kinds": [asdict(kind) for kind in listed.kinds],
        "trust": {"notes": trust.notes, "expected_errors": trust.of_calls(listed)},
    }


def _plan_json(explanation: PlanExplanation) -> dict[str, object]:
    """Return a plan with its parts."""
    name, kind = explanation.asked_by
    predicted = {
        part.part: part.predicted_cycles
        for part in explanation.parts
        if part.predicted_cycles is not None
    }
    return {
        "plan": asdict(explanation.plan) | {"predicted": predicted},
        "asked_by": {"name": name, "operation": kind} if name else None,
        "n_machine_tiles": explanation.n_machine_tiles,
        "available_bytes": explanation.available_bytes,
        "live_bytes": explanation.live_bytes,
        "compiled_cycles": explanation.compiled_cycles,
        "compared_cycles": explanation.compared_cycles,
        "parts": [asdict(part) for part in explanation.parts],
        "vertices": [asdict(vertex) for vertex in explanation.vertices],
    }


def _share(part: int, total: int) -> str:
    """Return a share in percent."""
    return f"{part / total:.1%}" if total else "–"


_WHAT = {
    "library": ("library call", "library calls"),
    "model": ("node of the model", "nodes of the model"),
    "step": ("step", "steps"),
}


def _print_operations(
    report: Report, listed: Operations, trust: ReportTrust, units: Units, top: int
) -> None:
    """Print the most expensive operations, then totals by kind with expected errors."""
    from tilescope.analyser.quantities import format_runs

    if not listed.operations and listed.only_pass is not None:
        plural = _WHAT[listed.layer][1]
        print_line(f"{report.path} lists no {plural} of the pass {listed.only_pass}.")
        return
    if not listed.operations:
        print_line(
            f"{report.path} lists no operations of the {listed.layer} layer: its graph was built"
            " without library calls, or it was written without a graph profile."
        )
        return
    singular, plural = _WHAT[listed.layer]
    n_listed = len(listed.operations)
    subject = f"1 {singular} takes" if n_listed == 1 else f"{n_listed:,} {plural} take"
    total = listed.total_cycles
    rest = "; the rest belongs to no operation, such as host copies"
    rest = rest if listed.cycles < total and listed.only_pass is None else ""
    print_line(
        f"{subject} {listed.cycles:,} of {total:,} cycles"
        f" ({_share(listed.cycles, total)}) {format_runs(listed.n_runs)}{rest}"
    )
    print_line()
    numbers = ("Cycles", "% of total", "FLOPs", "Tiles busy", "Always live", "Temporary", "Code")
    of_training = [Column("Pass")] if listed.has_training else []
    has_type = any(operation.dtype for operation in listed.operations)
    print_table(
        [
            Column("Operation"),
            Column("Call"),
            *([Column("Type")] if has_type else []),
            *of_training,
            *([Column("IPU", is_number=True)] if listed.has_ipus else []),
            *([Column("Stage")] if listed.has_stages else []),
            *(Column(title, is_number=True) for title in numbers),
        ],
        [
            _row(operation, listed, units, has_type=has_type)
            for operation in listed.operations[:top]
        ],
    )
    if len(listed.operations) > top:
        print_line(
            f"… {len(listed.operations) - top:,} more; --top N shows more, --json all of them"
        )
    errors = trust.of_calls(listed)
    print_line()
    print_table(
        [
            Column("Kind"),
            *(
                Column(title, is_number=True)
                for title in ("Operations", "Cycles", "% of total", "FLOPs")
            ),
            Column("Expected error"),
        ],
        [
            (
                kind.operation,
                f"{kind.n_operations:,}",
                f"{kind.cycles:,}",
                _share(kind.cycles, total),
                f"{kind.flops:,}",
                errors[kind.operation],
            )
            for kind in listed.kinds
        ],
    )
    print_line(" ".join(trust.notes))


def _row(
    operation: Operation, listed: Operations, units: Units, *, has_type: bool
) -> tuple[str, ...]:
    """Return an operation as a row of the table."""
    from tilescope.analyser.program.training import pass_label
    from tilescope.analyser.quantities import format_bytes

    sizes = (operation.always_live_bytes, operation.temporary_bytes, operation.code_bytes)
    return (
        operation.name,
        operation.operation,
        *([operation.dtype or "–"] if has_type else []),
        *([pass_label(operation.training_pass)] if listed.has_training else []),
        *(["–" if operation.ipu_id is None else str(operation.ipu_id)] if listed.has_ipus else []),
        *([operation.stage or "–"] if listed.has_stages else []),
        f"{operation.cycles:,}",
        _share(operation.cycles, listed.total_cycles),
        f"{operation.flops:,}",
        "–" if operation.utilisation is None else f"{operation.utilisation:.1%}",
        *(format_bytes(size, units.style) for size in sizes),
    )


def _explain_time(report: Report, name: str, layer: _Layer, as_json: bool) -> None:
    """Print why an operation takes its time."""
    from tilescope.analyser.advice.operation_time import (
        find_operation,
        operation_time,
        operation_verdict,
    )

    operation = operation_time(report, find_operation(report, name, layer.value))
    if as_json:
        print_json(report_json(report) | _time_json(operation))
        return
    print_line(operation_verdict(operation))
    for line in _links(report, operation):
        print_line(line)
    print_line()
    print_table(
        [
            Column("Part"),
            *(Column(title, is_number=True) for title in ("Ideal", "Actual", "Above ideal")),
        ],
        [
            *(
                (
                    part.label,
                    f"{part.ideal_cycles:,}",
                    f"{part.actual_cycles:,}",
                    f"{part.excess_cycles:,}",
                )
                for part in operation.parts
            ),
            (
                "Sum, cycles",
                f"{operation.ideal_cycles:,}",
                f"{operation.actual_cycles:,}",
                f"{operation.actual_cycles - operation.ideal_cycles:,}",
            ),
        ],
    )
    if operation.slowest_tiles:
        print_line()
        print_table(
            [
                Column("Slowest tile", is_number=True),
                Column("Compute cycles", is_number=True),
                Column("Times the mean", is_number=True),
            ],
            [
                (f"{tile.tile_id:,}", f"{tile.cycles:,}", f"{tile.times_mean:,.2f}")
                for tile in operation.slowest_tiles
            ],
        )
    plan = operation.plan
    if plan is not None:
        from tilescope.analyser.program.plan_text import runner_up_words, split_words

        print_line()
        print_line(
            f"Plan of {plan.name}: {plan.family}, {split_words(plan.split)};"
            f" {plan.predicted_cycles:,} cycles predicted. Runner-up: {runner_up_words(plan)}."
        )
    for text in operation.advice:
        print_line()
        print_line(text)


def _links(report: Report, operation: OperationTime) -> list[str]:
    """Return how an operation belongs to others in a training step."""
    from tilescope.analyser.program.training import origin_words, place_of

    place = place_of(report, operation.operation.debug_context_id)
    if place is None:
        return []
    if place.origin is not None:
        words = origin_words(place.training_pass, place.origin.name)
        return [f"It belongs to the {words}."]
    if place.gradients:
        names = ", ".join(dict.fromkeys(context.name for context in place.gradients))
        return [f"Its gradients: {names}."]
    return []


def _time_json(operation: OperationTime) -> dict[str, object]:
    """Return why an operation takes its time."""
    from tilescope.analyser.advice.operation_time import operation_verdict

    return {
        "name": operation.operation.name,
        "operation": operation.operation.operation,
        "verdict": operation_verdict(operation),
        "n_runs": operation.n_runs,
        "total_cycles": operation.total_cycles,
        "ideal_cycles": operation.ideal_cycles,
        "actual_cycles": operation.actual_cycles,
        "parts": [
            asdict(part) | {"label": part.label, "excess_cycles": part.excess_cycles}
            for part in operation.parts
        ],
        "bound": operation.bound,
        "n_busy_tiles": operation.n_busy_tiles,
        "slowest_step_id": operation.slowest_step_id,
        "slowest_tiles": [asdict(tile) for tile in operation.slowest_tiles],
        "plan": None if operation.plan is None else asdict(operation.plan),
        "advice": list(operation.advice),
    }


def _print_plan(explanation: PlanExplanation, units: Units) -> None:
    """Print the plan and its bound, then predicted and compiled cycles by part."""
    from tilescope.analyser.program.plan_text import part_rows, plan_facts

    print_line(f"Plan of {explanation.plan.name}, a {explanation.plan.operation}")
    rows = [
        (label, text) for label, texts in plan_facts(explanation, units.style) for text in texts
    ]
    print_table([Column(""), Column("")], rows)
    print_line()
    columns = ("Predicted cycles", "Compiled cycles", "Difference")
    print_table(
        [Column("Part"), *(Column(title, is_number=True) for title in columns)],
        [(part.label, *part.texts) for part in part_rows(explanation)],
    )
