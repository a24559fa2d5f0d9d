"""The addresses of a tile as a strip of blocks, broken into lines."""

from __future__ import annotations

from typing import Any

from dash import html

from tilescope.analyser.memory.address_map import USES, AddressBlock, AddressMap
from tilescope.analyser.quantities import format_bytes
from tilescope.webapp.browser import marked

__all__ = ["address_strip"]

#: Most lines of a strip; a line holds a power of two of bytes.
_N_LINES = 16
_LEAST_LINE = 1024


def address_strip(address_map: AddressMap, side: str) -> html.Div:
    """Return the blocks of a tile by address, with a legend; ``side`` names a report of two."""
    line = _LEAST_LINE
    while line * _N_LINES < address_map.end_bytes:
        line *= 2
    lines: list[html.Div] = []
    start = 0
    while start < address_map.end_bytes:
        skipped = _lines_of_gap(address_map, start, line)
        if skipped > 1:
            lines.append(_gap(start, skipped * line))
        else:
            lines.append(_line(address_map, start, line))
        start += max(skipped, 1) * line
    end = f"{address_map.end_bytes:#x}"
    words = (
        f"Addresses of tile {address_map.tile_id:,}: {format_bytes(address_map.end_bytes)} up to"
        f" {end},"
        f" {format_bytes(address_map.bytes_of('gap'))} of it in gaps; a line holds"
        f" {format_bytes(line)}"
    )
    strip = marked(html.Div(lines, className="address-strip", role="img"), aria_label=words)
    heads: list[Any] = [html.Span(words)]
    if side:
        heads.insert(0, html.Span(side, className=f"side-mark side-{side.lower()}"))
    return html.Div(
        [html.Div(heads, className="headline"), strip, _legend(address_map)],
        className="address-map",
    )


def _lines_of_gap(address_map: AddressMap, start: int, size: int) -> int:
    """Return how many whole lines from an address on lie in one gap."""
    gaps = (block for block in address_map.blocks if block.use == "gap")
    here = (item for item in gaps if item.offset_bytes <= start < item.offset_bytes + item.bytes)
    gap = next(here, None)
    return (gap.offset_bytes + gap.bytes - start) // size if gap else 0


def _gap(start: int, size: int) -> html.Div:
    """Return one line for several that are in a gap."""
    words = html.Div(f"{format_bytes(size)} of gap", className="address-blocks address-skipped")
    return html.Div(
        [html.Span(f"{start:#07x}", className="address-label"), words], className="address-line"
    )


def _line(address_map: AddressMap, start: int, size: int) -> html.Div:
    """Return the blocks between two addresses."""
    blocks = [
        _block(block, max(block.offset_bytes, start), min(block.offset_bytes + block.bytes,
                                                          start + size), size)
        for block in address_map.blocks
        if block.offset_bytes < start + size and block.offset_bytes + block.bytes > start
    ]  # fmt: skip
    edge = address_map.non_interleaved_bytes
    if start < edge < start + size and edge < address_map.end_bytes:
        position = {"left": f"{100 * (edge - start) / size:.3f}%"}
        title = f"Interleaved memory begins at {edge:#x}"
        blocks.append(html.Span(className="address-edge", style=position, title=title))
    return html.Div(
        [
            html.Span(f"{start:#07x}", className="address-label"),
            html.Div(blocks, className="address-blocks"),
        ],
        className="address-line",
    )


def _block(block: AddressBlock, low: int, high: int, size: int) -> html.Span:
    """Return the part of a block that is on a line, described as a whole."""
    where = f"{block.offset_bytes:#x} to {block.offset_bytes + block.bytes - 1:#x}"
    title = f"{USES[block.use]}: {format_bytes(block.bytes)}, {where}"
    names = list(block.names)
    if block.n_variables > len(names):
        names.append(f"and {block.n_variables - len(names):,} more")
    return html.Span(
        className=f"address-block address-{block.use}",
        style={"width": f"{100 * (high - low) / size:.4f}%"},
        title="\n".join([title, *names]),
    )


def _legend(address_map: AddressMap) -> html.Div:
    """Return the uses with their sizes."""
    entries = [
        html.Span(
            [
                html.Span(className=f"swatch address-block address-{use}"),
                f"{label}, {format_bytes(address_map.bytes_of(use))}",
            ]
        )
        for use, label in USES.items()
        if address_map.bytes_of(use)
    ]
    return html.Div(entries, className="legend")
