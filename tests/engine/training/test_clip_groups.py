"""Limits of norms by group of weights, and numbers that may leave 0: checks and facts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tilescope.engine.errors import BadOption
from tilescope.engine.training import ClipGroup, Sgd

_GROUP = ClipGroup(weights=("fc*", "out"), norm=0.5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"clip_norm": 1.0, "clip_groups": (_GROUP,)}, "clip_norm is of all weights"),
        ({"varying": ("warmth",)}, "no number 'warmth' that could vary"),
        ({"momentum": 0.5, "is_combined": True, "clip_groups": (_GROUP,)}, "leaves no sum"),
        ({"specific": {"w": {"clip_groups": ()}}}, "cannot have a 'clip_groups' of their own"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        Sgd(lr=0.1, **options)


@pytest.mark.parametrize("norm", [0.0, -1.0, float("inf")])
def test_a_limit_is_above_0(norm: float) -> None:
    with pytest.raises(BadOption, match="it has to be above 0"):
        ClipGroup(weights=("w",), norm=norm)


def test_groups_are_patterns_of_names() -> None:
    assert [_GROUP.has(name) for name in ("fc1", "out", "outer")] == [True, True, False]


def test_facts_name_groups_and_only_numbers_of_weights() -> None:
    specific = {"w": {"lr": 0.2, "constants": ("lr",), "varying": ("momentum",)}}
    facts = Sgd(lr=0.1, varying=("momentum",), clip_groups=(_GROUP,), specific=specific).facts
    assert facts["optimizer"] == "sgd:lr=0.1"
    assert json.loads(facts["clip_norm_for"]) == ["fc*,out:norm=0.5"]
    assert json.loads(facts["optimizer_for"]) == ["w:lr=0.2"]


def test_a_number_that_varies_is_a_setting_of_the_same_program_at_0() -> None:
    still, moving = (Sgd(lr=0.1, momentum=m, varying=("momentum",)) for m in (0.0, 0.9))
    assert still.structure == moving.structure
    assert still.settings(1.0)["momentum"] == 0
    assert "momentum" not in Sgd(lr=0.1).settings(1.0)
