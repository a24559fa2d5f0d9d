"""A step of the search for the most probable labels of a sequence.

A beam is a label, with the probabilities of the alignments of the steps so far that give it and end
in its last class, or in a blank, and of both. Its candidates for the next step are itself, and
itself with every class behind it. Two candidates of one label are merged; the most probable ones
are the next beams. What beams add to the labels of their parents is kept by step.

A candidate is its parent and the class that it adds, and three logarithms: not blank, blank, total.
Those of a sequence that has ended compute nothing.

Source of the method: A. Hannun, Sequence Modeling With CTC, Distill, 2017, section Inference.
Laws of ranks, reductions and updates: graphcore/poplibs sdk-release-3.4,
lib/popnn/popnnCycleEstimators.cpp. It has none of the others: theirs count what their loops do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._exponential import log_add

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "COPY_CANDIDATES",
    "EXTEND_CANDIDATES",
    "GENERATE_OUTPUT",
    "INVALID",
    "MERGE_CANDIDATES",
    "RANK_CANDIDATES",
    "REDUCE_CANDIDATES",
    "SELECT_COPY_CANDIDATES",
    "SELECT_EXTEND_CANDIDATES",
    "UPDATE",
    "VOID",
]

Counts = NDArray[np.int64]

#: In place of a class: that no class is added, and that a beam or a candidate is none.
VOID, INVALID = -1, -2
_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popnn/popnnCycleEstimators.cpp"
_COUNTED = (
    "Assumption: instructions of the loops of graphcore/poplibs sdk-release-3.4,"
    " lib/popnn/codelets/CTCInference.cpp"
)
#: Instructions of a sum of logarithms. Source: lib/popnn/PerformanceEstimation.hpp, logAddCycles
_ADD_CYCLES = 16


@jit
def _times(a, b, zero):  # type: ignore[no-untyped-def]
    """Return the logarithm of a product, which is not below that of nothing."""
    return max(np.float32(a) + np.float32(b), np.float32(zero))


@jit
def _place(symbol, blank):  # type: ignore[no-untyped-def]
    """Return the number of a class among all without the blank."""
    return symbol - 1 if symbol > blank else symbol


@jit
def _copy_candidates(  # type: ignore[no-untyped-def]
    probabilities, last, beams, count, complete, numbers, logs, total,
    beam, n_classes, blank, zero,
):  # fmt: skip
    if complete[0]:
        return
    width, row = last.size, count[0] * n_classes
    symbol = last[beam]
    non_blank = np.float32(zero)
    if symbol >= 0:
        non_blank = _times(beams[beam], probabilities[row + symbol], zero)
    of_blank = _times(beams[2 * width + beam], probabilities[row + blank], zero)
    numbers[0], numbers[1] = beam, VOID
    logs[0], logs[1] = non_blank, of_blank
    total[0] = log_add(non_blank, of_blank)


@jit
def _extend_candidates(  # type: ignore[no-untyped-def]
    probabilities, last, beams, count, complete, numbers, logs, totals,
    first, symbol, n_classes, zero,
):  # fmt: skip
    if complete[0]:
        return
    width = last.size
    probability = probabilities[count[0] * n_classes + symbol]
    for i in range(totals.size):
        beam = first + i
        # A class follows itself behind a blank only.
        kind = 1 if last[beam] == symbol else 2
        value = _times(beams[kind * width + beam], probability, zero)
        numbers[2 * i], numbers[2 * i + 1] = beam, symbol
        logs[2 * i], logs[2 * i + 1] = value, zero
        totals[i] = value


@jit
def _are_equal(addends, parents, left, right, symbol):  # type: ignore[no-untyped-def]
    """Whether the label of a beam is that of another one with a class behind it."""
    while True:
        if addends[left] != symbol:
            return False
        left = parents[left]
        if left == right:
            return True
        symbol, right = addends[right], parents[right]


@jit
def _merge_candidates(  # type: ignore[no-untyped-def]
    extended, extended_logs, last, addends, parents, lengths, count, complete, numbers, logs,
    total, copy, blank,
):  # fmt: skip
    symbol = last[copy]
    if complete[0] or symbol < 0:
        return
    place, width = _place(symbol, blank), last.size
    parent = extended[2 * place]
    old = width * (count[0] & 1)
    if lengths[old + copy] != lengths[old + parent] + 1:
        return
    row = count[0] * width
    if _are_equal(addends, parents, row + copy, row + parent, symbol):
        logs[0] = log_add(logs[0], extended_logs[2 * place])
        total[0] = log_add(logs[0], logs[1])
        numbers[0], numbers[1] = parent, symbol


@jit
def _select_copy_candidates(numbers, logs, totals, complete, out, out_logs, out_total):  # type: ignore[no-untyped-def]
    if complete[0]:
        return
    n = numbers.shape[0]
    found = n - 1
    for i in range(n - 1):
        if numbers[i, 1] != VOID:
            found = i
            break
    for i in range(2):
        out[i], out_logs[i] = numbers[found, i], logs[found, i]
    out_total[0] = totals[found, 0]


@jit
def _select_extend_candidates(merged, complete, numbers, totals, blank, zero):  # type: ignore[no-untyped-def]
    if complete[0]:
        return
    for i in range(merged.size // 2):
        symbol = merged[2 * i + 1]
        if symbol >= 0:
            place = _place(symbol, blank)
            numbers[2 * place + 1] = INVALID
            totals[place] = zero


@jit
def _rank_candidates(totals, numbers, logs, complete, out, out_logs, begin, width):  # type: ignore[no-untyped-def]
    if complete[0]:
        return
    out[:] = 0
    out_logs[:] = 0
    for i in range(numbers.size // 2):
        place, rank = begin + i, 0
        own = totals[place]
        for j in range(place):
            rank += own <= totals[j]
        for j in range(place + 1, totals.size):
            rank += own < totals[j]
        if rank < width:
            out[2 * rank], out[2 * rank + 1] = numbers[2 * i], numbers[2 * i + 1]
            out_logs[3 * rank], out_logs[3 * rank + 1] = logs[2 * i], logs[2 * i + 1]
            out_logs[3 * rank + 2] = own


@jit
def _reduce_candidates(numbers, logs, out, out_logs, out_total):  # type: ignore[no-untyped-def]
    for k in range(2):
        symbol, value = numbers[0, k], np.float32(logs[0, k])
        for i in range(1, numbers.shape[0]):
            symbol += numbers[i, k]
            value += np.float32(logs[i, k])
        out[k], out_logs[k] = symbol, value
    value = np.float32(logs[0, 2])
    for i in range(1, numbers.shape[0]):
        value += np.float32(logs[i, 2])
    out_total[0] = value


@jit
def _update(  # type: ignore[no-untyped-def]
    numbers, logs, totals, n_steps, beams, addends, parents, lengths, last, count, complete, zero
):
    if complete[0]:
        return
    step, width = count[0], last.size
    count[0] = step + 1
    complete[0] = step + 1 == n_steps[0]
    before, row = step * width, (step + 1) * width
    old, new = width * (step & 1), width * ((step + 1) & 1)
    for i in range(width):
        parent, symbol = numbers[2 * i], numbers[2 * i + 1]
        if symbol == VOID:
            parents[row + i] = parents[before + parent]
            lengths[new + i] = lengths[old + parent]
            symbol = addends[before + parent]
        else:
            parents[row + i] = before + parent
            lengths[new + i] = lengths[old + parent] + 1
        addends[row + i] = symbol
        last[i] = symbol
        is_none = symbol == INVALID
        for k in range(2):
            beams[k * width + i] = zero if is_none else logs[2 * i + k]
        beams[2 * width + i] = zero if is_none else totals[i]


@jit
def _generate_output(addends, parents, lengths, n_steps, length, label, beam, width):  # type: ignore[no-untyped-def]
    label[:] = VOID
    n = lengths[beam + (n_steps[0] & 1) * width]
    place = n_steps[0] * width + beam
    length[0] = n
    while True:
        symbol, place = addends[place], parents[place]
        if symbol < 0:
            break
        n -= 1
        label[n] = symbol
    if symbol == INVALID:
        length[0] = 0
        label[:] = VOID


def _read(*names: str, dtype: str = "", of: str = "") -> tuple[Field, ...]:
    return tuple(Field(name, "in", dtype=dtype, dtype_of=of) for name in names)


def _changed(*names: str, dtype: str = "", of: str = "") -> tuple[Field, ...]:
    return tuple(Field(name, "inout", dtype=dtype, dtype_of=of) for name in names)


def _rows(name: str, *, dtype: str = "", of: str = "") -> tuple[Field, ...]:
    return (Field(name, "in", 2, kind="view", dtype=dtype, dtype_of=of),)


def _codelet(
    name: str,
    kernel: Any,
    fields: tuple[Field, ...],
    scalars: str,
    law: Any,
    *,
    is_supervisor: bool = False,
    source: str = _COUNTED,
) -> Codelet:
    """Return a codelet; its law takes a batch and the worker contexts of a tile."""

    def cycles(batch: Batch, machine: Machine) -> Counts:
        return np.asarray(law(batch, machine.n_worker_contexts))

    return Codelet(
        f"popnn::CTC{name}",
        fields,
        kernel,
        cycles,
        code_bytes=300,  # Assumption: a loop or two with their choices
        source=source,
        scalars=tuple(
            Scalar(s, "float", on_device=False) if s == "zero" else Scalar(s)
            for s in scalars.split()
        ),
        is_supervisor=is_supervisor,
    )


_FLAGS = _read("count", "complete", dtype="int32")
_BEAMS = (*_read("probabilities"), *_read("last", dtype="int32"), *_read("beams"), *_FLAGS)


def _candidates(total: str) -> tuple[Field, ...]:
    logs = (Field("logs", "inout", dtype_of="beams"), Field(total, "inout", dtype_of="beams"))
    return (*_changed("numbers", dtype="int32"), *logs)


COPY_CANDIDATES = _codelet(
    "GenerateCopyCandidates",
    _copy_candidates,
    (*_BEAMS, *_candidates("total")),
    "beam n_classes blank zero",
    lambda batch, _: 24 + _ADD_CYCLES + 0 * batch.n_elements("total"),
)
EXTEND_CANDIDATES = _codelet(
    "GenerateExtendCandidates",
    _extend_candidates,
    (*_BEAMS, *_candidates("totals")),
    "first symbol n_classes zero",
    lambda batch, _: 16 + 13 * batch.n_elements("totals"),
)
MERGE_CANDIDATES = _codelet(
    "MergeCandidates",
    _merge_candidates,
    (
        *_read("extended", dtype="int32"),
        *_read("extended_logs"),
        *_read("last", "addends", "parents", "lengths", "count", "complete", dtype="int32"),
        *_changed("numbers", dtype="int32"),
        *_changed("logs", "total", of="extended_logs"),
    ),
    "copy blank",
    # A label that differs does so in its last classes: two are compared.
    lambda batch, _: 20 + 2 * 9 + 2 * _ADD_CYCLES + 0 * batch.n_elements("total"),
)
SELECT_COPY_CANDIDATES = _codelet(
    "SelectCopyCandidates",
    _select_copy_candidates,
    (
        *_rows("numbers", dtype="int32"),
        *_rows("logs"),
        *_rows("totals", of="logs"),
        *_read("complete", dtype="int32"),
        *_changed("out", dtype="int32"),
        *_changed("out_logs", "out_total", of="logs"),
    ),
    "",
    lambda batch, _: 20 + 3 * batch.n_elements("totals"),
)
SELECT_EXTEND_CANDIDATES = _codelet(
    "SelectExtendCandidates",
    _select_extend_candidates,
    (
        *_read("merged", "complete", dtype="int32"),
        *_changed("numbers", dtype="int32"),
        *_changed("totals"),
    ),
    "blank zero",
    lambda batch, _: 12 + 4 * batch.n_elements("merged"),
)


def _rank_cycles(batch: Batch, n_workers: int) -> Counts:
    """Return cycles: every worker ranks some candidates among all, two at a time."""
    width = batch.n_elements("out") // 2
    each = -(-(batch.n_elements("numbers") // 2) // n_workers)
    compared = (batch.n_elements("totals") - 1) // 2
    worker = 13 + each * (28 + 3 * compared) + 15
    return np.asarray(14 + 11 * width + 8 + n_workers * worker)


RANK_CANDIDATES = _codelet(
    "RankCandidates",
    _rank_candidates,
    (
        *_read("totals"),
        *_read("numbers", dtype="int32"),
        *_read("logs", of="totals"),
        *_read("complete", dtype="int32"),
        *_changed("out", dtype="int32"),
        *_changed("out_logs", of="totals"),
    ),
    "begin width",
    _rank_cycles,
    is_supervisor=True,
    source=_SOURCE,
)
REDUCE_CANDIDATES = _codelet(
    "ReduceCandidates",
    _reduce_candidates,
    (
        *_rows("numbers", dtype="int32"),
        *_rows("logs"),
        Field("out", "out", dtype="int32"),
        Field("out_logs", "out", dtype_of="logs"),
        Field("out_total", "out", dtype_of="logs"),
    ),
    "",
    lambda batch, n_workers: (
        24 + 12 + n_workers * (13 + (batch.n_elements("numbers") // 2 - 1) // 2 + 6)
    ),
    is_supervisor=True,
    source=_SOURCE,
)
UPDATE = _codelet(
    "Update",
    _update,
    (
        *_read("numbers", dtype="int32"),
        *_read("logs"),
        *_read("totals", of="logs"),
        *_read("n_steps", dtype="int32"),
        *_changed("beams", of="logs"),
        *_changed("addends", "parents", "lengths", "last", "count", "complete", dtype="int32"),
    ),
    "zero",
    lambda batch, n_workers: 12 + 16 + n_workers * (16 + 7 * batch.n_elements("last") + 1),
    is_supervisor=True,
    source=_SOURCE,
)
GENERATE_OUTPUT = _codelet(
    "GenerateOutput",
    _generate_output,
    (
        *_read("addends", "parents", "lengths", "n_steps", dtype="int32"),
        Field("length", "out", dtype="int32"),
        Field("label", "out", dtype="int32"),
    ),
    "beam width",
    lambda batch, _: 12 + 6 * batch.n_elements("label"),
)
