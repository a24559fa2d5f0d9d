"""Parses POPLAR_ENGINE_OPTIONS, and converts raw values to the types of options."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping

from tilescope.engine.errors import BadOption
from tilescope.engine.options.catalogue import OPTIONS, Kind, OptionSpec, Value

__all__ = ["checked", "parse_object"]

_EXAMPLE = '{"autoReport.all": "true", "autoReport.directory": "./report"}'
_LARGEST_COUNT = 2**63 - 1
_SHOWN = 60
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
#: Share of a name, or of its last part, that a hint must have in common with it.
_NEAR = 0.8


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
        unique: dict[str, object] = {}
        for key, value in pairs:
            if key in unique:
                raise BadOption(f"{where}: duplicate key {_shown(key)}; remove one")
            unique[key] = value
        return unique

    def no_constant(name: str) -> object:
        raise BadOption(f"{where}: {name} is not valid in JSON; expected a number")

    try:
        parsed = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)
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
    if not isinstance(parsed, dict):
        raise BadOption(
            f"{where} must be a JSON object of options, got {_json_kind(parsed)};"
            f" expected a value such as {example}"
        )
    return parsed


def checked(options: Mapping[str, object], where: str) -> dict[str, Value]:
    """Return the given options with values of the types in the catalogue.

    Raises
    ------
    BadOption
        A key is unknown or a value is invalid.
    """
    values: dict[str, Value] = {}
    for name, raw in options.items():
        spec = _spec(name, where)
        key = spec.successor or name
        if spec.successor is not None and spec.successor in options:
            raise BadOption(
                f"{where}: '{name}' and '{key}' are one option under two names; remove the first"
            )
        values[key] = _value(spec, raw, where)
    return values


def _spec(name: str, where: str) -> OptionSpec:
    spec = OPTIONS.get(name)
    if spec is None:
        near = _nearest(name, OPTIONS)
        hint = f"did you mean '{near}'?" if near else "the page Engine options lists all known ones"
        raise BadOption(f"{where}: unknown option {_shown(name)}; {hint}")
    return spec


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the known key most similar to a name, ignoring case; empty if none is near."""
    folded = {key.lower(): key for key in known}
    shortened = name.lower()[:100]
    # The last part has double weight: users misremember the group more often than the option.
    last = shortened.rsplit(".", 1)[-1]

    def likeness(key: str) -> float:
        ratio = difflib.SequenceMatcher(None, shortened, key).ratio()
        tail = difflib.SequenceMatcher(None, last, key.rsplit(".", 1)[-1]).ratio()
        return ratio + 2 * tail

    nearest = max(folded, key=likeness)
    is_near = difflib.SequenceMatcher(None, shortened, nearest).ratio() >= _NEAR
    is_near |= difflib.SequenceMatcher(None, last, nearest.rsplit(".", 1)[-1]).ratio() >= _NEAR
    return folded[nearest] if is_near else ""


def _value(spec: OptionSpec, raw: object, where: str) -> Value:
    text = _as_text(raw)
    value = None if text is None else _converted(spec, text)
    if value is None:
        got = _json_kind(raw) if text is None else _shown(text)
        raise BadOption(f"{where}: expected {spec.allowed} for '{spec.name}', got {got}")
    return value


def _converted(spec: OptionSpec, text: str) -> Value | None:
    """Return a string as the value of an option; None if the option does not take it."""
    if spec.kind is Kind.COUNT_OR_WORD and text.strip() in spec.choices:
        return text.strip()
    value = _CONVERT[spec.kind](text)
    if spec.kind is Kind.TEXT and spec.choices and value not in spec.choices:
        return None
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
    if _HEXADECIMAL.fullmatch(digits):
        return int(digits, 16) if int(digits, 16) <= _LARGEST_COUNT else None
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
    Kind.COUNT_OR_WORD: _count,
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
