"""Reference implementations of the codelets of the search for labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["BEAMS"]

Fields = Mapping[str, np.ndarray]
Scalars = Mapping[str, Any]
Shape = tuple[int, ...]

_VOID, _INVALID = -1, -2


def _unchanged(fields: Fields, *names: str) -> tuple[np.ndarray, ...]:
    return tuple(fields[name] for name in names)


def _add(*terms: float) -> float:
    return float(np.logaddexp.reduce(np.asarray(terms, np.float64)))


def _row(fields: Fields, scalars: Scalars) -> np.ndarray:
    """Return the probabilities of the step."""
    rows = fields["probabilities"].reshape(-1, scalars["n_classes"])
    return np.asarray(rows[int(fields["count"][0])], np.float64)


def _copies(fields: Fields, scalars: Scalars, _: Shape) -> Any:
    if fields["complete"][0]:
        return _unchanged(fields, "numbers", "logs", "total")
    row, beam, zero = _row(fields, scalars), scalars["beam"], scalars["zero"]
    non_blank, _of_blank, both = fields["beams"].reshape(3, -1)[:, beam]
    last = int(fields["last"][beam])
    logs = [
        zero if last < 0 else max(zero, non_blank + row[last]),
        max(zero, both + row[scalars["blank"]]),
    ]
    return np.array([beam, _VOID]), np.array(logs), np.array([_add(*logs)])


def _extended(fields: Fields, scalars: Scalars, _: Shape) -> Any:
    if fields["complete"][0]:
        return _unchanged(fields, "numbers", "logs", "totals")
    symbol, zero = scalars["symbol"], scalars["zero"]
    probability = _row(fields, scalars)[symbol]
    blank, both = fields["beams"].reshape(3, -1)[1:]
    beams = scalars["first"] + np.arange(fields["totals"].size)
    before = np.where(fields["last"] == symbol, blank, both)[beams]
    totals = np.maximum(before + probability, zero)
    numbers = np.stack([beams, np.full(beams.size, symbol)], 1)
    return numbers, np.stack([totals, np.full(beams.size, zero)], 1), totals


def _label(fields: Fields, place: int) -> tuple[int, ...]:
    """Return the classes of a beam, the last one first, and what stands before them."""
    label: list[int] = []
    while True:
        symbol = int(fields["addends"][place])
        label.append(symbol)
        if symbol < 0:
            return tuple(label)
        place = int(fields["parents"][place])


def _place(symbol: int, blank: int) -> int:
    return symbol - (symbol > blank)


def _merge(fields: Fields, scalars: Scalars, _: Shape) -> Any:
    last, copy = fields["last"], scalars["copy"]
    before = _unchanged(fields, "numbers", "logs", "total")
    symbol = int(last[copy])
    if fields["complete"][0] or symbol < 0:
        return before
    place, row = _place(symbol, scalars["blank"]), int(fields["count"][0]) * last.size
    parent = int(fields["extended"][2 * place])
    if _label(fields, row + copy) != (symbol, *_label(fields, row + parent)):
        return before
    non_blank, blank = before[1]
    non_blank = _add(non_blank, fields["extended_logs"][2 * place])
    return (
        np.array([parent, symbol]),
        np.array([non_blank, blank]),
        np.array([_add(non_blank, blank)]),
    )


def _select_copies(fields: Fields, _scalars: Scalars, _: Shape) -> Any:
    if fields["complete"][0]:
        return _unchanged(fields, "out", "out_logs", "out_total")
    (merged,) = np.nonzero(fields["numbers"][:, 1] != _VOID)
    found = merged[0] if merged.size else -1
    return fields["numbers"][found], fields["logs"][found], fields["totals"][found]


def _select_extended(fields: Fields, scalars: Scalars, _: Shape) -> Any:
    numbers, totals = fields["numbers"].reshape(-1, 2).copy(), fields["totals"].copy()
    if not fields["complete"][0]:
        for symbol in fields["merged"].reshape(-1, 2)[:, 1].astype(int).tolist():
            if symbol >= 0:
                place = _place(symbol, scalars["blank"])
                numbers[place, 1], totals[place] = _INVALID, scalars["zero"]
    return numbers, totals


def _rank(fields: Fields, scalars: Scalars, _: Shape) -> Any:
    if fields["complete"][0]:
        return _unchanged(fields, "out", "out_logs")
    width, begin = scalars["width"], scalars["begin"]
    order = np.argsort(-fields["totals"], kind="stable")[:width]
    numbers, logs = np.zeros((width, 2)), np.zeros((width, 3))
    for rank, place in enumerate(order.tolist()):
        own = place - begin
        if 0 <= own < fields["numbers"].size // 2:
            numbers[rank] = fields["numbers"].reshape(-1, 2)[own]
            logs[rank] = (*fields["logs"].reshape(-1, 2)[own], fields["totals"][place])
    return numbers, logs


def _reduce(fields: Fields, _scalars: Scalars, _: Shape) -> Any:
    logs = fields["logs"].sum(0)
    return fields["numbers"].sum(0), logs[:2], logs[2:]


def _update(fields: Fields, scalars: Scalars, _: Shape) -> Any:
    names = ("beams", "addends", "parents", "lengths", "last", "count", "complete")
    beams, addends, parents, lengths, last, count, complete = (fields[n].copy() for n in names)
    if not complete[0]:
        step, width = int(count[0]), last.size
        lengths, before = lengths.reshape(2, width), step * width
        beams = beams.reshape(3, width)
        for i, (parent, symbol) in enumerate(fields["numbers"].reshape(-1, 2).astype(int).tolist()):
            row = before + width + i
            is_added = symbol != _VOID
            lengths[(step + 1) % 2, i] = lengths[step % 2, parent] + is_added
            parents[row] = before + parent if is_added else parents[before + parent]
            addends[row] = last[i] = symbol if is_added else addends[before + parent]
            logs = (*fields["logs"].reshape(-1, 2)[i], fields["totals"][i])
            beams[:, i] = scalars["zero"] if last[i] == _INVALID else logs
        count += 1
        complete[0] = count[0] == fields["n_steps"][0]
    return beams, addends, parents, lengths, last, count, complete


def _output(fields: Fields, scalars: Scalars, shape: Shape) -> Any:
    n_steps, width, beam = int(fields["n_steps"][0]), scalars["width"], scalars["beam"]
    *label, end = _label(fields, n_steps * width + beam)
    label = label[::-1] if end == _VOID else []
    out = np.full(shape, _VOID)
    out[: len(label)] = label
    return np.array([len(label)]), out


BEAMS = {
    "popnn::CTCGenerateCopyCandidates": _copies,
    "popnn::CTCGenerateExtendCandidates": _extended,
    "popnn::CTCMergeCandidates": _merge,
    "popnn::CTCSelectCopyCandidates": _select_copies,
    "popnn::CTCSelectExtendCandidates": _select_extended,
    "popnn::CTCRankCandidates": _rank,
    "popnn::CTCReduceCandidates": _reduce,
    "popnn::CTCUpdate": _update,
    "popnn::CTCGenerateOutput": _output,
}
