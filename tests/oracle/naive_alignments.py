"""Reference implementations of the codelets of alignments, state by state.

A state is a class of the label or a blank before, between or after them; what its vertex does not
hold is a neighbour's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ALIGNMENTS"]

Fields = Mapping[str, np.ndarray]


@dataclass
class _Column:
    """The step of a vertex whose turn it is.

    Parameters
    ----------
    t
        Step of the part; None if there is nothing to do.
    n
        Classes of the label in the part.
    n_states
        Their states, with the last blank if it is here.
    """

    fields: Fields
    scalars: Mapping[str, Any]
    stored: str
    step: int
    t: int | None = None
    n: int = 0
    n_states: int = 0

    @classmethod
    def of(cls, fields: Fields, scalars: Mapping[str, Any], stored: str) -> _Column:
        column = cls(fields, scalars, stored, int(fields["count"][0]))
        valid, offset = int(fields["valid_label"][0]), int(scalars["label_offset"])
        end = min(scalars["time_offset"] + len(fields[stored]), int(fields["valid_time"][0]))
        if valid < offset or not scalars["time_offset"] <= column.step < end:
            return column
        column.t = column.step - int(scalars["time_offset"])
        whole = fields["label"].size - 1
        column.n = min(valid - offset, whole)
        column.n_states = 2 * column.n + bool(scalars["is_last"] or column.n < whole)
        return column

    @property
    def has_blank(self) -> bool:
        return self.n_states % 2 == 1

    @property
    def is_end(self) -> bool:
        return self.step == int(self.fields["valid_time"][0]) - 1

    @property
    def is_whole(self) -> bool:
        return int(self.scalars["label_offset"]) + self.n == int(self.fields["valid_label"][0])

    def class_of(self, state: int, first: int) -> int:
        """Return the class of a state; the vertex sees one before its classes, or one after."""
        is_blank = state % 2 == 0
        return int(self.scalars["blank"] if is_blank else self.fields["label"][state // 2 + first])

    def log_of(self, symbol: int) -> float:
        assert self.t is not None
        row = self.fields["probabilities"][self.t * int(self.scalars["n_classes"]) :]
        return float(row[symbol])

    def outer(self, is_first: bool) -> np.ndarray:
        return self.fields["previous_label_time" if is_first else "previous_label"]


def _sum(*terms: float) -> float:
    return float(np.logaddexp.reduce(np.asarray(terms, np.float64)))


def _totals_of_alphas(column: _Column, before: np.ndarray) -> list[float]:
    assert column.t is not None
    (outer,) = column.outer(column.t == 0).tolist()
    previous = [outer, *before.tolist()]
    totals = []
    for state in range(column.n_states):
        terms = [previous[state + 1], previous[state]]
        if state % 2 and column.class_of(state, 1) != column.class_of(state, 0):
            terms.append(previous[state - 1])
        totals.append(_sum(*terms))
    return totals


def _totals_of_betas(column: _Column, after: np.ndarray, is_first: bool) -> list[float]:
    zero = column.scalars["zero"]
    following = [float(x) for x in after[: column.n_states]]
    if column.is_end and column.has_blank:
        following[-1] = 0.0
    outer = [zero, zero] if column.has_blank else column.outer(is_first).tolist()
    if column.is_end and not column.has_blank and column.is_whole:
        outer[0] = 0.0
    following += outer
    totals = []
    for state in range(column.n_states):
        is_blank_at_end = column.has_blank and state == column.n_states - 1
        terms = [following[state]] + [following[state + 1]] * (not is_blank_at_end)
        is_before_end = column.has_blank and state == column.n_states - 2
        if state % 2 and not is_before_end:
            label = column.fields["label"]
            if label[state // 2] != label[state // 2 + 1]:
                terms.append(following[state + 2])
        totals.append(_sum(*terms))
    return totals


def _with_gradient(
    column: _Column, totals: list[float], stored: np.ndarray, first: int
) -> np.ndarray:
    """Return the gradients with the states of the column added."""
    gradients, zero = column.fields["gradients"].copy(), column.scalars["zero"]
    assert column.t is not None
    row = column.t * int(column.scalars["n_classes"])
    for state, total in enumerate(totals):
        place = row + column.class_of(state, first)
        gradients[place] = _sum(gradients[place], max(total + stored[column.t, state], zero))
    return gradients


def _values(column: _Column, totals: list[float], first: int) -> list[float]:
    zero = column.scalars["zero"]
    return [
        max(total + column.log_of(column.class_of(state, first)), zero)
        for state, total in enumerate(totals)
    ]


def _loss(column: _Column, values: list[float]) -> np.ndarray:
    loss = column.fields["loss"].copy()
    if column.is_end and column.has_blank:
        loss[0] = _sum(*values[-2:])
    elif column.is_end and column.is_whole:
        loss[0] = values[-1]
    return loss


def _last_class(column: _Column, values: list[float]) -> np.ndarray:
    out = column.fields["label_out"].copy()
    if column.n:
        out[0] = values[2 * column.n - 1]
    return out


def _first_states(column: _Column, values: list[float]) -> np.ndarray:
    zero = column.scalars["zero"]
    return np.asarray([values[0], values[1] if column.n else zero])


def _alpha(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> Any:
    column = _Column.of(fields, scalars, "alphas")
    count, alphas = fields["count"] + 1, fields["alphas"].copy()
    if column.t is None:
        return count, alphas, fields["label_out"], fields["loss"]
    before = fields["previous_time"] if column.t == 0 else alphas[column.t - 1]
    values = _values(column, _totals_of_alphas(column, before), 1)
    alphas[column.t, : len(values)] = values
    return count, alphas, _last_class(column, values), _loss(column, values)


def _beta(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> Any:
    column = _Column.of(fields, scalars, "betas")
    count, betas = fields["count"] - 1, fields["betas"].copy()
    previous = fields["previous_time"].copy()
    if column.t is None:
        return count, betas, previous, fields["label_out"]
    is_first = column.t == len(betas) - 1
    after = previous if is_first or column.is_end else betas[column.t + 1]
    if column.is_end and column.has_blank:
        previous[column.n_states - 1] = 0
    values = _values(column, _totals_of_betas(column, after, is_first), 0)
    betas[column.t, : len(values)] = values
    return count, betas, previous, _first_states(column, values)


def _given_alpha(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> Any:
    column = _Column.of(fields, scalars, "alphas")
    count, turns = fields["count"] - 1, fields["previous_time"].copy()
    if column.t is None:
        return count, turns, fields["label_out"], fields["gradients"]
    old, is_first = 1 - column.step % 2, column.t == len(fields["alphas"]) - 1
    after = fields["previous_part"][old] if is_first and not column.is_end else turns[old]
    totals = _totals_of_betas(column, after, is_first)
    if column.is_end and column.has_blank:
        turns[old, column.n_states - 1] = 0
    values = _values(column, totals, 0)
    turns[1 - old, : len(values)] = values
    gradients = _with_gradient(column, totals, fields["alphas"], 0)
    return count, turns, _first_states(column, values), gradients


def _given_beta(fields: Fields, scalars: Mapping[str, Any], _: tuple[int, ...]) -> Any:
    column = _Column.of(fields, scalars, "betas")
    count, turns = fields["count"] + 1, fields["previous_time"].copy()
    if column.t is None:
        return count, turns, fields["label_out"], fields["gradients"], fields["loss"]
    old = column.step % 2
    before = fields["previous_part"][old] if column.t == 0 else turns[old]
    totals = _totals_of_alphas(column, before)
    values = _values(column, totals, 1)
    turns[1 - old, : len(values)] = values
    gradients = _with_gradient(column, totals, fields["betas"], 1)
    return count, turns, _last_class(column, values), gradients, _loss(column, values)


ALIGNMENTS = {
    "popnn::CTCAlpha": _alpha,
    "popnn::CTCBeta": _beta,
    "popnn::CTCGradGivenAlpha": _given_alpha,
    "popnn::CTCGradGivenBeta": _given_beta,
}
