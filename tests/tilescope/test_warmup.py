"""``tilescope warmup``: what it prints; the kernels are in tests/engine/test_warmup.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tilescope.engine.session import warmup

Run = Callable[..., Any]


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[warmup.Warmup]:
    """Return a list whose last entry is what a warm-up answers."""
    answers = [warmup.Warmup(3, 628, "/cache/kernels", "haswell")]

    def warm_up(tell: Callable[[int, int], None], n_processes: int | None) -> warmup.Warmup:
        for count in range(3):
            tell(count, 3)
        assert n_processes in (None, 2)
        return answers[-1]

    monkeypatch.setattr(warmup, "warm_up", warm_up)
    return answers


def test_a_warm_up_says_what_it_compiled_and_shows_no_progress_in_a_pipe(
    tilescope: Run, done: list[warmup.Warmup]
) -> None:
    text = tilescope("warmup", "--processes", "2")
    assert (text.code, text.err) == (0, "")
    assert text.out == "Kernels for haswell: compiled 3 of 628\n/cache/kernels\n"
    done.append(warmup.Warmup(0, 628, "/cache/kernels", "haswell"))
    text = tilescope("warmup")
    assert text.out == "Kernels for haswell: all 628 were compiled already\n/cache/kernels\n"


def test_a_warm_up_prints_json(tilescope: Run, done: list[warmup.Warmup]) -> None:
    assert json.loads(tilescope("warmup", "--json").out) == {
        "n_compiled": 3,
        "n_kernels": 628,
        "folder": "/cache/kernels",
        "processor": "haswell",
    }
    assert len(done) == 1
