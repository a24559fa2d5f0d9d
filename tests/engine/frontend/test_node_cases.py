"""ONNX's own node cases for every supported operator.

Shapes, axes, weights and statistics, which cases pass as inputs, become constants, as in models.
Excluded cases must be rejected with one sentence; `OUT` states the reasons.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.errors import EngineError
from tilescope.engine.operators import supported_operators

TYPES = {"float32", "float64", "int32", "int64", "bool"}
#: Operators whose operands except the first are known at compile time.
WITH_CONSTANTS = {
    "BatchNormalization",
    "ConstantOfShape",
    "Conv",
    "CumSum",
    "Dropout",
    "Expand",
    "OneHot",
    "Pad",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "Reshape",
    "Squeeze",
    "Tile",
    "TopK",
    "Unsqueeze",
}
#: Modules of cases that are not named after their operator.
MODULES = {
    "And": "and_",
    "BatchNormalization": "batch_normalization",
    "GreaterOrEqual": "greater_or_equal",
    "If": "if_",
    "InstanceNormalization": "instance_normalization",
    "LessOrEqual": "less_or_equal",
    "Not": "not_",
    "Or": "or_",
}
#: Operators without cases: their results are random.
WITHOUT_CASES = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
#: Operators whose cases hold the random results of another generator.
RANDOM_RESULTS = {"Bernoulli"}
OUT = {
    "test_*pool_3d*": "three spatial dimensions",
    "test_averagepool_2d_ceil_last_window_starts_on_pad": "ceil_mode with count_include_pad",
    "test_*training_mode": "training",
    "test_training_dropout*": "training, or a mask that is used",
    "test_dropout_default_mask*": "a mask that is used",
    "test_maxpool_with_argmax*": "indices that are used",
    "test_pow_types_*float*": "operands of two types",
    "test_cast*": "casts on the device",
    "test_scan_sum": "Scan of opset 8, which has batches",
    "test_reduce_*_empty_set*": "tensors of no elements",
    "test_lstm_with_peepholes": "peepholes",
    "test_reshape_allowzero*": "tensors of no elements",
}


@cache
def node_cases() -> dict[str, Any]:
    """Return the cases of a supported operator with types of the device."""
    from onnx.backend.test.case import node as cases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operator in set(supported_operators()) - WITHOUT_CASES:  # importing all modules is slow
            import_module(f"{cases.__name__}.{MODULES.get(operator, operator.lower())}")
    found = cases._NodeTestCases
    return {case.name: case for case in found if _is_ours(case)}


def _op_types(nodes: Any) -> Iterator[str]:
    """Return the operators of nodes and of those in their subgraphs."""
    for node in nodes:
        yield node.op_type
        for attribute in node.attribute:
            yield from _op_types(attribute.g.node)


def _is_ours(case: Any) -> bool:
    nodes = case.model.graph.node
    inputs, outputs = case.data_sets[0]
    return (
        len(nodes) == 1
        and nodes[0].op_type not in RANDOM_RESULTS
        and all(op_type in supported_operators() for op_type in _op_types(nodes))
        and not nodes[0].domain
        and all(
            isinstance(array, np.ndarray | np.generic) and array.dtype.name in TYPES
            for array in (*inputs, *outputs)
        )
    )


def _why_out(name: str) -> str | None:
    return next((why for pattern, why in OUT.items() if fnmatch(name, pattern)), None)


def _names(*, is_out: bool) -> list[str]:
    return [name for name in node_cases() if (_why_out(name) is not None) == is_out]


def outputs_of(case: Any, path: Path) -> dict[str, np.ndarray]:
    """Save a case's model, run it on 16 tiles, return its outputs."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    names = [info.name for info in model.graph.input]
    inputs = {n: np.asarray(array) for n, array in zip(names, case.data_sets[0][0], strict=True)}
    operator = model.graph.node[0].op_type
    if operator in WITH_CONSTANTS:
        n_kept = 0 if operator == "ConstantOfShape" else 1
        for name in names[n_kept:]:
            model.graph.initializer.append(numpy_helper.from_array(inputs.pop(name), name))
        del model.graph.input[n_kept:]
    onnx.save(model, path)
    compiled = compile_model(
        load_onnx(path), load_machine("gc200", tiles_per_ipu=16), is_checked=True
    )
    with Engine(compiled.executable, resolve_options()) as engine:
        return compiled.run(engine, inputs)


@pytest.mark.parametrize("name", _names(is_out=False))
def test_case(name: str, tmp_path: Path) -> None:
    case = node_cases()[name]
    outputs = outputs_of(case, tmp_path / "model.onnx")
    for info, expected in zip(case.model.graph.output, case.data_sets[0][1], strict=True):
        found = outputs[info.name]
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", _names(is_out=True))
def test_case_that_is_out_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        outputs_of(node_cases()[name], tmp_path / "model.onnx")
    assert str(caught.value).count("\n") == 0


def test_every_family_has_cases() -> None:
    """Guard against renames that would make the selection above empty."""
    operators = {
        case.model.graph.node[0].op_type
        for name, case in node_cases().items()
        if _why_out(name) is None
    }
    without = {"Cast", "Loop"} | WITHOUT_CASES | RANDOM_RESULTS
    assert operators >= set(supported_operators()) - without
