"""Typed wrappers of Dash: clientside callbacks and ARIA attributes."""

from __future__ import annotations

from typing import Any, TypeVar

from dash import ClientsideFunction, Dash
from dash.development.base_component import Component

__all__ = ["connect", "marked"]

_Component = TypeVar("_Component", bound=Component)


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
