"""What sizes of a training depend on: on the micro-batch, and on whether gradients are summed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.memory.liveness import liveness_step_ids, parsed_shape
from tilescope.analyser.memory.lowered_variables import variable_columns
from tilescope.analyser.memory.uses import uses
from tilescope.analyser.program.training import has_training, passes, passes_of_steps
from tilescope.analyser.summary.provenance import provenance

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["batch_of", "micro_batches", "scales_with_batch", "trained_weights"]

#: Purposes whose sizes do not follow the batch.
_KEPT = frozenset({"weight", "optimiser state"})
#: Passes whose results are as large as weights.
_OF_WEIGHTS = frozenset({"weight gradient", "weight update"})


def batch_of(report: Report) -> int:
    """Return the batch that a run chose; 1 where it chose none or the report does not say."""
    text = provenance(report).get("batch", "")
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) else 1


def micro_batches(report: Report) -> int:
    """Return the micro-batches of a training step; 1 where the report does not say."""
    text = provenance(report).get("micro_batches", "")
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) else 1


@cached
def scales_with_batch(report: Report) -> NDArray[np.bool_]:
    """Return which variables shrink with the batch: (n_variables,).

    Outside training all do. In training, activations do, and gradients of activations. What an
    operation works in does unless it is as large as its weights, or belongs to the gradient or
    the update of weights and is not as large as an operand with the batch.
    """
    columns: dict[str, Any] = dict(variable_columns(report))
    n_variables = len(columns["variable_id"])
    if not has_training(report):
        return np.ones(n_variables, np.bool_)
    row_of = {number: row for row, number in enumerate(columns["variable_id"])}
    of_context = passes(report)
    batch = batch_of(report)
    weights = {
        n
        for n, purpose in zip(columns["n_elements"], columns["purpose"], strict=True)
        if purpose in _KEPT
    }
    answer = np.zeros(n_variables, np.bool_)
    for row in range(n_variables):
        number, sender = row, columns["sender_id"][row]
        if sender is not None and sender in row_of:
            number = row_of[sender]
        purpose, category = columns["purpose"][number], columns["category"][number]
        context = columns["debug_context_id"][number]
        training_pass = of_context.get(-1 if context is None else context)
        if purpose in _KEPT or category == "constant":
            continue
        if training_pass in ("weight gradient", "weight update"):
            shape = parsed_shape(columns["shape"][number])
            is_result = purpose == "gradient"
            answer[row] = (
                not is_result
                and training_pass == "weight gradient"
                and any(size and size % batch == 0 for size in shape)
                and columns["n_elements"][number] not in weights
            )
            continue
        answer[row] = bool(purpose) or columns["n_elements"][number] not in weights
    return answer


@cached
def trained_weights(report: Report) -> NDArray[np.bool_]:
    """Return the weights that a training updates: (n_variables,); none outside training."""
    columns = variable_columns(report)
    answer = np.zeros(len(columns["variable_id"]), np.bool_)
    if not has_training(report):
        return answer
    of_steps = passes_of_steps(report)
    is_update = np.array(
        [of_steps[step_id] == "weight update" for step_id in liveness_step_ids(report).tolist()],
        np.bool_,
    )
    variable, step, _ = uses(report)
    updated = set(variable[is_update[step]].tolist())
    rows = zip(columns["variable_id"], columns["purpose"], strict=True)
    answer[:] = [purpose == "weight" and number in updated for number, purpose in rows]
    return answer
