"""``tilescope models``: list and fetch trained models, check and cut one's own."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.completion import complete_model
from tilescope.console import Column, print_json, print_line, print_table, progress
from tilescope.parameters import AsJson, examples
from tilescope.run_arguments import (
    BatchOption,
    DimOption,
    MachineOption,
    OperatorsOption,
    PrecisionOption,
    SettingOption,
    ShapeOption,
    dims_of,
    load_operator_files,
    settings_of,
    shapes_of,
)

if TYPE_CHECKING:
    from tilescope.engine.models import Model

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands ``models list``, ``models fetch`` and ``models check``."""
    models = typer.Typer(
        help="List and fetch trained models; check a model before it runs, cut a part out of it.",
        no_args_is_help=True,
    )
    models.command("list", epilog=examples("models list", "models list --json"))(_list)
    models.command("fetch", epilog=examples("models fetch mnist-8"))(_fetch)
    models.command(
        "check",
        epilog=examples(
            "models check model.onnx",
            "models check model.onnx --batch 8 --precision half --machine bow",
            "models check model.onnx --compile",
        ),
    )(_check)
    models.command(
        "cut",
        epilog=examples(
            "models cut model.onnx --to /backbone/Relu --output part.onnx",
            "models cut model.onnx --from embedding --to logits --output part.onnx",
        ),
    )(_cut)
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
    operators: OperatorsOption = None,
    shape: ShapeOption = None,
    dim: DimOption = None,
    batch: BatchOption = None,
    setting: SettingOption = None,
    precision: PrecisionOption = "float",
    is_compiled: Annotated[
        bool,
        typer.Option(
            "--compile", help="Compile the model, which says for sure whether it fits a machine."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say whether a model would run, and what it takes, without reading its weights.

    Exit code 1 if something speaks against a run.
    """
    from tilescope.engine.frontend.onnx.facts.census import take_census
    from tilescope.engine.machine import load_machine
    from tilescope.model_check import print_check, print_check_json

    load_operator_files(operators)
    simulated = load_machine(machine)
    values = settings_of(setting or [])
    dims = dims_of(dim or [])
    census = take_census(model, shapes_of(shape or []), batch, precision, values, dims)
    flags = [
        *(("--machine", machine) if machine != "gc200" else ()),
        *(word for path in operators or () for word in ("--operators", str(path))),
        *(word for text in shape or () for word in ("--shape", text)),
        *(word for text in dim or () for word in ("--dim", text)),
        *(("--batch", str(batch)) if batch is not None else ()),
        *(word for text in setting or () for word in ("--set", text)),
        *(("--precision", precision) if precision != "float" else ()),
    ]
    fit = None
    if is_compiled and not census.missing and not census.to_set and not census.problem:
        from tilescope.engine.frontend.onnx.onnx_file import OnnxFile
        from tilescope.engine.frontend.source_model import Setup
        from tilescope.engine.session.fit import compile_fit

        setup = Setup(shapes_of(shape or []), batch, values, precision, None, dims)
        with progress("Compiling"):
            fit = compile_fit(OnnxFile(model), simulated, setup)
    show = print_check_json if as_json else print_check
    if not show(census, simulated, model, precision, flags, fit):
        raise typer.Exit(1)


def _cut(
    model: Annotated[Path, typer.Argument(help="ONNX file.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", help="File for the part.", show_default=False)
    ],
    first: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="NAME",
            help="Tensor that becomes an input, or node to begin with; repeatable; by default the"
            " inputs of the model.",
            show_default=False,
        ),
    ] = None,
    last: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="NAME",
            help="Tensor that becomes an output, or node to end with; repeatable; by default the"
            " outputs of the model.",
            show_default=False,
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Cut a part out of a model, from some tensors or nodes to others, weights included."""
    from tilescope.engine.frontend.onnx.source.cut import cut_model

    if output.exists() and not replace:
        raise typer.BadParameter(f"{output} exists; name another file, or add --replace")
    part = cut_model(model, first or [], last or [])
    _write(output, part.SerializeToString())
    names = {
        "inputs": [info.name for info in part.graph.input],
        "outputs": [info.name for info in part.graph.output],
    }
    if as_json:
        print_json({"path": str(output), "n_nodes": len(part.graph.node), **names})
        return
    print_line(f"{len(part.graph.node):,} nodes: {output}", is_whole=True)
    for side, listed in names.items():
        print_line(f"{side.capitalize()}: {', '.join(listed)}")
    print_line(f"Next: tilescope models check {shlex.quote(str(output))}", is_whole=True)


def _write(path: Path, content: bytes) -> None:
    """Write a file in one step; on failure an existing one stays as it is."""
    partial = path.with_name(f".{path.name}.part")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}") from None


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
