"""Programs in files: exported, loaded, and kept in a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.popart.session_models import WEIGHT, hardware, inference, training

import popart
import popart.compilation
import popart.session.compiled
import pva


def _result(session: popart.InferenceSession, x: str, out: str) -> Any:
    anchors = session.initAnchorArrays()
    batch = np.ones((*anchors[out].shape[:-1], 4), np.float32)
    session.run(popart.PyStepIO({x: batch}, anchors))
    return anchors[out]


def _n_compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the programs that sessions compile."""
    counts: list[int] = []
    compiled_for = popart.compilation.compiled_for

    def counted(*arguments: Any) -> Any:
        counts.append(1)
        return compiled_for(*arguments)

    monkeypatch.setattr(popart.session.compiled, "compiled_for", counted)
    return counts


def test_a_program_is_exported_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = _n_compilations(monkeypatch)
    offline = popart.DeviceManager().createOfflineIPUDevice({"tilesPerIPU": 4})
    first, *_ = inference(offline)
    first.compileAndExport(str(tmp_path / "below" / "model.popef"))
    assert len(compilations) == 1
    second, x, out = inference(hardware())
    second.loadExecutable(str(tmp_path / "below" / "model.popef"))
    second.prepareDevice()
    np.testing.assert_allclose(_result(second, x, out), np.ones((2, 4)) @ WEIGHT, rtol=1e-6)
    assert len(compilations) == 1
    with pytest.raises(popart.popart_exception, match="when using a cached executable"):
        second.getSummaryReport()
    first.saveExecutable(str(tmp_path))
    assert (tmp_path / "executable.popef").is_file()


def test_a_training_goes_on_from_a_file(tmp_path: Path) -> None:
    first, *_ = training(hardware())
    first.compileAndExport(str(tmp_path / "model.popef"))
    weights = []
    for file in ("", str(tmp_path / "model.popef")):
        session, x, w, _ = training(hardware())
        if file:
            session.loadExecutable(file)
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({x: np.ones((2, 4), np.float32)}, anchors))
        session.weightsToHost()
        held = {w: np.empty_like(WEIGHT)}
        session.readWeights(popart.PyWeightsIO(held))
        weights.append(held[w])
    np.testing.assert_array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], WEIGHT)


def test_programs_are_kept_in_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = _n_compilations(monkeypatch)
    cache: dict[str, Any] = {"enableEngineCaching": True, "cachePath": str(tmp_path)}
    for n_batches, n_compiled in ((2, 1), (2, 1), (3, 2)):
        session, x, out = inference(hardware(), n_batches, **cache)
        session.prepareDevice()
        assert _result(session, x, out).shape == (n_batches, 2, 3)
        assert len(compilations) == n_compiled
    model = popart.DeviceManager().createIpuModelDevice({})
    inference(model, **cache)[0].prepareDevice()  # only programs of hardware are kept
    assert len(list(tmp_path.glob("*.popef"))) == 2


def test_the_cache_has_the_report_of_a_compilation(tmp_path: Path) -> None:
    reports = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "reports")}
    session, x, out = inference(
        hardware(),
        enableEngineCaching=True,
        cachePath=str(tmp_path / "cache"),
        engineOptions=reports,
    )
    session.prepareDevice()
    _result(session, x, out)
    session.close()
    kept = pva.openReport(str(tmp_path / "cache" / "inference" / "profile.pop"))
    assert not kept.execution.runs
    written = pva.openReport(str(tmp_path / "reports" / "inference" / "profile.pop"))
    assert len(written.execution.runs) == 1


def test_what_cannot_be_saved_or_loaded(tmp_path: Path) -> None:
    session, *_ = inference(popart.DeviceManager().createIpuModelDevice({}))
    with pytest.raises(popart.popart_exception, match="device type ipu-model cannot be saved"):
        session.compileAndExport(str(tmp_path))
    session, *_ = inference(hardware())
    with pytest.raises(popart.popart_runtime_error, match="Try calling Session::prepareDevice"):
        session.saveExecutable(str(tmp_path / "model.popef"))
    with pytest.raises(popart.popart_exception, match="Could not open file"):
        session.loadExecutable(str(tmp_path / "model.popef"))
    session.compileAndExport(str(tmp_path / "model.popef"))
    trained, *_ = training(hardware())
    trained.loadExecutable(str(tmp_path / "model.popef"))
    with pytest.raises(popart.popart_exception, match="does not fit this session"):
        trained.prepareDevice()
    (tmp_path / "model.popef").write_bytes(b"nothing")
    other, *_ = inference(hardware())
    other.loadExecutable(str(tmp_path / "model.popef"))
    with pytest.raises(popart.popart_exception, match="Could not open file"):
        other.prepareDevice()
