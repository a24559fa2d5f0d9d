"""Gradients of nodes by attribute, on the machine's operators against the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from tests.onnx_fuzz.attributes import DRAWERS, Case, drawn_case, model_of_case
from tests.onnx_fuzz.one_node import is_reference_wrong
from tests.onnx_suite.slopes import NodeCase, wrong_slopes

_N_SEEDS = 8
#: What is not compared, and why.
_LEFT_OUT = {
    "batch_norm": "the reference trains in old opsets",
    "dropout": "its masks are random",
    "global_pool": "the reference has one maximum of all",
    "recurrent": "the reference has one direction and no clip",
    "softmax": "the reference has one axis in old opsets",
}
#: What has nothing to compare: results are no floats, operands constants, or the reference wrong.
_WITHOUT = {"arg", "mod", "one_hot", "shape", "slice"}


def _case(case: Case, name: str) -> NodeCase | None:
    """Return a case with the results of the reference; None where it has none in float."""
    model = model_of_case(case)
    inputs = {
        f"x{i}": o.array for i, o in enumerate(case.operands) if o is not None and not o.is_constant
    }
    try:
        results = ReferenceEvaluator(model).run(None, inputs)
    except Exception:  # its errors have no common base
        return None
    outputs = {
        item.name: np.asarray(array)
        for item, array in zip(model.graph.output, results, strict=True)
        if np.asarray(array).dtype == np.float32 and np.asarray(array).size
    }
    given = NodeCase(name, model, inputs, outputs)
    return given if outputs and given.parameters else None


@pytest.mark.parametrize("name", [name for name in DRAWERS if name not in _LEFT_OUT])
@pytest.mark.filterwarnings("ignore")
def test_slopes_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    wrong, n_compared = [], 0
    for seed in range(_N_SEEDS):
        drawn = drawn_case(name, seed)
        case = None if is_reference_wrong(drawn) else _case(drawn, f"{name}-{seed}")
        if case is not None:
            n_compared += 1
            wrong += [f"{drawn.text}: {line}" for line in wrong_slopes(case, tmp_path)]
    assert wrong == []
    assert n_compared or name in _WITHOUT
