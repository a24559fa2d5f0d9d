"""The suite's cases: of the installed ONNX, and of ONNX 1.6.0 from its wheel."""

from __future__ import annotations

import tomllib
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.backend.test import loader
from onnx.backend.test.runner import Runner

from tilescope.engine.models.catalogue import Model, WheelTags
from tilescope.engine.models.wheel import download_wheel

__all__ = ["LISTS", "Case", "Reason", "cases", "missing", "names"]

HERE = Path(__file__).parent
#: Name of a list and its file: kind and name of a case in each line.
LISTS = {
    name: HERE / f"{name}.txt"
    for name in ("onnx-1.6.0", "popart-1.6.0", "onnx-1.23.2", "onnx-1.23.2-extended")
}
_RTOL, _ATOL = 1e-3, 1e-7


@dataclass(frozen=True)
class Reason:
    """Why a case does not pass; ``is_wrong`` if it runs, with other values than expected."""

    why: str
    is_wrong: bool


@dataclass(frozen=True)
class Case:
    """A model with inputs and expected outputs, arrays in the model's order."""

    kind: str
    name: str
    model: onnx.ModelProto
    data_sets: tuple[tuple[list[NDArray[Any]], list[NDArray[Any]]], ...]
    rtol: float = _RTOL
    atol: float = _ATOL

    @property
    def op_types(self) -> tuple[str, ...]:
        """Operators of the model, each once."""
        return tuple(dict.fromkeys(node.op_type for node in self.model.graph.node))


def names(list_name: str) -> list[tuple[str, str]]:
    """Return kind and name of the cases in a list."""
    lines = LISTS[list_name].read_text("utf-8").splitlines()
    return [
        (kind, name) for kind, _, name in (line.partition(" ") for line in lines if line[0] != "#")
    ]


@cache
def missing() -> dict[str, Reason]:
    """Return the cases that do not pass, with the reason."""
    reasons = tomllib.loads((HERE / "missing.toml").read_text("utf-8"))["reason"]
    return {
        name: Reason(reason["why"], is_wrong=reason.get("is_wrong", False))
        for reason in reasons
        for name in reason["cases"]
    }


def cases(list_name: str, folder: Path) -> Iterator[Case]:
    """Return the cases of a list; ``folder`` keeps what is downloaded."""
    expected = names(list_name)
    if list_name.endswith("1.6.0"):
        data = _data_of_1_6(folder)
        for kind, name in expected:
            yield _from_folder(kind, data / kind / name)
        return
    in_memory = _node_cases()
    for kind, name in expected:
        if kind == "node":
            actual = in_memory[name]
            sets = tuple((_arrays(i), _arrays(o)) for i, o in actual.data_sets)
            yield Case(kind, name, actual.model, sets, actual.rtol, actual.atol)
        elif kind == "real":
            yield _light(name)
        else:
            yield _from_folder(kind, Path(loader.DATA_DIR) / kind / name)


def _node_cases() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in loader.load_model_tests(kind="node")}


def _arrays(values: Any) -> list[NDArray[Any]]:
    return [
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
        for value in values
    ]


def _from_folder(kind: str, folder: Path) -> Case:
    """Return a case as files: the model, and its data in protocol buffers."""
    model = onnx.load(folder / "model.onnx")

    def arrays(data: Path, what: str, n: int) -> list[NDArray[Any]]:
        return [numpy_helper.to_array(onnx.load_tensor(data / f"{what}_{i}.pb")) for i in range(n)]

    sets = tuple(
        (
            arrays(data, "input", len(list(data.glob("input_*.pb")))),
            arrays(data, "output", len(model.graph.output)),
        )
        for data in sorted(folder.glob("test_data_set_*"))
    )
    return Case(kind, folder.name, model, sets)


def _light(name: str) -> Case:
    """Return a network with constant weights, its input as ONNX's own runner makes it."""
    folder = Path(loader.DATA_DIR) / "light"
    stem = name.replace("test_", "light_", 1)
    model = onnx.load(folder / f"{stem}.onnx")
    initialized = {tensor.name for tensor in model.graph.initializer}
    inputs = [
        Runner.generate_dummy_data(info, seed=0, name=name, random=False)
        for info in model.graph.input
        if info.name not in initialized
    ]
    expected = numpy_helper.to_array(onnx.load_tensor(folder / f"{stem}_output_0.pb"))
    return Case("real", name, model, ((inputs, [expected]),))


def _data_of_1_6(folder: Path) -> Path:
    """Return the folder of the cases of ONNX 1.6.0; its wheel is fetched once, by hash."""
    data = folder / "onnx-1.6.0/onnx/backend/test/data"
    if not data.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(download_wheel(_WHEEL, folder)) as wheel:
            wheel.extractall(folder / "onnx-1.6.0")
    return data


_WHEEL = Model(
    name="onnx-1.6.0",
    description="Cases of ONNX 1.6.0",
    package="onnx",
    version="1.6.0",
    package_sha256="9b32e04abe02cba4c4edb6c3cc15db917e734521ca8631e46bea3971a142d709",
    licence="MIT",
    opset=11,
    path="onnx/backend/test/data",
    size_bytes=4782063,
    sha256="",
    inputs=(),
    tags=WheelTags("37", "cp37m", "manylinux1_x86_64"),
)
