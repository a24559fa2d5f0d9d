"""Operators of classical machine learning, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((40, 5)).astype(np.float32)
FLOAT, INT64, DOUBLE = TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE


def _model(
    op_type: str,
    kinds: Sequence[int] = (FLOAT,),
    x: np.ndarray = X,
    weights: Mapping[str, np.ndarray] | None = None,
    version: int = 3,
    **attributes: Any,
) -> onnx.ModelProto:
    names = [f"y{i}" for i in range(len(kinds))]
    inputs = ["x", *(weights or {})]
    node = helper.make_node(op_type, inputs, names, "node", domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    outputs = [helper.make_tensor_value_info(n, k, None) for n, k in zip(names, kinds, strict=True)]
    model = model_of([node], [info("x", x.shape, kind)], outputs, weights)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", version))
    return model


def _check(path: Path, model: onnx.ModelProto, x: np.ndarray = X) -> None:
    for actual, expected in both(model, path / "m.onnx", {"x": x}):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Binarizer", {"threshold": 0.25}),
        ("Scaler", {"offset": [0.5, 1, -1, 2, 0], "scale": [2.0, 1, 0.5, -1, 3]}),
        ("Scaler", {"offset": [0.5], "scale": [2.0]}),
        ("Normalizer", {"norm": "MAX"}),
        ("Normalizer", {"norm": "L1"}),
        ("Normalizer", {"norm": "L2"}),
        ("LinearRegressor", {"coefficients": [0.5, 1, -1, 2, 0], "intercepts": [0.25]}),
        ("LinearRegressor", {"coefficients": [float(i) for i in range(10)], "targets": 2}),
        ("SVMRegressor", {"kernel_type": "RBF", "kernel_params": [0.3, 0, 3], "n_supports": 3,
                          "support_vectors": X[:3].reshape(-1).tolist(),
                          "coefficients": [0.5, -1, 2], "rho": [0.1]}),
        ("SVMRegressor", {"kernel_type": "POLY", "kernel_params": [0.3, 1, 3], "n_supports": 3,
                          "support_vectors": X[:3].reshape(-1).tolist(),
                          "coefficients": [0.5, -1, 2], "rho": [0.1]}),
        ("SVMRegressor", {"kernel_type": "SIGMOID", "kernel_params": [0.3, 1, 3], "n_supports": 2,
                          "support_vectors": X[:2].reshape(-1).tolist(),
                          "coefficients": [0.5, -1], "rho": [0.1]}),
        ("SVMRegressor", {"kernel_type": "LINEAR", "kernel_params": [0.0, 0, 0],
                          "coefficients": [0.5, -1, 2, 3, 4], "rho": [0.1]}),
    ],
)  # fmt: skip
def test_a_function_of_features(tmp_path: Path, op_type: str, attributes: dict[str, Any]) -> None:
    _check(tmp_path, _model(op_type, version=1, **attributes))


def test_missing_values_are_replaced(tmp_path: Path) -> None:
    x = np.where(X > 1, np.float32(np.nan), X)
    replaced = [1.0, 2.0, 3.0, 4.0, 5.0]
    model = _model(
        "Imputer", x=x, version=1, imputed_value_floats=replaced, replaced_value_float=np.nan
    )
    _check(tmp_path, model, x)


def test_features_are_extracted(tmp_path: Path) -> None:
    weights = {"i": np.array([[3, 0, 3]])}
    _check(tmp_path, _model("ArrayFeatureExtractor", weights=weights, version=1))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_linear_classes(tmp_path: Path, transform: str) -> None:
    model = _model(
        "LinearClassifier", (INT64, FLOAT), version=1, post_transform=transform,
        coefficients=RANDOM.standard_normal(15).tolist(), intercepts=[0.1, 0.2, -0.1],
        classlabels_ints=[7, 3, 11], multi_class=1,
    )  # fmt: skip
    _check(tmp_path, model)


def _forest(
    n_trees: int,
    n_targets: int,
    prefix: str,
    modes: Sequence[str] = ("BRANCH_LEQ",),
    low: float = -1,
    only: int | None = None,
) -> dict[str, Any]:
    """Return the attributes of random trees of 7 decisions, some of them shorter."""
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                     "falsenodeids", "missing_value_tracks_true")
    }  # fmt: skip
    leaves: dict[str, list[Any]] = {n: [] for n in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(n_trees):
        n_decisions = 7 if tree % 2 else 3
        for index in range(2 * n_decisions + 1):
            is_leaf = index >= n_decisions
            row: tuple[Any, ...] = (
                tree, index, int(RANDOM.integers(5)), float(np.float32(RANDOM.normal())),
                "LEAF" if is_leaf else str(RANDOM.choice(list(modes))),
                0 if is_leaf else 2 * index + 1, 0 if is_leaf else 2 * index + 2,
                int(RANDOM.integers(2)),
            )  # fmt: skip
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
            if is_leaf:
                for target in range(n_targets) if only is None else [only]:
                    weight = float(RANDOM.uniform(low, 1)) / n_trees
                    for name, value in zip(leaves, (tree, index, target, weight), strict=True):
                        leaves[name].append(value)
    results = {f"nodes_{name}": column for name, column in columns.items()}
    return results | {f"{prefix}_{name}": column for name, column in leaves.items()}


_MISSING = np.where(X > 1.2, np.float32(np.nan), X)
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")


@pytest.mark.parametrize("modes", [("BRANCH_LEQ",), ("BRANCH_LT",), _MODES])
@pytest.mark.parametrize(
    ("aggregate", "n_targets"), [("SUM", 3), ("AVERAGE", 2), ("MIN", 1), ("MAX", 1)]
)
def test_trees_of_numbers(
    tmp_path: Path, modes: Sequence[str], aggregate: str, n_targets: int
) -> None:
    base = [0.5, -0.25, 0.125][:n_targets]
    attributes = _forest(6, n_targets, "target", modes) | {
        "n_targets": n_targets, "aggregate_function": aggregate, "base_values": base,
    }  # fmt: skip
    model = _model("TreeEnsembleRegressor", x=_MISSING, version=1, **attributes)
    _check(tmp_path, model, _MISSING)


@pytest.mark.parametrize(
    ("labels", "only", "low", "transform"),
    [
        ([4, 2, 9], None, -1, "NONE"),
        ([4, 2, 9], None, -1, "SOFTMAX"),
        ([0, 1], 0, 0, "NONE"),
        ([0, 1], 1, -1, "NONE"),
        ([5, 3], 0, -1, "LOGISTIC"),
    ],
)
def test_trees_of_classes(
    tmp_path: Path, labels: list[int], only: int | None, low: float, transform: str
) -> None:
    model = _model(
        "TreeEnsembleClassifier", (INT64, FLOAT), version=1, classlabels_int64s=labels,
        post_transform=transform, **_forest(6, len(labels), "class", only=only, low=low),
    )  # fmt: skip
    _check(tmp_path, model)


def _ensemble(**changed: Any) -> dict[str, Any]:
    """Return two trees: one of two decisions, one of one."""
    splits = helper.make_tensor("s", DOUBLE, [3], [0.1, -0.5, 0.7])
    leaf_weights = helper.make_tensor("w", DOUBLE, [5], [1.0, 2.0, 4.0, 8.0, 16.0])
    return {
        "tree_roots": [0, 2], "n_targets": 2, "nodes_featureids": [0, 3, 1],
        "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [3], [0, 3, 1]),
        "nodes_splits": splits, "nodes_truenodeids": [1, 0, 3], "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 4], "nodes_falseleafs": [1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 1], "leaf_weights": leaf_weights, **changed,
    }  # fmt: skip


def test_trees_whose_nodes_name_each_other(tmp_path: Path) -> None:
    x = X.astype(np.float64)
    _check(tmp_path, _model("TreeEnsemble", (DOUBLE,), x, version=5, **_ensemble()), x)


_ONE_LEAF: dict[str, Any] = {
    "nodes_treeids": [0], "nodes_nodeids": [0], "nodes_featureids": [0], "nodes_values": [0.0],
    "nodes_modes": ["LEAF"], "nodes_truenodeids": [0], "nodes_falsenodeids": [0],
    "target_treeids": [0], "target_nodeids": [0], "target_ids": [0], "target_weights": [2.5],
}  # fmt: skip


def test_a_tree_of_one_leaf(tmp_path: Path) -> None:
    _check(tmp_path, _model("TreeEnsembleRegressor", version=1, n_targets=1, **_ONE_LEAF))


def _chain(n: int) -> dict[str, Any]:
    """Return a tree that is a chain of decisions."""
    positions = list(range(2 * n + 1))
    return {
        "nodes_treeids": [0] * len(positions), "nodes_nodeids": positions,
        "nodes_featureids": [0] * len(positions), "nodes_values": [0.0] * len(positions),
        "nodes_modes": ["BRANCH_LEQ"] * n + ["LEAF"] * (n + 1),
        "nodes_truenodeids": [n + i for i in range(n)] + [0] * (n + 1),
        "nodes_falsenodeids": [i + 1 if i < n - 1 else 2 * n for i in range(n)] + [0] * (n + 1),
        "target_treeids": [0], "target_nodeids": [n], "target_ids": [0], "target_weights": [1.0],
    }  # fmt: skip


_CYCLE = _ONE_LEAF | {"nodes_modes": ["BRANCH_LEQ"]}
_LONE = {"nodes_treeids": [0, 1], "target_treeids": [0]}


@pytest.mark.parametrize(
    ("op_type", "attributes", "words"),
    [
        ("TreeEnsembleRegressor", _CYCLE, "a node of it is below itself"),
        ("TreeEnsembleRegressor", _ONE_LEAF | _LONE, "2 nodes_treeids, but 1 nodes_nodeids"),
        ("TreeEnsembleRegressor", _ONE_LEAF | {"target_ids": [7]}, "weighs target 7 of 1"),
        ("TreeEnsembleRegressor", _ONE_LEAF | {"target_weights": [1.0, 2.0]}, "as many target_ids"),
        ("TreeEnsembleRegressor", _ONE_LEAF | {"n_targets": 1 << 40}, "products of these are"),
        ("TreeEnsembleRegressor", _ONE_LEAF | {"n_targets": 2, "base_values": [1.0, 2.0]},
         "may reach no leaf that weighs target 1"),
        ("TreeEnsembleRegressor", _chain(50_000), "decisions or more is too large"),
        ("TreeEnsemble", _ensemble(nodes_falsenodeids=[2, 9, 4]), "leaf 9 does not exist"),
        ("TreeEnsemble", _ensemble(nodes_trueleafs=[0, 0, 1]), "a node of a tree is below itself"),
        ("TreeEnsemble", _ensemble(nodes_featureids=[0, 77, 1]), "on feature 77 of 5"),
        ("LinearRegressor", {"coefficients": [1.0], "targets": 1 << 40}, "x 5 coefficients and"),
        ("LinearClassifier", {"coefficients": [1.0] * 5, "classlabels_strings": ["a"]},
         "labels are strings or missing"),
        ("LinearRegressor", {"coefficients": [1.0] * 5, "post_transform": "PROBIT"},
         "post_transform PROBIT is not supported"),
        ("Scaler", {"offset": [1.0, 2.0], "scale": [1.0]}, "expected one offset or 5"),
        ("SVMRegressor", {"kernel_type": "RBF", "n_supports": 1 << 40}, "do not fit"),
    ],
)  # fmt: skip
def test_what_is_refused(
    tmp_path: Path, op_type: str, attributes: dict[str, Any], words: str
) -> None:
    version = 5 if op_type == "TreeEnsemble" else 1
    kinds = (INT64, FLOAT) if op_type.endswith("Classifier") else (FLOAT,)
    onnx.save(_model(op_type, kinds, version=version, **attributes), tmp_path / "odd.onnx")
    with pytest.raises(BadModel, match=rf"'node' \({op_type}\).*{words}"):
        load_onnx(tmp_path / "odd.onnx")
