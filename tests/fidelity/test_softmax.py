"""The softmax of a model is the one that the fidelity table measures."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper
from tests.fidelity.read_off import compute_cycles
from tests.fidelity.vectors import softmax

from tilescope.engine import compile_model, load_machine, load_onnx

#: Maximum, subtraction, exponential, sum, inverse and its cast, product: seven compute sets.
#: Source: osmarks/ipu-stack, SDK_ONNX_PROFILE_ANALYSIS; graphcore/poplibs sdk-release-3.4,
#: lib/popnn/NonLinearity.cpp, softmaxImpl: halves are summed as floats.
PUBLISHED = ["maximum", "subtract", "exp", "sum", "inverse", "popops::Cast1D", "multiply"]


def test_a_models_softmax_is_the_published_sequence_at_its_cost(tmp_path: Path) -> None:
    machine = load_machine("c600")
    shape = [8 * machine.n_tiles, 736]  # 8 whole rows a tile, as published
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape) for name in "xy"]
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    graph = helper.make_graph([node], "softmax", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    onnx.save(model, tmp_path / "softmax.onnx")
    compiled = compile_model(load_onnx(tmp_path / "softmax.onnx"), machine).executable
    codelets = [
        batch.codelet.name.partition("<")[2].rstrip(">") or batch.codelet.name
        for step in compiled.steps
        if step.compute_set is not None
        for batch in step.compute_set.batches
    ]
    assert codelets == PUBLISHED
    assert compute_cycles(compiled) == softmax()["compute sets"]
