"""Static content becomes data; components with behaviour stay Dash components."""

from __future__ import annotations

from dash import dcc, html

from tilescope.webapp.browser import marked
from tilescope.webapp.components.data_table import column, data_table
from tilescope.webapp.components.links import page_link
from tilescope.webapp.components.markup import Markup, frozen


def test_elements_become_a_tree_with_their_attributes() -> None:
    cell = marked(html.Td(["a", html.B(3)], className="number", colSpan=2), data_key="x/y")
    tree = frozen([html.Tr(cell), "after", None])
    assert isinstance(tree, Markup)
    assert tree.tree == [
        {
            "t": "tr",
            "c": [
                {
                    "t": "td",
                    "p": {"className": "number", "colSpan": 2, "data-key": "x/y"},
                    "c": ["a", {"t": "b", "c": ["3"]}],
                }
            ],
        },
        "after",
        "",
    ]


def test_what_has_behaviour_is_left_to_dash() -> None:
    for part in (
        dcc.Link("page", href="/memory"),
        html.A("away", href="https://example.org"),
        html.Button("do", id="do", n_clicks=0),
        html.Div(id={"type": "page", "path": "/"}),
    ):
        content = html.Div([html.Span("before"), part])
        assert frozen(content) is content


def test_links_between_pages_are_static() -> None:
    link = page_link("<b>a & b</b>", "/memory", {"report": "r"}, var="<b>a & b</b>")
    (node,) = frozen(html.Div(link)).tree["c"]
    assert (node["t"], node["c"]) == ("a", ["<b>a & b</b>"])
    assert node["p"]["href"] == "/memory?report=r&var=%3Cb%3Ea+%26+b%3C/b%3E"


def test_texts_and_numbers_stay_what_they_are() -> None:
    assert frozen("text") == "text"
    assert frozen(3) == 3
    assert frozen(None) is None


def test_names_are_shown_without_marks_that_disguise_them() -> None:
    name = "conv\u202egnp.exe"
    static = frozen([html.Td(name, title=name), f"{name}\nbelow"])
    assert static.tree == [
        {"t": "td", "p": {"title": "conv�gnp.exe"}, "c": ["conv�gnp.exe"]},
        "conv�gnp.exe\nbelow",
    ]
    table = data_table([column("x", "X")], {"x": [name]}, label="Names", empty="None.", file="x")
    part = html.Button(name, id="do", n_clicks=0, title=name)
    text = frozen(html.Div([html.Span(["of ", name]), part, table]))
    span, button, same = text.children
    assert span.children == ["of ", "conv�gnp.exe"]
    assert (button.children, button.title) == ("conv�gnp.exe", "conv�gnp.exe")
    assert same is table
    assert table.data == {"x": [name]}, "what is saved is exact"
