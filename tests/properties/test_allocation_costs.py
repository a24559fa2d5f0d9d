"""An operand that is allocated for its operation is never dearer than one that is not."""

from __future__ import annotations

import random

import pytest
from docs.pages.graph_api import LIBRARY
from tests.properties.allocations import ALLOCATIONS, ALLOCATORS, Allocation
from tests.properties.call_costs import linear, new_builder, total_cycles
from tests.properties.known_violations import ALLOCATED

from tilescope.engine.graph import View

PARAMETER_SETS = ("hardware", "ipu_model")
_N_CASES = 4


def test_every_allocator_of_the_library_is_compared() -> None:
    names = {function.__name__ for functions in LIBRARY.values() for function in functions}
    assert {function.__name__ for function in ALLOCATORS} == {
        name for name in names if name.startswith("create_")
    }


def _cycles(
    allocation: Allocation, case: int, parameter_set: str, unallocated: str | None = None
) -> int:
    """Return the cycles with allocated operands, or with these linear or by rows."""
    draw = random.Random(case)
    sizes = {name: draw.choice(values) for name, values in allocation.sizes.items()}
    dtype, n_tiles = draw.choice(("float16", "float32")), draw.choice((16, 64))
    other_layout = draw.choice(("linear", "rows"))
    build = new_builder(parameter_set, n_tiles)
    names = " ".join(allocation.allocators).split()
    views: dict[str, View] = {}
    for name, (kind, shape) in allocation.shapes(sizes).items():
        layout = unallocated if name in names else other_layout
        if layout is not None:
            grain = shape[-1] if layout == "rows" else 8
            views[name] = linear(build, kind or dtype, shape, name, grain)
    others = dict(views)
    if unallocated is None:
        for operands, allocate in allocation.allocators.items():
            allocated = allocate(build, sizes, dtype, others)
            several = allocated if isinstance(allocated, tuple) else (allocated,)
            views |= dict(zip(operands.split(), several, strict=False))
    allocation.run(build, views, sizes)
    return total_cycles(build)


@pytest.mark.parametrize("parameter_set", PARAMETER_SETS)
@pytest.mark.parametrize("case", range(_N_CASES))
@pytest.mark.parametrize("name", ALLOCATIONS)
def test_an_allocated_operand_is_never_dearer(name: str, case: int, parameter_set: str) -> None:
    """Than one that is spread linearly, or by whole rows."""
    allocation = ALLOCATIONS[name]
    allocated = _cycles(allocation, case, parameter_set)
    plain = min(_cycles(allocation, case, parameter_set, how) for how in ("linear", "rows"))
    known = ALLOCATED.get((name, case, parameter_set))
    # Shares of other tiles arrive in other pieces, which makes a few cycles.
    is_kept = allocated <= 1.001 * plain
    if known is None:
        assert is_kept, f"{plain} cycles, and {allocated} allocated"
    else:
        assert (plain, allocated) == known.cycles
        assert not is_kept, "remove it from the known violations"
