"""Look-ups, scatters, sorting and splines of PopART, against numpy."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.operators.graphcore import Case, agrees, drawn, gradients_agree, results_of

from tilescope.engine.errors import BadModel

RANDOM = np.random.default_rng(9)
_FUNCTIONS: dict[str, Any] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "none": lambda _, new: new,
}


def _scattered(
    x: np.ndarray, indices: np.ndarray, initial: np.ndarray | None, size: int, axis: int, kind: str
) -> np.ndarray:
    shape = [*x.shape]
    shape[axis] = size
    is_first = np.full(shape, initial is None)
    out = np.full(shape, float(kind == "mul")) if initial is None else initial.copy()
    for place in np.ndindex(*x.shape):
        target = list(place)
        target[axis] = int(indices[place])
        at = tuple(target)
        out[at] = x[place] if is_first[at] else _FUNCTIONS[kind](out[at], x[place])
        is_first[at] = False
    return out.astype(x.dtype)


def _scatter(
    kind: str,
    *,
    axis: int = 0,
    size: int = 4,
    is_list: bool = False,
    is_initial: bool = False,
    dtype: str = "float32",
) -> Case:
    x = drawn((5, 3), 3)
    if dtype == "int32":
        x = RANDOM.integers(-9, 9, (5, 3)).astype(dtype)
    n = x.shape[axis]
    if kind == "none":  # of several that replace the same element, any may win
        indices = np.array([[2, 0, 3, 1, 4][:n]]).T if axis == 0 else np.array([[2, 0, 3][:n]])
        size = 6
    else:
        indices = RANDOM.integers(0, size - 1, (n, 1) if axis == 0 else (1, n))
    wide = np.broadcast_to(indices, x.shape)
    stored = indices.reshape(-1) if is_list else wide
    shape = list(x.shape)
    shape[axis] = size
    operands: list[np.ndarray] = [x, np.array(stored, np.int32)]
    if is_initial:
        operands.append(drawn(shape, 4))
    return Case(
        "ScatterReduce",
        operands,
        lambda x, _, initial=None: _scattered(x, wide, initial, size, axis, kind),
        {"axis": axis, "axis_size": size, "reduction": kind},
        trained=(0, 2) if is_initial else (0,),
        name=f"ScatterReduce-{kind}-{axis}-{is_list}-{is_initial}-{dtype}",
    )


_GROUPS = drawn((2, 3, 4))
_PICKS = RANDOM.integers(0, 3, (2, 2, 2)).astype(np.int32)


def _by_group(kind: str) -> Case:
    x, indices = drawn((2, 4, 3), 8), RANDOM.integers(0, 4, (2, 4)).astype(np.int32)

    def reference(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        wide = np.broadcast_to(indices[:, :, None], x.shape)
        return _scattered(x, wide, None, 5, 1, kind)

    attributes = {"axis": 1, "axis_size": 5, "reduction": kind, "group_size": 2}
    return Case("ScatterReduce", [x, indices], reference, attributes, name=f"groups-{kind}")


def _cropped() -> Case:
    x, indices = drawn((5, 4), 2), RANDOM.integers(0, 3, (4, 2)).astype(np.int32)
    return Case(
        "ScatterReduce",
        [x, indices],
        lambda x, indices: _scattered(x[:4, :2], indices, None, 3, 0, "sum"),
        {"axis": 0, "axis_size": 3, "reduction": "sum", "enable_index_broadcast": 0},
        name="ScatterReduce-cropped",
    )


def _spline(pseudo: np.ndarray, sizes: np.ndarray, is_open: np.ndarray, degree: int) -> Any:
    def basis(v: float, k: int) -> float:
        if degree == 0:
            return 1.0
        if degree == 1:
            return (1 - v, v)[k]
        if degree == 2:
            return (0.5 * v * v - v + 0.5, -v * v + v + 0.5, 0.5 * v * v)[k]
        return (
            (1 - v) ** 3 / 6,
            (3 * v**3 - 6 * v**2 + 4) / 6,
            (-3 * v**3 + 3 * v**2 + 3 * v + 1) / 6,
            v**3 / 6,
        )[k]

    n, d = pseudo.shape
    entries = (degree + 1) ** d
    values, places = np.zeros((n, entries)), np.zeros((n, entries), np.int32)
    for e, s in product(range(n), range(entries)):
        rest, stride, value, place = s, 1, 1.0, 0
        for k in range(d):
            step, rest = rest % (degree + 1), rest // (degree + 1)
            v = pseudo[e, k] * (int(sizes[k]) - degree * int(is_open[k]))
            place += (int(np.floor(v)) + step) % int(sizes[k]) * stride
            stride *= int(sizes[k])
            value *= basis(v - np.floor(v), step)
        values[e, s], places[e, s] = value, place
    return values, places


def _weighted(x: np.ndarray, w: np.ndarray, basis: np.ndarray, places: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ei,es,esio->eo", x, basis, w[places]))


_PSEUDO = RANDOM.uniform(0, 0.99, (6, 2)).astype(np.float32)
_SIZES, _OPEN = np.array([5, 4], np.int32), np.array([1, 0], np.uint8)
_MEDIAN = drawn((2, 4, 3), 6)


def _median(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> Any:
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[d] for d in kept), -1)
    middle = (rows.shape[-1] + 1) // 2 - 1
    order = np.argsort(rows, -1, kind="stable")[..., middle]
    values = np.take_along_axis(rows, order[..., None], -1)[..., 0]
    if keepdims:
        return np.expand_dims(values, axes), np.expand_dims(order.astype(np.int32), axes)
    return values, order.astype(np.int32)


FLOATS = [
    *(_scatter(kind, is_initial=i) for kind, i in product(_FUNCTIONS, (False, True))),
    _scatter("sum", is_list=True),
    _scatter("sum", is_list=True, axis=1),
    _scatter("max", is_list=True, is_initial=True),
    _scatter("mul", axis=-1),
    _by_group("sum"),
    _by_group("max"),
    _cropped(),
    Case("GroupedGather", [drawn((4, 3)), np.array([[2, 0], [1, 1]], np.int32)],
         lambda x, i: x[i], {"axis": 0, "group_size": 1}),
    Case("GroupedGather", [_GROUPS, _PICKS],
         lambda x, i: np.stack([a[b] for a, b in zip(x, i, strict=True)]),
         {"axis": 1, "group_size": 2}, name="GroupedGather-2"),
    Case("GroupedGather", [_GROUPS, _PICKS],
         lambda x, i: np.stack([a[:, b] for a, b in zip(x, i, strict=True)]),
         {"axis": 2, "group_size": 2}, name="GroupedGather-inner"),
    Case("PopartTiedGather", [drawn((4, 3)), np.array([2, 0], np.int32)], lambda x, i: x[i]),
    Case("SplineWeighting",
         [drawn((6, 3)), drawn((20, 3, 2), 1), drawn((6, 4), 2),
          RANDOM.integers(0, 20, (6, 4)).astype(np.int32)],
         _weighted, trained=(0, 1, 2), tolerance=1e-5),
]  # fmt: skip
OTHERS = [
    *(_scatter(kind, dtype="int32") for kind in ("sum", "max", "min")),
    *(
        Case(
            "Sort",
            [_MEDIAN],
            lambda x, axis=axis, sign=sign: (
                sign * np.sort(sign * x, axis),
                np.argsort(sign * x, axis, kind="stable").astype(np.int32),
            ),
            {"axis": axis, "descending": int(sign < 0)},
            name=f"Sort-{axis}-{sign}",
        )
        for axis, sign in product((-1, 1), (1, -1))
    ),
    *(
        Case(
            "ReduceMedian",
            [_MEDIAN],
            lambda x, axes=axes, keep=keep: _median(x, axes, keep),
            {"axes": axes, "keepdims": int(keep)},
            name=f"ReduceMedian-{axes}-{keep}",
        )
        for axes, keep in product(((1,), (0, 2)), (True, False))
    ),
    Case("ReduceMedian", [_MEDIAN], lambda x: _median(x, (0, 1, 2), True), name="ReduceMedian-all"),
    *(
        Case(
            "Bucketize",
            [x, np.array([1, 3, 5, 7], x.dtype)],
            lambda x, b, right=right: np.where(
                np.isnan(x), len(b), np.searchsorted(b, x, "right" if right else "left")
            ).astype(np.int32),
            {"right": right},
            name=f"Bucketize-{x.dtype}-{right}",
        )
        for x, right in product(
            (np.array([[0, 3, 4], [9, 7, np.nan]], np.float32), np.array([0, 1, 8], np.int32)),
            (0, 1),
        )
    ),
]


UNSORTED = Case(
    "Bucketize",
    [np.array([1, 4, 5, 6, 9], np.int32), np.array([1, 2, 6, 4], np.int32)],
    lambda *_: np.array([0, 2, 2, 2, 4], np.int32),
    name="Bucketize-unsorted",
)


def _basis(degree: int) -> Case:
    return Case(
        "SplineBasis",
        [_PSEUDO, _SIZES, _OPEN],
        lambda pseudo, sizes, is_open: _spline(pseudo, sizes, is_open, degree),
        {"degree": degree},
        tolerance=2e-6,
        name=f"SplineBasis-{degree}",
    )


@pytest.mark.parametrize("case", [*FLOATS, *OTHERS, UNSORTED, *map(_basis, range(4))], ids=str)
def test_results(case: Case, tmp_path: Path) -> None:
    agrees(case, tmp_path)


@pytest.mark.parametrize("case", FLOATS, ids=str)
def test_gradients(case: Case, tmp_path: Path) -> None:
    gradients_agree(case, tmp_path)


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes", "message"),
    [
        (
            "ScatterReduce",
            [_GROUPS, _PICKS[0]],
            {"axis": 0, "axis_size": 2},
            r"indices of shape \(2, 2\) do not fit data of shape \(2, 3, 4\) along axis 0",
        ),
        ("ScatterReduce", [_GROUPS, _PICKS], {"axis_size": 0}, "'sum' to 0 elements"),
        ("ScatterReduce", [_GROUPS, _PICKS], {"axis_size": 2}, "do not broadcast to"),
        ("GroupedGather", [_GROUPS, _PICKS], {"axis": 0, "group_size": 2}, "2 groups along axis 0"),
        ("Bucketize", [_PSEUDO, _SIZES], {}, "boundaries 'x1' are int32"),
        ("SplineBasis", [_PSEUDO, _SIZES, _OPEN], {"degree": 4}, "degree 4"),
        ("SplineBasis", [_PSEUDO, _SIZES[:1], _OPEN], {}, "2 dimensions, kernel sizes"),
        ("SplineWeighting", [_PSEUDO, _GROUPS, _PSEUDO, _PICKS], {}, "do not fit"),
    ],
)
def test_what_does_not_fit(
    op_type: str, operands: list[Any], attributes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadModel, match=message):
        results_of(Case(op_type, operands, lambda *_: 0.0, attributes), tmp_path / "bad.onnx")
