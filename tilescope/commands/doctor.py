"""``tilescope doctor``: installed packages, machines, and the fidelity of the simulator."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Annotated

import typer

from tilescope.console import Column, print_json, print_line, print_table
from tilescope.parameters import examples

__all__ = ["register"]

#: Distributions whose versions matter in a bug report: base, then extras.
_PACKAGES = (
    "tilescope",
    "numpy",
    "apsw",
    "sqlalchemy",
    "numba",
    "onnx",
    "dash",
    "fastapi",
)


def register(app: typer.Typer) -> None:
    """Add the command ``doctor``."""
    app.command("doctor", epilog=examples("doctor", "doctor --fidelity", "doctor --json"))(_doctor)


def _doctor(
    fidelity: Annotated[
        bool,
        typer.Option(
            "--fidelity",
            help="Compare simulated with published figures, and list what is not modelled.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: raw numbers, units in keys.")
    ] = False,
) -> None:
    """Show installed packages, the kernel cache and the machine presets."""
    if fidelity:
        _fidelity(as_json)
        return
    packages = {name: _version(name) for name in _PACKAGES}
    answer = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": packages,
        "kernel_cache": _kernel_cache(),
        "kernel_cache_problem": _kernel_cache_problem(),
        "machines": _machines(),
    }
    if as_json:
        print_json(answer)
        return
    print_line(f"Python {answer['python']} ({sys.executable}) on {answer['platform']}")
    rows = [(name, version or "not installed") for name, version in packages.items()]
    print_table([Column("Package"), Column("Version")], rows)
    print_line()
    print_line(f"Compiled kernels: {answer['kernel_cache'] or 'none; needs tilescope[engine]'}")
    if answer["kernel_cache_problem"]:
        print_line(f"Not used: {answer['kernel_cache_problem']}")
    print_line()
    columns = [
        Column("Machine"),
        Column("Tiles per IPU", is_number=True),
        Column("Bytes per tile", is_number=True),
        Column("Clock, MHz", is_number=True),
    ]
    print_table(columns, (_machine_row(machine) for machine in _machines()))
    print_line()
    print_line("How far to trust the figures: tilescope doctor --fidelity")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _kernel_cache() -> str | None:
    """Return the directory of compiled kernels of these sources; None without the engine."""
    if find_spec("numba") is None:
        return None
    from tilescope.engine.host.jit.code_files import cache_folder

    return str(cache_folder())


def _kernel_cache_problem() -> str | None:
    """Return why that directory is not used; None if it is, or without the engine."""
    if find_spec("numba") is None:
        return None
    from tilescope.engine.host.jit.code_files import folder_problem

    return folder_problem() or None


def _machines() -> list[dict[str, str | int | float]]:
    from tilescope.engine.machine import load_machine, machine_names

    machines = [load_machine(name) for name in machine_names()]
    return [
        {
            "name": machine.name,
            "n_tiles": machine.tiles_per_ipu,
            "bytes_per_tile": machine.bytes_per_tile,
            "clock_hz": machine.clock_hz,
        }
        for machine in machines
    ]


def _machine_row(machine: dict[str, str | int | float]) -> list[str]:
    return [
        str(machine["name"]),
        f"{machine['n_tiles']:,}",
        f"{machine['bytes_per_tile']:,}",
        f"{float(machine['clock_hz']) / 1e6:,.0f}",
    ]


def _fidelity(as_json: bool) -> None:
    from tilescope.engine.fidelity import packaged_corpus, packaged_rows, score
    from tilescope.engine.fidelity.corpus_text import KIND_COLUMNS
    from tilescope.engine.fidelity.statement import COLUMNS, statement

    rows, corpus = packaged_rows(), packaged_corpus()
    text = statement(rows, corpus)
    if as_json:
        print_json(
            {
                "score": asdict(score(rows)),
                "rows": [asdict(row) for row in rows],
                "fidelity_version": corpus.version,
                "kinds": [asdict(score) for score in corpus.scores],
                "trust": [
                    {"number": number, "trust": trust, "because": because}
                    for number, trust, because in text.trust
                ],
                "not_modelled": list(text.not_modelled),
            }
        )
        return
    numbers = {"Published", "Simulated", "Error", "Tolerance"}
    columns = [*(Column(name, name in numbers) for name in COLUMNS), Column("Counted")]
    texts = [(*row, "yes") for row in text.counted] + [(*row, "") for row in text.shown]
    print_table(columns, texts)
    print_line()
    print_line(text.summary)
    print_line()
    heading = "Further published figures, tested after the cycle laws were set"
    print_table(columns[:-1], text.further, heading)
    print_line(text.further_summary)
    print_line()
    kind_columns = [Column(name, 2 <= index < 6) for index, name in enumerate(KIND_COLUMNS)]
    print_table(kind_columns, text.corpus, "Expected errors by kind of program")
    print_line(text.corpus_summary)
    print_line()
    print_table(
        [Column("Figure"), Column("Expected error"), Column("Reason")],
        text.trust,
        "Expected accuracy",
    )
    print_line()
    print_line("Not modelled:")
    for line in text.not_modelled:
        print_line(f"- {line}")
