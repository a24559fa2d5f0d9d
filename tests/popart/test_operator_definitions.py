"""What operators take, as programs ask for it."""

from __future__ import annotations

import popart


def test_definitions_of_supported_operators() -> None:
    public = popart.getSupportedOperationsDefinition(False)
    assert list(public) == popart.getSupportedOperations(False)
    assert len(popart.getSupportedOperationsDefinition(True)) > len(public)
    by_name = {(k.domain, k.type, k.version): v for k, v in public.items()}
    conv = by_name["ai.onnx", "Conv", 11]
    assert [entry.name for entry in conv.inputs] == ["X", "W", "B"]
    assert popart.DataType.FLOAT in conv.inputs[0].supportedTensors
    assert conv.attributes["strides"].supportedValuesRegex == "*"
    shape = by_name["ai.onnx", "Reshape", 5].inputs[1]
    assert (shape.supportedTensors, shape.constant) == ([popart.DataType.INT64], True)
    scale = by_name["ai.graphcore", "Scale", 1]
    assert (len(scale.inputs), list(scale.attributes)) == (1, ["scale"])
