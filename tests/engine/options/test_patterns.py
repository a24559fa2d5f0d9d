"""Every rewrite can be turned off: the program is another one, and values are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.engine.transform.rewrites import Taken, written
from tests.engine.transform.test_activations import GELU, HARD_SWISH, SWISH, TANH_GELU
from tests.engine.transform.test_normalisation import like, pytorch, rms, root, white
from tests.engine.transform.test_softmax import stable
from tests.fidelity.read_off import total_cycles

from tilescope.engine import load_machine, load_onnx, resolve_options
from tilescope.engine.frontend.onnx.onnx_file import OnnxFile
from tilescope.engine.options.patterns import PATTERNS, pattern_option
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.model_run import run_model
from tilescope.reports import open_report
from tilescope.reports.schema import engine_option

SHAPE = (1, 4, 12)
IMAGE = (1, 4, 6, 6)


def batch_norm(x: Taken) -> Taken:
    numbers = np.arange(1, 5, dtype=np.float32)
    weights = np.linspace(-1, 1, 4 * 4 * 3 * 3, dtype=np.float32).reshape(4, 4, 3, 3)
    return x.op("Conv", weights).op("BatchNormalization", numbers, numbers, numbers, numbers)


SCALE, BIAS = np.random.default_rng(4).standard_normal((2, 768)).astype(np.float32)


def rms_of_rows(x: Taken) -> Taken:
    return like(x, SCALE) * (x / root((x * x).mean(-1) + 1e-5))


def of_rows(x: Taken) -> Taken:
    return white(x, -1) * like(x, SCALE) + like(x, BIAS)


def first(formulas: dict[str, Any]) -> Any:
    return next(iter(formulas.values()))


FORMULAS = {
    "pow_pattern": lambda x: x**2.0,
    "layer_norm_pattern": pytorch,
    "rms_norm_pattern": rms,
    "softmax_pattern": stable,
    "erf_gelu_pattern": first(GELU),
    "gelu_pattern": first(TANH_GELU),
    "swish_pattern": first(SWISH),
    "hard_swish_pattern": first(HARD_SWISH),
    "pre_scale": lambda x: x.op("MatMul", np.ones((12, 3), np.float32)) * 0.5,
    "fold_batch_norm": batch_norm,
}


def test_every_rewrite_has_a_case() -> None:
    assert set(FORMULAS) == set(PATTERNS)


@pytest.mark.parametrize("name", FORMULAS)
def test_an_option_changes_the_program_and_not_the_values(name: str, tmp_path: Path) -> None:
    shape = IMAGE if name == "fold_batch_norm" else SHAPE
    onnx.save(written(FORMULAS[name], shape), tmp_path / "model.onnx")
    machine = load_machine("gc200", tiles_per_ipu=4)
    runs = []
    for is_on in (True, False):
        folder = tmp_path / str(is_on)
        values = {
            pattern_option(name): is_on,
            "autoReport.all": True,
            "autoReport.directory": str(folder),
        }
        options = resolve_options(environ={}, code=values)
        runs.append(run_model(OnnxFile(tmp_path / "model.onnx"), machine, options))
        with open_report(folder) as report:
            rows = report.table(engine_option)
        row = rows["name"].index(pattern_option(name))
        assert rows["value"][row] == str(is_on).lower()
        assert rows["has_effect"][row]
    on, off = runs
    steps = [[step.name for step in run.compiled.executable.steps] for run in runs]
    assert steps[0] != steps[1]
    for key, array in on.outputs.items():
        np.testing.assert_allclose(array, off.outputs[key], rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("formula", [of_rows, rms_of_rows])
def test_whole_normalisations_are_faster(formula: Any, dtype: str, tmp_path: Path) -> None:
    """Statistics of 256 rows of 768 stay on the tiles that reduce them."""
    onnx.save(written(formula, (256, 768), dtype), tmp_path / "model.onnx")
    machine = load_machine("c600")
    full, apart = (
        compile_model(load_onnx(tmp_path / "model.onnx"), machine, without=off).executable
        for off in ((), tuple(PATTERNS))
    )
    assert total_cycles(full) < total_cycles(apart)
