"""Static content as a single component, whatever its number of elements.

Dash wraps every element in a component with its own subscription, so a table of a few hundred
cells takes longer to mount than to compute. Content that no callback refers to needs no wrappers:
``frozen`` turns it into plain data, from which ``assets/markup.js`` builds all elements at once.
"""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component
from markupsafe import escape

from tilescope.analyser.shown_text import shown_lines

__all__ = ["PAGE_LINK", "Markup", "as_html", "frozen"]

#: Class of the links that `assets/shell.js` follows.
PAGE_LINK = "page-link"
#: Elements without behaviour; forms stay Dash components. The frame follows links between pages.
_TAGS = {
    kind: kind.__name__.lower()
    for kind in (
        html.A, html.B, html.Button, html.Code, html.Details, html.Div, html.H2, html.H3, html.H4,
        html.Kbd, html.Li, html.P, html.Section, html.Span, html.Strong, html.Summary, html.Table,
        html.Tbody, html.Td, html.Th, html.Thead, html.Tr, html.Ul,
    )
}  # fmt: skip


#: Properties that are shown or read out.
_TEXTS = {"children", "title", "label", "description", "aria-label"}


class Markup(Component):
    """Elements as data: a tree is a str, a list of trees, or ``{t: tag, p: props, c: trees}``."""

    _children_props: list[str] = []  # noqa: RUF012 - as Dash declares it
    _base_nodes: list[str] = []  # noqa: RUF012
    _namespace = "tilescope_markup"
    _type = "Markup"
    _prop_names: list[str] = ["tree"]  # noqa: RUF012
    _valid_wildcard_attributes: list[str] = []  # noqa: RUF012
    available_properties = _prop_names
    available_wildcard_properties: list[str] = []  # noqa: RUF012

    tree: Any

    def __init__(self, tree: Any) -> None:
        super().__init__(tree=tree)  # type: ignore[no-untyped-call]


def frozen(content: Any) -> Any:
    """Return content as one component, or as it is if any part of it has behaviour.

    Texts are without characters that hide or disguise others.
    """
    if isinstance(content, Component | list | tuple):
        try:
            return Markup(_tree(content))
        except _HasBehaviour:
            pass
    return _shown(content)


def _shown(content: Any) -> Any:
    """Return content with texts and titles as they may be shown; data of tables stays exact."""
    if isinstance(content, str):
        return shown_lines(content)
    if isinstance(content, list | tuple):
        return [_shown(part) for part in content]
    if isinstance(content, Component) and not isinstance(content, Markup):
        for name in _TEXTS & vars(content).keys():
            setattr(content, name, _shown(getattr(content, name)))
    return content


def as_html(content: Any) -> str:
    """Return static content as HTML.

    Raises
    ------
    ValueError
        When a part of it has behaviour.
    """
    try:
        return _html(_tree(content))
    except _HasBehaviour as error:
        raise ValueError("expected static content") from error


def _html(tree: Any) -> str:
    if isinstance(tree, str):
        return str(escape(tree))
    if isinstance(tree, list):
        return "".join(map(_html, tree))
    attributes = "".join(
        f' {_ATTRIBUTES.get(name, name)}="{escape(_attribute(value))}"'
        for name, value in tree.get("p", {}).items()
        if value is not None and value is not False
    )
    return f"<{tree['t']}{attributes}>{_html(tree.get('c', []))}</{tree['t']}>"


#: Properties that HTML spells in another way.
_ATTRIBUTES = {"className": "class", "colSpan": "colspan", "rowSpan": "rowspan"}


def _attribute(value: Any) -> str:
    """Return the text of an attribute; a style is a dictionary."""
    if isinstance(value, dict):
        return ";".join(f"{name}:{part}" for name, part in value.items())
    return "" if value is True else str(value)


class _HasBehaviour(Exception):
    """A part of the content is not static."""


def _tree(content: Any) -> Any:
    """Return content as data."""
    if content is None or isinstance(content, str | int | float):
        return "" if content is None else shown_lines(str(content))
    if isinstance(content, list | tuple):
        return [_tree(part) for part in content]
    tag = _TAGS.get(type(content))
    if tag is None:
        raise _HasBehaviour
    props = dict(content.to_plotly_json()["props"])
    children = props.pop("children", None)
    is_away = tag == "a" and props.get("className") != PAGE_LINK
    if is_away or "n_clicks" in props or isinstance(props.get("id"), dict):
        raise _HasBehaviour
    node: dict[str, Any] = {"t": tag}
    if props:
        node["p"] = {
            name: shown_lines(value) if isinstance(value, str) else value
            for name, value in props.items()
        }
    if children is not None:
        node["c"] = _tree(children if isinstance(children, list | tuple) else [children])
    return node
