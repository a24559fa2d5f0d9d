"""The report directory of an engine."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tilescope.engine.options.precedence import ENVIRONMENT_VARIABLE, EngineOptions

__all__ = ["engine_directory", "missing_report"]

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80


def engine_directory(options: EngineOptions, engine_name: str | None = None) -> Path:
    """Return the folder of an engine's report; a named engine has a subfolder.

    If a name is not a valid folder name, its invalid characters are replaced and a short hash is
    appended, so that different names never share a folder.
    """
    if not engine_name:
        return options.report_directory
    return options.report_directory / _folder_name(engine_name)


def missing_report(options: EngineOptions, directory: Path, flag: str) -> str:
    """Return the sentence that says why a directory has no report; empty if it has one.

    Parameters
    ----------
    options
        Options in effect.
    directory
        Directory that a flag of the command line names.
    flag
        The flag.
    """
    names = []
    if not options.writes_report:
        names = ["autoReport.all", "autoReport.outputGraphProfile"]
        names.append("autoReport.outputExecutionProfile")
    elif options.report_directory != directory.expanduser():
        names = ["autoReport.directory"]
    overrides = [text for text in map(options.override, names) if text]
    if not overrides:
        return ""
    return (
        f"No report in {directory}: {ENVIRONMENT_VARIABLE} sets {', '.join(overrides)}, which takes"
        f" precedence over {flag}"
    )


def _folder_name(engine_name: str) -> str:
    cleaned = _NOT_PLAIN.sub("_", engine_name).lstrip(".")[:_LONGEST_NAME]
    if cleaned == engine_name:
        return cleaned
    digest = hashlib.sha256(engine_name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{cleaned or 'engine'}-{digest}"
