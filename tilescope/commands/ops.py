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
    from tilescope.analyser.program.operations import Operation, Operations
    from tilescope.analyser.program.plan_explanation import PlanExplanation
    from tilescope.reports import Report

__all__ = ["register"]


class _Layer(StrEnum):
    """What is listed: calls of a layer, or steps."""

    LIBRARY = "library"
    ONNX = "onnx"
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
            "ops report --layer onnx --json",
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
            typer.Option(help="List library calls, nodes of the ONNX model, or program steps."),
        ] = _Layer.LIBRARY,
        ipu: IpuOption = None,
        run: RunOption = None,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 20,
    ) -> None:
        """List operations with their cost, or explain the time or the plan of one of them."""
        from tilescope.analyser.program.operations import operations
        from tilescope.analyser.program.plan_explanation import explain_plan
        from tilescope.analyser.time.selection import Selection

        if why is not None and (plan is not None or ipu is not None or run is not None):
            raise typer.BadParameter("--why cannot be combined with --plan, --ipu or --run.")
        with reading(path) as report:
            if why is not None:
                _explain_time(report, why, layer, as_json)
                return
            if plan is not None:
                found = explain_plan(report, plan)
                if as_json:
                    print_json(report_json(report) | _plan_json(found))
                else:
                    _print_plan(found, units)
                return
            listed = operations(report, layer.value, Selection(ipu, run))
            if as_json:
                print_json(report_json(report) | _operations_json(listed))
            else:
                _print_operations(report, listed, units, top)


def _operations_json(listed: Operations) -> dict[str, object]:
    """Return every operation, and the totals by kind."""
    return {
        "layer": listed.layer,
        "n_runs": listed.n_runs,
        "total_cycles": listed.total_cycles,
        "operations": [asdict(operation) for operation in listed.operations],
        "kinds": [asdict(kind) for kind in listed.kinds],
    }


def _plan_json(found: PlanExplanation) -> dict[str, object]:
    """Return a plan with its parts."""
    name, kind = found.asked_by
    predicted = {
        part.part: part.predicted_cycles
        for part in found.parts
        if part.predicted_cycles is not None
    }
    return {
        "plan": asdict(found.plan) | {"predicted": predicted},
        "asked_by": {"name": name, "operation": kind} if name else None,
        "n_machine_tiles": found.n_machine_tiles,
        "available_bytes": found.available_bytes,
        "live_bytes": found.live_bytes,
        "compiled_cycles": found.compiled_cycles,
        "compared_cycles": found.compared_cycles,
        "parts": [asdict(part) for part in found.parts],
        "vertices": [asdict(vertex) for vertex in found.vertices],
    }


def _share(part: int, whole: int) -> str:
    """Return a share in percent."""
    return f"{part / whole:.1%}" if whole else "–"


_WHAT = {
    "library": ("library call", "library calls"),
    "onnx": ("node of the model", "nodes of the model"),
    "step": ("step", "steps"),
}


def _print_operations(report: Report, listed: Operations, units: Units, top: int) -> None:
    """Print the most expensive operations, then totals by kind."""
    from tilescope.analyser.quantities import format_runs

    if not listed.operations:
        print_line(
            f"{report.path} lists no operations of the {listed.layer} layer: its graph was built"
            " without library calls, or it was written without a graph profile."
        )
        return
    one, several = _WHAT[listed.layer]
    n_listed = len(listed.operations)
    what = f"1 {one} takes" if n_listed == 1 else f"{n_listed:,} {several} take"
    total = listed.total_cycles
    rest = "; the rest belongs to no operation, such as host copies"
    rest = rest if listed.cycles < total else ""
    print_line(
        f"{what} {listed.cycles:,} of {total:,} cycles"
        f" ({_share(listed.cycles, total)}) {format_runs(listed.n_runs)}{rest}"
    )
    print_line()
    numbers = ("Cycles", "% of total", "FLOPs", "Tiles busy", "Always live", "Temporary", "Code")
    print_table(
        [
            Column("Operation"),
            Column("Call"),
            *(Column(title, is_number=True) for title in numbers),
        ],
        [_row(operation, total, units) for operation in listed.operations[:top]],
    )
    if len(listed.operations) > top:
        print_line(
            f"… {len(listed.operations) - top:,} more; --top N shows more, --json all of them"
        )
    print_line()
    print_table(
        [
            Column("Kind"),
            *(
                Column(title, is_number=True)
                for title in ("Operations", "Cycles", "% of total", "FLOPs")
            ),
        ],
        [
            (
                kind.operation,
                f"{kind.n_operations:,}",
                f"{kind.cycles:,}",
                _share(kind.cycles, total),
                f"{kind.flops:,}",
            )
            for kind in listed.kinds
        ],
    )


def _row(operation: Operation, total: int, units: Units) -> tuple[str, ...]:
    """Return an operation as a row of the table."""
    from tilescope.analyser.quantities import format_bytes

    sizes = (operation.always_live_bytes, operation.temporary_bytes, operation.code_bytes)
    return (
        operation.name,
        operation.operation,
        f"{operation.cycles:,}",
        _share(operation.cycles, total),
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

    found = operation_time(report, find_operation(report, name, layer.value))
    if as_json:
        print_json(report_json(report) | _time_json(found))
        return
    print_line(operation_verdict(found))
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
                for part in found.parts
            ),
            (
                "Sum, cycles",
                f"{found.ideal_cycles:,}",
                f"{found.actual_cycles:,}",
                f"{found.actual_cycles - found.ideal_cycles:,}",
            ),
        ],
    )
    if found.slowest_tiles:
        print_line()
        print_table(
            [
                Column("Slowest tile", is_number=True),
                Column("Compute cycles", is_number=True),
                Column("Times the mean", is_number=True),
            ],
            [
                (f"{tile.tile_id:,}", f"{tile.cycles:,}", f"{tile.times_mean:,.2f}")
                for tile in found.slowest_tiles
            ],
        )
    plan = found.plan
    if plan is not None:
        from tilescope.analyser.program.plan_text import runner_up_words, split_words

        print_line()
        print_line(
            f"Plan of {plan.name}: {plan.family}, {split_words(plan.split)};"
            f" {plan.predicted_cycles:,} cycles predicted. Runner-up: {runner_up_words(plan)}."
        )
    for text in found.advice:
        print_line()
        print_line(text)


def _time_json(found: OperationTime) -> dict[str, object]:
    """Return why an operation takes its time."""
    from tilescope.analyser.advice.operation_time import operation_verdict

    return {
        "name": found.operation.name,
        "operation": found.operation.operation,
        "verdict": operation_verdict(found),
        "n_runs": found.n_runs,
        "total_cycles": found.total_cycles,
        "ideal_cycles": found.ideal_cycles,
        "actual_cycles": found.actual_cycles,
        "parts": [
            asdict(part) | {"label": part.label, "excess_cycles": part.excess_cycles}
            for part in found.parts
        ],
        "bound": found.bound,
        "n_busy_tiles": found.n_busy_tiles,
        "slowest_step_id": found.slowest_step_id,
        "slowest_tiles": [asdict(tile) for tile in found.slowest_tiles],
        "plan": None if found.plan is None else asdict(found.plan),
        "advice": list(found.advice),
    }


def _print_plan(found: PlanExplanation, units: Units) -> None:
    """Print the plan and its bound, then predicted and compiled cycles by part."""
    from tilescope.analyser.program.plan_text import part_rows, plan_facts

    print_line(f"Plan of {found.plan.name}, a {found.plan.operation}")
    rows = [(label, said) for label, texts in plan_facts(found, units.style) for said in texts]
    print_table([Column(""), Column("")], rows)
    print_line()
    columns = ("Predicted cycles", "Compiled cycles", "Difference")
    print_table(
        [Column("Part"), *(Column(title, is_number=True) for title in columns)],
        [(part.label, *part.texts) for part in part_rows(found)],
    )
