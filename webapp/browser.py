"""What Dash lacks: typed clientside callbacks, ARIA attributes, and a store that is only data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from dash import ClientsideFunction, Dash
from dash.development.base_component import Component

__all__ = ["Store", "asset_url", "connect", "marked"]

_Component = TypeVar("_Component", bound=Component)

_ASSETS = Path(__file__).parent / "assets"


def asset_url(name: str) -> str:
    """Return the address of a file of ``assets``, which changes with the file."""
    return f"/assets/{name}?m={(_ASSETS / name).stat().st_mtime}"


def connect(app: Dash, function: str, *dependencies: Any, **options: Any) -> None:
    """Register ``namespace.name`` of the scripts in ``assets`` as a clientside callback."""
    namespace, _, name = function.partition(".")
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction(namespace, name), *dependencies, **options
    )


def marked(component: _Component, **attributes: str) -> _Component:
    """Set ``aria-`` or ``data-`` attributes, spelled with underscores, and return the component."""
    for name, value in attributes.items():
        setattr(component, name.replace("_", "-"), value)
    return component


class Store(Component):
    """Data of a page in the browser, which callbacks read and write; it draws nothing.

    Dash's own store comes with its core components, two hundred kilobytes of other scripts.
    """

    _children_props: list[str] = []  # noqa: RUF012 - as Dash declares it
    _base_nodes: list[str] = []  # noqa: RUF012
    _namespace = "tilescope_markup"
    _type = "Store"
    _prop_names: list[str] = ["id", "data"]  # noqa: RUF012
    _valid_wildcard_attributes: list[str] = []  # noqa: RUF012
    available_properties = _prop_names
    available_wildcard_properties: list[str] = []  # noqa: RUF012

    def __init__(self, id: str, data: Any = None) -> None:
        super().__init__(id=id, data=data)  # type: ignore[no-untyped-call]
