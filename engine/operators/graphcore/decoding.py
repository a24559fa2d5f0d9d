"""PopART's search for the most probable labels of sequences."""

from __future__ import annotations

import numpy as np

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

Type = tuple[tuple[int, ...], str]


def _types(node: Node) -> list[Type]:
    scores, n_paths = node.operand(0), node.attributes["n_paths"]
    n_steps, n_sequences, _ = scores.shape
    paths = (n_sequences, n_paths)
    return [(paths, scores.dtype), (paths, "int32"), ((*paths, n_steps), "int32")]


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
#: probabilities, (steps, sequences, classes), and the steps of the sequences. It has no value in
#: numpy.
_SEARCH = Operator(
    name="ctc_beam_search",
    domain=ENGINE_DOMAIN,
    infer=_types,
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
