"""The value in effect of every option, and its origin."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tilescope.engine.options.catalogue import OPTIONS, Value
from tilescope.engine.options.patterns import PATTERNS, pattern_option
from tilescope.engine.options.values import checked, parse_object

__all__ = [
    "CACHE_VARIABLES",
    "ENVIRONMENT_VARIABLE",
    "RUNTIME_VARIABLE",
    "EngineOptions",
    "OptionRecord",
    "resolve",
]

ENVIRONMENT_VARIABLE = "POPLAR_ENGINE_OPTIONS"
#: Options of a run; they take precedence over those of the engine.
RUNTIME_VARIABLE = "POPLAR_RUNTIME_OPTIONS"
#: Variables with the folder of the executable cache; the first one set enables the cache.
CACHE_VARIABLES = ("POPXL_CACHE_DIR", "POPART_CACHE_DIR", "POPTORCH_CACHE_DIR")

_log = logging.getLogger(__name__)
_warned: set[str] = set()


@dataclass(frozen=True)
class OptionRecord:
    """One row of the report's table of options; ``origin`` is the source of the value."""

    name: str
    value: str
    origin: str
    has_effect: bool


@dataclass(frozen=True)
class _Setting:
    value: Value
    origin: str


class EngineOptions:
    """The options in effect for one engine; created by :func:`resolve`."""

    def __init__(self, settings: Mapping[str, _Setting]) -> None:
        self._settings = dict(settings)

    def _setting(self, name: str) -> _Setting | None:
        """Return the setting in effect: given, inherited from another flag, or the default."""
        setting = self._settings.get(name)
        if setting is not None:
            return setting
        spec = OPTIONS[name]
        if spec.follows is not None:
            return self._setting(spec.follows)
        return None if spec.default is None else _Setting(spec.default, "default")

    def value(self, name: str) -> Value | None:
        """Return the value in effect of any known option; None if it is unset."""
        setting = self._setting(name)
        return None if setting is None else setting.value

    def flag(self, name: str) -> bool:
        """Return a flag; False if unset."""
        return bool(self.value(name))

    def count(self, name: str) -> int:
        """Return an integer; 0 if unset."""
        return int(self.value(name) or 0)

    def real(self, name: str) -> float:
        """Return a number; 0 if unset."""
        return float(self.value(name) or 0)

    def text(self, name: str) -> str:
        """Return a string; empty if unset."""
        value = self.value(name)
        return "" if value is None else _as_text(value)

    @property
    def report_directory(self) -> Path:
        """Folder of the report of an unnamed engine; see also :func:`engine_directory`."""
        return Path(self.text("autoReport.directory")).expanduser()

    @property
    def cache_directory(self) -> Path | None:
        """Folder of the executable cache; None if caching is disabled."""
        if not self.flag("enableEngineCaching"):
            return None
        return Path(self.text("cachePath")).expanduser()

    @property
    def writes_report(self) -> bool:
        """Whether to write any part of a report."""
        return self.writes_graph_profile or self.wants_execution_profile

    @property
    def writes_graph_profile(self) -> bool:
        """Whether to write the compilation part."""
        return self.flag("autoReport.outputGraphProfile")

    @property
    def writes_debug_info(self) -> bool:
        """Whether a ``debug.cbor`` is written beside the report."""
        return self.flag("autoReport.outputDebugInfo")

    @property
    def wants_execution_profile(self) -> bool:
        """Whether the execution part is requested; it takes instrumentation to write it."""
        return self.flag("autoReport.outputExecutionProfile")

    @property
    def writes_execution_profile(self) -> bool:
        """Whether to write the execution part."""
        return self.wants_execution_profile and self.instrument

    @property
    def profiled_runs(self) -> int:
        """Maximum number of runs in the execution part."""
        return self.count("autoReport.executionProfileProgramRunCount")

    @property
    def allow_out_of_memory(self) -> bool:
        """Whether to complete the compilation of a program that does not fit."""
        return self.flag("debug.allowOutOfMemory")

    @property
    def instrument(self) -> bool:
        """Whether to count cycles at run time."""
        return self.flag("debug.instrument")

    @property
    def allows_instrumentation(self) -> bool:
        """Whether programs may have cycle counters: unless ``debug.instrument`` is turned off."""
        setting = self._settings.get("debug.instrument")
        return setting is None or bool(setting.value)

    @property
    def patterns_off(self) -> list[str]:
        """The rewrites of models that are turned off."""
        return [name for name in PATTERNS if not self.flag(pattern_option(name))]

    def is_given(self, name: str) -> bool:
        """Whether an option was set, rather than left at its default."""
        return name in self._settings

    def override(self, name: str) -> str:
        """Return ``name=value`` if the environment sets an option; else an empty string."""
        setting = self._settings.get(name)
        if setting is None or setting.origin != "environment":
            return ""
        return f"{name}={_as_text(setting.value)}"

    def records(self) -> list[OptionRecord]:
        """Return all options with an effect, and all others that were given, in catalogue order."""
        rows = []
        for name, spec in OPTIONS.items():
            if not (spec.has_effect or name in self._settings):
                continue
            setting = self._setting(name)
            if setting is not None:
                text = _as_text(setting.value)
                rows.append(OptionRecord(name, text, setting.origin, spec.has_effect))
        return rows


def resolve(
    *,
    environ: Mapping[str, str] | None = None,
    command_line: Mapping[str, object] | None = None,
    code: Mapping[str, object] | None = None,
) -> EngineOptions:
    """Return the options in effect. Precedence: environment, command line, code, defaults.

    Parameters
    ----------
    environ
        Mapping with POPLAR_ENGINE_OPTIONS, POPLAR_RUNTIME_OPTIONS and `CACHE_VARIABLES`; the
        process's environment if None. POPLAR_ENGINE_OPTIONS takes precedence over the last,
        POPLAR_RUNTIME_OPTIONS over both.
    command_line, code
        Options by key, values as strings, booleans or numbers.

    Raises
    ------
    BadOption
        Malformed JSON, an unknown key or an invalid value.
    """
    given_by_environment = os.environ if environ is None else environ
    text = given_by_environment.get(ENVIRONMENT_VARIABLE, "")
    from_environment = {
        **_cache_of(given_by_environment),
        **checked(parse_object(text, ENVIRONMENT_VARIABLE), ENVIRONMENT_VARIABLE),
        **checked(
            parse_object(given_by_environment.get(RUNTIME_VARIABLE, ""), RUNTIME_VARIABLE),
            RUNTIME_VARIABLE,
        ),
    }
    sources = (
        ("code", checked(code or {}, "options in code")),
        ("command line", checked(command_line or {}, "options of the command line")),
        ("environment", from_environment),
    )
    settings = {
        name: _Setting(value, origin)
        for origin, argument in sources
        for name, value in argument.items()
    }
    _warn_of_idle(settings)
    return EngineOptions(settings)


def _cache_of(environ: Mapping[str, str]) -> dict[str, Value]:
    """Return the options set by a variable of the executable cache."""
    named = [name for name in CACHE_VARIABLES if environ.get(name)]
    if not named:
        return {}
    first, *rest = named
    for setting in rest:
        if environ[setting] != environ[first] and setting not in _warned:
            _warned.add(setting)
            _log.warning("warning: %s is ignored: %s takes precedence", setting, first)
    return checked({"enableEngineCaching": True, "cachePath": environ[first]}, first)


def _warn_of_idle(names: Iterable[str]) -> None:
    """Warn once per process about given options without effect."""
    idle = [name for name in names if not OPTIONS[name].has_effect and name not in _warned]
    if idle:
        _warned.update(idle)
        verb = "has" if len(idle) == 1 else "have"
        _log.warning(
            "warning: %s %s no effect here; recorded in the report only", ", ".join(idle), verb
        )


def _as_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
