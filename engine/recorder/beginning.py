"""The beginning of a report: its program, which a stored program has as a template."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilescope.reports
from tilescope.engine.channels import POPLAR
from tilescope.engine.compiler.executable.container import Container
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.compiler.executable.objects import read_objects, write_objects
from tilescope.engine.compiler.executable.parts import Parts
from tilescope.engine.compiler.executable.versions import sources_digest
from tilescope.engine.options import EngineOptions
from tilescope.engine.recorder.place import new_report
from tilescope.reports import ReportTemplate, ReportWriter
from tilescope.reports.schema import SCHEMA_VERSION
from tilescope.reports.state import PROGRAM
from tilescope.reports.writing.template import ArrayState, StoreState, TableState
from tilescope.tracepoints import traced

__all__ = ["begun_report"]

_log = logging.getLogger(__name__)

_PART = "report"
_REPORTS = Path(tilescope.reports.__file__).parent
#: Templates of larger reports are not kept: a copy takes as long as writing them again.
_LARGEST_BYTES = 64 << 20


@dataclass(frozen=True)
class _Beginning:
    """What is kept of a report besides its file, and the files beside it, by the names of arrays.

    Parameters
    ----------
    patterns : ndarray of int32, shape (n_steps * n_ipus,)
        As `write_compilation` returns them.
    """

    state: StoreState
    patterns: NDArray[np.int32]
    beside: Mapping[str, NDArray[np.uint8]]


_KINDS = (ArrayState, StoreState, TableState, _Beginning)


@traced(POPLAR, "report.begin")
def begun_report(
    directory: Path, executable: Executable, options: EngineOptions
) -> tuple[ReportWriter, NDArray[np.int32]]:
    """Begin a report that holds the program.

    Returns
    -------
    writer
        Its writer.
    patterns : ndarray of int32, shape (n_steps * n_ipus,)
        The row of ``cycles.pattern`` of each step on each IPU.

    Raises
    ------
    ReportInUse, ReportNotWritable
        When it cannot be created.
    """
    parts, about = executable.parts, _about(options)
    stored = None if parts is None else parts.take(_PART, about, _read)
    if stored is not None:
        template, patterns = stored
        return new_report(directory, template), patterns
    writer = new_report(directory)
    try:
        from tilescope.engine.recorder.compilation import write_compilation

        patterns = write_compilation(writer, executable, options)
        writer.commit(PROGRAM)
        if parts is not None:
            _keep(parts, about, writer.template(), patterns)
    except BaseException:
        writer.abandon()
        raise
    return writer, patterns


def _about(options: EngineOptions) -> dict[str, Any]:
    """Return what decides the beginning of a report besides the program."""
    return {
        "writes_debug_info": options.writes_debug_info,
        "writes_graph_profile": options.writes_graph_profile,
        "schema": SCHEMA_VERSION,
        "sources": sources_digest(_REPORTS),
    }


def _keep(
    parts: Parts, about: Mapping[str, Any], template: ReportTemplate, patterns: NDArray[np.int32]
) -> None:
    if len(template.content) > _LARGEST_BYTES:
        return
    beside = {name: np.frombuffer(data, np.uint8) for name, data in template.beside.items()}
    facts, arrays = write_objects(_Beginning(template.state, patterns, beside), _KINDS)
    content = {"file": np.frombuffer(template.content, np.uint8)}
    parts.keep(_PART, about, {"objects": facts}, {**content, **arrays}, (*content, *arrays))


def _read(entry: Container) -> tuple[ReportTemplate, NDArray[np.int32]]:
    beginning = read_objects(_Beginning, _KINDS, entry.facts["objects"], entry.array)
    beside = {name: data.tobytes() for name, data in beginning.beside.items()}
    content = entry.array("file").tobytes()
    return ReportTemplate(content, beginning.state, beside), beginning.patterns
