"""Checks of the options of a model, when it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from poptorch._logging import logger, warn_once
from poptorch.errors import error_of
from poptorch.options.popart_names import ACTING, GROUPS, NAMES

__all__ = ["check_options", "check_popart_options"]

#: Options of PopTorch that change nothing on the simulated machine, with the reason, where their
#: value is not this one.
_WITHOUT_EFFECT: dict[str, tuple[Any, str]] = {
    "broadcast_buffers": (True, "all replicas begin with the buffers of the model"),
    "log_dir": (".", "nothing is logged into files"),
    "max_repeat_logs": (4, "messages are not cut"),
    "sync_pattern": (0, "all IPUs of a replica synchronise"),
    "ipu_id": (None, "all devices are alike"),
}

#: Options of PopART that PopTorch sets itself, or that say what the engine does always.
_QUIET = ("enableStableNorm", "patterns", "patterns_level", "rearrangeAnchorsOnHost")


def check_options(values: Mapping[str, Any], popart: Mapping[str, Any]) -> None:
    """Refuse unknown options, and warn once of those without effect.

    Parameters
    ----------
    values
        All options by name, as `Options.toDict` returns them.
    popart
        Those of PopART.

    Raises
    ------
    Error
        Names an option that does not exist, or has a value of a wrong type.
    """
    for name, value in values.items():
        if name in popart:
            continue
        _log(name, value)
        neutral, reason = _WITHOUT_EFFECT.get(name, (value, ""))
        if value != neutral:
            warn_once(f"poptorch.Options: {name}", reason)
    check_popart_options(popart)


def check_popart_options(popart: Mapping[str, Any]) -> None:
    """Refuse unknown options of PopART, and warn once of those without effect.

    Raises
    ------
    Error
        Names an option that does not exist, or has a value of a wrong type.
    """
    for name, value in popart.items():
        kind = type(value).__name__
        if not isinstance(value, (bool, int, float, str, dict, list, tuple, set, frozenset)):
            raise error_of("poptorch_cpp_error", f"Unknown value type {kind} for option {name}")
        group = name.partition(".")[0]
        if name not in NAMES and not ("." in name and group in GROUPS):
            close = get_close_matches(name, NAMES, 3)
            hint = f". Did you mean {' or '.join(close)}?" if close else ""
            raise error_of("poptorch_cpp_error", f"Unknown {kind} option {name}{hint}")
        _log(name, value)
        if group not in ACTING and name not in _QUIET:
            warn_once(f"poptorch.Options._Popart: {name}", "the engine has no such choice")


def _log(name: str, value: Any) -> None:
    """Write an option and its value into the log."""
    if isinstance(value, dict):
        for key, item in value.items():
            logger.debug("poptorch.Options set %s[%s] to %s", name, key, item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            logger.debug("poptorch.Options added %s to %s", item, name)
    elif not callable(value):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        logger.debug("poptorch.Options set %s to value %s", name, text)
