"""The versions of ONNX's set that a builder has, and the defaults."""

from __future__ import annotations

from popart.builder.onnx_opset import AiOnnx

__all__ = [
    "AI_ONNX",
    "DEFAULT_AI_GRAPHCORE",
    "DEFAULT_AI_ONNX",
    "DEFAULT_AI_ONNX_ML",
    "AiOnnx6",
    "AiOnnx7",
    "AiOnnx8",
    "AiOnnx9",
    "AiOnnx10",
    "AiOnnx11",
    "AiOnnxOpset6",
    "AiOnnxOpset7",
    "AiOnnxOpset8",
    "AiOnnxOpset9",
    "AiOnnxOpset10",
    "AiOnnxOpset11",
]

DEFAULT_AI_ONNX, DEFAULT_AI_ONNX_ML, DEFAULT_AI_GRAPHCORE = 10, 1, 1


class AiOnnx6(AiOnnx):
    """Version 6 of ONNX's set."""


class AiOnnx7(AiOnnx6):
    """Version 7 of ONNX's set."""


class AiOnnx8(AiOnnx7):
    """Version 8 of ONNX's set."""


class AiOnnx9(AiOnnx8):
    """Version 9 of ONNX's set."""


class AiOnnx10(AiOnnx9):
    """Version 10 of ONNX's set."""


class AiOnnx11(AiOnnx10):
    """Version 11 of ONNX's set."""


#: The binding's names of the same sets.
AiOnnxOpset6, AiOnnxOpset7, AiOnnxOpset8 = AiOnnx6, AiOnnx7, AiOnnx8
AiOnnxOpset9, AiOnnxOpset10, AiOnnxOpset11 = AiOnnx9, AiOnnx10, AiOnnx11

#: The classes by version.
AI_ONNX: dict[int, type[AiOnnx6]] = {
    6: AiOnnx6,
    7: AiOnnx7,
    8: AiOnnx8,
    9: AiOnnx9,
    10: AiOnnx10,
    11: AiOnnx11,
}
