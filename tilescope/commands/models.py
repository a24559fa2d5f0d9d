"""``tilescope models``: list and fetch trained models, check one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.completion import complete_model
from tilescope.console import Column, print_json, print_line, print_table
from tilescope.parameters import AsJson, examples
from tilescope.run_arguments import (
    BatchOption,
    MachineOption,
    PrecisionOption,
    SettingOption,
    ShapeOption,
    settings_of,
    shapes_of,
)

if TYPE_CHECKING:
    from tilescope.engine.models import Model

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands ``models list``, ``models fetch`` and ``models check``."""
    models = typer.Typer(
        help="List and fetch trained models; check a model before it runs.", no_args_is_help=True
    )
    models.command("list", epilog=examples("models list", "models list --json"))(_list)
    models.command("fetch", epilog=examples("models fetch mnist-8"))(_fetch)
    models.command(
        "check",
        epilog=examples(
            "models check model.onnx",
            "models check model.onnx --batch 8 --precision half --machine bow",
        ),
    )(_check)
    app.add_typer(models, name="models")


def _list(as_json: AsJson = False) -> None:
    """List the catalogue: size, opset, licence, inputs, support and cache status."""
    from tilescope.engine.models import all_models, cached

    rows = [(model, cached(model.name) is not None) for model in all_models().values()]
    if as_json:
        print_json({"models": [_as_dict(model, is_cached) for model, is_cached in rows]})
        return
    columns = [
        Column("Name"),
        Column("Bytes", is_number=True),
        Column("Opset", is_number=True),
        Column("Licence"),
        Column("Inputs"),
        Column("Supported"),
        Column("Cached"),
        Column("Description"),
    ]
    print_table(columns, (_as_row(model, is_cached) for model, is_cached in rows))


def _fetch(
    name: Annotated[
        str,
        typer.Argument(
            help="Name in the catalogue, such as mnist-8.", autocompletion=complete_model
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Download a model into the user's cache, verify its hash, and print its path."""
    from tilescope.engine.models import companion_paths, fetch

    path = fetch(name, tell=_print_status)
    if as_json:
        companions = {saved_as: str(place) for saved_as, place in companion_paths(name).items()}
        print_json({"name": name, "path": str(path), "companions": companions})
    else:
        print_line(str(path), is_whole=True)


def _check(
    model: Annotated[Path, typer.Argument(help="ONNX file.", show_default=False)],
    machine: MachineOption = "gc200",
    shape: ShapeOption = None,
    batch: BatchOption = None,
    setting: SettingOption = None,
    precision: PrecisionOption = "float",
    as_json: AsJson = False,
) -> None:
    """Say whether a model would run, and what it takes, without reading its weights.

    Exit code 1 if something speaks against a run.
    """
    from tilescope.engine.frontend.onnx.census import take_census
    from tilescope.engine.machine import load_machine
    from tilescope.model_check import print_check, print_check_json

    simulated = load_machine(machine)
    values = settings_of(setting or [])
    census = take_census(model, shapes_of(shape or []), batch, precision, values)
    show = print_check_json if as_json else print_check
    if not show(census, simulated, model, precision):
        raise typer.Exit(1)


def _print_status(line: str) -> None:
    """Print a status line on a terminal only."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr)  # noqa: T201


def _as_row(model: Model, is_cached: bool) -> list[str]:
    inputs = (f"{entry.dtype} {'×'.join(map(str, entry.shape))}" for entry in model.inputs)
    return [
        model.name,
        f"{model.size_bytes:,}",
        str(model.opset),
        model.licence or "not stated",
        ", ".join(inputs),
        "yes" if model.runs else "not yet",
        "yes" if is_cached else "",
        model.description,
    ]


def _as_dict(model: Model, is_cached: bool) -> dict[str, object]:
    return {
        "name": model.name,
        "description": model.description,
        "package": model.package,
        "version": model.version,
        "path": model.path,
        "sha256": model.sha256,
        "size_bytes": model.size_bytes,
        "licence": model.licence,
        "opset": model.opset,
        "inputs": [
            {"name": entry.name, "dtype": entry.dtype, "shape": list(entry.shape)}
            for entry in model.inputs
        ],
        "runs": model.runs,
        "is_cached": is_cached,
    }
