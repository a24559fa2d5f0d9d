"""From PopART's session options to the engine's."""

from __future__ import annotations

from typing import Any

from popart.effect import warn_once
from popart.enums import SyntheticDataMode
from popart.options import SessionOptions
from tilescope.engine.ir import Model
from tilescope.engine.machine import Machine
from tilescope.engine.options import EngineOptions, resolve
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.catalogue import OUTLINING
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.source_compilation import programs_of
from tilescope.engine.session.synthetic_data import with_synthetic_data

__all__ = ["compiled_for", "engine_options_of"]

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
    BadOption
        When one is unknown, or its value is not allowed.
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
    if options.enableEngineCaching and options.cachePath:
        stated.setdefault("cachePath", str(options.cachePath))
    return resolve(code=stated)


def compiled_for(
    model: Model, machine: Machine, options: SessionOptions, engine_options: EngineOptions
) -> CompiledModel:
    """Compile a model as session options ask.

    Raises
    ------
    BadModel, BadOption, OutOfTileMemory
        As for `compile_model`.
    """
    kind = _SYNTHETIC.get(options.syntheticDataMode)
    if kind is not None:
        model = with_synthetic_data(model, kind, 0)
    return compile_model(
        model,
        machine,
        is_instrumented=engine_options.instrument,
        is_checked=engine_options.flag("debug.verify"),
        available_memory=AvailableMemory.given(engine_options),
        cache_directory=engine_options.cache_directory,
        programs=programs_of(engine_options),
        partials=PartialsTypes.of(engine_options),
        outlines=bool(options.enableOutlining) and engine_options.flag(OUTLINING),
        without=engine_options.patterns_off,
        excess=None if engine_options.allow_out_of_memory else _reported(),
    )


def _reported() -> Any:
    from tilescope.engine.session.capacity import REPORTED

    return REPORTED
