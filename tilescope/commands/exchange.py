"""``tilescope exchange``: what moves data, how much, between which tiles, and what it costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

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
    from tilescope.analyser.program.exchanges import Exchange, Exchanges
    from tilescope.reports import Report

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``exchange``."""

    @app.command(
        epilog=examples(
            "exchange report",
            "exchange report --search conv --top 50",
            "exchange report --step 2",
            "exchange report --ipu 0 --run 0 --json",
        )
    )
    def exchange(
        path: ReportPath,
        as_json: AsJson = False,
        search: Annotated[
            str,
            typer.Option("--search", help="Exchanges whose kind and name have these words."),
        ] = "",
        step: Annotated[
            int | None,
            typer.Option("--step", min=0, help="Show one exchange, by step.", show_default=False),
        ] = None,
        ipu: IpuOption = None,
        run: RunOption = None,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 20,
    ) -> None:
        """List exchanges and stream copies: bytes, fragments, tiles, IPUs, code and cycles."""
        from tilescope.analyser.program.exchanges import exchanges
        from tilescope.analyser.time.selection import Selection

        with reading(path) as report:
            listed = exchanges(report, search, Selection(ipu, run))
            if step is not None:
                _show_step(report, listed, step, as_json, units)
            elif as_json:
                print_json(report_json(report) | _as_json(listed))
            else:
                _print(report, listed, units, top)


def _as_json(listed: Exchanges) -> dict[str, object]:
    """Return every exchange."""
    return {
        "n_runs": listed.n_runs,
        "total_cycles": listed.total_cycles,
        "cycles": listed.cycles,
        "exchanges": [asdict(exchange) for exchange in listed.exchanges],
    }


def _print(report: Report, listed: Exchanges, units: Units, top: int) -> None:
    """Print the exchanges that take longest."""
    from tilescope.analyser.quantities import format_bytes

    if not listed.exchanges:
        print_line(f"No exchange or stream copy of {report.path} matches.")
        return
    several = len(listed.exchanges) > 1
    subject = "exchanges and stream copies take" if several else "exchange takes"
    print_line(
        f"{len(listed.exchanges):,} {subject} {listed.cycles:,} of {listed.total_cycles:,} cycles"
        f" ({_share(listed.cycles, listed)})"
        f"{'' if listed.n_runs else ' as compiled (no recorded run)'}"
    )
    print_line()
    numbers = (
        "Step",
        "Cycles",
        "% of total",
        "Executions",
        "Sent",
        "Received",
        "Most on a tile",
        "Fragments",
        "Tiles",
        "Code",
    )
    print_table(
        [
            Column("Exchange"),
            Column("Kind"),
            *(Column(title, is_number=True) for title in numbers),
            Column("IPUs"),
        ],
        [
            (
                exchange.name or exchange.kind,
                exchange.kind,
                f"{exchange.step_id:,}",
                f"{exchange.total_cycles:,}",
                _share(exchange.total_cycles, listed),
                f"{exchange.n_executions:,}",
                format_bytes(exchange.sent_bytes, units.style),
                format_bytes(exchange.received_bytes, units.style),
                format_bytes(
                    max(exchange.max_sent_bytes, exchange.max_received_bytes), units.style
                ),
                f"{exchange.n_fragments:,}",
                f"{exchange.n_active_tiles:,}",
                format_bytes(exchange.code_bytes, units.style),
                _route(exchange),
            )
            for exchange in listed.exchanges[:top]
        ],
    )
    if len(listed.exchanges) > top:
        print_line(f"… {len(listed.exchanges) - top:,} more; --top N shows more, --json all")


def _share(cycles: int, listed: Exchanges) -> str:
    """Return a share of the time."""
    return f"{cycles / listed.total_cycles:.1%}" if listed.total_cycles else "–"


def _route(exchange: Exchange) -> str:
    """Return which IPUs send to which."""
    if not exchange.senders and not exchange.receivers:
        return "host" if exchange.host_bytes or exchange.remote_bytes else ""

    def listed(ipus: tuple[int, ...]) -> str:
        remainder = f" and {len(ipus) - 4} more" if len(ipus) > 4 else ""
        return ", ".join(str(ipu) for ipu in ipus[:4]) + remainder

    return f"{listed(exchange.senders)} to {listed(exchange.receivers)}"


def _show_step(report: Report, listed: Exchanges, step: int, as_json: bool, units: Units) -> None:
    """Print one exchange and its busiest tiles."""
    from tilescope.analyser.errors import BadQuestion
    from tilescope.analyser.program.exchanges import busiest_tiles
    from tilescope.analyser.quantities import format_bytes

    tiles = busiest_tiles(report, step)
    exchange = next(
        (candidate for candidate in listed.exchanges if candidate.step_id == step), None
    )
    if exchange is None:
        raise BadQuestion(f"exchange {step} is not one of those selected by --search or --ipu")
    if as_json:
        print_json(
            report_json(report)
            | {
                "n_runs": listed.n_runs,
                "total_cycles": listed.total_cycles,
                "exchange": asdict(exchange),
                "busiest_tiles": [asdict(tile) for tile in tiles],
            }
        )
        return
    facts = [
        ("Exchange", exchange.name or exchange.kind),
        ("Kind", exchange.kind),
        ("Program", f"{exchange.program_id:,}"),
        ("Cycles of one execution", f"{exchange.cycles:,}"),
        ("Executions", f"{exchange.n_executions:,}"),
        (
            "Cycles in all",
            f"{exchange.total_cycles:,} ({_share(exchange.total_cycles, listed)} of total)",
        ),
        ("Sent", format_bytes(exchange.sent_bytes, units.style)),
        ("Received", format_bytes(exchange.received_bytes, units.style)),
        ("Most sent by a tile", format_bytes(exchange.max_sent_bytes, units.style)),
        ("Most received by a tile", format_bytes(exchange.max_received_bytes, units.style)),
        ("Fragments on the busiest tile", f"{exchange.n_fragments:,}"),
        ("Active tiles", f"{exchange.n_active_tiles:,}"),
        ("From and to the host", format_bytes(exchange.host_bytes, units.style)),
        ("From and to remote buffers", format_bytes(exchange.remote_bytes, units.style)),
        ("Between IPUs", format_bytes(exchange.link_bytes, units.style)),
        ("IPUs", _route(exchange) or "–"),
        ("Exchange code", format_bytes(exchange.code_bytes, units.style)),
    ]
    print_table([Column(""), Column("")], facts)
    if tiles:
        print_line()
        print_table(
            [
                Column("Busiest tiles", is_number=True),
                Column("IPU", is_number=True),
                Column("Cycles", is_number=True),
            ],
            [(f"{tile.tile_id:,}", f"{tile.ipu_id:,}", f"{tile.cycles:,}") for tile in tiles],
        )
