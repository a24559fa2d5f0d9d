"""A picture of the layers, drawn from the import contracts that every check enforces."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["render"]

_PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_COLUMN, _GAP, _MARGIN = 300, 28, 24
_ROW, _BOX, _TOP = 38, 28, 62


def _columns() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield every container of a layers contract with its layers, top first."""
    contracts = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]
    layered: list[Mapping[str, Any]] = [c for c in contracts["contracts"] if c["type"] == "layers"]
    for contract in layered:
        for container in contract["containers"]:
            rows = [layer.replace(":", "|").split("|") for layer in contract["layers"]]
            yield container, [[name.strip(" ()") for name in row] for row in rows]


def _box(x: float, y: float, width: float, name: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{_BOX}" rx="4"/>'
        f'<text x="{x + width / 2:g}" y="{y + 18.5:g}">{escape(name)}</text>'
    )


def _column(x: int, container: str, rows: list[list[str]]) -> Iterator[str]:
    yield f'<text class="title" x="{x + _COLUMN / 2:g}" y="{_TOP - 14}">{escape(container)}</text>'
    for i, row in enumerate(rows):
        width = (_COLUMN - 6 * (len(row) - 1)) / len(row)
        for k, name in enumerate(row):
            yield _box(x + k * (width + 6), _TOP + i * _ROW, width, name)
    end = _TOP + (len(rows) - 1) * _ROW + _BOX
    yield f'<path d="M{x - 10} {_TOP + 4}V{end - 4}m-4 -7l4 7l4 -7"/>'


def render() -> str:
    """Return the picture as SVG: a column per container, whose rows import only rows below."""
    columns = list(_columns())
    width = 2 * _MARGIN + len(columns) * (_COLUMN + _GAP) - _GAP
    height = _TOP + max(len(rows) for _, rows in columns) * _ROW + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Layers: a box imports only boxes below it; boxes side by side are"
        " independent</title>",
        "<style>text{font:13px sans-serif;text-anchor:middle;fill:#1f2430}"
        ".title{font-weight:600}.note{text-anchor:start;fill:#555b66}"
        "rect{fill:#e8eef7;stroke:#8aa0c0}path{fill:none;stroke:#8aa0c0;stroke-width:1.5}</style>",
        f'<rect width="{width}" height="{height}" style="fill:#fff;stroke:none"/>',
        f'<text class="note" x="{_MARGIN}" y="22">A box imports only boxes below it. Boxes side by'
        " side do not import one another.</text>",
    ]
    for i, (container, rows) in enumerate(columns):
        lines += _column(_MARGIN + i * (_COLUMN + _GAP), container, rows)
    return "\n".join([*lines, "</svg>", ""])
