"""What the host computes of an executable: its memory and its bindings, kept beside the program."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain

from tilescope.collection import without_collection
from tilescope.engine.compiler.executable.codelet_place import is_own
from tilescope.engine.compiler.executable.container import Container
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.compiler.executable.objects import read_objects, write_objects
from tilescope.engine.errors import BadExecutable
from tilescope.engine.execute.binding import Binding, bindings_of
from tilescope.engine.execute.host_arenas import HostLayout, HostMemory
from tilescope.engine.execute.launch import Launch, Launches, compile_launchers
from tilescope.engine.execute.storage import coalesce
from tilescope.engine.execute.trace import trace_of
from tilescope.engine.number.grid import Grid

__all__ = ["HostProgram", "bind_all", "host_program"]

_log = logging.getLogger(__name__)

_PART = "launches"


@dataclass(frozen=True, eq=False)
class HostProgram:
    """The places of all variables and batches in the host's memory.

    Parameters
    ----------
    layout
        That of the variables.
    bindings
        Those of every compute set in use, by its id.
    """

    layout: HostLayout
    bindings: Mapping[int, tuple[Binding, ...]]


_KINDS = (Binding, Grid, HostLayout, HostProgram)


@without_collection()
def host_program(executable: Executable) -> HostProgram:
    """Return what the host computes of an executable: as it was stored with it, or anew."""
    parts = executable.parts
    stored = None if parts is None else parts.take(_PART, "", _read)
    if stored is not None:
        return stored
    layout = HostLayout.of(executable.graph, coalesce(trace_of(executable)))
    used = {step.compute_set.compute_set_id: step.compute_set for step in executable.steps
            if step.compute_set is not None}  # fmt: skip
    program = HostProgram(layout, {key: tuple(bindings_of(item)) for key, item in used.items()})
    if parts is not None and all(map(_lasts, program.bindings.values())):
        try:
            facts, arrays = write_objects(program, _KINDS, is_split=True)
        except (TypeError, BadExecutable) as error:
            _log.info("launches not stored: %s", error)
        else:
            plain = [name for name in arrays if not name.startswith("objects.")]
            parts.keep(_PART, "", {"objects": facts}, arrays, plain)
    return program


def _lasts(bindings: tuple[Binding, ...]) -> bool:
    """Return whether the launchers are the engine's own, which the name of the program covers."""
    return all(item.launcher_name and is_own(item.codelet) for item in bindings)


def _read(entry: Container) -> HostProgram:
    return read_objects(HostProgram, _KINDS, entry.facts["objects"], entry.array)


@without_collection()
def bind_all(
    executable: Executable,
    program: HostProgram,
    memory: HostMemory,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[int, list[Launch]]:
    """Return the launches of every compute step, by step id, with their kernels compiled.

    Raises
    ------
    BadGraph
        When a kernel cannot be compiled.
    """
    launches = Launches(memory, executable.machine.n_worker_contexts)
    by_step = {
        step.step_id: launches.of(step.step_id, program.bindings[step.compute_set.compute_set_id])
        for step in executable.steps
        if step.compute_set is not None
    }
    compile_launchers(chain.from_iterable(by_step.values()), progress)
    n_launches = sum(map(len, by_step.values()))
    _log.info("loaded: %d launches of %d steps", n_launches, len(by_step))
    return by_step
