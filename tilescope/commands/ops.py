"""``tilescope ops``: cost of every operation, or the plan of one of them."""

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
    from tilescope.analyser.operations import Operation, Operations
    from tilescope.analyser.plan_explanation import PlanExplanation
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
        layer: Annotated[
            _Layer,
            typer.Option(help="List library calls, nodes of the ONNX model, or program steps."),
        ] = _Layer.LIBRARY,
        ipu: IpuOption = None,
        run: RunOption = None,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 20,
    ) -> None:
        """List operations with their cost, or explain the plan of one of them."""
        from tilescope.analyser.operations import operations
        from tilescope.analyser.plan_explanation import explain_plan
        from tilescope.analyser.selection import Selection

        with reading(path) as report:
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
    runs = "1 recorded run" if listed.n_runs == 1 else f"{listed.n_runs:,} recorded runs"
    when = f"in {runs}" if listed.n_runs else "as compiled (no recorded run)"
    rest = "; the rest belongs to no operation, such as host copies"
    rest = rest if listed.cycles < total else ""
    print_line(
        f"{what} {listed.cycles:,} of {total:,} cycles"
        f" ({_share(listed.cycles, total)}) {when}{rest}"
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


def _print_plan(found: PlanExplanation, units: Units) -> None:
    """Print the plan and its bound, then predicted and compiled cycles by part."""
    from tilescope.analyser.plan_text import part_rows, plan_facts

    print_line(f"Plan of {found.plan.name}, a {found.plan.operation}")
    rows = [(label, said) for label, texts in plan_facts(found, units.style) for said in texts]
    print_table([Column(""), Column("")], rows)
    print_line()
    columns = ("Predicted cycles", "Compiled cycles", "Difference")
    print_table(
        [Column("Part"), *(Column(title, is_number=True) for title in columns)],
        [(part.label, *part.texts) for part in part_rows(found)],
    )
