"""Gradients of products, compared with PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.torch.compared import Case, agree, case, drawn, ids, single

#: Shapes of two operands, by what they are.
_MATMULS = {
    "matrices": ((4, 6), (6, 5)),
    "vector-matrix": ((6,), (6, 5)),
    "matrix-vector": ((4, 6), (6,)),
    "vectors": ((6,), (6,)),
    "rows": ((3, 4, 6), (6, 5)),
    "rows-4": ((2, 3, 4, 6), (6, 5)),
    "batch": ((3, 4, 6), (3, 6, 5)),
    "batch-4": ((2, 3, 4, 6), (2, 3, 6, 5)),
    "left-broadcast": ((4, 6), (3, 6, 5)),
    "left-one": ((1, 4, 6), (3, 6, 5)),
    "right-one": ((3, 4, 6), (1, 6, 5)),
    "both-broadcast": ((3, 1, 4, 6), (1, 2, 6, 5)),
    "ranks": ((2, 3, 4, 6), (3, 6, 5)),
    "vector-batch": ((6,), (3, 6, 5)),
    "batch-vector": ((3, 4, 6), (6,)),
    "one-column": ((3, 4, 6), (3, 6, 1)),
    "inner-one": ((4, 1), (1, 5)),
}


def _gemm(a, b, c=None, alpha=1.0, beta=1.0, left=0, right=0):
    product = alpha * (a.T if left else a) @ (b.T if right else b)
    return product if c is None else product + beta * c


_GEMMS = [
    single(
        f"gemm-{left}{right}-{name}",
        "Gemm",
        {
            "a": (6, 4) if left else (4, 6),
            "b": (5, 6) if right else (6, 5),
            **({} if c is None else {"c": c}),
        },
        lambda *values, options=(alpha, beta, left, right): _gemm(
            *values, **dict(zip(("alpha", "beta", "left", "right"), options, strict=True))
        ),
        transA=left,
        transB=right,
        alpha=alpha,
        beta=beta,
    )
    for left, right, name, c, alpha, beta in (
        (0, 0, "plain", None, 1.0, 1.0),
        (0, 1, "bias", (5,), 1.0, 1.0),
        (1, 0, "column", (4, 1), 1.0, 1.0),
        (1, 1, "scalar", (), 0.5, 1.0),
        (0, 0, "full", (4, 5), 2.0, 0.25),
        (0, 1, "row", (1, 5), 1.5, -2.0),
        (1, 1, "no-c", None, 0.3, 1.0),
    )
]

_EINSUMS = [
    ("ij,jk->ik", ((4, 6), (6, 5))),
    ("bij,bjk->bik", ((2, 4, 6), (2, 6, 5))),
    ("bhid,bhjd->bhij", ((2, 3, 4, 6), (2, 3, 5, 6))),
    ("ij->ji", ((4, 6),)),
    ("ij->i", ((4, 6),)),
    ("ii->i", ((5, 5),)),
    ("i,j->ij", ((4,), (6,))),
    ("ij,ij->", ((4, 6), (4, 6))),
    ("...ij,jk->...ik", ((2, 3, 4, 6), (6, 5))),
    ("ij,jk,kl->il", ((4, 6), (6, 5), (5, 3))),
]

_CASES = [
    *(
        single(f"matmul-{name}", "MatMul", dict(zip("ab", shapes, strict=True)), torch.matmul)
        for name, shapes in _MATMULS.items()
    ),
    *_GEMMS,
    *(
        single(
            f"einsum-{equation}",
            "Einsum",
            dict(zip("abc", shapes, strict=False)),
            lambda *values, equation=equation: torch.einsum(equation, *values),
            equation=equation,
        )
        for equation, shapes in _EINSUMS
    ),
    single("matmul-same", "MatMul", {"a": (5, 5)}, lambda a: a @ a, inputs="a,a"),
    single(
        "matmul-data",
        "MatMul",
        {"b": (6, 5)},
        lambda b, a: a @ b,
        data={"a": drawn((4, 6), 3)},
        inputs="a,b",
    ),
    case(
        "matmul-of-transpose",
        [("Transpose", "a", "t", {"perm": [1, 0]}), ("MatMul", "a,t", "y")],
        {"a": (4, 6)},
        lambda a: a @ a.T,
    ),
    case(
        "tied",
        [
            ("Gather", "table,i", "e"),
            ("Tanh", "e", "h"),
            ("Gemm", "h,table", "y", {"transB": 1}),
        ],
        {"table": (7, 6)},
        lambda table, i: torch.tanh(table[i]) @ table.T,
        data={"i": np.array([1, 4, 1, 6])},
    ),
    case(
        "two-layers",
        [
            ("Gemm", "x,w1,b1", "h", {"transB": 1}),
            ("Relu", "h", "r"),
            ("Gemm", "r,w2,b2", "y", {"transB": 1}),
        ],
        {"w1": (9, 6), "b1": (9,), "w2": (3, 9), "b2": (3,)},
        lambda w1, b1, w2, b2, x: torch.relu(x @ w1.T + b1) @ w2.T + b2,
        data={"x": drawn((5, 6), 9)},
    ),
]


@pytest.mark.parametrize("given_case", _CASES, ids=ids(_CASES))
def test_gradients(given_case: Case, tmp_path: Path):
    agree(given_case, tmp_path)


@settings(max_examples=12, derandomize=True, deadline=None)
@given(
    batch=st.lists(st.tuples(st.integers(1, 3), st.sampled_from("lrb")), max_size=2),
    sizes=st.tuples(*[st.integers(1, 9)] * 3),
)
def test_shapes_of_matmul(batch, sizes, tmp_path_factory):
    rows, inner, columns = sizes
    left = [1 if side == "r" else n for n, side in batch]
    right = [1 if side == "l" else n for n, side in batch]
    shapes = {"a": (*left, rows, inner), "b": (*right, inner, columns)}
    agree(single("matmul", "MatMul", shapes, torch.matmul), tmp_path_factory.mktemp("shapes"))
