"""From PopART's session options to the engine's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from popart.effect import warn_once
from popart.enums import SyntheticDataMode
from popart.errors import poplar_exception
from popart.options import SessionOptions
from tilescope.engine.errors import BadOption
from tilescope.engine.ir import Model
from tilescope.engine.machine import Machine
from tilescope.engine.options import EngineOptions, resolve
from tilescope.engine.session.capacity import REPORTED
from tilescope.engine.session.compilation import compile_with
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.program_file import ProgramQuestion
from tilescope.engine.session.settings import CompileSettings
from tilescope.engine.session.source_compilation import programs_of
from tilescope.engine.session.synthetic_data import with_synthetic_data

__all__ = ["compiled_for", "engine_options_of", "question_of"]

#: Options of a plan that the engine has.
_OF_PLANS = ("partialsType", "availableMemoryProportion")

#: The engine's names of data that are made on the device.
_SYNTHETIC = {
    SyntheticDataMode.Zeros: "zeros",
    SyntheticDataMode.RandomNormal: "random_normal",
    SyntheticDataMode.RandomUniform: "random_uniform",
}


def engine_options_of(options: SessionOptions) -> EngineOptions:
    """Return the engine's options: those of the environment, then of the session.

    Raises
    ------
    poplar_exception
        When one is unknown.
    BadOption
        When its value is not allowed.
    """
    stated: dict[str, Any] = {str(k): str(v) for k, v in dict(options.engineOptions).items()}
    of_products = dict(options.matmulOptions)
    if options.partialsTypeMatMuls:
        of_products.setdefault("partialsType", options.partialsTypeMatMuls)
    for group, given in (
        ("convolutionOptions", dict(options.convolutionOptions)),
        ("matmulOptions", of_products),
    ):
        for key, value in given.items():
            if key in _OF_PLANS:
                stated.setdefault(f"{group}.{key}", str(value))
            else:
                warn_once(f"SessionOptions.{group}[{key!r}]", "plans have no such choice")
    for name, value in dict(options.engineOptions).items():
        try:
            resolve(code={str(name): str(value)})
        except BadOption as error:
            if "unknown option" in str(error):
                raise poplar_exception(f"{error}: Unrecognised option '{name}'") from None
            raise
    return resolve(code=stated)


def question_of(
    model: Model, machine: Machine, options: SessionOptions, engine_options: EngineOptions
) -> ProgramQuestion:
    """Return what a session compiles: its model, with data made on the device if options ask so.

    Parameters
    ----------
    model
        The operator graph.
    machine
        The machine to compile for.
    options
        Of the session.
    engine_options
        Those that `engine_options_of` returns.
    """
    kind = _SYNTHETIC.get(options.syntheticDataMode)
    if kind is not None:
        model = with_synthetic_data(model, kind, 0)
    excess = None if engine_options.allow_out_of_memory else REPORTED
    settings = CompileSettings.of(engine_options, excess)
    outlines = bool(options.enableOutlining) and settings.outlines
    return ProgramQuestion(model, machine, replace(settings, outlines=outlines))


def compiled_for(question: ProgramQuestion, engine_options: EngineOptions) -> CompiledModel:
    """Compile a model as session options ask.

    Raises
    ------
    BadModel, BadOption, OutOfTileMemory
        As for `compile_model`.
    """
    return compile_with(
        question.model,
        question.machine,
        question.settings,
        engine_options.cache_directory,
        programs_of(engine_options),
    )
