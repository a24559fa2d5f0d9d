"""Names of steps as paths: the tree of their levels, which `/` separates, and each step's way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PathTable", "build_paths", "split_levels"]


@dataclass(frozen=True)
class PathTable:
    """All levels of all names, each once, and where every step hangs.

    Attributes
    ----------
    labels : list of str
        Last level of each path.
    parents : list of int
        Enclosing path of each path, -1 at the top; parents come before their children.
    leaf : ndarray of int32, shape (n_steps,)
        Path of each step.
    depth : ndarray of int32, shape (n_steps,)
        Number of levels above each step.
    level : ndarray of int32, shape (n_levels, n_steps)
        Path that a step shows at each level: a group, itself, or -1 below itself.
    """

    labels: list[str]
    parents: list[int]
    leaf: np.ndarray
    depth: np.ndarray
    level: np.ndarray

    def full(self, path_id: int) -> str:
        """Return the whole name of a path."""
        levels: list[str] = []
        while path_id >= 0:
            levels.append(self.labels[path_id])
            path_id = self.parents[path_id]
        return "/".join(reversed(levels))


def split_levels(name: str) -> list[str]:
    """Return the levels of a name; empty levels vanish, an empty name is one empty level."""
    return [level for level in name.split("/") if level] or [""]


def build_paths(names: Sequence[str]) -> PathTable:
    """Return the path table of these step names.

    Parameters
    ----------
    names
        Full name of each step.

    Returns
    -------
    PathTable
        With one column per name, in their order.
    """
    labels: list[str] = []
    parents: list[int] = []
    known: dict[tuple[int, str], int] = {}
    paths: list[list[int]] = []
    for name in names:
        parent = -1
        path: list[int] = []
        for label in split_levels(name):
            path_id = known.get((parent, label))
            if path_id is None:
                path_id = known[parent, label] = len(labels)
                labels.append(label)
                parents.append(parent)
            path.append(path_id)
            parent = path_id
        paths.append(path)
    n_levels = max((len(path) for path in paths), default=1)
    level = np.full((n_levels, len(paths)), -1, dtype=np.int32)
    for step, path in enumerate(paths):
        level[: len(path), step] = path
    depth = np.fromiter((len(path) - 1 for path in paths), np.int32, len(paths))
    leaf = np.fromiter((path[-1] for path in paths), np.int32, len(paths))
    return PathTable(labels, parents, leaf, depth, level)
