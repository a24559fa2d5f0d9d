"""A picture of the layers, drawn from the import contracts that every check enforces."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["render"]

_PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_N_COLUMNS, _WIDTH, _GAP, _MARGIN = 3, 320, 36, 24
_BOX, _SPACE, _TITLE, _TOP, _PER_LINE = 26, 6, 30, 40, 3

Line = tuple[str, ...]


@dataclass(frozen=True)
class _Container:
    """A container of a layers contract: its layers, top first, as lines of modules."""

    name: str
    layers: tuple[tuple[Line, ...], ...]

    @property
    def height(self) -> int:
        n_lines = sum(len(lines) for lines in self.layers)
        return _TITLE + n_lines * (_BOX + _SPACE) + 2 * len(self.layers) * _SPACE + _MARGIN

    def drawn(self, x: int, y: int) -> Iterator[str]:
        """Yield the elements of the container, its top left corner at x, y."""
        yield f'<text class="title" x="{x}" y="{y + 18}">{escape(self.name)}</text>'
        y += _TITLE
        for lines in self.layers:
            height = len(lines) * (_BOX + _SPACE) + _SPACE
            yield f'<rect class="layer" x="{x}" y="{y}" width="{_WIDTH}" height="{height}"/>'
            for line in lines:
                y += _SPACE
                width = (_WIDTH - _SPACE * (len(line) + 1)) / len(line)
                for k, name in enumerate(line):
                    yield _box(x + _SPACE + k * (width + _SPACE), y, width, name)
                y += _BOX
            y += 2 * _SPACE


def _box(x: float, y: int, width: float, name: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BOX}" rx="3"/>'
        f'<text x="{x + width / 2:.1f}" y="{y + 17}">{escape(name)}</text>'
    )


def _lines(names: list[str]) -> tuple[Line, ...]:
    """Return the modules of a layer as lines of equal length."""
    n_lines = -(-len(names) // _PER_LINE)
    size = -(-len(names) // n_lines)
    return tuple(tuple(names[i : i + size]) for i in range(0, len(names), size))


def _containers() -> list[_Container]:
    contracts: list[dict[str, Any]] = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    found = []
    for contract in contracts:
        if contract["type"] == "layers":
            names = [
                [name.strip(" ()") for name in layer.replace(":", "|").split("|")]
                for layer in contract["layers"]
            ]
            layers = tuple(_lines(row) for row in names)
            found += [_Container(name, layers) for name in contract["containers"]]
    return found


def render() -> str:
    """Return the picture as SVG: containers in columns; a layer imports only layers below it."""
    ends = [_TOP] * _N_COLUMNS
    drawn: list[str] = []
    for container in sorted(_containers(), key=lambda one: -one.height):
        column = ends.index(min(ends))
        drawn += container.drawn(_MARGIN + column * (_WIDTH + _GAP), ends[column])
        ends[column] += container.height
    width, height = 2 * _MARGIN + _N_COLUMNS * (_WIDTH + _GAP) - _GAP, max(ends)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Layers: a module imports only modules of layers below its own</title>",
        "<style>text{font:12px sans-serif;text-anchor:middle;fill:#1f2430}"
        ".title,.note{text-anchor:start}.title{font-size:14px;font-weight:600}.note{fill:#555b66}"
        "rect{fill:#e8eef7;stroke:#8aa0c0}.layer{fill:#f6f8fb;stroke:#d5dce8}</style>",
        f'<rect width="{width}" height="{height}" style="fill:#fff;stroke:none"/>',
        f'<text class="note" x="{_MARGIN}" y="24">A module imports only modules of layers below its'
        " own; modules of one layer do not import one another.</text>",
    ]
    return "\n".join([*lines, *drawn, "</svg>", ""])
