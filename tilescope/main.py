"""The ``tilescope`` command: subcommands, error messages and exit codes."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from tilescope.console import clean, fit_streams
from tilescope.parameters import examples

__all__ = ["COMMANDS", "command_line", "main"]

#: Modules of ``tilescope.commands`` in the order of the help; all define ``register(app)``.
COMMANDS = (
    "run",
    "serve",
    "summary",
    "insights",
    "memory",
    "liveness",
    "programs",
    "ops",
    "exchange",
    "variables",
    "tile",
    "trace",
    "diff",
    "baseline",
    "export",
    "figure",
    "models",
    "machines",
    "doctor",
)

#: Packages installed by an extra only.
_EXTRA_OF_PACKAGE = {
    "numba": "engine",
    "llvmlite": "engine",
    "onnx": "engine",
    "scipy": "engine",
    "dash": "web",
    "dash_ag_grid": "web",
    "dash_mantine_components": "web",
    "fastapi": "web",
    "plotly": "web",
    "starlette": "web",
    "uvicorn": "web",
}

#: Commands that compute, or keep running; all others read a report, answer and end.
_LASTING = ("run", "serve")

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
    try:
        code = _run(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
    except KeyboardInterrupt:
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
    collector scans all rows of a report, when reading and again at exit.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    atexit.register(gc.freeze)


def _run(arguments: list[str]) -> int:
    """Run one command; errors that Typer raises about arguments pass through."""
    command = command_line(arguments[:1])
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


def command_line(arguments: Sequence[str] = ()) -> Any:
    """Return the Typer command with every installed subcommand.

    If the first argument names a subcommand, only that one is loaded: the others take longer than
    most commands run.
    """
    app = typer.Typer(
        name="tilescope",
        help="Profile programs for tile processors: run models, query reports, compare them.",
        no_args_is_help=True,
        epilog=examples("run model.onnx", "summary report", "ops --help"),
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def options(
        version: Annotated[
            bool,
            typer.Option(
                "--version", callback=_print_version, is_eager=True, help="Print the version."
            ),
        ] = False,
    ) -> None:
        """Profile programs for tile processors: run models, query reports, compare them."""
        del version

    for name in arguments[:1] if set(arguments[:1]) & set(COMMANDS) else COMMANDS:
        module = f"tilescope.commands.{name}"
        if find_spec(module) is not None:
            import_module(module).register(app)
    return typer.main.get_command(app)


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
        _say(str(error))
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
            _say(
                f"this command requires the package {package}, which is not installed;"
                f" run: pip install 'tilescope[{extra}]'"
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
    lines = "\n".join(clean(line) for line in text.splitlines())
    print(f"tilescope: {lines}", file=sys.stderr)  # noqa: T201


def _write_log(error: Exception) -> str:
    """Write the traceback of an internal error to a file and return its path."""
    import platform
    import tempfile
    import traceback
    from datetime import UTC, datetime
    from pathlib import Path

    from platformdirs import user_log_path

    name = f"internal-error-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.log"
    content = "\n".join(
        [
            f"python {platform.python_version()} on {platform.platform()}",
            f"arguments {sys.argv[1:]}",
            "".join(traceback.format_exception(error)),
        ]
    )
    for directory in (user_log_path("tilescope", appauthor=False), Path(tempfile.gettempdir())):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / name
            path.write_text(content, encoding="utf-8")
        except OSError:
            continue
        return str(path)
    return "no file: no directory is writable"
