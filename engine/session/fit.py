"""Whether a model fits, found by compiling it."""

from __future__ import annotations

from dataclasses import dataclass

from tilescope.engine.compiler.memory.overflow import describe_overflow
from tilescope.engine.errors import OutOfTileMemory
from tilescope.engine.frontend.source_model import Setup, SourceModel
from tilescope.engine.machine import Machine
from tilescope.engine.session.capacity import REPORTED
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.source_compilation import load_model

__all__ = ["CompiledFit", "compile_fit"]


@dataclass(frozen=True)
class CompiledFit:
    """What a compilation found.

    Attributes
    ----------
    max_tile_bytes, code_bytes
        Highest address and end of the code on the tiles where they are largest; None where the
        model is refused before memory is laid out.
    problem
        Why the model does not fit, in sentences; empty if it does.
    """

    max_tile_bytes: int | None
    code_bytes: int | None
    problem: str


def compile_fit(source: SourceModel, machine: Machine, setup: Setup) -> CompiledFit:
    """Return whether a model fits a machine, as a run with the default options compiles it.

    Parameters
    ----------
    source
        The model of a front end.
    machine
        The machine to compile for.
    setup
        Sizes, values and precision.

    Raises
    ------
    BadModel, BadInput, UnsupportedOperators
        When the model cannot be used.
    """
    try:
        executable = compile_model(
            load_model(source, setup, 0), machine, excess=REPORTED
        ).executable
    except OutOfTileMemory as error:
        return CompiledFit(None, None, str(error))
    memory = executable.memory
    problem = describe_overflow(executable) if executable.overfull_tiles.size else ""
    return CompiledFit(int(memory.including_gaps.max()), int(memory.code_end.max()), problem)
