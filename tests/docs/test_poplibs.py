"""The page of PopLibs' functions: what it names exists, and each name is there once."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest
from docs.pages.poplibs import NAMES, render

from tilescope.engine.codelets.popops.elementwise.binary_functions import BINARY_RATES
from tilescope.engine.codelets.popops.elementwise.ternary import TERNARY_RATES
from tilescope.engine.codelets.popops.elementwise.unary_functions import UNARY_RATES
from tilescope.engine.library.popnn.non_linearity import NON_LINEARITIES

FUNCTIONS = {*UNARY_RATES, *BINARY_RATES, *TERNARY_RATES, *NON_LINEARITIES}


def resolved(place: str) -> Any:
    """Return what a dotted place below `tilescope.engine` names."""
    parts = place.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            actual: Any = import_module(".".join(["tilescope.engine", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            actual = getattr(actual, part)
        return actual
    raise LookupError(place)


@pytest.mark.parametrize("place", sorted({name.ours for name in NAMES if name.ours}))
def test_a_counterpart_exists(place: str) -> None:
    assert resolved(place) is not None


def test_functions_in_notes_exist() -> None:
    named = {word for name in NAMES for word in re.findall(r'`"(\w+)"`', name.note)}
    assert named
    assert named <= FUNCTIONS


def test_every_function_has_a_counterpart_or_a_reason() -> None:
    assert [name for name in NAMES if not name.ours and not name.note] == []


def test_a_function_of_a_header_is_there_once() -> None:
    keys = [(name.header, name.name) for name in NAMES]
    assert len(keys) == len(set(keys))
    page = render()
    assert all(f"| `{name.name}` |" in page for name in NAMES)


def test_every_header_is_there() -> None:
    libraries = {name.header.partition("/")[0] for name in NAMES}
    assert libraries == {"popops", "popnn", "poprand", "poplin", "popsparse"}
