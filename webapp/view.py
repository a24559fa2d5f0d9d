"""The state of a page in the URL: its parameters, and their connection to the controls.

The URL is the single source of truth. Controls write it (``assets/view.js``); reading it sets the
controls and the page's store ``view-<name>``, and only that store triggers server callbacks. A
panel that depends on some parameters only has a store of its own, ``view-<name>-<panel>``, which
changes with these (``PANELS`` of the page).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from dash import Dash, Input, Output, State

from tilescope.webapp.browser import Store, connect
from tilescope.webapp.errors import WebError

__all__ = [
    "BadView",
    "Parameter",
    "parse_number",
    "parse_numbers",
    "parse_range",
    "register_view",
    "view_names",
    "view_store",
    "view_stores",
]


class BadView(WebError):
    """A parameter in the URL is invalid."""

    code = "bad_view"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a page in the URL.

    ``control`` is the id of the component that shows and changes it, empty if only the page's
    script does; ``prop`` is the property of that component. Values are strings; a switch is
    ``1`` when on. A parameter at its ``default`` is omitted from the URL. ``selects`` is the kind
    of thing that its value names (step, tile, program, operation, variable): choosing one selects
    it on all pages.
    """

    name: str
    default: str = ""
    control: str = ""
    prop: str = "value"
    selects: str = ""


def view_store(name: str, panel: str = "") -> str:
    """Return the id of the store with a page's state, or with what one of its panels depends on."""
    return f"view-{name}-{panel}" if panel else f"view-{name}"


def view_names(pages: Sequence[ModuleType]) -> dict[str, tuple[str, ...]]:
    """Return the names in the state that callbacks read, by the id of its store."""
    names = {}
    for page in pages:
        name = page.PATH.strip("/")
        parameters = [parameter.name for parameter in _parameters(page)]
        names[view_store(name)] = ("report", "with", *parameters)
        for panel, needed in _panels(page).items():
            names[view_store(name, panel)] = ("report", "with", *needed)
    return names


def view_stores(name: str, page: ModuleType) -> list[Store]:
    """Return the stores of a page: address, state, states of its panels, facts for the scripts."""
    description = {
        "name": name,
        "path": page.PATH,
        "parameters": [asdict(parameter) for parameter in _parameters(page)],
        "panels": {view_store(name, panel): names for panel, names in _panels(page).items()},
    }
    return [
        Store(id=f"address-{name}"),
        Store(id=f"spec-{name}", data=description),
        Store(id=view_store(name)),
        *(Store(id=view_store(name, panel)) for panel in _panels(page)),
    ]


def register_view(app: Dash, page: ModuleType) -> None:
    """Connect URL, controls and state of a page, entirely in the browser."""
    name = page.PATH.strip("/")
    controls = [parameter for parameter in _parameters(page) if parameter.control]
    connect(
        app,
        "view.read",
        Output(view_store(name), "data"),
        *(Output(parameter.control, parameter.prop) for parameter in controls),
        Input(f"address-{name}", "data"),
        State(f"spec-{name}", "data"),
        State(view_store(name), "data"),
    )
    for panel in _panels(page):
        connect(
            app,
            "view.derive",
            Output(view_store(name, panel), "data"),
            Input(view_store(name), "data"),
            State(f"spec-{name}", "data"),
            State(view_store(name, panel), "data"),
            prevent_initial_call=True,
        )
    if controls:
        connect(
            app,
            "view.write",
            *(Input(parameter.control, parameter.prop) for parameter in controls),
            State(f"spec-{name}", "data"),
            prevent_initial_call=True,
        )


def _parameters(page: ModuleType) -> Sequence[Parameter]:
    """Return the parameters of a page."""
    parameters: Sequence[Parameter] = getattr(page, "VIEW", ())
    return parameters


def _panels(page: ModuleType) -> Mapping[str, Sequence[str]]:
    """Return the parameters that panels of a page depend on, besides its reports."""
    results: Mapping[str, Sequence[str]] = getattr(page, "PANELS", {})
    return results


def parse_range(view: dict[str, Any], name: str) -> tuple[float, float] | None:
    """Return the range ``a:b`` of a parameter, None if it is not set.

    Raises
    ------
    BadView
        When it is not two ascending numbers.
    """
    text = str(view.get(name) or "")
    if not text:
        return None
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        low, high = 0.0, 0.0
    if not (low < high and math.isfinite(high - low)):
        raise BadView(
            f"Expected a range such as 10:20 in the address, got {text[:40]!r}; reset the zoom."
        )
    return low, high


def parse_number(view: dict[str, Any], name: str, *, noun: str, hint: str) -> int | None:
    """Return the integer value of a parameter, None if it is not set.

    Parameters
    ----------
    view
        The state of a page.
    name
        The parameter.
    noun
        What the number stands for.
    hint
        What to do if it is not a number.

    Raises
    ------
    BadView
        When it is not a non-negative integer.
    """
    text = str(view.get(name) or "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadView(f"The {noun} {text[:40]!r} in the address is not a number; {hint}.")
    return int(text)


def parse_numbers(text: str, *, limit: int, noun: str) -> list[int]:
    """Return the distinct numbers of a list such as ``0, 5, 100-103``, in the order given.

    Raises
    ------
    BadView
        When an item is not a number or a range, or is not below ``limit``.
    """
    numbers: dict[int, None] = {}
    for part in text.replace(";", ",").split(","):
        word = part.strip()
        if not word:
            continue
        first, dash, last = word.partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            low, high = 1, 0
        if not 0 <= low <= high < limit:
            raise BadView(
                f"{word[:40]!r} is not a {noun}; expected numbers from 0 to {limit - 1:,}"
                " such as 0, 5, 100-103."
            )
        numbers.update(dict.fromkeys(range(low, high + 1)))
    return list(numbers)
