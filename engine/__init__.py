"""Model in, report out: the simulator of a tile processor.

The names below are loaded when they are first used, so that importing the package, or its
errors alone, stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilescope.engine.log_output import follow_environment

if TYPE_CHECKING:
    from tilescope.engine.codelets.define import codelet
    from tilescope.engine.compiler.executable.executable import Executable
    from tilescope.engine.frontend.onnx import load_onnx
    from tilescope.engine.frontend.onnx.facts.trainables import write_trained
    from tilescope.engine.frontend.onnx.onnx_file import OnnxFile
    from tilescope.engine.frontend.operator_file import load_operators
    from tilescope.engine.frontend.torch import TorchFile, load_torch
    from tilescope.engine.graph import Graph, Tensor, concat
    from tilescope.engine.graph.vertex.codelet import Field, Scalar
    from tilescope.engine.ir import Recomputation
    from tilescope.engine.ir.custom_operator import custom_operator
    from tilescope.engine.ir.half_policy import HalfPolicy
    from tilescope.engine.ir.registered import forget_operator
    from tilescope.engine.library.builder import Builder
    from tilescope.engine.library.popops.elementwise.map_codelet import map_codelet
    from tilescope.engine.machine import Machine, load_machine
    from tilescope.engine.operators.table import operator
    from tilescope.engine.options import EngineOptions
    from tilescope.engine.options import resolve as resolve_options
    from tilescope.engine.session.compilation import compile_model
    from tilescope.engine.session.compile import compile_programs
    from tilescope.engine.session.compiled_model import CompiledModel
    from tilescope.engine.session.engine import Engine
    from tilescope.engine.session.operator_check import check_operator
    from tilescope.engine.session.source_compilation import compile_source
    from tilescope.engine.session.synthetic_data import with_synthetic_data
    from tilescope.engine.session.trainer import LossNotFinite, Trainer
    from tilescope.engine.training import (
        AdaDelta,
        Adagrad,
        Adam,
        AdaMax,
        AdamW,
        AutomaticScaling,
        Lamb,
        Loss,
        RmsProp,
        Schedule,
        Sgd,
        for_training,
    )
    from tilescope.engine.transform.half import in_half
    from tilescope.engine.transform.serialise import in_batch_parts

__all__ = [
    "AdaDelta",
    "AdaMax",
    "Adagrad",
    "Adam",
    "AdamW",
    "AutomaticScaling",
    "Builder",
    "CompiledModel",
    "Engine",
    "EngineOptions",
    "Executable",
    "Field",
    "Graph",
    "HalfPolicy",
    "Lamb",
    "Loss",
    "LossNotFinite",
    "Machine",
    "OnnxFile",
    "Recomputation",
    "RmsProp",
    "Scalar",
    "Schedule",
    "Sgd",
    "Tensor",
    "TorchFile",
    "Trainer",
    "check_operator",
    "codelet",
    "compile_model",
    "compile_programs",
    "compile_source",
    "concat",
    "custom_operator",
    "for_training",
    "forget_operator",
    "in_batch_parts",
    "in_half",
    "load_machine",
    "load_onnx",
    "load_operators",
    "load_torch",
    "map_codelet",
    "operator",
    "resolve_options",
    "with_synthetic_data",
    "write_trained",
]

_PLACES = {
    "Builder": ("tilescope.engine.library.builder", "Builder"),
    "CompiledModel": ("tilescope.engine.session.compiled_model", "CompiledModel"),
    "Engine": ("tilescope.engine.session.engine", "Engine"),
    "EngineOptions": ("tilescope.engine.options", "EngineOptions"),
    "Executable": ("tilescope.engine.compiler.executable.executable", "Executable"),
    "Field": ("tilescope.engine.graph.vertex.codelet", "Field"),
    "Graph": ("tilescope.engine.graph", "Graph"),
    "HalfPolicy": ("tilescope.engine.ir.half_policy", "HalfPolicy"),
    "Loss": ("tilescope.engine.training", "Loss"),
    "LossNotFinite": ("tilescope.engine.session.trainer", "LossNotFinite"),
    "OnnxFile": ("tilescope.engine.frontend.onnx.onnx_file", "OnnxFile"),
    "Machine": ("tilescope.engine.machine", "Machine"),
    "Scalar": ("tilescope.engine.graph.vertex.codelet", "Scalar"),
    "AdaDelta": ("tilescope.engine.training", "AdaDelta"),
    "AdaMax": ("tilescope.engine.training", "AdaMax"),
    "Adagrad": ("tilescope.engine.training", "Adagrad"),
    "Adam": ("tilescope.engine.training", "Adam"),
    "AdamW": ("tilescope.engine.training", "AdamW"),
    "AutomaticScaling": ("tilescope.engine.training", "AutomaticScaling"),
    "Lamb": ("tilescope.engine.training", "Lamb"),
    "Recomputation": ("tilescope.engine.ir", "Recomputation"),
    "RmsProp": ("tilescope.engine.training", "RmsProp"),
    "Schedule": ("tilescope.engine.training", "Schedule"),
    "Sgd": ("tilescope.engine.training", "Sgd"),
    "Tensor": ("tilescope.engine.graph", "Tensor"),
    "Trainer": ("tilescope.engine.session.trainer", "Trainer"),
    "codelet": ("tilescope.engine.codelets.define", "codelet"),
    "compile_model": ("tilescope.engine.session.compilation", "compile_model"),
    "compile_programs": ("tilescope.engine.session.compile", "compile_programs"),
    "compile_source": ("tilescope.engine.session.source_compilation", "compile_source"),
    "concat": ("tilescope.engine.graph", "concat"),
    "for_training": ("tilescope.engine.training", "for_training"),
    "in_batch_parts": ("tilescope.engine.transform.serialise", "in_batch_parts"),
    "in_half": ("tilescope.engine.transform.half", "in_half"),
    "TorchFile": ("tilescope.engine.frontend.torch.torch_file", "TorchFile"),
    "load_torch": ("tilescope.engine.frontend.torch", "load_torch"),
    "load_machine": ("tilescope.engine.machine", "load_machine"),
    "load_onnx": ("tilescope.engine.frontend.onnx", "load_onnx"),
    "resolve_options": ("tilescope.engine.options", "resolve"),
    "with_synthetic_data": (
        "tilescope.engine.session.synthetic_data",
        "with_synthetic_data",
    ),
    "write_trained": ("tilescope.engine.frontend.onnx.facts.trainables", "write_trained"),
    "check_operator": ("tilescope.engine.session.operator_check", "check_operator"),
    "custom_operator": ("tilescope.engine.ir.custom_operator", "custom_operator"),
    "forget_operator": ("tilescope.engine.ir.registered", "forget_operator"),
    "load_operators": ("tilescope.engine.frontend.operator_file", "load_operators"),
    "map_codelet": ("tilescope.engine.library.popops.elementwise.map_codelet", "map_codelet"),
    "operator": ("tilescope.engine.operators.table", "operator"),
}

follow_environment()


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
