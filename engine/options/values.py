"""Parses POPLAR_ENGINE_OPTIONS, and converts raw values to the types of options."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping

from tilescope.engine.errors import BadOption
from tilescope.engine.options.catalogue import OPTIONS, Kind, OptionSpec, Value

__all__ = ["checked", "parse_object"]

_EXAMPLE = '{"autoReport.all": "true", "autoReport.directory": "./report"}'
_LARGEST_COUNT = 2**63 - 1
_SHOWN = 60


def parse_object(text: str, where: str, example: str = _EXAMPLE) -> dict[str, object]:
    """Return the keys and raw values of a JSON object; blank text is an empty object.

    Parameters
    ----------
    text
        JSON text.
    where
        Name of the text in errors.
    example
        Example value shown in errors.

    Raises
    ------
    BadOption
        The text is not JSON, not an object, or has duplicate keys.
    """
    if not text.strip():
        return {}

    def no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
        seen: dict[str, object] = {}
        for key, value in pairs:
            if key in seen:
                raise BadOption(f"{where}: duplicate key {_shown(key)}; remove one")
            seen[key] = value
        return seen

    def no_constant(name: str) -> object:
        raise BadOption(f"{where}: {name} is not valid in JSON; expected a number")

    try:
        found = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise BadOption(
            f"{where} is not valid JSON at line {error.lineno}, column {error.colno}"
            f" ({error.msg}); expected a value such as {example}"
        ) from None
    except (ValueError, RecursionError):
        raise BadOption(
            f"{where} is not usable JSON: a number is too long or it is nested too deeply;"
            f" expected a value such as {example}"
        ) from None
    if not isinstance(found, dict):
        raise BadOption(
            f"{where} must be a JSON object of options, got {_json_kind(found)};"
            f" expected a value such as {example}"
        )
    return found


def checked(given: Mapping[str, object], where: str) -> dict[str, Value]:
    """Return the given options with values of the types in the catalogue.

    Raises
    ------
    BadOption
        A key is unknown or a value is invalid.
    """
    return {name: _value(_spec(name, where), raw, where) for name, raw in given.items()}


def _spec(name: str, where: str) -> OptionSpec:
    spec = OPTIONS.get(name)
    if spec is None:
        nearest = _nearest(name, OPTIONS)
        raise BadOption(
            f"{where}: unknown option {_shown(name)}; the nearest known one is '{nearest}'"
        )
    return spec


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the known key most similar to a name, ignoring case."""
    folded = {key.lower(): key for key in known}
    shortened = name.lower()[:100]
    # The last part has double weight: users misremember the group more often than the option.
    last = shortened.rsplit(".", 1)[-1]

    def likeness(key: str) -> float:
        whole = difflib.SequenceMatcher(None, shortened, key).ratio()
        tail = difflib.SequenceMatcher(None, last, key.rsplit(".", 1)[-1]).ratio()
        return whole + 2 * tail

    return folded[max(folded, key=likeness)]


def _value(spec: OptionSpec, raw: object, where: str) -> Value:
    text = _as_text(raw)
    value = None if text is None else _CONVERT[spec.kind](text)
    if value is None or (spec.choices and value not in spec.choices):
        got = _json_kind(raw) if text is None else _shown(text)
        raise BadOption(f"{where}: expected {spec.allowed} for '{spec.name}', got {got}")
    return value


def _as_text(raw: object) -> str | None:
    """Return a JSON scalar as the string that Poplar would receive; None for other values."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, int):
        # A larger integer is out of range for every option, and slow to convert to text.
        return str(raw) if abs(raw) <= _LARGEST_COUNT else "a number beyond 64 bits"
    if isinstance(raw, float):
        return repr(int(raw)) if raw.is_integer() else repr(raw)
    return raw if isinstance(raw, str) else None


def _flag(text: str) -> bool | None:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower())


def _count(text: str) -> int | None:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(_LARGEST_COUNT))):
        return None
    count = int(digits)
    return count if count <= _LARGEST_COUNT else None


def _real(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _share(text: str) -> float | None:
    number = _real(text)
    return None if number is None or not 0 < number <= 1 else number


def _text(text: str) -> str | None:
    return text if text and text.isprintable() else None


_CONVERT = {
    Kind.FLAG: _flag,
    Kind.COUNT: _count,
    Kind.REAL: _real,
    Kind.SHARE: _share,
    Kind.TEXT: _text,
}


def _shown(text: str) -> str:
    """Return text quoted, truncated and without control characters."""
    if not text:
        return "an empty string"
    shortened = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return "'" + "".join(c if c.isprintable() else "?" for c in shortened) + "'"


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, int | float) else f"a {type(value).__name__}"
