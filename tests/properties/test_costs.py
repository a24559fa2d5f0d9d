"""Properties of what library calls cost: in place, in any order of dimensions, and by size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from docs.pages.graph_api import LIBRARY
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.call_costs import LAYOUTS, Arrangement, call_cycles
from tests.properties.known_violations import (
    DOUBLING,
    IN_PLACE_LOOPS,
    IN_PLACE_START_CYCLES,
    GROWING,
)
from tests.properties.library_calls import (
    CALLS,
    EXEMPT,
    IN_PLACE,
    LibraryCall,
    elementwise_pair,
    elementwise_types,
)

PARAMETER_SETS = ("hardware", "ipu_model")


def test_every_call_of_the_library_has_an_entry() -> None:
    """An allocator's is in `allocations`."""
    names = {function.__name__ for functions in LIBRARY.values() for function in functions}
    allocators = {name for name in names if name.startswith("create_")}
    entries = {name.partition("/")[0] for name in CALLS}
    assert entries | set(EXEMPT) == names - allocators
    assert not entries & set(EXEMPT)


@pytest.mark.parametrize("parameter_set", PARAMETER_SETS)
@pytest.mark.parametrize("name", CALLS)
def test_twice_the_elements_cost_up_to_2_2_times_the_cycles(name: str, parameter_set: str) -> None:
    call = CALLS[name]
    single = call_cycles(call, parameter_set)
    for dim in call.doubles:
        cycles = call_cycles(call, parameter_set, sizes={dim: 2 * call.sizes[dim]})
        is_kept = single <= cycles <= 2.2 * single
        known = DOUBLING.get((name, dim, parameter_set))
        if known is None:
            assert is_kept, f"{dim}: {single} and {cycles} cycles"
        else:
            assert (single, cycles) == known.cycles, dim
            assert not is_kept, f"remove {name}, {dim} from the known violations"


PERMUTED = {name: call for name, call in CALLS.items() if call.is_permutable}


@st.composite
def arrangements(draw: st.DrawFn, call: LibraryCall) -> Arrangement:
    """Draw how views show the dimensions of a call's operands."""
    parts = st.sampled_from((1, 2, 4, 8, 32))
    splits = {name: part for name in call.sizes if (part := draw(parts)) > 1}
    order = draw(st.permutations(range(len(call.sizes) + len(splits))))
    return Arrangement(splits, order, draw(st.booleans()))


@settings(max_examples=6, derandomize=True)
@given(st.data())
@pytest.mark.parametrize("name", PERMUTED)
def test_no_view_of_a_layout_is_dearer_than_another(name: str, data: st.DataObject) -> None:
    """However it permutes, splits and joins dimensions."""
    call = PERMUTED[name]
    layout = st.sampled_from(sorted(LAYOUTS))
    layouts = {operand: data.draw(layout) for operand in call.operands}
    if data.draw(st.booleans()):
        layouts = dict.fromkeys(call.operands, next(iter(layouts.values())))
    arrangement = data.draw(arrangements(call))
    parameter_set = data.draw(st.sampled_from(PARAMETER_SETS))
    turned = call_cycles(call, parameter_set, layouts=layouts, arrangement=arrangement)
    assert turned == call_cycles(call, parameter_set, layouts=layouts)


def _in_both_forms(
    apart: LibraryCall, in_place: LibraryCall, layouts: Mapping[str, str], parameter_set: str
) -> tuple[int, int]:
    costs = [call_cycles(call, parameter_set, layouts=layouts) for call in (apart, in_place)]
    return costs[0], costs[1]


@pytest.mark.parametrize("parameter_set", PARAMETER_SETS)
@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_is_never_dearer(
    name: str, dtype: str, first: str, second: str, parameter_set: str
) -> None:
    apart, in_place = (replace_types(call, dtype) for call in IN_PLACE[name])
    layouts = {"x": first, "a": first, "b": second}
    cycles_apart, cycles_in_place = _in_both_forms(apart, in_place, layouts, parameter_set)
    assert cycles_in_place <= cycles_apart


def replace_types(call: LibraryCall, dtype: str) -> LibraryCall:
    """Return a call with another floating-point type."""
    operands = {
        name: (dtype if kind.startswith("float") else kind, dims)
        for name, (kind, dims) in call.operands.items()
    }
    return replace(call, operands=operands)


@pytest.mark.parametrize("parameter_set", PARAMETER_SETS)
@pytest.mark.parametrize("function", elementwise_types())
def test_an_elementwise_function_in_place_is_never_dearer(
    function: tuple[str, int], parameter_set: str
) -> None:
    """Beyond what the source of the laws states: see `known_violations`."""
    name, n_operands = function
    start = IN_PLACE_START_CYCLES[n_operands]
    for dtype in elementwise_types()[function]:
        apart, in_place = elementwise_pair(name, n_operands, dtype)
        for layout in LAYOUTS:
            costs = _in_both_forms(apart, in_place, {"b": layout}, parameter_set)
            if (name, dtype) in IN_PLACE_LOOPS:
                assert costs[1] - costs[0] > start, f"remove {name} of {dtype}"
            else:
                assert costs[1] - costs[0] <= start, dtype


@pytest.mark.parametrize("n_operands", [1, 2])
def test_the_start_of_a_function_in_place_is_dearer(n_operands: int) -> None:
    """As its source states: remove the figure once the laws have changed."""
    name = {1: "square", 2: "add"}[n_operands]
    costs = _in_both_forms(*elementwise_pair(name, n_operands, "float16"), {}, "ipu_model")
    assert costs[1] - costs[0] == IN_PLACE_START_CYCLES[n_operands]
