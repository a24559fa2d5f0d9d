"""Colours of the charts' series: mid-tones that are legible on white and on black."""

from __future__ import annotations

__all__ = ["BASELINE_COLOUR", "CANDIDATE_COLOUR", "series_colour"]

BASELINE_COLOUR = "#2f74e0"
CANDIDATE_COLOUR = "#d0741a"

#: Colour by series name, so that a category has the same colour in every report.
_SERIES_COLOURS = {
    "Total": BASELINE_COLOUR,
    "Always live": "#7d8fa9",
    "Not always live": BASELINE_COLOUR,
    "Non-interleaved": "#2f74e0",
    "Interleaved": "#3a9d8f",
    "Overflowed": "#d0433b",
    "Gaps": "#a7aeb8",
    "Code and state": "#84789e",
    "Variables": "#2f74e0",
    "Constants": "#3a9d8f",
    "Exchange messages": "#8a63c9",
    "Stack": "#84789e",
    "Vertex code": "#d0605e",
    "Vertex instance state": "#cc6fa0",
    "Vertex field data": "#b25a9c",
    "Copy descriptors": "#a0703c",
    "Control code": "#5d9f47",
    "Control identifiers": "#7f8c3a",
    "Control tables": "#b0a03a",
    "Global exchange packet headers": "#55a88a",
    "Vector list descriptors": "#6d8fd6",
    "Internal exchange code": "#4fb0d8",
    "Global exchange code": "#6f9384",
    "Host exchange code": "#c9872b",
    "Host exchange packet headers": "#c77a55",
    "Instrumentation results": "#5f7fb5",
    "Code": "#84789e",
    "Weights": "#7d8fa9",
    "Optimiser state": "#8a63c9",
    "Gradients": "#c9872b",
    "Activations": "#2f74e0",
    "Working memory": "#4fb0d8",
}
_CYCLE = (
    "#2f74e0", "#3a9d8f", "#8a63c9", "#c9872b", "#d0605e", "#5d9f47", "#4fb0d8", "#b25a9c",
    "#7f8c3a", "#a0703c", "#5f7fb5", "#cc6fa0", "#6f9384", "#b0a03a", "#84789e", "#55a88a",
    "#c77a55", "#6d8fd6",
)  # fmt: skip


def series_colour(label: str, position: int) -> str:
    """Return the colour of a series: fixed for known names, else by its index."""
    return _SERIES_COLOURS.get(label, _CYCLE[position % len(_CYCLE)])
