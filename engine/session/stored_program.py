"""A compiled model on disk: what is read at once, what is read later, and its weights apart."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.collection import without_collection
from tilescope.engine.channels import POPLAR
from tilescope.engine.compiler.cache.programs import ProgramFolder, ProgramParts
from tilescope.engine.compiler.executable.container import Container, NotAnEntry
from tilescope.engine.compiler.executable.executable import EXECUTABLE_KINDS, Stopwatch
from tilescope.engine.compiler.executable.objects import WEIGHTS, read_objects, write_objects
from tilescope.engine.compiler.executable.parts import Parts
from tilescope.engine.errors import BadExecutable
from tilescope.engine.graph import ComputeSet, DebugContext, RemoteBuffer, Variable
from tilescope.engine.graph.vertex.plan_stage import PlanStage
from tilescope.engine.ir import (
    BatchParts,
    Constant,
    Count,
    Location,
    LocationRule,
    Locations,
    Model,
    NarrowConstant,
    Parameter,
    Recomputation,
    ReplicaGroup,
    State,
    Training,
    Value,
)
from tilescope.engine.ir.digest import model_identity
from tilescope.engine.machine import Machine
from tilescope.engine.session.compiled_model import CompiledModel, Held
from tilescope.engine.session.settings import CompileSettings
from tilescope.tracepoints import traced

__all__ = ["keep_program", "parts_of", "recorded", "take_program"]

_log = logging.getLogger(__name__)

_PROGRAM = "program"
_KINDS = (
    *EXECUTABLE_KINDS,
    CompiledModel,
    Constant,
    BatchParts,
    Count,
    Held,
    Location,
    LocationRule,
    Locations,
    Model,
    NarrowConstant,
    Parameter,
    Recomputation,
    ReplicaGroup,
    State,
    Training,
    Value,
)
#: What vertices and programs share.
_SHARED = (ComputeSet, DebugContext, PlanStage, RemoteBuffer, Variable)


def parts_of(
    programs: ProgramFolder,
    model: Model,
    machine: Machine,
    settings: CompileSettings,
    *,
    has_weights: bool = True,
) -> ProgramParts | None:
    """Return the parts of the program of a model; None if nothing can stand for the model.

    Parameters
    ----------
    programs
        The folder.
    model
        As it is stated.
    machine
        The machine to compile for.
    settings
        All options of the compilation.
    has_weights
        As for `model_identity`.
    """
    try:
        identity = model_identity(model, has_weights=has_weights)
        return programs.parts(("model", identity, machine, settings))
    except TypeError as error:
        _log.info("program not stored: %s", error)
        return None


def recorded(compiled: CompiledModel, cache: str, stopwatch: Stopwatch) -> CompiledModel:
    """Return a model with the record of how its program was made."""
    executable = replace(compiled.executable, record=stopwatch.record(cache))
    return replace(compiled, executable=executable)


@without_collection()
@traced(POPLAR, "cache.take program")
def take_program(parts: Parts) -> CompiledModel | None:
    """Return a program that was compiled before; None if there is none."""

    def build(entry: Container) -> CompiledModel:
        facts = entry.facts
        weights = parts.take(WEIGHTS, facts[WEIGHTS], lambda found: found)
        if weights is None:
            raise NotAnEntry("its weights are missing")

        def array(name: str) -> NDArray[Any]:
            return (weights if _is_weight(name) else entry).array(name)

        kinds = _kinds(facts["is_trained"])
        return read_objects(CompiledModel, kinds, facts["objects"], array)

    compiled = parts.take(_PROGRAM, "", build)
    if compiled is None:
        return None
    return replace(compiled, executable=replace(compiled.executable, parts=parts))


@traced(POPLAR, "cache.keep program")
@without_collection()
def keep_program(parts: Parts, compiled: CompiledModel) -> str:
    """Store a program for later processes; one that cannot be stored is compiled again there.

    Returns
    -------
    str
        Why it cannot be stored; empty if it is.
    """
    executable = compiled.executable
    for step in executable.steps:  # computed once: it needs the vertices
        _ = step.is_data_dependent, step.reads_clock
    for node in executable.nodes:
        _ = node.is_static, node.is_foldable
    graph = executable.graph
    weights = [v.values for v in graph.variables if v.values is not None]
    weights += [buffer.values for buffer in graph.remote_buffers if buffer.values is not None]
    try:
        objects, arrays = write_objects(
            replace(compiled, executable=executable.alone),
            _kinds(compiled.training is not None),
            _SHARED,
            weights,
            is_split=True,
        )
    except (TypeError, BadExecutable) as error:
        _log.info("program not stored: %s", error)
        return str(error)
    apart = {name: array for name, array in arrays.items() if _is_weight(name)}
    rest = {name: array for name, array in arrays.items() if name not in apart}
    digest = _digest_of(apart)
    parts.keep(WEIGHTS, digest, {}, apart, apart)
    facts = {"objects": objects, "is_trained": compiled.training is not None, WEIGHTS: digest}
    parts.keep(_PROGRAM, "", facts, rest, [name for name in rest if _is_read_at_once(name)])
    return ""


def _kinds(is_trained: bool) -> tuple[type, ...]:
    """Return the types of records of a program."""
    if not is_trained:
        return _KINDS
    from tilescope.engine.training import OPTIMISERS, AutomaticScaling

    return (*_KINDS, *OPTIMISERS.values(), AutomaticScaling)


def _is_weight(name: str) -> bool:
    return name.startswith(f"{WEIGHTS}.")


def _is_read_at_once(name: str) -> bool:
    """Return whether a run reads an array: such are not packed."""
    return name.startswith(("now.", "array_")) or name == "objects"


def _digest_of(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = sha256()
    for name, array in arrays.items():
        digest.update(f"{name} {array.size} ".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()
