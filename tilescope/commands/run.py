"""``tilescope run``: compile a model, run it, write its report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import clean, print_line

if TYPE_CHECKING:
    from tilescope.engine.session.model_run import ModelRun

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``run``."""

    @app.command()
    def run(
        model: Annotated[Path, typer.Argument(help="An ONNX file.", show_default=False)],
        machine: Annotated[
            str, typer.Option(help="A preset (gc2, gc200, bow, c600) or a machine file (TOML).")
        ] = "gc200",
        parameters: Annotated[
            str, typer.Option(help="Parameter set of the machine: hardware or ipu_model.")
        ] = "hardware",
        ipus: Annotated[int, typer.Option(help="Number of IPUs, 1 to 64.")] = 1,
        tiles: Annotated[
            int | None, typer.Option(help="Tiles of an IPU, if not all.", show_default=False)
        ] = None,
        inputs: Annotated[
            Path | None,
            typer.Option(
                help="Inputs by name, an .npz file; those it lacks are random.", show_default=False
            ),
        ] = None,
        outputs: Annotated[
            Path | None,
            typer.Option(help="Where to write the outputs, an .npz file.", show_default=False),
        ] = None,
        seed: Annotated[int, typer.Option(min=0, help="Seed of random inputs.")] = 0,
        iterations: Annotated[int, typer.Option(min=1, help="How many times to run.")] = 1,
        report: Annotated[
            Path | None,
            typer.Option(
                help="Directory of the report; ./report if not given.",
                show_default=False,
                parser=_directory,
                metavar="<path>",
            ),
        ] = None,
        no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
        cache: Annotated[
            Path | None,
            typer.Option(
                help="Directory of compiled executables, made if need be: what is compiled is kept"
                " there, and taken from there the next time.",
                show_default=False,
                parser=_directory,
                metavar="<path>",
            ),
        ] = None,
        shape: Annotated[
            list[str] | None,
            typer.Option(
                help="Sizes of an input with open dimensions, as name=d0,d1; repeat for several.",
                show_default=False,
            ),
        ] = None,
        available_memory_proportion: Annotated[
            float | None,
            typer.Option(
                help="Share of a tile's memory that a convolution or product may take while it"
                " runs, above 0 and up to 1; 0.6 if not given. Less memory may take more cycles.",
                show_default=False,
            ),
        ] = None,
        option: Annotated[
            list[str] | None,
            typer.Option(
                help="Engine option, as KEY=VALUE; repeatable. POPLAR_ENGINE_OPTIONS takes"
                " precedence.",
                show_default=False,
            ),
        ] = None,
    ) -> None:
        """Run an ONNX model on the simulated machine and profile it."""
        from tilescope.engine.host_memory import within_available
        from tilescope.engine.machine import load_machine
        from tilescope.engine.options import resolve
        from tilescope.engine.session.model_run import read_inputs, run_model, write_outputs

        if no_report and report is not None:
            raise typer.BadParameter("--report and --no-report exclude each other")
        flags: dict[str, dict[str, object]] = {}
        if no_report:
            flags["--no-report"] = {"autoReport.all": False}
        elif report is not None:
            flags["--report"] = {"autoReport.all": True, "autoReport.directory": str(report)}
        if available_memory_proportion is not None:
            flags["--available-memory-proportion"] = _memory(available_memory_proportion)
        if cache is not None:
            flags["--cache"] = {"enableEngineCaching": True, "cachePath": str(cache)}
        asked = _options(option or [], flags)
        usual = {"autoReport.all": True, "autoReport.directory": "report"}
        options = resolve(command_line=asked, code=usual)
        simulated = load_machine(
            machine, n_ipus=ipus, tiles_per_ipu=tiles, parameter_set=parameters
        )
        with _progress() as progress, within_available():
            done = run_model(
                model,
                simulated,
                options,
                inputs=None if inputs is None else read_inputs(inputs),
                shapes=_shapes(shape or []),
                seed=seed,
                iterations=iterations,
                progress=progress,
            )
        if outputs is not None:
            write_outputs(outputs, done.outputs)
        _print(done, model, outputs)


def _directory(text: str) -> Path:
    """Return the path of a directory; an empty text would silently be the current one."""
    if not text.strip():
        raise typer.BadParameter("it is empty: give the path of a directory, such as ./report")
    return Path(text)


def _memory(share: float) -> dict[str, object]:
    """Return the options of convolutions and products that a share of memory stands for."""
    from tilescope.engine.options.available_memory import is_proportion
    from tilescope.engine.options.catalogue import CONVOLUTION_MEMORY, MATMUL_MEMORY

    if not is_proportion(share):
        raise typer.BadParameter(
            f"--available-memory-proportion takes a number above 0, up to 1, not {share:g}"
        )
    return {CONVOLUTION_MEMORY: share, MATMUL_MEMORY: share}


def _options(texts: list[str], flags: dict[str, dict[str, object]]) -> dict[str, object]:
    """Parse ``KEY=VALUE`` and put what other flags say with it; nothing may be said twice."""
    said_by = {key: flag for flag, given in flags.items() for key in given}
    options = {key: value for given in flags.values() for key, value in given.items()}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"--option {text} is not of the form KEY=VALUE")
        if key in options:
            raise typer.BadParameter(
                f"--option {text} and {said_by[key]} both say what {key} is: keep one of them"
            )
        options[key] = value
        said_by[key] = "another --option"
    return options


def _shapes(texts: list[str]) -> dict[str, tuple[int, ...]]:
    """Parse ``name=d0,d1``."""
    shapes = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.split(","))
        except ValueError:
            shape = ()
        if not name or not shape or min(shape) < 1:
            raise typer.BadParameter(
                f"--shape {text} is not of the form name=d0,d1 with sizes of at least 1"
            )
        shapes[name] = shape
    return shapes


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show what is done next on one line of a terminal; in a pipe nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(Text(clean(text)))


def _print(done: ModelRun, model: Path, outputs: Path | None) -> None:
    executable = done.compiled.executable
    machine = executable.machine
    print_line(
        f"Ran {model.name} on {machine.name}: {done.cycles:,} cycles,"
        f" {done.cycles / machine.clock_hz * 1e6:,.1f} µs at {machine.clock_hz / 1e9:g} GHz"
    )
    for name in done.compiled.model.assumed_ones:
        sizes = {value.name: value.shape for value in done.compiled.model.inputs}[name]
        print_line(
            f"Input {name}: its first dimension has no size in the model and was taken as 1;"
            f" --shape {name}={','.join(map(str, sizes))} with another number changes it"
        )
    fullest = int(executable.memory.including_gaps.max())
    print_line(f"Fullest tile: {fullest:,} of {machine.bytes_per_tile:,} bytes")
    for name, array in done.outputs.items():
        print_line(f"Output {name}: {array.dtype} {array.shape}")
    if outputs is not None:
        print_line(f"Outputs: {outputs}")
    if done.report is not None:
        print_line(f"Report: {done.report}")
        print_line(
            f"See it: tilescope summary {done.report.parent}, tilescope serve {done.report.parent}"
        )
