"""Compiles a published program and reads its figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from time import process_time

from tests.corpus.programs import MISSING, Built, build
from tests.corpus.rows import Figures, Row

from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.errors import EngineError
from tilescope.engine.execute.timeline import timeline_of
from tilescope.engine.session.compile import compile_programs

__all__ = ["Measured", "compiled", "figures_of", "measure"]


@dataclass(frozen=True)
class Measured:
    """The figures of a row, or why there are none.

    Parameters
    ----------
    ours
        None if the program was not compiled.
    lacks
        What the library lacks to build the program, or the rest of it.
    refused
        The sentence of the error that ended it.
    seconds
        Processor time of building and compiling.
    """

    ours: Figures | None
    lacks: str = ""
    refused: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, object]:
        """Return the entry of the results' file."""
        return asdict(self)


def compiled(built: Built) -> Executable:
    """Compile a published program with its transfers."""
    programs = [built.builder.sequence, *built.others]
    return compile_programs(built.graph, programs, plans=built.builder.plans)


def figures_of(executable: Executable, host_sync_cycles: int = 0) -> Figures:
    """Return the figures as the source takes them from its profile."""
    memory = executable.memory
    cycles = timeline_of(executable.roots[0], executable.machine)[0].n_cycles + host_sync_cycles
    total = int(memory.always_live.sum()) + int(memory.not_always_live_peak.sum())
    return Figures(cycles, total, int(memory.including_gaps.max()))


def measure(row: Row) -> Measured:
    """Build and compile a row, without running values."""
    begin = process_time()
    try:
        built = build(row)
        if built is None:
            return Measured(None, MISSING[row.program])
        figures = figures_of(compiled(built), built.host_sync_cycles(row))
    except EngineError as error:
        return Measured(None, refused=str(error), seconds=process_time() - begin)
    return Measured(figures, built.lacks, seconds=round(process_time() - begin, 2))
