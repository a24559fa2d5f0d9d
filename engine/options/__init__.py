"""Engine options from POPLAR_ENGINE_OPTIONS, the command line and code, by precedence."""

from tilescope.engine.options.catalogue import OPTIONS, Kind, OptionSpec
from tilescope.engine.options.directory import engine_directory, missing_report
from tilescope.engine.options.precedence import (
    CACHE_VARIABLES,
    ENVIRONMENT_VARIABLE,
    EngineOptions,
    OptionRecord,
    resolve,
)

__all__ = [
    "CACHE_VARIABLES",
    "ENVIRONMENT_VARIABLE",
    "OPTIONS",
    "EngineOptions",
    "Kind",
    "OptionRecord",
    "OptionSpec",
    "engine_directory",
    "missing_report",
    "resolve",
]
