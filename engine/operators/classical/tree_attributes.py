"""Reads tree ensembles from the attributes of ONNX's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Node
from tilescope.engine.operators.classical.tree import MOST_ELEMENTS, Tree

__all__ = ["numbers", "texts", "trees_by_node", "trees_by_root"]

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")

#: Feature, value, comparison, whether missing values are true; places of both ways on. None: leaf.
_Step = tuple[tuple[int, float, str, bool], Any, Any]


def texts(values: Sequence[Any]) -> list[str]:
    """Return texts of an attribute, which may be bytes."""
    return [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values]


def numbers(node: Node, key: str) -> list[Any]:
    """Return an attribute that is a list or, as ``…_as_tensor``, an array; empty if left out."""
    for name in (key, f"{key}_as_tensor"):
        values = node.attributes.get(name)
        if values is not None and len(values):
            return list(values.reshape(-1).tolist() if hasattr(values, "reshape") else values)
    return []


def _tree(
    node: Node,
    root: Any,
    step: Callable[[Any], _Step | list[tuple[int, float]]],
    max_nodes: int,
) -> Tree:
    """Return a tree by its root; `step` returns a decision, or the weights of a leaf.

    Raises
    ------
    BadModel
        When it has more nodes than the ensemble: a node is below itself.
    """
    waiting: list[tuple[Any, tuple[tuple[int, bool], ...]]] = [(root, ())]
    tree, n_visited = Tree(), 0
    while waiting:
        node_key, path = waiting.pop()
        n_visited += 1
        if n_visited > max_nodes:
            raise BadModel(f"{node}: a node of a tree is below itself, or below two others")
        if len(tree.decisions) * (len(tree.leaves) + len(waiting)) > MOST_ELEMENTS:
            raise BadModel(
                f"{node}: a tree of {len(tree.decisions):,} decisions or more is too large: at most"
                f" {MOST_ELEMENTS:,} decisions times leaves are supported"
            )
        step_ = step(node_key)
        if isinstance(step_, list):
            tree.leaves.append(step_)
            tree.paths.append(list(path))
            continue
        decision, on_true, on_false = step_
        number = len(tree.decisions)
        tree.decisions.append(decision)
        waiting += [(on_true, (*path, (number, True))), (on_false, (*path, (number, False)))]
    return tree


def trees_by_node(node: Node, prefix: str) -> list[Tree]:
    """Return the trees of TreeEnsembleRegressor or Classifier.

    Parameters
    ----------
    node
        Of the operator.
    prefix
        ``target`` or ``class``: what leaves weigh.

    Raises
    ------
    BadModel
        When lists differ in length, or a node is missing or below itself.
    """
    keys = [(t, i) for t, i in _rows(node, "nodes_treeids", "nodes_nodeids")]
    modes = texts(node.attributes.get("nodes_modes", ()))
    columns = [numbers(node, f"nodes_{name}") for name in ("featureids", "values")]
    branches = [numbers(node, f"nodes_{name}nodeids") for name in ("true", "false")]
    missing = numbers(node, "nodes_missing_value_tracks_true") or [0] * len(keys)
    lists = [modes, *columns, *branches, missing]
    if not keys or any(len(column) != len(keys) for column in lists):
        sizes = ", ".join(str(len(column)) for column in (keys, *lists))
        raise BadModel(f"{node}: expected as many of every attribute of its nodes, got {sizes}")
    row_of = {key: row for row, key in enumerate(keys)}
    weights: dict[tuple[int, int], list[tuple[int, float]]] = {}
    owners = _rows(node, f"{prefix}_treeids", f"{prefix}_nodeids")
    ids, values = numbers(node, f"{prefix}_ids"), numbers(node, f"{prefix}_weights")
    if len({len(owners), len(ids), len(values)}) > 1:
        raise BadModel(
            f"{node}: expected as many {prefix}_ids as weights and nodes of them, got"
            f" {len(ids)}, {len(values)} and {len(owners)}"
        )
    for key, target, weight in zip(owners, ids, values, strict=True):
        weights.setdefault(key, []).append((target, weight))

    def step(key: tuple[int, int]) -> _Step | list[tuple[int, float]]:
        row = row_of.get(key)
        if row is None:
            raise BadModel(f"{node}: tree {key[0]} has no node {key[1]}")
        if modes[row] == "LEAF":
            return weights.get(key, [])
        decision = columns[0][row], columns[1][row], modes[row], bool(missing[row])
        return decision, (key[0], branches[0][row]), (key[0], branches[1][row])

    roots: dict[int, tuple[int, int]] = {}
    below = {
        (t, branch[row])
        for row, (t, _) in enumerate(keys)
        for branch in branches
        if modes[row] != "LEAF"
    }
    for key in keys:
        if key not in below:
            roots.setdefault(key[0], key)
    if len(roots) < len({tree for tree, _ in keys}):
        raise BadModel(f"{node}: a tree has no root: a node of it is below itself")
    return [_tree(node, root, step, len(keys)) for root in roots.values()]


def _rows(node: Node, first: str, second: str) -> list[tuple[int, int]]:
    """Return pairs of two attributes.

    Raises
    ------
    BadModel
        When they differ in length.
    """
    pair = numbers(node, first), numbers(node, second)
    if len(pair[0]) != len(pair[1]):
        raise BadModel(f"{node}: {len(pair[0])} {first}, but {len(pair[1])} {second}")
    return list(zip(*pair, strict=True))


def trees_by_root(node: Node) -> list[Tree]:
    """Return the trees of TreeEnsemble, whose nodes name each other by place.

    Raises
    ------
    BadModel
        When lists differ in length, or a place is out of range.
    """
    features = numbers(node, "nodes_featureids")
    modes = [int(mode) for mode in numbers(node, "nodes_modes")]
    splits = numbers(node, "nodes_splits")
    branches = [numbers(node, f"nodes_{name}nodeids") for name in ("true", "false")]
    ends = [numbers(node, f"nodes_{name}leafs") for name in ("true", "false")]
    missing = numbers(node, "nodes_missing_value_tracks_true") or [0] * len(features)
    lists = [modes, splits, *branches, *ends, missing]
    targets, weights = numbers(node, "leaf_targetids"), numbers(node, "leaf_weights")
    if any(len(column) != len(features) for column in lists) or len(targets) != len(weights):
        sizes = ", ".join(str(len(column)) for column in (features, *lists, targets, weights))
        raise BadModel(f"{node}: expected as many of every attribute of its nodes, got {sizes}")

    def step(node_key: tuple[int, int]) -> _Step | list[tuple[int, float]]:
        row, is_leaf = node_key
        if not 0 <= row < len(targets if is_leaf else features):
            raise BadModel(f"{node}: {'leaf' if is_leaf else 'node'} {row} does not exist")
        if is_leaf:
            return [(targets[row], weights[row])]
        mode = _MODES[modes[row]] if 0 <= modes[row] < len(_MODES) else f"{modes[row]}"
        decision = features[row], splits[row], mode, bool(missing[row])
        return decision, (branches[0][row], ends[0][row]), (branches[1][row], ends[1][row])

    roots = list(node.attributes.get("tree_roots", ()))
    if not roots:
        raise BadModel(f"{node}: it has no trees")
    max_nodes = 2 * len(features) + 1
    return [_tree(node, (root, 0), step, max_nodes) for root in roots]
