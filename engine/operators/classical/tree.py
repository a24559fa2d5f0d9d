"""Tree ensembles as products of matrices.

All decisions of all trees are made at once. A leaf is reached where the decisions on its path agree
with it: their sum, with the sign that the path wants, is as large as it can be.
Source: S. Nakandala et al., A Tensor Compiler for Unified Machine Learning Prediction Serving, OSDI
2020, section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Value
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.indexing.indexing import GATHER
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.product.product import MATMUL
from tilescope.engine.operators.quantisation import as_type
from tilescope.engine.operators.reduction import reduced

__all__ = ["MOST_ELEMENTS", "Forest", "Tree", "scores"]

#: Elements of the matrix of all paths, and of that of all weights.
MOST_ELEMENTS = 1 << 24

#: Comparisons of a feature with a value, by ONNX's mode.
_COMPARISONS = {
    "BRANCH_LEQ": "less_equal",
    "BRANCH_LT": "less",
    "BRANCH_GTE": "greater_equal",
    "BRANCH_GT": "greater",
    "BRANCH_EQ": "equal",
    "BRANCH_NEQ": "not_equal",
}


@dataclass
class Tree:
    """A tree: its decisions, and its leaves with the decisions on their paths.

    Parameters
    ----------
    decisions
        Feature, value, comparison, and whether a missing value counts as true.
    leaves
        Weights of a leaf by target.
    paths
        Of every leaf: numbers of decisions with what they must be.
    """

    decisions: list[tuple[int, float, str, bool]] = field(default_factory=list)
    leaves: list[list[tuple[int, float]]] = field(default_factory=list)
    paths: list[list[tuple[int, bool]]] = field(default_factory=list)


@dataclass(frozen=True)
class Forest:
    """Trees whose leaves weigh targets.

    Parameters
    ----------
    trees
        At least one.
    n_targets
        Of all of them.
    aggregate
        ``SUM``, ``AVERAGE``, ``MIN`` or ``MAX`` of the trees.
    weighed
        Targets that rows may not miss: a score of 0 would not stand for them. Where the trees are
        not added up, all.
    """

    trees: Sequence[Tree]
    n_targets: int
    aggregate: str
    weighed: Sequence[int] = ()


def scores(node: Node, expansion: Expansion, x: Value, forest: Forest) -> Value:
    """Emit the scores of rows: shape (rows, targets).

    Raises
    ------
    BadModel
        When features or targets are out of range, or the trees are too large.
    """
    trees = forest.trees
    n_trees, n_rows, n_features = len(trees), x.shape[0], x.shape[1]
    width = max(1, *(len(tree.decisions) for tree in trees))
    n_leaves = max(len(tree.leaves) for tree in trees)
    if forest.n_targets < 1 or n_trees * n_leaves * max(width, forest.n_targets) > MOST_ELEMENTS:
        raise BadModel(
            f"{node}: {n_trees:,} trees of up to {width:,} decisions and {n_leaves:,} leaves for"
            f" {forest.n_targets:,} targets: the products of these are from 1 to {MOST_ELEMENTS:,}"
        )
    _check_weighed(node, forest)
    paths = np.zeros((n_trees, width, n_leaves), np.float32)
    expected = np.full((n_trees, 1, n_leaves), width + 1, np.float32)  # no sum is as large
    weights = np.zeros((n_trees, n_leaves, forest.n_targets), np.float32)
    for t, tree in enumerate(trees):
        for leaf, (path, leaf_values) in enumerate(zip(tree.paths, tree.leaves, strict=True)):
            for decision, is_true in path:
                paths[t, decision, leaf] = 1 if is_true else -1
            expected[t, 0, leaf] = sum(is_true for _, is_true in path)
            for target, weight in leaf_values:
                if not 0 <= target < forest.n_targets:
                    raise BadModel(f"{node}: a leaf weighs target {target} of {forest.n_targets}")
                weights[t, leaf, target] += weight
    decisions = _decisions(node, expansion, x, trees, width, n_features)
    turned = expansion.emit(TRANSPOSE, decisions, order=(1, 0, 2))
    agreed = expansion.emit(MATMUL, turned, expansion.constant(paths, "paths"))
    reached = binary(expansion, "equal", agreed, expansion.constant(expected, "wanted"))
    shares = as_type(expansion, reached, "float32")
    if forest.aggregate in ("MIN", "MAX"):
        by_tree = expansion.emit(MATMUL, shares, expansion.constant(weights, "weights"))
        function = "minimum" if forest.aggregate == "MIN" else "maximum"
        out = reduced(expansion, function, by_tree, [0])
        return reshape(expansion, out, (n_rows, forest.n_targets))
    if forest.aggregate == "AVERAGE":
        weights = weights / np.float32(n_trees)
    flat = reshape(
        expansion, expansion.emit(TRANSPOSE, shares, order=(1, 0, 2)), (n_rows, n_trees * n_leaves)
    )
    table = weights.reshape(n_trees * n_leaves, forest.n_targets)
    return expansion.emit(MATMUL, flat, expansion.constant(table, "weights"))


def _check_weighed(node: Node, forest: Forest) -> None:
    """Refuse targets that rows may miss: onnxruntime tells them from scores of 0.

    Raises
    ------
    BadModel
        Names the target.
    """
    is_sum = forest.aggregate in ("SUM", "AVERAGE")
    for target in forest.weighed if is_sum else range(forest.n_targets):
        is_weighed = (
            all(any(target == target_ for target_, _ in leaf) for leaf in tree.leaves)
            for tree in forest.trees
        )
        if not (any(is_weighed) if is_sum else all(is_weighed)):
            raise BadModel(
                f"{node}: rows may reach no leaf that weighs target {target}, which is not"
                " supported; give leaves without it a weight of 0"
            )


def _decisions(
    node: Node, expansion: Expansion, x: Value, trees: Sequence[Tree], width: int, n_features: int
) -> Value:
    """Emit which decisions are true, as floats: shape (rows, trees, decisions)."""
    shape = (len(trees), width)
    features, values = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    modes = np.full(shape, "BRANCH_LEQ", object)
    takes_missing = np.zeros(shape, bool)
    for t, tree in enumerate(trees):
        for d, (feature, value, mode, is_missing_true) in enumerate(tree.decisions):
            if not 0 <= feature < n_features or mode not in _COMPARISONS:
                raise BadModel(
                    f"{node}: a decision of mode {mode} on feature {feature} of {n_features} is not"
                    f" supported; the modes are {', '.join(_COMPARISONS)}"
                )
            features[t, d], values[t, d], modes[t, d] = feature, value, mode
            takes_missing[t, d] = is_missing_true
    features_ = expansion.emit(GATHER, x, expansion.constant(features, "features"), axis=1)
    limits = expansion.constant(values, "values")
    total: Value | None = None
    used = sorted(set(modes.reshape(-1)))
    for mode in used:
        true = as_type(
            expansion, binary(expansion, _COMPARISONS[mode], features_, limits), "float32"
        )
        if len(used) > 1:
            true = binary(expansion, "multiply", true, _mask(expansion, modes == mode))
        total = true if total is None else binary(expansion, "add", total, true)
    assert total is not None
    if takes_missing.any():
        missing = as_type(
            expansion, binary(expansion, "not_equal", features_, features_), "float32"
        )
        counted = binary(expansion, "multiply", missing, _mask(expansion, takes_missing))
        total = binary(expansion, "maximum", total, counted)
    return total


def _mask(expansion: Expansion, bools: NDArray[Any]) -> Value:
    return expansion.constant(bools.astype(np.float32), "mask")
