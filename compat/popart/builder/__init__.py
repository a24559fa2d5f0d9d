"""Models made by calls: graphs, operators as methods, scopes and settings of nodes."""

from __future__ import annotations

from popart.builder.builder import Builder
from popart.builder.graph import OperatorIdentifier
from popart.builder.graphcore_opset import AiGraphcore, AiGraphcoreOpset1
from popart.builder.onnx_opset import AiOnnx, AiOnnxMl, AiOnnxMlOpset1, Opset
from popart.builder.scope import (
    AttributeContextManager,
    KeyValueContextManager,
    NameContextManager,
)
from popart.builder.versions import (
    AiOnnx6,
    AiOnnx7,
    AiOnnx8,
    AiOnnx9,
    AiOnnx10,
    AiOnnx11,
    AiOnnxOpset6,
    AiOnnxOpset7,
    AiOnnxOpset8,
    AiOnnxOpset9,
    AiOnnxOpset10,
    AiOnnxOpset11,
)

__all__ = [
    "AiGraphcore",
    "AiGraphcoreOpset1",
    "AiOnnx",
    "AiOnnx6",
    "AiOnnx7",
    "AiOnnx8",
    "AiOnnx9",
    "AiOnnx10",
    "AiOnnx11",
    "AiOnnxMl",
    "AiOnnxMlOpset1",
    "AiOnnxOpset6",
    "AiOnnxOpset7",
    "AiOnnxOpset8",
    "AiOnnxOpset9",
    "AiOnnxOpset10",
    "AiOnnxOpset11",
    "AttributeContextManager",
    "Builder",
    "KeyValueContextManager",
    "NameContextManager",
    "OperatorIdentifier",
    "Opset",
]
