"""Reports of a session: what libpva opens, and summaries as text."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.execute.profile_summary import profile_summary
from tilescope.engine.options import EngineOptions, resolve
from tilescope.engine.session.engine import Engine

__all__ = ["open_report", "summary", "summary_of_program", "write_program_report"]

#: What a summary shows besides, by PopART's names of report options.
_FLAGS = {
    "showExecutionSteps": "show_execution_steps",
    "showVarStorage": "show_var_storage",
    "showPerIpuMemoryUsage": "show_per_ipu_memory_usage",
    "showOptimizations": "show_optimizations",
}


def open_report(path: Path) -> Any:
    """Return a report as libpva opens it.

    Parameters
    ----------
    path
        Of `profile.pop`, or of its directory.
    """
    import pva

    with warnings.catch_warnings():
        # That the session goes on is no news to it.
        warnings.simplefilter("ignore", pva.ReportStateWarning)
        return pva.openReport(str(path))


def write_program_report(executable: Executable, directory: Path, name: str = "") -> Path:
    """Write a report of a program, without runs, and return its path.

    Parameters
    ----------
    executable
        The program.
    directory
        Of the report, or of the directory `name` that it goes to.
    name
        Of the session.
    """
    options: EngineOptions = resolve(
        code={
            "autoReport.all": True,
            "autoReport.directory": str(directory),
            "debug.allowOutOfMemory": True,
        }
    )
    engine = Engine(executable, options, name=name)
    engine.close()
    return engine.recorder.path or directory


def summary(engine: Engine, asked: Mapping[str, str]) -> str:
    """Return the summary of a program and its last run.

    Parameters
    ----------
    engine
        Of the program.
    asked
        Report options.
    """
    text = io.StringIO()
    engine.print_profile_summary(file=text, **_flags(asked))
    return text.getvalue()


def summary_of_program(executable: Executable, asked: Mapping[str, str]) -> str:
    """Return the summary of a program that does not run, such as one that does not fit."""
    return profile_summary(executable, None, **_flags(asked))


def _flags(asked: Mapping[str, str]) -> dict[str, bool]:
    return {flag: str(asked.get(name, "false")).lower() == "true" for name, flag in _FLAGS.items()}
