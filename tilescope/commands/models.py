"""`tilescope models`: which trained models there are, and one of them onto this machine."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from engine.models import Model

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command group to the front door."""
    models = typer.Typer(
        help="Trained models to try: list them, fetch one.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    models.command("list")(list_models)
    models.command("fetch")(fetch_model)
    app.add_typer(models, name="models")


def list_models(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the catalogue: size, opset, licence, inputs, and what is here already."""
    from engine.models import all_models, cached

    rows = [(model, cached(model.name) is not None) for model in all_models().values()]
    if as_json:
        print(json.dumps({"models": [_as_dict(*row) for row in rows]}, indent=2))  # noqa: T201
    else:
        _print_table(rows)


def fetch_model(
    name: Annotated[str, typer.Argument(help="Name in the catalogue, such as mnist-8.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of the path.")
    ] = False,
) -> None:
    """Download a model into the user's cache, check its hash, and print its path."""
    from engine.models import companion_paths, fetch

    def tell(line: str) -> None:
        if sys.stderr.isatty():
            print(line, file=sys.stderr)  # noqa: T201

    path = fetch(name, tell=tell)
    if as_json:
        companions = {key: str(value) for key, value in companion_paths(name).items()}
        found = {"name": name, "path": str(path), "companions": companions}
        print(json.dumps(found, indent=2))  # noqa: T201
    else:
        print(path)  # noqa: T201


def _as_dict(model: Model, is_cached: bool) -> dict[str, Any]:
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
        "is_cached": is_cached,
    }


def _print_table(rows: list[tuple[Model, bool]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("Name", no_wrap=True)
    table.add_column("Size", justify="right", no_wrap=True)
    table.add_column("Opset", justify="right")
    table.add_column("Licence", no_wrap=True)
    table.add_column("Inputs", overflow="fold")
    table.add_column("Here")
    table.add_column("Description")
    for model, is_cached in rows:
        inputs = "\n".join(f"{e.dtype} {'×'.join(map(str, e.shape))}" for e in model.inputs)
        table.add_row(
            model.name,
            f"{model.size_bytes / 1024:,.0f} KiB",
            str(model.opset),
            model.licence or "not stated",
            Text(inputs),
            "yes" if is_cached else "",
            model.description,
        )
    # A pipe has no width; lines are not broken there.
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    console.print(table)
