"""Strided convolutions of one tap read copies of what they need, which stay on their tiles."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine import Builder, Executable, Graph, compile_programs, load_machine
from tilescope.engine.library.poplin.convolution import convolution
from tilescope.engine.library.window import Window
from tilescope.engine.program import Sequence

N_TILES, N_CHANNELS = 96, 64


def _compiled(window: Window, size: int, *, is_row_major: bool = False) -> Executable:
    graph, program = Graph(load_machine("gc200", tiles_per_ipu=N_TILES)), Sequence("main")
    build = Builder(graph, program)
    if is_row_major:
        x = graph.add_variable("float16", (4, N_CHANNELS, size, size), "x")
        graph.map_linearly(x, grain=4)
    else:
        grouped = graph.add_variable("float16", (4, N_CHANNELS // 16, size, size, 16), "x")
        graph.map_linearly(grouped, grain=16)
        x = grouped.dim_shuffle(0, 1, 4, 2, 3).reshape(4, N_CHANNELS, size, size)
    weights = np.ones((128, N_CHANNELS, *window.kernel), np.float32)
    convolution(build, x, weights, window, name="op")
    return compile_programs(graph, [program])


def _names(executable: Executable, kind: str) -> list[str]:
    return [step.name.rpartition("/")[2] for step in executable.steps if step.kind == kind]


def test_what_is_read_is_copied_without_an_exchange() -> None:
    executable = _compiled(Window((1, 1), (2, 2)), 56)
    assert _names(executable, "OnTileExecute").count("subsample") == 1
    assert "subsample" not in _names(executable, "DoExchange")


@pytest.mark.parametrize("stride", [(2, 2), (2, 1), (1, 3)])
def test_exchange_code_is_that_of_a_field_without_stride(stride: tuple[int, int]) -> None:
    """Rows of pixels are contiguous: a fragment is not a pixel."""
    strided = _compiled(Window((1, 1), stride), 48)
    code = strided.memory.categories["internalExchangeCode"].sum(0)
    plain = _compiled(Window((1, 1)), 48)
    assert code.mean() <= 1.1 * plain.memory.categories["internalExchangeCode"].sum(0).mean()


@pytest.mark.parametrize(
    "window",
    [
        Window((1, 1)),
        Window((3, 3), (2, 2), padding_before=(1, 1), padding_after=(1, 1)),
        Window((1, 1), (2, 2), padding_before=(1, 1)),
    ],
)
def test_other_windows_read_all_images(window: Window) -> None:
    assert "subsample" not in _names(_compiled(window, 28), "OnTileExecute")


def test_only_what_is_read_is_arranged() -> None:
    """Row-major images are copied in groups of channels, a quarter of them."""
    executable = _compiled(Window((1, 1), (2, 2)), 28, is_row_major=True)
    (arranged,) = (v for v in executable.graph.variables if v.name.endswith("/preArranged"))
    assert arranged.n_elements == 4 * N_CHANNELS * 14 * 14
