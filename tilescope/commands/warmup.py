"""``tilescope warmup``: compile kernels ahead."""

from __future__ import annotations

from typing import Annotated

import typer

from tilescope.console import print_json, print_line, progress
from tilescope.parameters import AsJson, examples

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``warmup``."""
    app.command("warmup", epilog=examples("warmup", "warmup --processes 2"))(_warmup)


def _warmup(
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes to compile in; by default one per processor.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile the kernels of the library for later runs, in several processes."""
    from tilescope.engine.session.warmup import warm_up

    with progress("Compiling kernels", after_s=0) as tell:
        done = warm_up(lambda n, total: tell(f"Compiling kernels: {n:,} of {total:,}"), processes)
    if as_json:
        print_json(
            {
                "n_compiled": done.n_compiled,
                "n_kernels": done.n_kernels,
                "folder": done.folder,
                "processor": done.processor,
            }
        )
        return
    kernels = f"{done.n_kernels:,}"
    result = f"compiled {done.n_compiled:,} of {kernels}"
    if not done.n_compiled:
        result = f"all {kernels} were compiled already"
    print_line(f"Kernels for {done.processor}: {result}")
    print_line(done.folder, is_whole=True)
