"""Gradients of operators that move elements, and of lookups, compared with PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.torch.compared import Case, agree, case, drawn, ids, single
from torch.nn import functional


def _slice(
    name: str, starts: list[int], ends: list[int], axes: list[int], steps: list[int], cut: Any
) -> Case:
    return single(
        name,
        "Slice",
        {"x": (4, 5, 6)},
        cut,
        known={
            "starts": np.array(starts),
            "ends": np.array(ends),
            "axes": np.array(axes),
            "steps": np.array(steps),
        },
    )


_FIRST = -(2**31)

_SLICES = [
    _slice("slice", [1], [4], [1], [1], lambda x: x[:, 1:4]),
    _slice("slice-two", [1, 2], [3, 6], [0, 2], [1, 2], lambda x: x[1:3, :, 2::2]),
    _slice("slice-backward", [-1], [_FIRST], [2], [-1], lambda x: x.flip(2)),
    _slice("slice-backward-2", [4], [_FIRST], [2], [-2], lambda x: x[..., [4, 2, 0]]),
    _slice("slice-backward-part", [3], [0], [1], [-1], lambda x: x[:, [3, 2, 1]]),
    _slice("slice-all", [0], [2**31], [0], [1], lambda x: x * 1),
    case(
        "slices-overlap",
        [
            ("Slice", "x,zero,two,one_", "a"),
            ("Slice", "x,one,three,one_", "b"),
            ("Mul", "a,b", "y"),
        ],
        {"x": (2, 4)},
        lambda x: x[:, 0:2] * x[:, 1:3],
        known={
            "zero": np.array([0]),
            "one": np.array([1]),
            "two": np.array([2]),
            "three": np.array([3]),
            "one_": np.array([1]),
        },
    ),
    case(
        "slices-apart",
        [
            ("Slice", "x,a0,a1,axis", "a"),
            ("Slice", "x,b0,b1,axis", "b"),
            ("Tanh", "a", "t"),
            ("Mul", "t,b", "y"),
        ],
        {"x": (3, 8)},
        lambda x: torch.tanh(x[:, 0:4]) * x[:, 4:8],
        known={
            "a0": np.array([0]),
            "a1": np.array([4]),
            "b0": np.array([4]),
            "b1": np.array([8]),
            "axis": np.array([1]),
        },
    ),
    case(
        "slices-and-whole",
        [
            ("Slice", "x,a0,a1,axis", "a"),
            ("Slice", "x,b0,b1,axis,back", "b"),
            ("ReduceSum", "x,axis", "s"),
            ("Mul", "a,b", "p"),
            ("Add", "p,s", "y"),
        ],
        {"x": (3, 8)},
        lambda x: x[:, 0:3] * x[:, [7, 6, 5]] + x.sum(1, keepdim=True),
        known={
            "a0": np.array([0]),
            "a1": np.array([3]),
            "b0": np.array([7]),
            "b1": np.array([4]),
            "axis": np.array([1]),
            "back": np.array([-1]),
        },
    ),
    single(
        "slice-9",
        "Slice",
        {"x": (4, 5)},
        lambda x: x[1:3],
        opset=9,
        starts=[1],
        ends=[3],
        axes=[0],
    ),
]

_JOINS = [
    single("concat", "Concat", {"a": (2, 3), "b": (2, 4)}, lambda *v: torch.cat(v, 1), axis=1),
    single(
        "concat-three",
        "Concat",
        {"a": (2, 3, 2), "b": (1, 3, 2), "c": (4, 3, 2)},
        lambda *v: torch.cat(v, 0),
        axis=-3,
    ),
    single(
        "concat-same", "Concat", {"a": (2, 3)}, lambda a: torch.cat([a, a], 1), inputs="a,a", axis=1
    ),
    single(
        "concat-data",
        "Concat",
        {"a": (2, 3)},
        lambda a, b: torch.cat([a, b], 1),
        data={"b": drawn((2, 2), 5)},
        axis=1,
    ),
    single(
        "split",
        "Split",
        {"x": (2, 9)},
        lambda x: x.split([2, 3, 4], 1),
        known={"sizes": np.array([2, 3, 4])},
        outputs=("y", "z", "w"),
        axis=1,
    ),
    case(
        "split-part-unused",
        [("Split", "x,sizes", "a,b,c", {"axis": 1}), ("Mul", "a,c", "y")],
        {"x": (2, 6)},
        lambda x: x[:, :2] * x[:, 4:],
        known={"sizes": np.array([2, 2, 2])},
    ),
    case(
        "split-joined",
        [
            ("Split", "x,sizes", "a,b", {"axis": 1}),
            ("Neg", "b", "n"),
            ("Concat", "n,a", "y", {"axis": 1}),
        ],
        {"x": (2, 6)},
        lambda x: torch.cat([-x[:, 3:], x[:, :3]], 1),
        known={"sizes": np.array([3, 3])},
    ),
]


def _pad(name: str, pads: list[int], cut: Any, **attributes: Any) -> Case:
    known = {"pads": np.array(pads)}
    return single(name, "Pad", {"x": (3, 4)}, cut, known=known, **attributes)


_SHAPES = [
    single(
        "reshape",
        "Reshape",
        {"x": (4, 6)},
        lambda x: x.reshape(2, 3, 4),
        known={"shape": np.array([2, 3, -1])},
    ),
    single(
        "reshape-scalar",
        "Reshape",
        {"x": (1, 1)},
        lambda x: x.reshape(()),
        known={"shape": np.zeros(0, np.int64)},
    ),
    single("flatten", "Flatten", {"x": (2, 3, 4)}, lambda x: x.flatten(1), axis=1),
    single(
        "squeeze",
        "Squeeze",
        {"x": (3, 1, 4, 1)},
        lambda x: x.squeeze(1),
        known={"axes": np.array([1])},
    ),
    single("squeeze-all", "Squeeze", {"x": (3, 1, 4, 1)}, lambda x: x.squeeze()),
    single(
        "unsqueeze",
        "Unsqueeze",
        {"x": (3, 4)},
        lambda x: x[None, :, None],
        known={"axes": np.array([0, 2])},
    ),
    single("unsqueeze-11", "Unsqueeze", {"x": (3, 4)}, lambda x: x[..., None], opset=11, axes=[-1]),
    *(
        single(
            f"transpose-{''.join(map(str, order))}",
            "Transpose",
            {"x": (2, 3, 4)},
            lambda x, order=order: x.permute(order),
            perm=order,
        )
        for order in ([1, 0, 2], [2, 0, 1], [2, 1, 0])
    ),
    single("transpose", "Transpose", {"x": (3, 4)}, lambda x: x.T),
    single(
        "expand",
        "Expand",
        {"x": (3, 1)},
        lambda x: x.expand(2, 3, 4),
        known={"shape": np.array([2, 3, 4])},
    ),
    single(
        "expand-ones", "Expand", {"x": (3, 4)}, lambda x: x * 1, known={"shape": np.array([1, 1])}
    ),
    single(
        "tile", "Tile", {"x": (2, 3)}, lambda x: x.tile(2, 3), known={"repeats": np.array([2, 3])}
    ),
    single(
        "tile-one",
        "Tile",
        {"x": (2, 1, 3)},
        lambda x: x.tile(1, 4, 1),
        known={"repeats": np.array([1, 4, 1])},
    ),
    _pad("pad", [1, 2, 0, 3], lambda x: functional.pad(x, (2, 3, 1, 0)), mode="constant"),
    _pad("pad-negative", [-1, 1, 0, -2], lambda x: functional.pad(x, (1, -2, -1, 0))),
    _pad(
        "pad-reflect",
        [1, 2, 1, 3],
        lambda x: functional.pad(x[None, None], (2, 3, 1, 1), mode="reflect")[0, 0],
        mode="reflect",
    ),
    _pad(
        "pad-edge",
        [1, 2, 0, 3],
        lambda x: functional.pad(x[None, None], (2, 3, 1, 0), mode="replicate")[0, 0],
        mode="edge",
    ),
    _pad(
        "pad-wrap",
        [1, 2, 2, 3],
        lambda x: functional.pad(x[None, None], (2, 3, 1, 2), mode="circular")[0, 0],
        mode="wrap",
        opset=19,
    ),
    single(
        "depth-to-space",
        "DepthToSpace",
        {"x": (1, 8, 2, 3)},
        lambda x: functional.pixel_shuffle(x, 2),
        blocksize=2,
        mode="CRD",
    ),
    single(
        "space-to-depth",
        "SpaceToDepth",
        {"x": (1, 2, 4, 6)},
        lambda x: x.reshape(1, 2, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3),
        blocksize=2,
    ),
    single("identity", "Identity", {"x": (2, 3)}, lambda x: x * 1),
    single("cast", "Cast", {"x": (2, 3)}, lambda x: x * 1, to=1),
    case(
        "cast-half",
        [("Cast", "x", "h", {"to": 10}), ("Cast", "h", "y", {"to": 1})],
        {"x": np.array([[1, 2, -3], [0.5, 0.25, 4]], np.float32)},
        lambda x: x * 1,
        tolerance=1e-3,
    ),
    case(
        "thin",
        [
            ("Unsqueeze", "x,axis", "u"),
            ("Expand", "u,shape", "e"),
            ("Transpose", "e", "t", {"perm": [1, 0, 2]}),
            ("Reshape", "t,rows", "r"),
            ("ReduceMean", "r,last", "y"),
        ],
        {"x": (3, 4)},
        lambda x: x[None].expand(2, 3, 4).permute(1, 0, 2).reshape(6, 4).mean(1, keepdim=True),
        known={
            "axis": np.array([0]),
            "shape": np.array([2, 3, 4]),
            "rows": np.array([6, 4]),
            "last": np.array([1]),
        },
    ),
]


def _gather(name: str, shape: tuple[int, ...], indices: Any, axis: int, *, known: bool) -> Case:
    array = np.asarray(indices)
    positive = array % shape[axis]

    def reference(table, *_):
        flat = table.index_select(axis, torch.tensor(positive.reshape(-1)))
        axis_ = axis % len(shape)
        return flat.reshape(*shape[:axis_], *array.shape, *shape[axis_ + 1 :])

    where: dict[str, Any] = {"known": {"i": array}} if known else {"data": {"i": array}}
    suffix = "-known" if known else ""
    return single(f"{name}{suffix}", "Gather", {"t": shape}, reference, axis=axis, **where)


_GATHERS = [
    _gather(name, shape, indices, axis, known=known)
    for known in (False, True)
    for name, shape, indices, axis in (
        ("gather-rows", (7, 5), [3, 0, 6], 0),
        ("gather-repeated", (7, 5), [1, 1, 4, 1, 6], 0),
        ("gather-negative", (7, 5), [-1, 2, -7, 6], 0),
        ("gather-2d", (7, 5), [[0, 1, 1], [5, -2, 1]], 0),
        ("gather-columns", (4, 6), [5, 0, 5], 1),
        ("gather-middle", (2, 5, 3), [[0, 4], [4, 2]], 1),
        ("gather-scalar", (4, 3), -2, 0),
        ("gather-vector", (9,), [3, 3, 8], 0),
        ("gather-run", (9, 4), [2, 3, 4, 5], 0),
        ("gather-backward", (9, 4), [6, 4, 2, 0], 0),
    )
] + [
    _gather(
        "embedding", (64, 16), np.random.default_rng(2).integers(0, 64, (4, 12)), 0, known=False
    ),
    _gather("embedding-one-row", (16, 8), np.full(40, 3), 0, known=False),
    single(
        "gather-elements",
        "GatherElements",
        {"x": (3, 4)},
        lambda x, i: x.gather(1, i),
        data={"i": np.array([[0, 0, 3], [1, 2, 2], [3, 3, 3]])},
        axis=1,
    ),
    single(
        "gather-nd",
        "GatherND",
        {"x": (3, 4, 2)},
        lambda x, i: x[i[:, 0], i[:, 1]],
        data={"i": np.array([[0, 0], [2, 3], [2, 3], [1, 0]])},
    ),
    single(
        "gather-nd-batch",
        "GatherND",
        {"x": (3, 4, 2)},
        lambda x, i: x[torch.arange(3), i[:, 0]],
        data={"i": np.array([[0], [3], [-1]])},
        batch_dims=1,
    ),
    single(
        "scatter-elements-add",
        "ScatterElements",
        {"x": (3, 4), "u": (2, 4)},
        lambda x, u, i: x.scatter_add(0, i, u),
        data={"i": np.array([[0, 1, 2, 0], [0, 1, 0, 2]])},
        inputs="x,i,u",
        axis=0,
        reduction="add",
    ),
    case(
        "slice-at-a-place-that-is-data",
        [
            ("Add", "i,two", "end"),
            ("Slice", "x,i,end,axes", "y"),
        ],
        {"x": (6, 5)},
        lambda x, i: x[int(i) : int(i) + 2],
        data={"i": np.array([3])},
        known={"two": np.array([2]), "axes": np.array([0])},
    ),
    *(
        single(
            f"scatter-elements-{name}",
            "ScatterElements",
            {"x": (3, 4), "u": (2, 4)},
            lambda x, u, i, kind=kind: x.scatter_reduce(0, i, u, kind),
            data={"i": np.array([[0, 1, 2, 0], [0, 1, 0, 2]])},
            inputs="x,i,u",
            axis=0,
            reduction=name,
        )
        for name, kind in (("mul", "prod"), ("max", "amax"), ("min", "amin"))
    ),
    *(
        single(
            f"scatter-elements-{name}-ties",
            "ScatterElements",
            {
                "x": np.array([[0, 2.0, 3], [1, 0, 3]], np.float32),
                "u": np.array([[0, 2.0, 3], [5, 0, 3]], np.float32),
            },
            lambda x, u, i, kind=kind: x.scatter_reduce(0, i, u, kind),
            data={"i": np.array([[0, 0, 1], [1, 1, 1]])},
            inputs="x,i,u",
            axis=0,
            reduction=name,
        )
        for name, kind in (("mul", "prod"), ("max", "amax"))
    ),
    *(
        single(
            f"scatter-nd-{name}",
            "ScatterND",
            {"x": (4, 3), "u": (3, 3)},
            lambda x, u, i, kind=kind: x.scatter_reduce(0, i.expand(3, 3), u, kind),
            data={"i": np.array([[2], [0], [2]])},
            inputs="x,i,u",
            opset=18,
            reduction=name,
        )
        for name, kind in (("mul", "prod"), ("max", "amax"), ("min", "amin"))
    ),
    single(
        "scatter-nd-replaces",
        "ScatterND",
        {"x": (4, 3), "u": (2, 3)},
        lambda x, u, i: torch.index_put(x, (i[:, 0],), u),
        data={"i": np.array([[2], [0]])},
        inputs="x,i,u",
    ),
    case(
        "top-k",
        [("TopK", "x,k", "y,i", {"axis": 1})],
        {"x": (3, 6)},
        lambda x: x.topk(2, 1).values,
        known={"k": np.array([2])},
    ),
]

_SAMPLED = [
    single(
        "resize-nearest",
        "Resize",
        {"x": (1, 2, 3, 4)},
        lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"),
        inputs="x,,scales",
        known={"scales": np.array([1, 1, 2, 2], np.float32)},
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    single(
        "resize-linear",
        "Resize",
        {"x": (1, 2, 4, 4)},
        lambda x: functional.interpolate(x, size=(6, 8), mode="bilinear"),
        inputs="x,,,sizes",
        known={"sizes": np.array([1, 2, 6, 8])},
        mode="linear",
    ),
    single(
        "grid-sample",
        "GridSample",
        {"x": (1, 2, 4, 5), "grid": drawn((1, 3, 3, 2), 4) / 2},
        lambda x, grid: functional.grid_sample(x, grid, align_corners=True),
        align_corners=1,
    ),
    single("det", "Det", {"x": (2, 3, 3)}, torch.linalg.det),
    *(
        single(
            f"one-hot-values-{axis}",
            "OneHot",
            {"values": (2,)},
            lambda values, i, axis=axis: values[
                torch.movedim(functional.one_hot(i % 4, 4), -1, axis)
            ],
            inputs="i,depth,values",
            known={"depth": np.array([4], np.float32) if axis else np.array(4)},
            data={"i": np.array([[2, -1, 0], [3, 3, 1]])},
            axis=axis,
        )
        for axis in (-1, 0, 1)
    ),
    case(
        "one-hot-product",
        [("OneHot", "i,depth,values", "h"), ("MatMul", "h,t", "y")],
        {"t": (6, 4)},
        lambda t, i: t[i],
        data={"i": np.array([2, 0, 2, 5])},
        known={"depth": np.array(6), "values": np.array([0, 1], np.float32)},
    ),
]

_CASES = [*_SLICES, *_JOINS, *_SHAPES, *_GATHERS, *_SAMPLED]


@pytest.mark.parametrize("given_case", _CASES, ids=ids(_CASES))
def test_gradients(given_case: Case, tmp_path: Path):
    agree(given_case, tmp_path)


@settings(max_examples=10, derandomize=True, deadline=None)
@given(data=st.data(), shape=st.lists(st.integers(1, 7), min_size=1, max_size=3))
def test_slices(data, shape, tmp_path_factory):
    starts, ends, steps, cut = [], [], [], []
    for size in shape:
        step = data.draw(st.sampled_from([-2, -1, 1, 2]))
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, size - 1)] * 2)))
        elements = list(range(first, last + 1, step) if step > 0 else range(last, first - 1, step))
        starts.append(elements[0])
        ends.append(last + 1 if step > 0 else first - 1 if first else _FIRST)
        steps.append(step)
        cut.append(torch.tensor(elements))

    def reference(x):
        for d, elements in enumerate(cut):
            x = x.index_select(d, elements)
        return x

    known = {
        name: np.array(values)
        for name, values in (
            ("starts", starts),
            ("ends", ends),
            ("axes", list(range(len(shape)))),
            ("steps", steps),
        )
    }
    agree(
        single("slice", "Slice", {"x": shape}, reference, known=known),
        tmp_path_factory.mktemp("shapes"),
    )


@settings(max_examples=10, derandomize=True, deadline=None)
@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 20),
    data=st.data(),
)
def test_lookups(rows, columns, data, tmp_path_factory):
    indices = data.draw(st.lists(st.integers(-rows, rows - 1), min_size=1, max_size=30))
    lookup = _gather("gather", (rows, columns), indices, 0, known=False)
    agree(lookup, tmp_path_factory.mktemp("shapes"))
