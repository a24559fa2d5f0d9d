"""Compilation of a model as its author has it, which is not even read if it was compiled before.

What reads and compiles models is imported only where there is none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from tilescope.engine.channels import FRAMEWORK
from tilescope.engine.compiler.cache.programs import ProgramFolder, ProgramParts
from tilescope.engine.compiler.executable.container import Container
from tilescope.engine.compiler.executable.executable import Stopwatch
from tilescope.engine.errors import BadModel, BadOption, OutOfTileMemory
from tilescope.engine.frontend.source_model import Setup, SourceModel
from tilescope.engine.ir import LocationRule, Model
from tilescope.engine.ir.model import PRECISIONS
from tilescope.engine.ir.registered import registered_digest
from tilescope.engine.machine import Machine
from tilescope.engine.options import EngineOptions, resolve
from tilescope.engine.session.capacity import Excess
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.settings import CompileSettings
from tilescope.engine.session.stored_program import recorded, take_program
from tilescope.tracepoints import traced

__all__ = ["SourceProgram", "compile_source", "load_model", "programs_of"]

_log = logging.getLogger(__name__)

_PART = "source"


@dataclass(frozen=True)
class SourceProgram:
    """The program of a model as its author has it.

    Parameters
    ----------
    compiled
        The program.
    source
        The model.
    digest
        Digest of all that the source consists of, where it is known.
    """

    compiled: CompiledModel
    source: SourceModel
    digest: str = ""

    @cached_property
    def facts(self) -> dict[str, str]:
        """Provenance of the model, by keys of a report."""
        return self.source.facts(self.compiled.model, self.digest)


def programs_of(options: EngineOptions) -> ProgramFolder | None:
    """Return the folder of programs that options ask for; None if they turn caching off."""
    if options.cache_directory is None and options.is_given("enableEngineCaching"):
        return None
    return ProgramFolder(options.cache_directory)


def compile_source(
    source: SourceModel,
    machine: Machine,
    settings: CompileSettings | None = None,
    *,
    options: EngineOptions | None = None,
    setup: Setup | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> SourceProgram:
    """Compile a model, or take its program if it was compiled before.

    Parameters
    ----------
    source
        The model of a front end.
    machine
        The machine to compile for.
    settings
        All options of the compilation; None takes those of the engine options.
    options
        The engine options in effect, among them the directory of programs compiled before; None
        takes those of the environment.
    setup
        What is said of the model.
    seed
        Seed of synthetic data.
    progress
        Called with a line about the next action.

    Raises
    ------
    BadModel, BadInput, UnsupportedOperators
        When the model cannot be used.
    BadOption
        When the precision or the synthetic data are unknown, or a split names no node.
    OutOfTileMemory
        When its weights, or a value, exceed the tiles by more than the settings allow.
    """
    say = progress or (lambda _: None)
    setup, options = setup or Setup(), options or resolve()
    settings = settings or CompileSettings.of(options)
    stopwatch = Stopwatch()
    say(f"Reading {source.place}")
    programs = programs_of(options)
    key = None if programs is None else _Key.of(programs, source, machine, settings, setup, seed)
    known = None if key is None else key.take(source)
    if known is not None:
        compiled, digest = known
        return SourceProgram(recorded(compiled, "hit", stopwatch), source, digest)
    from tilescope.engine.session.compilation import compile_with

    if settings.excess is not None:
        _check_weights_fit(source, machine, setup, settings.excess)
    before = "" if key is None else key.whole(source)
    model = load_model(source, setup, seed)
    _log.info(
        "read %s: %d inputs, %d operations, %d outputs",
        source.place,
        len(model.inputs),
        len(model.operations),
        len(model.outputs),
    )
    say(f"Compiling {len(model.operations)} operations for {machine.n_tiles:,} tiles")
    compiled = compile_with(model, machine, settings, options.cache_directory, programs)
    if key is not None and before and key.whole(source) == before:  # nothing changed meanwhile
        key.keep(source, before, compiled)
    return SourceProgram(compiled, source, before)


class _Key:
    """What a source's program is found by, and where.

    Parameters
    ----------
    programs
        The folder.
    digest
        That of the source alone.
    parts
        Where the entry of the source is.
    """

    def __init__(self, programs: ProgramFolder, digest: str, parts: ProgramParts) -> None:
        self._programs, self._digest, self._parts = programs, digest, parts

    @classmethod
    def of(
        cls,
        programs: ProgramFolder,
        source: SourceModel,
        machine: Machine,
        settings: CompileSettings,
        setup: Setup,
        seed: int,
    ) -> _Key | None:
        """Return the key; None where the source cannot be read, or the setup has no digest."""
        drawn = None if setup.synthetic is None else seed
        try:
            digest = source.digest(())
            question: tuple[object, ...] = (
                *("source", type(source).__name__, digest),
                *(machine, settings, setup, drawn),
                *filter(None, [registered_digest()]),
            )
            return cls(programs, digest, programs.parts(question))
        except (BadModel, TypeError) as error:
            _log.info("program not stored: %s", error)
            return None

    def take(self, source: SourceModel) -> tuple[CompiledModel, str] | None:
        """Return the program, and the digest of all that the source consists of."""

        def build(entry: Container) -> tuple[str, str]:
            outside, whole = entry.facts["outside"], entry.facts["digest"]
            if (source.digest(outside) if outside else self._digest) != whole:
                return "", whole
            return str(entry.facts["program"]), whole

        try:
            found = self._parts.take(_PART, "", build)
        except BadModel:  # what it refers to is gone: the model says so when it is read
            return None
        if found is None or not found[0]:
            return None
        question, whole = found
        compiled = take_program(self._programs.named(question))
        return None if compiled is None else (compiled, whole)

    def whole(self, source: SourceModel) -> str:
        """Return the digest of all that the source consists of now; empty if it changed."""
        try:
            return source.digest(source.outside) if source.digest(()) == self._digest else ""
        except BadModel:  # the model says so when it is read
            return ""

    def keep(self, source: SourceModel, whole: str, compiled: CompiledModel) -> None:
        """Store which program the source has."""
        parts = compiled.executable.parts
        if isinstance(parts, ProgramParts):
            facts = {"outside": [*source.outside], "digest": whole, "program": parts.question}
            self._parts.keep(_PART, "", facts, {})


@traced(FRAMEWORK, "load model")
def load_model(source: SourceModel, setup: Setup, seed: int) -> Model:
    """Return a model as it is set up.

    Parameters
    ----------
    source
        The model of a front end.
    setup
        Sizes, values, precision, data, IPUs, parts of the batch, and locations.
    seed
        Seed of synthetic data.

    Raises
    ------
    BadOption
        When the precision or the synthetic data are unknown, or there are less parts than one.
    """
    from tilescope.engine.session.synthetic_data import with_synthetic_data
    from tilescope.engine.transform import in_batch_parts, in_half
    from tilescope.engine.transform.split import split
    from tilescope.engine.transform.stages import pipelined

    if setup.precision not in PRECISIONS:
        allowed = " or ".join(PRECISIONS)
        raise BadOption(f"Unknown precision {setup.precision!r}: expected {allowed}")
    model = source.load(setup)
    if setup.split or setup.pipeline:
        model = split(model, setup.split, setup.pipeline)
    if setup.pipeline:
        model = pipelined(model, setup.n_rounds)
    if setup.precision == "half":
        model = in_half(model, has_masters=setup.has_masters, policy=setup.policy)
    model = replace(in_batch_parts(model, setup.batch_parts), locations=setup.locations)
    return model if setup.synthetic is None else with_synthetic_data(model, setup.synthetic, seed)


def _check_weights_fit(source: SourceModel, machine: Machine, setup: Setup, excess: Excess) -> None:
    """Refuse a model whose weights alone exceed the memory of all tiles, before it is read.

    Weights within the excess are let pass: the report says what of them does not fit.

    Raises
    ------
    OutOfTileMemory
        When it cannot fit however it is compiled.
    """
    if setup.locations.of_kinds.get("weights", LocationRule()).location.is_off_chip:
        return
    capacity = machine.capacity_bytes
    most_bytes = max(capacity, excess.n_bytes)
    if source.stored_bytes() <= most_bytes:
        return
    weight_bytes = source.weight_bytes(setup)
    if weight_bytes <= most_bytes:
        return
    half = "; --precision half halves them" if setup.precision == PRECISIONS[0] else ""
    raise OutOfTileMemory(
        f"The weights of {source.place} take {weight_bytes:,} bytes, and all {machine.n_tiles:,}"
        f" tiles together have {capacity:,}{half}; --offload weights keeps them in streaming memory"
    )
