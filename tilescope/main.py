"""The ``tilescope`` command: subcommands, error messages and exit codes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core

from tilescope.analyser.shown_text import shown_text
from tilescope.collection import end_collection
from tilescope.console import fit_streams
from tilescope.parameters import examples

__all__ = ["COMMANDS", "command_line", "main"]

#: Modules of ``tilescope.commands`` in the order of the help, with the first line of their help, so
#: that the list of commands loads none of them; all define ``register(app)``.
COMMANDS = {
    "run": "Run a model on a simulated machine and profile it.",
    "train": "Train a model on a simulated machine.",
    "reports": "List reports with model, machine, runs, cycles, fullest tile and state.",
    "serve": "Serve reports to a browser on this computer; the printed link holds a token.",
    "summary": "Show machine, graph, memory, execution, provenance and options of a report.",
    "insights": "Show whether the program fits, what takes memory and time, and what would help.",
    "ledger": "Show what all tile-cycles were spent on, the causes, and the gain at most.",
    "fit": "Show what makes a program fit: bytes over per tile, remedies, and what they gain.",
    "memory": "Show memory by region, category and liveness, and the fullest tiles.",
    "liveness": "Show live memory by step, its peak, and the variables that hold it.",
    "programs": "Show the program tree, search it, or show the cost of one program.",
    "ops": "List operations with their cost, or explain the time or the plan of one of them.",
    "exchange": "List exchanges and stream copies: bytes, fragments, tiles, IPUs, code and cycles.",
    "variables": "List variables with size, tiles and lifetime, or show where one lies.",
    "tile": "Show one tile: place, memory, parts of variables, vertices, and cycles over the run.",
    "system": "Show what programs did on their host: events by file, thread, channel and label.",
    "trace": "Show runs, cycle proportions and top contributors of a range of the trace.",
    "notes": "List, write, remove or copy notes on the trace; they lie beside the report.",
    "diff": "Compare a baseline report with a candidate report.",
    "baseline": "Store reports to compare against, by model.",
    "export": "Export the figures of a report for a benchmark tracker.",
    "figure": "Write a chart of a report, or of two, to a file that opens without a server.",
    "recover": "Take the sound runs out of a damaged or unfinished report, into a new one.",
    "models": "List and fetch trained models; check a model before it runs, cut a part out of it.",
    "machines": "Compare machines: every figure of both parameter sets.",
    "warmup": "Compile the kernels of the library for later runs, in several processes.",
    "doctor": "Show installed packages, the kernel cache and the machine presets.",
}

#: Packages installed by an extra only.
_EXTRA_OF_PACKAGE = {
    "numba": "engine",
    "llvmlite": "engine",
    "onnx": "engine",
    "scipy": "engine",
    "dash": "web",
    "dash_mantine_components": "web",
    "fastapi": "web",
    "plotly": "web",
    "starlette": "web",
    "uvicorn": "web",
}

#: Commands that keep running, or start processes; all others answer and end.
_LASTING = ("serve", "train", "warmup")

EXIT_USAGE = 2
EXIT_FAILED = 4
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; print errors as one sentence to standard error.

    0 success, 1 gate failed, 2 invalid usage or input, 3 gated metric missing, 4 run failed,
    70 internal error, 130 interrupted.
    """
    if sys.stdout is None or sys.stderr is None:  # closed by the parent process
        sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    fit_streams()
    if argv is None and sys.argv[1:2] and sys.argv[1] not in _LASTING:
        _shorten_process()
    arguments = sys.argv[1:] if argv is None else list(argv)
    if any("\0" in argument for argument in arguments):  # from a caller: a shell passes none
        _say("an argument contains a NUL character; leave it out")
        return EXIT_USAGE
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        for note in getattr(interrupt, "__notes__", ()):
            _say(f"Interrupted. {note}")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does: discard the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if sys.stdout is not None and error.errno == errno.ENOSPC and error.filename is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _say("cannot write the output: no space left on the device")
            return EXIT_FAILED
        return _report_error(error)
    except Exception as error:
        return _report_error(error)
    return code


def _shorten_process() -> None:
    """Spare a process that ends after one answer what only a long one profits from.

    NumPy's OpenBLAS starts a thread per core at import, and they spin. The cyclic garbage
    collector scans all modules, and all rows of a report, when reading and again at exit; a run
    leaves it none of its arrays.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    end_collection()


def _run(arguments: list[str]) -> int:
    """Run one command; errors that Typer raises about arguments pass through."""
    command = command_line()
    if os.environ.get("_TILESCOPE_COMPLETE"):
        command.main(arguments, prog_name="tilescope")  # a shell asks for completions: exits
    try:
        # Not command.main(), which exits the process when a pipe breaks.
        with command.make_context("tilescope", arguments) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        return EXIT_INTERRUPTED
    return 0


def command_line(*, is_whole: bool = False) -> Any:
    """Return the Typer command; a subcommand is loaded when a line names it.

    Importing all of them takes longer than most commands run.

    Parameters
    ----------
    is_whole
        Whether to load all subcommands at once, in place of lines of the help.
    """
    app = _new_app()

    @app.callback(
        cls=_Group,
        help="Profile programs for tile processors: run models, query reports, compare them.",
        no_args_is_help=True,
        epilog=examples("run model.onnx", "summary report", "ops --help"),
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    def options(
        version: Annotated[
            bool,
            typer.Option(
                "--version", callback=_print_version, is_eager=True, help="Print the version."
            ),
        ] = False,
    ) -> None:
        del version

    for name, summary in COMMANDS.items():
        app.command(name, help=summary)(_not_loaded)
    group: Any = typer.main.get_command(app)
    if is_whole:
        for name in COMMANDS:
            group.load(name)
    return group


def _new_app() -> typer.Typer:
    return typer.Typer(name="tilescope", rich_markup_mode=None, pretty_exceptions_enable=False)


def _not_loaded() -> None:
    """Stand for a command in the help."""


class _Group(typer.core.TyperGroup):
    """The commands, loaded by name."""

    def load(self, name: str) -> None:
        """Replace the line of the help by the command."""
        app = _new_app()
        import_module(f"tilescope.commands.{name}").register(app)
        self.commands[name] = typer.main.get_group(app).commands[name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and arguments of a line."""
        if args[0] in COMMANDS:
            self.load(args[0])
        return super().resolve_command(ctx, args)


def _print_version(is_given: bool) -> None:
    """Print the version and exit."""
    if is_given:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"tilescope {version('tilescope')}")  # noqa: T201
        except PackageNotFoundError:
            print("tilescope (not installed)")  # noqa: T201
        raise typer.Exit


def _report_error(error: Exception) -> int:
    """Print an error as one sentence and return its exit code."""
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # raised by Typer about arguments
        text = str(format_message()).strip()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(text, file=sys.stderr)  # noqa: T201
        else:
            _say(f"{text.rstrip('.')}.{_usage_hint(error)}")
        return EXIT_USAGE
    code = getattr(error, "exit_code", None)
    if isinstance(code, int) and isinstance(getattr(error, "code", None), str):
        _say("\n".join([str(error), *getattr(error, "__notes__", ())]))
        return code
    if isinstance(error, MemoryError):
        _say(
            "not enough memory on this computer;"
            " use a smaller model, a smaller batch or fewer tiles"
        )
        return EXIT_FAILED
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        extra = _EXTRA_OF_PACKAGE.get(package)
        if extra is not None:
            from tilescope.installation import install_advice

            _say(
                f"this command requires the package {package}, which is not installed;"
                f" {install_advice(extra)}"
            )
            return EXIT_USAGE
    _say(f"internal error ({type(error).__name__}); details are in {_write_log(error)}")
    return EXIT_INTERNAL


def _usage_hint(error: Exception) -> str:
    """Return a pointer to the help after a usage error."""
    context = getattr(error, "ctx", None)
    return "" if context is None else f" See '{context.command_path} --help'."


def _say(text: str) -> None:
    """Print a message to standard error, without control characters; it may span lines."""
    lines = "\n".join(shown_text(line) for line in text.splitlines())
    print(f"tilescope: {lines}", file=sys.stderr)  # noqa: T201


def _write_log(error: Exception) -> str:
    """Write the traceback of an internal error to a file and return its path."""
    import platform
    import tempfile
    import traceback
    from datetime import UTC, datetime

    from platformdirs import user_log_path

    from tilescope.private_folder import NotPrivate, PrivateFolder

    stem = f"internal-error-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}"
    content = "\n".join(
        [
            f"python {platform.python_version()} on {platform.platform()}",
            f"arguments {sys.argv[1:]}",
            "".join(traceback.format_exception(error)),
        ]
    ).encode("utf-8", "backslashreplace")
    folder = PrivateFolder(user_log_path("tilescope", appauthor=False))
    try:
        folder.write(f"{stem}.log", content)
    except (NotPrivate, OSError):
        pass
    else:
        return str(folder.path / f"{stem}.log")
    try:  # a name that nobody can guess, and never through a link
        descriptor, path = tempfile.mkstemp(".log", f"{stem}-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError:
        return "no file: no directory is writable"
    return path
