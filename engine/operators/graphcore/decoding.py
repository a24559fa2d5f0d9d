"""PopART's search for the most probable labels of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popnn.ctc.beam_search import ctc_beam_search
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.graphcore.domain import as_type, decomposed, signed

__all__ = ["RECORDS"]

#: Beams and paths where a node does not state them.
_WIDTH, _PATHS = 100, 1
_RANK = 3

#: The logarithm of a path that a sequence does not have.
_NO_PATH = {"float16": -65504.0}

Array = NDArray[Any]
Type = tuple[tuple[int, ...], str]


def _types(node: Node) -> list[Type]:
    scores, n_paths = node.operand(0), node.attributes["n_paths"]
    n_steps, n_sequences, _ = scores.shape
    paths = (n_sequences, n_paths)
    return [(paths, scores.dtype), (paths, "int32"), ((*paths, n_steps), "int32")]


def _evaluate(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the best labels of every sequence, found in double precision."""
    scores, counts = arrays
    (logs_type, lengths_type, labels_type) = _types(node)
    logs = np.full(logs_type[0], _NO_PATH.get(logs_type[1], -1e30))
    lengths = np.zeros(lengths_type[0], np.int32)
    labels = np.full(labels_type[0], -1, np.int32)
    for sequence, n_steps in enumerate(counts):
        steps = scores[:n_steps, sequence].astype(np.float64)
        for path, (label, log) in enumerate(_searched(node, steps)):
            logs[sequence, path], lengths[sequence, path] = log, len(label)
            labels[sequence, path, : len(label)] = label
    return [logs.astype(logs_type[1]), lengths, labels]


def _searched(node: Node, steps: Array) -> list[tuple[tuple[int, ...], float]]:
    """Return the best labels of one sequence with their logarithms, the best one first.

    A beam is a label with the logarithms of what its alignments add up to, those that end with its
    last class and those that end with a blank.
    """
    blank, width = node.attributes["blank"], node.attributes["width"]
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (-np.inf, 0.0)}
    for row in steps:
        grown: dict[tuple[int, ...], list[float]] = {}
        for label, (in_class, in_blank) in beams.items():
            both = np.logaddexp(in_class, in_blank)
            _add(grown, label, 1, both + row[blank])
            if label:
                _add(grown, label, 0, in_class + row[label[-1]])
            for symbol in np.flatnonzero(np.arange(row.size) != blank).tolist():
                before = in_blank if label[-1:] == (symbol,) else both
                _add(grown, (*label, symbol), 0, before + row[symbol])
        totals = {label: float(np.logaddexp(a, b)) for label, (a, b) in grown.items()}
        best = sorted(totals, key=lambda label: -totals[label])[:width]
        beams = {x: (grown[x][0], grown[x][1]) for x in best if np.isfinite(totals[x])}
    found = [(label, float(np.logaddexp(a, b))) for label, (a, b) in beams.items()]
    return found[: node.attributes["n_paths"]]


def _add(
    beams: dict[tuple[int, ...], list[float]], label: tuple[int, ...], end: int, log: float
) -> None:
    ends = beams.setdefault(label, [-np.inf, -np.inf])
    ends[end] = float(np.logaddexp(ends[end], log))


def _lower(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    return ctc_beam_search(
        lowering.builder,
        lowering.tensor(op.operand(0)),
        lowering.tensor(op.operand(1)),
        op.attributes["width"],
        n_paths=op.attributes["n_paths"],
        blank=op.attributes["blank"],
        takes_logs=True,
    )


#: Logarithms of probabilities, lengths and classes of the best labels, of logarithms of
#: probabilities, (steps, sequences, classes), and the steps of the sequences.
_SEARCH = Operator(
    name="ctc_beam_search",
    domain=ENGINE_DOMAIN,
    infer=_types,
    evaluate=_evaluate,
    lower=_lower,
    no_gradient="its results are labels",
)


def _decoder(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    """Emit the search; lengths and classes are unsigned, what follows a label is anything.

    Raises
    ------
    BadModel
        When shapes, types or attributes do not fit.
    """
    scores, steps = node.operand(0), node.operand(1)
    if len(scores.shape) != _RANK or not scores.dtype.startswith("float"):
        raise BadModel(
            f"{node}: {scores.name!r} is {scores.dtype} of shape {scores.shape}: expected"
            " floating-point numbers of shape (steps, batch, classes)"
        )
    if steps.shape != scores.shape[1:2] or np.dtype(steps.dtype).kind not in "iu":
        raise BadModel(
            f"{node}: {steps.name!r} is {steps.dtype} of shape {steps.shape}: expected integers of"
            f" shape {scores.shape[1:2]}"
        )
    width = node.attributes.get("beam_width", _WIDTH)
    n_paths = node.attributes.get("top_paths", _PATHS)
    blank = node.attributes.get("blank", 0)
    if not 1 <= n_paths <= width:
        raise BadModel(f"{node}: top_paths is {n_paths}: expected 1 to {width}, its beam_width")
    if not 0 <= blank < scores.shape[2]:
        raise BadModel(f"{node}: blank is {blank}: expected 0 to {scores.shape[2] - 1}")
    stated = {"width": width, "n_paths": n_paths, "blank": blank}
    logs, *counts = expansion.emit_all(_SEARCH, 3, scores, signed(expansion, steps), **stated)
    return (logs, *(as_type(expansion, value, "uint32") for value in counts))


RECORDS = (
    _SEARCH,
    decomposed("CtcBeamSearchDecoder", _decoder, no_gradient="its results are labels"),
)
