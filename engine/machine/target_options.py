"""POPLAR_TARGET_OPTIONS: the keys of public programs, with an effect or only recorded."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from tilescope.engine.errors import BadOption
from tilescope.engine.options.values import parse_object

__all__ = ["ENVIRONMENT_VARIABLE", "TARGET_OPTIONS", "TargetOption", "read_target_options"]

ENVIRONMENT_VARIABLE = "POPLAR_TARGET_OPTIONS"

_EXAMPLE = '{"ipuLinkTopology": "torus"}'


@dataclass(frozen=True)
class TargetOption:
    """One key: its allowed values (any string if empty) and its effect."""

    name: str
    choices: tuple[str, ...]
    meaning: str
    has_effect: bool = False


_COUNTS = tuple(str(count) for count in range(1, 65))

#: Keys used by public programs; keys without effect are recorded in the report.
TARGET_OPTIONS = {
    option.name: option
    for option in (
        TargetOption(
            "ipuLinkTopology",
            ("torus", "line", "mesh"),
            "How IPUs are linked; `line` and `mesh` are the ladder whose ends are not joined"
            " (assumption)",
            has_effect=True,
        ),
        TargetOption(
            "ipuLinkDomainSize",
            _COUNTS,
            "IPUs that links reach; more IPUs than that are refused, as gateway links are not"
            " modelled",
            has_effect=True,
        ),
        TargetOption("ipuLinkConfiguration", (), "How links are used, such as `slidingWindow`"),
        TargetOption("gatewayMode", ("true", "false"), "Whether gateways sit between the IPUs"),
        TargetOption("instanceSize", _COUNTS, "IPUs of an instance of a distributed program"),
        TargetOption("syncConfiguration", (), "Which IPUs sync together"),
    )
}


def read_target_options(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the options in POPLAR_TARGET_OPTIONS, all values as strings.

    Parameters
    ----------
    environ
        Mapping with the variable; the process's environment if None.

    Raises
    ------
    BadOption
        Malformed JSON, an unknown key, or an invalid value.
    """
    text = (os.environ if environ is None else environ).get(ENVIRONMENT_VARIABLE, "")
    options = parse_object(text, ENVIRONMENT_VARIABLE, _EXAMPLE)
    return {key: _value(key, value) for key, value in options.items()}


def _value(key: str, raw: object) -> str:
    option = TARGET_OPTIONS.get(key)
    if option is None:
        near = difflib.get_close_matches(key, TARGET_OPTIONS, 1, 0)[0]
        raise BadOption(
            f"{ENVIRONMENT_VARIABLE}: unknown key {key[:60]!r}; the nearest known one is '{near}'"
        )
    text = str(raw).lower() if isinstance(raw, bool) else str(raw)
    is_scalar = isinstance(raw, str | int | float)
    if not is_scalar or not text.isprintable() or (option.choices and text not in option.choices):
        allowed = (
            "an integer from 1 to 64"
            if option.choices == _COUNTS
            else " or ".join(option.choices) or "a string"
        )
        raise BadOption(
            f"{ENVIRONMENT_VARIABLE}: expected {allowed} for '{key}', got {text[:60]!r}"
        )
    return text
