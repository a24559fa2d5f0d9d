"""Model in, report out: the simulator of a tile processor.

The names below are loaded when they are first used, so that importing the package, or its
errors alone, stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.log_output import follow_environment

if TYPE_CHECKING:
    from engine.codelets.codelet import Field, Scalar
    from engine.codelets.define import codelet
    from engine.compiler import Executable, compile_programs
    from engine.execute import Engine
    from engine.frontend.onnx import load_onnx
    from engine.graph import Graph, Tensor, concat
    from engine.library.builder import Builder
    from engine.lower import CompiledModel, compile_model
    from engine.machine import Machine, load_machine
    from engine.options import EngineOptions
    from engine.options import resolve as resolve_options

__all__ = [
    "Builder",
    "CompiledModel",
    "Engine",
    "EngineOptions",
    "Executable",
    "Field",
    "Graph",
    "Machine",
    "Scalar",
    "Tensor",
    "codelet",
    "compile_model",
    "compile_programs",
    "concat",
    "load_machine",
    "load_onnx",
    "resolve_options",
]

_PLACES = {
    "Builder": ("engine.library.builder", "Builder"),
    "CompiledModel": ("engine.lower", "CompiledModel"),
    "Engine": ("engine.execute", "Engine"),
    "EngineOptions": ("engine.options", "EngineOptions"),
    "Executable": ("engine.compiler", "Executable"),
    "Field": ("engine.codelets.codelet", "Field"),
    "Graph": ("engine.graph", "Graph"),
    "Machine": ("engine.machine", "Machine"),
    "Scalar": ("engine.codelets.codelet", "Scalar"),
    "Tensor": ("engine.graph", "Tensor"),
    "codelet": ("engine.codelets.define", "codelet"),
    "compile_model": ("engine.lower", "compile_model"),
    "compile_programs": ("engine.compiler", "compile_programs"),
    "concat": ("engine.graph", "concat"),
    "load_machine": ("engine.machine", "load_machine"),
    "load_onnx": ("engine.frontend.onnx", "load_onnx"),
    "resolve_options": ("engine.options", "resolve"),
}

follow_environment()


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
