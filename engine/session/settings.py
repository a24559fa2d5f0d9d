"""What a compilation is asked besides the model and the machine."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tilescope.engine.options import EngineOptions, resolve
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.catalogue import INDEPENDENT_REPLICAS, OUTLINING
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.session.capacity import REPORTED, Excess

__all__ = ["CompileSettings"]


@dataclass(frozen=True)
class CompileSettings:
    """All that decides a program besides its model, its machine and the engine.

    Parameters
    ----------
    is_instrumented
        Whether cycle counters occupy tile memory.
    is_checked
        Whether to check that no vertex accesses what another vertex of its compute set writes.
    available_memory
        Share of tile memory available to an operation while it runs; None lowers it until the
        model fits.
    partials
        Type of the partial sums of half products.
    outlines
        Whether repeated operations share vertices and code where that pays.
    without
        Names of passes over the model to leave out, ascending.
    excess
        How large a model that cannot fit may be and still be compiled; None compiles all.
    is_independent
        Whether replicas copy from and to the host without waiting for each other.
    """

    is_instrumented: bool = True
    is_checked: bool = False
    available_memory: AvailableMemory | None = None
    partials: PartialsTypes | None = None
    outlines: bool = True
    without: tuple[str, ...] = ()
    excess: Excess | None = REPORTED
    is_independent: bool = False

    @classmethod
    def of(cls, options: EngineOptions, excess: Excess | None = REPORTED) -> CompileSettings:
        """Return the settings that engine options ask for."""
        return cls(
            options.instrument,
            options.flag("debug.verify"),
            AvailableMemory.given(options),
            PartialsTypes.of(options),
            options.flag(OUTLINING),
            tuple(sorted(options.patterns_off)),
            excess,
            options.flag(INDEPENDENT_REPLICAS),
        )

    @classmethod
    def given(
        cls,
        is_instrumented: bool | None,
        is_checked: bool,
        available_memory: AvailableMemory | None,
        partials: PartialsTypes | None,
        outlines: bool,
        without: Collection[str],
        excess: Excess | None,
    ) -> CompileSettings:
        """Return settings; whether cycles are counted is up to the environment if it is None."""
        options = resolve()
        if is_instrumented is None:
            is_instrumented = options.allows_instrumentation
        memory, names = available_memory, tuple(sorted(without))
        alone = options.flag(INDEPENDENT_REPLICAS)
        return cls(is_instrumented, is_checked, memory, partials, outlines, names, excess, alone)
