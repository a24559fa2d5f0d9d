"""Accuracy, and a table of confusion whose picture nobody sees."""

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["ConfusionMatrixDisplay", "accuracy_score", "confusion_matrix"]


def accuracy_score(labels: Sequence[Any], predictions: Sequence[Any]) -> float:
    """Return the share of predictions that are right."""
    pairs = zip(labels, predictions, strict=True)
    return float(np.mean([int(label) == int(guess) for label, guess in pairs]))


def confusion_matrix(labels: Sequence[Any], predictions: Sequence[Any]) -> Any:
    """Return how often a class (row) was taken for another one (column)."""
    table = np.zeros((10, 10), np.int64)
    for label, guess in zip(labels, predictions, strict=True):
        table[int(label), int(guess)] += 1
    return table


class _Figure:
    def savefig(self, *_: Any, **__: Any) -> None:
        """Write nothing."""


class ConfusionMatrixDisplay:
    """A picture of a table."""

    def __init__(self, table: Any, display_labels: Any = None) -> None:
        self.table, self.display_labels, self.figure_ = table, display_labels, _Figure()

    def plot(self, *_: Any, **__: Any) -> "ConfusionMatrixDisplay":
        """Return the picture."""
        return self
