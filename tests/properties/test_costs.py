"""Properties of what library calls cost: in place, in any order of dimensions, and by size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from docs.pages.graph_api import LIBRARY
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.call_costs import (
    LAYOUTS,
    Arrangement,
    call_cycles,
    compiled,
    new_builder,
    step_cycles,
)
from tests.properties.known_violations import (
    DOUBLING,
    GROWING,
    IN_PLACE_CALLS,
    IN_PLACE_LOOPS,
    IN_PLACE_START_CYCLES,
)
from tests.properties.library_calls import (
    CALLS,
    EXEMPT,
    IN_PLACE,
    LibraryCall,
    elementwise_pair,
    elementwise_types,
)

from tilescope.engine.program import Copy

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
    known = IN_PLACE_CALLS.get((name, dtype, first, second, parameter_set))
    if known is None:
        assert cycles_in_place <= cycles_apart
    else:
        assert (cycles_apart, cycles_in_place) == known.cycles
        assert cycles_in_place > cycles_apart, "remove it from the known violations"


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


#: Sizes that a dimension grows through: tiles stay equally full.
_GROWTH = (0.25, 0.5, 1, 2, 4)


@pytest.mark.parametrize("parameter_set", PARAMETER_SETS)
@pytest.mark.parametrize("name", CALLS)
def test_cycles_never_fall_when_a_dimension_grows(name: str, parameter_set: str) -> None:
    call = CALLS[name]
    for dim in call.doubles:
        sizes = [int(call.sizes[dim] * factor) for factor in _GROWTH]
        cycles = [call_cycles(call, parameter_set, sizes={dim: size}) for size in sizes]
        for i, pair in enumerate(pairwise(cycles)):
            known = GROWING.get((name, dim, parameter_set, sizes[i]))
            if known is None:
                assert pair[0] <= pair[1], f"{dim}: {sizes[i : i + 2]} take {pair} cycles"
            else:
                assert pair == known.cycles, dim
                assert pair[0] > pair[1], f"remove {name}, {dim}, {sizes[i]}"


def _exchange_cycles(n_elements: int, n_tiles: int, distance: int) -> int:
    """Return the cycles of the exchange that moves a linear tensor to tiles at a distance."""
    build = new_builder(n_tiles=n_tiles)
    source, target = (build.graph.add_variable("float32", (n_elements,), n) for n in "ab")
    build.graph.map_linearly(source)
    build.graph.map_linearly(target, first=distance)
    build.sequence.add(Copy(source, target))
    steps = compiled(build).steps
    return sum(int(s.cost.cycles.max()) for s in steps if s.kind == "DoExchange")


@settings(max_examples=40, derandomize=True)
@given(st.integers(1, 4_000), st.integers(1, 4_000), st.sampled_from((2, 16, 64)), st.data())
def test_an_exchange_never_takes_less_for_more_bytes(
    n_elements: int, n_more: int, n_tiles: int, data: st.DataObject
) -> None:
    """Elements in whole grains per tile, so that all tiles send and receive more."""
    distance = data.draw(st.integers(1, n_tiles - 1))
    sizes = (n_tiles * n_elements, n_tiles * (n_elements + n_more))
    less, more = (_exchange_cycles(size, n_tiles, distance) for size in sizes)
    assert less <= more


_STEP_CALLS = {
    name: call for name, call in CALLS.items() if call.has_no_axes or name.startswith("reduce")
}


@settings(max_examples=4, derandomize=True)
@given(st.data())
@pytest.mark.parametrize("name", _STEP_CALLS)
def test_steps_never_take_less_for_more_bytes(name: str, data: st.DataObject) -> None:
    """A tile's rows of whole vectors grow; reductions divide the work into more stages then."""
    call = _STEP_CALLS[name]
    parameter_set = data.draw(st.sampled_from(PARAMETER_SETS))
    n_rows = [16 * n for n in sorted(data.draw(st.tuples(*[st.integers(8, 64)] * 2)))]
    columns = 8 * data.draw(st.integers(1, 64))
    less, more = (
        step_cycles(call, parameter_set, {"rows": rows, "columns": columns}) for rows in n_rows
    )
    assert all(cycles <= more.get(kind, 0) for kind, cycles in less.items()), (less, more)
