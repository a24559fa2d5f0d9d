"""C17 and C18: ResNet-50 at several batches and types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from tests.fidelity.read_off import kind_cycles, total_cycles

from tilescope.engine import load_machine, load_onnx
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.ir import Model
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.session.compilation import compile_model

__all__ = [
    "HALF_PARTIALS",
    "first_resnet_rate",
    "largest_batch",
    "loaded",
    "rate",
    "resnet50",
    "resnet_rates",
]

_LIGHT = Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
_TYPES = {"half": TensorProto.FLOAT16, "float": TensorProto.FLOAT}
#: Source: graphcore/PopRT, benchmarks/resnet50/test_resnet50.py and bert/test_bert_base.py:
#: partials_type half. The exporter folds batch normalisations there, as the compiler does here.
HALF_PARTIALS = PartialsTypes("half", "half")
_PARTIALS = {"half": HALF_PARTIALS, "float": PartialsTypes("float", "float")}
#: Batches of the published tables.
_RATES = (("half", (1, 2, 4, 8, 16, 32, 64, 90)), ("float", (1, 2, 4, 8, 16)))
#: A batch that fits, one that does not, and how near they are at the end of the search.
_FITS, _FAILS, _APART = 64, 128, 4


def resnet50(kind: str, batch: int) -> Model:
    """Return ONNX's ResNet-50 with constant weights, for a batch, in ``half`` or ``float``."""
    proto = onnx.load(_LIGHT)
    graph, to = proto.graph, _TYPES[kind]
    for value in (*graph.input, *graph.output):
        tensor = value.type.tensor_type
        if tensor.elem_type == TensorProto.FLOAT:
            tensor.elem_type = to
    for value in (graph.input[0], graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                attribute.t.CopyFrom(_converted(attribute.t, kind))
    shapes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    for tensor in graph.initializer:
        if tensor.name in shapes:
            rest = numpy_helper.to_array(tensor)[1:]
            built = numpy_helper.from_array(np.array([batch, *rest], np.int64), tensor.name)
            tensor.CopyFrom(built)
        else:
            tensor.CopyFrom(_converted(tensor, kind))
    del graph.value_info[:]
    return loaded(proto)


def _converted(tensor: onnx.TensorProto, kind: str) -> onnx.TensorProto:
    """Return a tensor of floats in the type of the network; others as they are."""
    array = numpy_helper.to_array(tensor)
    if array.dtype != np.float32 or kind == "float":
        return tensor
    return numpy_helper.from_array(array.astype(np.float16), tensor.name)


def loaded(proto: onnx.ModelProto) -> Model:
    """Return a model, through a file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(proto, path)
        return load_onnx(path)


@lru_cache(maxsize=1)  # an executable of a large batch takes gigabytes
def _compiled(kind: str, batch: int) -> Executable:
    return compile_model(
        resnet50(kind, batch), load_machine("c600"), partials=_PARTIALS[kind]
    ).executable


def rate(executable: Executable, n_items: int) -> float:
    """Return items per second with data on the device: without the copies from and to the host."""
    copies = kind_cycles(executable, "StreamCopyMid")
    cycles = total_cycles(executable) - copies
    return float(n_items * executable.machine.clock_hz / cycles)


def first_resnet_rate() -> Mapping[str, float]:
    """Return the rate of ResNet-50 at batch 1 in half."""
    return {"half, batch 1": rate(_compiled("half", 1), 1)}


def resnet_rates() -> Mapping[str, float]:
    """Return the rates of ResNet-50, images per second; every batch of the table fits."""
    rates = {}
    for kind, batches in _RATES:
        for batch in batches:
            executable = _compiled(kind, batch)
            assert not executable.overfull_tiles.size, (kind, batch)
            rates[f"{kind}, batch {batch}"] = rate(executable, batch)
    return rates


def largest_batch() -> Mapping[str, float]:
    """Return the largest batch of ResNet-50 in half that fits, a multiple of 4, by bisection.

    It fits if it does at one of the shares of available memory that a compilation tests.
    """
    fits, fails = _FITS, _FAILS
    while fails - fits > _APART:
        batch = (fits + fails) // 2
        if _compiled("half", batch).overfull_tiles.size:
            fails = batch
        else:
            fits = batch
    return {"half, largest batch": float(fits)}
