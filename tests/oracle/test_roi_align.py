"""The gradient of aligned regions against shares of pixels in bins, and the naive machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.compared import check, held, small_machine
from tests.oracle.drawn_graphs import machines, new_builder, views
from tests.oracle.naive_regions import bin_shares

from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popnn.roi_align import roi_align_input_gradient
from tilescope.engine.machine import load_machine
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.planner.regions import plan_regions

SHAPE = (2, 3, 5, 4)


def boxes_of(n: int, seed: int) -> np.ndarray:
    """Return boxes, of which some lie partly outside."""
    random = np.random.default_rng(seed)
    corners = random.uniform(-1.5, 6, (n, 2, 2))
    return np.concatenate([corners.min(1), corners.max(1)], 1).astype(np.float32)


def expected(
    shape: tuple[int, ...],
    boxes: np.ndarray,
    images: np.ndarray,
    gradient: np.ndarray,
    n_samples: int,
    *,
    is_aligned: bool,
) -> np.ndarray:
    out = np.zeros(shape)
    bins = gradient.shape[2:]
    for box, image, of_region in zip(boxes.astype(np.float64), images, gradient, strict=True):
        x0, y0, x1, y1 = box.tolist()
        rows = bin_shares(y0, y1, bins[0], n_samples, shape[2], is_aligned=is_aligned)
        columns = bin_shares(x0, x1, bins[1], n_samples, shape[3], is_aligned=is_aligned)
        out[image] += np.einsum("chw,hy,wx->cyx", of_region, rows, columns)
    return out


@settings(max_examples=6, deadline=None)
@given(st.data(), machines(), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_any_layout(
    data: Any, machine: Any, n_regions: int, n_samples: int, is_aligned: bool
) -> None:
    seed = data.draw(st.integers(0, 99))
    random = np.random.default_rng(seed)
    gradient = random.uniform(-1, 1, (n_regions, SHAPE[1], 2, 3)).astype(np.float32)
    boxes, images = boxes_of(n_regions, seed), random.integers(0, 2, n_regions).astype(np.int32)
    graph, builder = new_builder(machine)
    operands = [
        (data.draw(views(graph, boxes.shape, "float32", "boxes")), 2 * boxes),
        (data.draw(views(graph, images.shape, "int32", "images")), images),
        (data.draw(views(graph, gradient.shape, "float32", "gradient")), gradient),
    ]
    out = roi_align_input_gradient(
        builder,
        SHAPE,
        *(view for view, _ in operands),
        n_samples=n_samples,
        spatial_scale=0.5,
        is_aligned=is_aligned,
    )
    (actual,) = check(builder, operands, [out])
    wanted = expected(SHAPE, boxes, images, gradient, n_samples, is_aligned=is_aligned)
    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5)


def test_halves() -> None:
    boxes, images = boxes_of(4, 1), np.array([0, 1, 1, 0], np.int32)
    gradient = np.random.default_rng(2).uniform(-1, 1, (4, 3, 2, 2)).astype(np.float32)
    graph, builder = new_builder(small_machine(16))
    operands = []
    for name, dtype, array in (
        ("boxes", "float16", boxes),
        ("images", "int32", images),
        ("gradient", "float16", gradient),
    ):
        operands.append((graph.add_variable(dtype, array.shape, name), array))
        graph.map_linearly(operands[-1][0])
    out = roi_align_input_gradient(builder, SHAPE, *(view for view, _ in operands), n_samples=2)
    (actual,) = check(builder, operands, [out])
    assert out.dtype.name == "float16"
    rounded = [held(graph, operands[i][0], operands[i][1]) for i in (0, 2)]
    wanted = expected(SHAPE, rounded[0], images, rounded[1], 2, is_aligned=True)
    np.testing.assert_allclose(actual, wanted, rtol=4e-3, atol=4e-3)


def test_rows_are_split_where_images_do_not_fit_a_tile() -> None:
    """Of 64 channels of 512 × 512 floats on 1,472 tiles, a channel takes 1 MiB."""
    machine = load_machine("gc200")
    plan = plan_regions((1, 64, 512, 512), 100, machine, 0.6)
    assert plan is not None
    assert plan.bands > 1
    assert np.diff(plan.row_edges).max() * 512 * 4 <= 0.6 * machine.bytes_per_tile
    small = plan_regions((1, 64, 16, 16), 100, machine, 0.6)
    assert small is not None
    assert (small.bands, small.groups) == (1, 100)
    assert plan_regions((1, 4_096, 4_096, 4_096), 100, machine, 0.6) is None


@pytest.mark.parametrize("rows", [1, 2])
def test_bands_of_rows(rows: int) -> None:
    """A tile that holds one or two rows of its channel only."""
    boxes, images = boxes_of(3, 4), np.array([1, 0, 1], np.int32)
    gradient = np.random.default_rng(3).uniform(-1, 1, (3, 3, 2, 2)).astype(np.float32)
    graph, builder = new_builder(small_machine(64))
    share = rows * SHAPE[0] * SHAPE[3] * 4 / builder.tiles.machine.bytes_per_tile
    builder = replace(builder, available_memory=AvailableMemory(share, share))
    operands = []
    for name, array in (("boxes", boxes), ("images", images), ("gradient", gradient)):
        dtype = "int32" if name == "images" else "float32"
        operands.append((graph.add_variable(dtype, array.shape, name), array))
        graph.map_linearly(operands[-1][0])
    out = roi_align_input_gradient(builder, SHAPE, *(view for view, _ in operands), n_samples=2)
    (actual,) = check(builder, operands, [out])
    wanted = expected(SHAPE, boxes, images, gradient, 2, is_aligned=True)
    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "shape": ({"shape": (2, 3, 5)}, "expected .batch, channels, height, width."),
    "channels": ({"shape": (2, 4, 5, 4)}, "has 3 channels, and the images 4"),
    "boxes": ({"boxes": ("float32", (4, 5))}, r"its boxes 'boxes' .* expected float32 \(4, 4\)"),
    "images": ({"images": ("float32", (4,))}, r"its images 'images' are float32 .* expected int32"),
    "gradient": ({"gradient": ("int32", (4, 3, 2, 2))}, "expected float16 or float32"),
    "samples": ({"n_samples": 0}, "n_samples of roi_align_input_gradient"),
    "scale": ({"spatial_scale": 0}, "expected a number above 0"),
}


@pytest.mark.parametrize(("changes", "sentence"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], sentence: str) -> None:
    graph, builder = new_builder(small_machine(16))
    given_: dict[str, Any] = {
        "shape": SHAPE,
        "boxes": ("float32", (4, 4)),
        "images": ("int32", (4,)),
        "gradient": ("float32", (4, 3, 2, 2)),
        "n_samples": 2,
        **changes,
    }
    for name in ("boxes", "images", "gradient"):
        dtype, shape = given_[name]
        given_[name] = graph.add_variable(dtype, shape, name)
        graph.map_linearly(given_[name])
    with pytest.raises(BadGraph, match=sentence):
        roi_align_input_gradient(builder, **given_)
