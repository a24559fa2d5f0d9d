"""Memory of a whole network: the figures of docs/explanation/whole-networks.md that are quick."""

from __future__ import annotations

from pathlib import Path

import onnx

from tilescope.engine import compile_model, load_machine, load_onnx

#: ResNet-50 with weights made up by constants; a part of the onnx package.
LIGHT_RESNET50 = Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"


def test_exchange_code_of_a_resnet50() -> None:
    """Published, for a vision transformer: 15.6 kB of a tile in the mean, 37.1 kB at most.

    Source: osmarks/ipu-stack, SDK_ONNX_PROFILE_ANALYSIS.
    """
    model = load_onnx(LIGHT_RESNET50)
    executable = compile_model(model, load_machine("c600")).executable
    assert not executable.overfull_tiles.size
    code = executable.memory.categories["internalExchangeCode"].sum(axis=0)
    assert code.max() < 40_000
