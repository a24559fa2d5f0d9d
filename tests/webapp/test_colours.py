"""Colours of the kinds of steps: they differ for everybody, and text on them can be read."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

ASSETS = Path(__file__).parents[2] / "webapp" / "assets"
KINDS = (
    "compute",
    "exchange",
    "global-exchange",
    "sync",
    "external-sync",
    "stream-begin",
    "stream-copy",
    "stream-end",
    "other",
    "group",
)
#: Linear RGB as people without one kind of cones see it. Machado, Oliveira and Fernandes, "A
#: Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, table 1.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
#: sRGB to XYZ, IEC 61966-2-1, and its white.
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
WHITE = XYZ.sum(axis=1)
#: CIE76; a search over palettes found none of this many kinds with more than 24.3.
LEAST_DISTANCE = 23.0
#: WCAG 2.2, success criterion 1.4.3.
LEAST_CONTRAST = 4.5


def _variables(scheme: str) -> dict[str, str]:
    """Return the colour variables of a scheme, those of the other in their place if it has none."""
    found: dict[str, str] = {}
    for name in ("app.css", "trace/trace.css"):
        light, _, rest = (
            (ASSETS / name).read_text().partition(':root[data-mantine-color-scheme="dark"] {')
        )
        parts = [light] if scheme == "light" else [light, rest]
        for part in parts:
            block = part if part is light else part.partition("}")[0]
            found.update(re.findall(r"--([\w-]+): ([^;]+);", block))
    return found


def _colour(variables: dict[str, str], name: str) -> str:
    value = variables[name]
    while match := re.fullmatch(r"var\(--([\w-]+)(?:, [^)]*)?\)", value):
        value = variables[match[1]]
    assert re.fullmatch("#[0-9a-f]{6}", value), (name, value)
    return value


def _linear(colour: str) -> NDArray[np.float64]:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def _lab(linear: NDArray[np.float64]) -> NDArray[np.float64]:
    ratio = XYZ @ np.clip(linear, 0, 1) / WHITE
    x, y, z = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_kinds_differ_for_everybody(scheme: str, sight: str) -> None:
    variables = _variables(scheme)
    places = {
        kind: _lab(SIGHT[sight] @ _linear(_colour(variables, f"trace-{kind}"))) for kind in KINDS
    }
    for one, other in itertools.combinations(KINDS, 2):
        distance = float(np.linalg.norm(places[one] - places[other]))
        assert distance >= LEAST_DISTANCE, (one, other, distance)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_on_kinds_can_be_read(scheme: str) -> None:
    variables = _variables(scheme)
    pairs = [(f"trace-{kind}", f"trace-on-{kind}") for kind in (*KINDS, "run")]
    pairs.append(("trace-group-2", "trace-on-group"))
    for fill, text in pairs:
        levels = sorted(
            float(_linear(_colour(variables, name)) @ XYZ[1]) + 0.05 for name in (fill, text)
        )
        assert levels[1] / levels[0] >= LEAST_CONTRAST, (fill, text)
