"""The page of the graph API is what the docstrings say, and leaves no public name out."""

from __future__ import annotations

from pathlib import Path

from tilescope.engine import program
from tilescope.engine.codelets.elementwise_rates import BINARY_RATES, UNARY_RATES
from tilescope.engine.codelets.ternary import TERNARY_RATES
from tilescope.engine.describe import PAGE, render
from tilescope.engine.library import (
    convolution,
    elementwise,
    fill,
    pool,
    reduce,
    scaled_add,
    transposed,
)

#: What a library function gives another; a program has no need of it.
INTERNAL = {"copy_together", "in_one", "similar"}


def test_the_page_is_up_to_date() -> None:
    page = (Path(__file__).parents[2] / PAGE).read_text(encoding="utf-8")
    assert page == render(), "run: python -m tilescope.engine.describe --write"


def test_everything_public_is_on_the_page() -> None:
    page = render()
    modules = (convolution, elementwise, fill, pool, reduce, scaled_add, transposed)
    functions = [f"{m.__name__}.{n}(" for m in modules for n in m.__all__ if n not in INTERNAL]
    programs = [f"### {name}" for name in program.__all__ if name != "Program"]
    rows = [f"| `{name}` |" for name in (*UNARY_RATES, *BINARY_RATES, *TERNARY_RATES)]
    assert [name for name in (*functions, *programs, *rows) if name not in page] == []
    assert "| `greater` | 2 | bool | 14 / 4 | 9 / 4 | 22 / 4 | 31 / 4 |" in page
