"""Exceptions, enumerations, types of tensors, names and patterns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import popart


def test_exceptions_are_related_as_in_the_binding() -> None:
    assert issubclass(popart.popart_internal_exception, popart.popart_exception)
    assert issubclass(popart.popart_runtime_error, popart.popart_exception)
    assert issubclass(popart.OutOfMemoryException, popart.popart_exception)
    assert popart.session.OutOfMemoryException is popart.OutOfMemoryException
    assert issubclass(popart.poplar_runtime_error, popart.poplar_exception)
    assert issubclass(popart.poplar_recoverable_runtime_error, popart.poplar_system_runtime_error)
    error = popart.OutOfMemoryException("too large", "a report", "/tmp/profile.pop")
    assert (error.getSummaryReport(), error.getProfilePath()) == ("a report", "/tmp/profile.pop")
    assert str(error) == "too large"


def test_members_are_equal_to_their_own_kind_only() -> None:
    others: list[object] = [0, popart.TileSet.Compute]
    assert popart.ReductionType.Sum not in others
    assert int(popart.ReductionType.Mean) == 1
    assert popart.ReductionType(2) is popart.ReductionType.NoReduction
    assert str(popart.ReductionType.Sum) == "ReductionType.Sum"
    contexts = popart.BatchSerializationTransformContext
    assert contexts["Forward"] is contexts["Fwd"]
    assert str(popart.SyncPattern.SinglePipeline) == "singlePipeline"
    assert popart.syncPatternFromString("full") is popart.SyncPattern.Full
    with pytest.raises(popart.popart_exception, match="Unknown syncPattern setting: half"):
        popart.syncPatternFromString("half")


@pytest.mark.parametrize(
    ("arguments", "type_name", "lower", "shape", "n_bytes"),
    [
        (("FLOAT", [1, 2]), "FLOAT", "float32", [1, 2], 8),
        ((np.float16, (3,)), "FLOAT16", "float16", [3], 6),
        ((np.dtype("int64"), [2]), "INT64", "int64", [2], 16),
        ((popart.DataType.BOOL, []), "BOOL", "bool", [], 1),
        (("INT32", "(2,3)"), "INT32", "int32", [2, 3], 24),
        ((np.zeros((4, 1), np.uint8),), "UINT8", "uint8", [4, 1], 4),
    ],
)
def test_types_of_tensors(arguments, type_name, lower, shape, n_bytes) -> None:
    info = popart.TensorInfo(*arguments)
    assert (info.data_type(), info.data_type_lcase()) == (type_name, lower)
    assert (info.shape(), info.rank(), info.nbytes()) == (shape, len(shape), n_bytes)
    assert info == popart.TensorInfo(type_name, shape)


def test_unknown_types_are_refused() -> None:
    with pytest.raises(popart.popart_exception, match="no ONNX type FLOAT33, they're"):
        popart.TensorInfo("FLOAT33", [1])
    with pytest.raises(TypeError, match="Can not create TensorInfo with args"):
        popart.TensorInfo(1)
    with pytest.raises(popart.popart_exception, match="No numpy type complex64"):
        popart.getTensorInfo(np.zeros(1, np.complex64))


def test_prefixes() -> None:
    assert popart.reservedGradientPrefix() == "Gradient___"
    assert popart.reservedAccl1Prefix() == "Accl1___"
    assert popart.reservedRestoredPrefix() == "Restored___"
    assert popart.reservedDefaultScaledLearningRate0Prefix() == "scaledLearningRate0___default___"
    assert sum(name.startswith("reserved") for name in popart.__all__) == 50


def test_patterns_by_level() -> None:
    default = popart.Patterns()
    assert default.isPatternEnabled("PadSum")
    assert not default.isPatternEnabled("SplitGather")
    assert default.InPlace
    minimal = popart.Patterns(popart.PatternsLevel.Minimal)
    assert not minimal.isPatternEnabled("PadSum")
    assert minimal.isPatternEnabled("MatMulOp")
    assert not minimal.InPlace
    every = popart.Patterns(popart.PatternsLevel.All)
    assert every.isPatternEnabled("SplitGather")
    none = popart.Patterns(popart.PatternsLevel.NoPatterns)
    with pytest.raises(popart.popart_exception, match="must be enabled"):
        none.check()
    none.enableRuntimeAsserts(False).check()


def test_patterns_by_name() -> None:
    patterns = popart.Patterns(["PadSum", "InPlace"])
    assert patterns.InPlace
    patterns.InPlace = False
    assert not patterns.InPlace
    assert not patterns.isPatternEnabled("PostNRepl")
    with pytest.raises(popart.popart_exception, match="Unknown pattern Inplace, did you mean"):
        popart.Patterns(["Inplace"])
    with pytest.raises(popart.popart_exception, match="'MatMulOp' is mandatory"):
        popart.Patterns().MatMulOp = False


def test_a_logger_writes_what_its_level_allows(capfd: pytest.CaptureFixture[str]) -> None:
    logger = popart.getLogger("session")
    logger.setLevel("ERR")
    logger.warn("a warning")
    logger.error("an error")
    written = capfd.readouterr().err
    assert "an error" in written
    assert "a warning" not in written


def test_debug_information_is_written_innermost_first(tmp_path: Path) -> None:
    def inner(context: popart.DebugContext) -> None:
        info = popart.DebugInfo(context, "test")
        info.setValue("arg", "1")

    popart.initializePoplarDebugInfo(str(tmp_path / "debug.json"))
    outer = popart.DebugInfo(popart.DebugContext("outer"), "test")
    inner(popart.DebugContext(outer, "inner"))
    del outer
    popart.closePoplarDebugInfo()
    written = json.loads((tmp_path / "debug.json").read_text(encoding="utf-8"))
    first, second = written["contexts"]
    names = [written["stringTable"][entry["name"]] for entry in (first, second)]
    assert names == ["inner", "outer"]
    assert first["parentId"] == second["id"] == 1
    assert first["arg"] == "1"
    file_name = written["stringTable"][first["location"]["fileName"]]
    assert Path(file_name).name == "test_values.py"


def test_a_name_that_is_missing_says_so() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'SesionOptions'; did you mean"):
        _ = popart.SesionOptions


def test_versions() -> None:
    assert popart.versionNumber() == (3, 4, 0)
    assert popart.versionString().startswith("3.4.0")
    assert popart.packageHash()


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("_throw_popart_error", popart.popart_exception),
        ("_throw_popart_internal_error", popart.popart_internal_exception),
        ("_throw_popart_runtime_error", popart.popart_runtime_error),
        ("_throw_poplibs_error", popart.poplibs_exception),
        ("_throw_poplar_error", popart.poplar_exception),
        ("_throw_poplar_runtime_error", popart.poplar_runtime_error),
        ("_throw_application_runtime_error", popart.poplar_application_runtime_error),
        ("_throw_system_runtime_error", popart.poplar_system_runtime_error),
        ("_throw_recoverable_runtime_error", popart.poplar_recoverable_runtime_error),
        ("_throw_unrecoverable_runtime_error", popart.poplar_unrecoverable_runtime_error),
        ("_throw_unknown_runtime_error", popart.poplar_unknown_runtime_error),
    ],
)
def test_exceptions_are_thrown_on_request(function: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="it failed") as thrown:
        getattr(popart, function)("it failed")
    assert type(thrown.value) is kind


def test_the_binding_has_the_same_objects() -> None:
    import popart_core

    assert popart_core.__all__ == popart.__all__
    assert all(getattr(popart_core, name) is getattr(popart, name) for name in popart.__all__)
