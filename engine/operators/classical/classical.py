"""Operators of ONNX's domain for classical machine learning that compute numbers.

Source: onnx, docs/Operators-ml.md; where it is silent, onnxruntime, core/providers/cpu/ml.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.classical.tree import Forest, scores
from tilescope.engine.operators.classical.tree_attributes import (
    numbers,
    trees_by_node,
    trees_by_root,
)
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.indexing.indexing import ARG_MAX, GATHER
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import joined
from tilescope.engine.operators.norm.softmax import SOFTMAX
from tilescope.engine.operators.product.product import MATMUL
from tilescope.engine.operators.quantisation import as_type
from tilescope.engine.operators.reduction import reduced

__all__ = ["RECORDS"]

_DOMAIN = "ai.onnx.ml"
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _rows(node: Node, expansion: Expansion) -> Value:
    """Emit the first operand as rows of floats; a vector is one row."""
    x = as_type(expansion, node.operand(0), "float32")
    if len(x.shape) not in (1, 2):
        raise BadModel(f"{node}: expected rows of features, got shape {x.shape}")
    return x if len(x.shape) == 2 else reshape(expansion, x, (1, *x.shape))


def _per_feature(node: Node, expansion: Expansion, key: str, x: Value) -> Value:
    """Return an attribute with one number, or one for every feature.

    Raises
    ------
    BadModel
        When it has another length.
    """
    values = np.asarray(numbers(node, key), np.float32)
    if values.shape not in ((1,), x.shape[-1:]):
        raise BadModel(
            f"{node}: expected one {key} or {x.shape[-1]}, one for every feature, got {values.size}"
        )
    return expansion.constant(values, key)


def _scaler(node: Node, expansion: Expansion) -> Value:
    x = as_type(expansion, node.operand(0), "float32")
    apart = binary(expansion, "subtract", x, _per_feature(node, expansion, "offset", x))
    return binary(expansion, "multiply", apart, _per_feature(node, expansion, "scale", x))


def _binarizer(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    above = binary(
        expansion, "greater", x, scalar(expansion, node.attributes.get("threshold", 0.0), x)
    )
    return as_type(expansion, above, x.dtype)


def _imputer(node: Node, expansion: Expansion) -> Value:
    """Emit the operand with one value, such as NaN, replaced by those of the features."""
    x = node.operand(0)
    kind = "float" if np.issubdtype(x.dtype, np.floating) else "int64"
    key = "imputed_value_floats" if kind == "float" else "imputed_value_int64s"
    replacement = as_type(expansion, _per_feature(node, expansion, key, x), x.dtype)
    missing = node.attributes.get(f"replaced_value_{kind}", 0)
    if np.isnan(missing):
        is_missing = binary(expansion, "not_equal", x, x)
    else:
        is_missing = binary(expansion, "equal", x, scalar(expansion, missing, x))
    return chosen(expansion, is_missing, replacement, x)


def _normalizer(node: Node, expansion: Expansion) -> Value:
    x = as_type(expansion, node.operand(0), "float32")
    norm, axis = node.attributes.get("norm", "MAX"), [len(x.shape) - 1]
    if norm == "MAX":
        size = reduced(expansion, "maximum", x, axis)
    elif norm == "L1":
        size = reduced(expansion, "sum", unary(expansion, "absolute", x), axis)
    elif norm == "L2":
        size = unary(
            expansion, "sqrt", reduced(expansion, "sum", unary(expansion, "square", x), axis)
        )
    else:
        raise BadModel(f"{node}: expected a norm of MAX, L1 or L2, got {norm!r}")
    is_zero = binary(expansion, "equal", size, scalar(expansion, 0, size))
    return binary(
        expansion, "divide", x, chosen(expansion, is_zero, scalar(expansion, 1, size), size)
    )


def _array_feature_extractor(node: Node, expansion: Expansion) -> Value:
    x, indices = node.operand(0), node.operand(1)
    if len(x.shape) == 1:
        x = reshape(expansion, x, (1, *x.shape))
    flat = reshape(expansion, indices, (int(np.prod(indices.shape, dtype=np.int64)),))
    return expansion.emit(GATHER, x, flat, axis=len(x.shape) - 1)


def _linear(node: Node, expansion: Expansion, n: int) -> Value:
    """Emit x · coefficientsᵀ + intercepts for `n` targets.

    Raises
    ------
    BadModel
        When there are other numbers of coefficients or intercepts.
    """
    x = _rows(node, expansion)
    factors = np.asarray(numbers(node, "coefficients"), np.float32)
    offsets = np.asarray(numbers(node, "intercepts") or [0], np.float32)
    if n < 1 or factors.size != n * x.shape[1] or offsets.size not in (1, n):
        raise BadModel(
            f"{node}: expected {n} x {x.shape[1]} coefficients and {n} intercepts, got"
            f" {factors.size} and {offsets.size}"
        )
    weights = expansion.constant(np.ascontiguousarray(factors.reshape(n, -1).T), "coefficients")
    return binary(
        expansion,
        "add",
        expansion.emit(MATMUL, x, weights),
        expansion.constant(offsets, "intercepts"),
    )


def _transformed(node: Node, expansion: Expansion, x: Value) -> Value:
    """Emit scores by the node's last function.

    Raises
    ------
    BadModel
        When it is not supported.
    """
    kind = node.attributes.get("post_transform", "NONE")
    if isinstance(kind, int):
        kind = _TRANSFORMS[kind] if 0 <= kind < len(_TRANSFORMS) else f"number {kind}"
    if kind == "SOFTMAX":
        return expansion.emit(SOFTMAX, x, axis=1)
    if kind == "LOGISTIC":
        return unary(expansion, "sigmoid", x)
    if kind != "NONE":
        raise BadModel(
            f"{node}: post_transform {kind} is not supported: expected {', '.join(_TRANSFORMS)}"
        )
    return x


def _labels(node: Node, key: str) -> list[int]:
    """Return the labels of classes.

    Raises
    ------
    BadModel
        When they are strings, or there are none.
    """
    labels = numbers(node, key)
    if not labels:
        raise BadModel(
            f"{node}: its labels are strings or missing, which is not supported; train it with"
            " whole numbers as labels"
        )
    return [int(label) for label in labels]


def _labelled(expansion: Expansion, best: Value, labels: list[int]) -> Value:
    return expansion.emit(
        GATHER, expansion.constant(np.asarray(labels, np.int64), "labels"), best, axis=0
    )


def _linear_regressor(node: Node, expansion: Expansion) -> Value:
    return _transformed(
        node, expansion, _linear(node, expansion, node.attributes.get("targets", 1))
    )


def _linear_classifier(node: Node, expansion: Expansion) -> tuple[Value, Value]:
    labels = _labels(node, "classlabels_ints")
    x = _linear(node, expansion, len(labels))
    best = expansion.emit(ARG_MAX, x, axis=1, keepdims=0)
    return _labelled(expansion, best, labels), _transformed(node, expansion, x)


def _with_base(node: Node, expansion: Expansion, x: Value) -> Value:
    """Emit scores with what they begin at."""
    base = np.asarray(numbers(node, "base_values"), np.float32)
    if not base.size:
        return x
    if base.shape not in ((1,), x.shape[1:]):
        raise BadModel(f"{node}: expected {x.shape[1]} base_values, got {base.size}")
    return binary(expansion, "add", x, expansion.constant(base, "base"))


def _tree_regressor(node: Node, expansion: Expansion) -> Value:
    aggregate = node.attributes.get("aggregate_function", "SUM")
    if aggregate not in _AGGREGATES:
        raise BadModel(f"{node}: expected {', '.join(_AGGREGATES)}, got {aggregate!r}")
    trees = trees_by_node(node, "target")
    n = node.attributes.get("n_targets", 1)
    forest = Forest(trees, n, aggregate, range(n) if numbers(node, "base_values") else ())
    x = scores(node, expansion, _rows(node, expansion), forest)
    return _transformed(node, expansion, _with_base(node, expansion, x))


def _tree_ensemble(node: Node, expansion: Expansion) -> Value:
    number = node.attributes.get("aggregate_function", 1)
    if not 0 <= number < len(_AGGREGATES):
        raise BadModel(f"{node}: aggregate_function {number} is unknown")
    forest = Forest(trees_by_root(node), node.attributes.get("n_targets", 1), _AGGREGATES[number])
    x = _transformed(node, expansion, scores(node, expansion, _rows(node, expansion), forest))
    return as_type(expansion, x, node.operand(0).dtype)


def _tree_classifier(node: Node, expansion: Expansion) -> tuple[Value, Value]:
    """Emit labels and scores; two classes of which leaves weigh one have one score.

    Source: onnxruntime, core/providers/cpu/ml/tree_ensemble_aggregator.h, TreeAggregatorClassifier.
    """
    labels = _labels(node, "classlabels_int64s")
    x, weighed = _rows(node, expansion), sorted(set(numbers(node, "class_ids")))
    has_one_score = len(labels) == 2 and len(weighed) == 1
    trees = trees_by_node(node, "class")
    forest = Forest(trees, len(labels), "SUM", weighed if has_one_score else range(len(labels)))
    every = scores(node, expansion, x, forest)
    if not has_one_score:
        every = _with_base(node, expansion, every)
        best = expansion.emit(ARG_MAX, every, axis=1, keepdims=0)
        return _labelled(expansion, best, labels), _transformed(node, expansion, every)
    weighed_class = expansion.emit(
        GATHER, every, expansion.constant(np.asarray(weighed, np.int64), "class"), axis=1
    )
    if weighed == [1] and numbers(node, "base_values"):
        raise BadModel(f"{node}: base_values of two classes with one score are not supported")
    weighed_class = _with_base(node, expansion, weighed_class)
    are_shares = min(numbers(node, "class_weights"), default=0) >= 0
    is_second = binary(
        expansion,
        "greater",
        weighed_class,
        scalar(expansion, 0.5 if are_shares else 0, weighed_class),
    )
    best = reshape(expansion, as_type(expansion, is_second, "int64"), (x.shape[0],))
    if weighed == [1]:
        return _labelled(expansion, best, labels), _transformed(node, expansion, every)
    if are_shares:
        first = binary(expansion, "subtract", scalar(expansion, 1, weighed_class), weighed_class)
        return _labelled(expansion, best, labels), joined(expansion, [first, weighed_class], 1)
    both = joined(expansion, [unary(expansion, "negate", weighed_class), weighed_class], 1)
    return _labelled(expansion, best, labels), _transformed(node, expansion, both)


def _support_vectors(node: Node, expansion: Expansion) -> Value:
    """Emit kernel(x, vectors) · coefficients + rho.

    Raises
    ------
    BadModel
        When the node is of one class, or has another kernel.
    """
    x, n = _rows(node, expansion), node.attributes.get("n_supports", 0)
    kind = node.attributes.get("kernel_type", "LINEAR")
    gamma, shift, degree = [*numbers(node, "kernel_params"), 0, 0, 0][:3]
    factors = np.asarray(numbers(node, "coefficients"), np.float32)
    vectors = np.asarray(numbers(node, "support_vectors"), np.float32)
    offset = np.asarray(numbers(node, "rho"), np.float32)[:1]
    if node.attributes.get("one_class", 0) or kind not in ("LINEAR", "RBF", "POLY", "SIGMOID"):
        raise BadModel(f"{node}: one_class and a kernel of {kind} are not supported")
    n_rows = n or 1
    if vectors.size not in (n * x.shape[1], 0) or factors.size != (n or x.shape[1]):
        raise BadModel(
            f"{node}: {vectors.size} numbers of support vectors and {factors.size} coefficients do"
            f" not fit {n} vectors of {x.shape[1]} features"
        )
    if not n:
        out = expansion.emit(
            MATMUL, x, expansion.constant(factors.reshape(-1, n_rows), "coefficients")
        )
        return binary(expansion, "add", out, expansion.constant(offset, "rho"))
    apart = vectors.reshape(n, -1)
    turned = expansion.constant(np.ascontiguousarray(apart.T), "vectors")
    products = expansion.emit(MATMUL, x, turned)
    if kind == "RBF":
        norms = reduced(expansion, "sum", unary(expansion, "square", x), [1])
        vector_norms = expansion.constant(
            (apart * apart).sum(1)[None].astype(np.float32), "squares"
        )
        twice = binary(expansion, "multiply", products, scalar(expansion, 2, products))
        distance = binary(
            expansion, "subtract", binary(expansion, "add", norms, vector_norms), twice
        )
        products = unary(
            expansion,
            "exp",
            binary(expansion, "multiply", distance, scalar(expansion, -gamma, distance)),
        )
    elif kind != "LINEAR":
        scaled = binary(expansion, "multiply", products, scalar(expansion, gamma, products))
        scaled = binary(expansion, "add", scaled, scalar(expansion, shift, products))
        if kind == "SIGMOID":
            products = unary(expansion, "tanh", scaled)
        else:
            products = binary(expansion, "power", scaled, scalar(expansion, degree, scaled))
    out = expansion.emit(
        MATMUL, products, expansion.constant(factors.reshape(n, 1), "coefficients")
    )
    return _transformed(
        node, expansion, binary(expansion, "add", out, expansion.constant(offset, "rho"))
    )


def _operator(name: str, decompose: Callable[[Node, Expansion], Any]) -> Operator:
    return Operator(name=name, domain=_DOMAIN, decompose=decompose)


RECORDS = (
    _operator("ArrayFeatureExtractor", _array_feature_extractor),
    _operator("Binarizer", _binarizer),
    _operator("Imputer", _imputer),
    _operator("LinearClassifier", _linear_classifier),
    _operator("LinearRegressor", _linear_regressor),
    _operator("Normalizer", _normalizer),
    _operator("SVMRegressor", _support_vectors),
    _operator("Scaler", _scaler),
    _operator("TreeEnsemble", _tree_ensemble),
    _operator("TreeEnsembleClassifier", _tree_classifier),
    _operator("TreeEnsembleRegressor", _tree_regressor),
)
