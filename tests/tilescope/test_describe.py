"""The page of the command line says what the commands' own help says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilescope.describe import PAGE, render, section
from tilescope.main import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["summary", "memory", "liveness", "programs", "diff"])
def test_the_section_of_a_query_is_up_to_date(name: str) -> None:
    assert section(name) in (ROOT / PAGE).read_text(encoding="utf-8"), "run `make docs`"


def test_every_command_has_its_section() -> None:
    page = render()
    there = [name for name in COMMANDS if (ROOT / f"tilescope/commands/{name}.py").exists()]
    assert [f"## tilescope {name}\n" in page for name in there] == [True] * len(there)
