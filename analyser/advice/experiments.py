"""What another precision or machine would save: the commands that measure it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.advice.remedy_command import measuring_command
from tilescope.analyser.machine.target import target
from tilescope.analyser.summary.provenance import provenance

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Experiment", "experiments"]

#: The machine that a run on another is compared with, by preset.
_OTHER_MACHINES = {"gc2": "gc200", "gc200": "bow", "bow": "gc200", "c600": "bow"}


@dataclass(frozen=True)
class Experiment:
    """A change whose gain no report knows, and the command that measures it.

    ``report`` is the directory that the command writes, to be compared with this report.
    """

    title: str
    command: str
    report: str


def experiments(report: Report) -> tuple[Experiment, ...]:
    """Return what to run to see what half precision and another machine save.

    None where the report does not say how the model was run, as for graphs of a program.
    """
    facts, machine = provenance(report), target(report)
    wanted: list[tuple[str, str, str]] = []
    if facts.get("precision") != "half":
        wanted.append(("In half precision", "half", "--precision half"))
    other = _OTHER_MACHINES.get(machine.name)
    if other is not None and machine.preset_tiles_per_ipu is not None:
        wanted.append((f"On {other}", "machine", f"--machine {other}"))
    found = []
    for title, name, flags in wanted:
        command = measuring_command(report, {name: flags})
        if command:
            found.append(Experiment(title, command, name))
    return tuple(found)
