"""Gradients of the cases that ONNX has of its operators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.backend.test.case.node import collect_testcases
from tests.onnx_suite.slopes import NodeCase, wrong_slopes

#: What is not compared, by pattern of case names, and why.
_LEFT_OUT = {
    r"dropout": "their masks are random",
    r"l[12]normalization|_empty_set|bernoulli": "no slope at all, as of vectors of zeros",
    r"attention.*(fullymasked|nan_robustness|structural_empty|rank4_mask)_?.*_expanded": (
        "their softmax is no number, which a selection hides: the gradient is none, as PyTorch's"
    ),
    r"mod_float_edge": "quotients are infinite",
    r"optional_|sequence_|_ml_": "no tensors, or other domains",
    r"test_scatter_(with|without)_axis": "the reference does not have them",
}


def _cases() -> Iterator[NodeCase]:
    for case in collect_testcases(None):
        if (
            not case.model
            or not case.data_sets
            or any(node.domain for node in case.model.graph.node)
        ):
            continue
        if any(re.search(pattern, case.name) for pattern in _LEFT_OUT):
            continue
        data_set: Any = case.data_sets[0]  # sequences of tensors, too
        inputs, outputs = data_set
        graph = case.model.graph
        arrays = {
            item.name: np.asarray(array)
            for item, array in zip(graph.input, inputs, strict=False)
            if item.name
        }
        results = {
            item.name: array
            for item, array in zip(graph.output, outputs, strict=True)
            if isinstance(array, np.ndarray) and array.dtype == np.float32 and array.size
        }
        given = NodeCase(case.name, case.model, arrays, results)
        if results and given.parameters and all(a.dtype != object for a in arrays.values()):
            yield given


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_slopes_are_those_of_the_reference(tmp_path: Path) -> None:
    ends = {case.name: wrong_slopes(case, tmp_path) for case in _cases()}
    assert len(ends) > 800
    assert [f"{name}: {line}" for name, wrong in ends.items() for line in wrong] == []
