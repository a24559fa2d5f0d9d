"""A pytest plugin that writes how every test ended, and its processor time, as lines of JSON."""

from __future__ import annotations

import json
import os
import sys
import time
import types
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

#: File that the lines are appended to, by every process of the run.
_OUTCOMES = "TILESCOPE_POPART_OUTCOMES"

#: Words of sentences by which sessions refuse what they do not have.
_REFUSALS = (
    "not support",
    "There is no IR of PopART",
    "needs several IPUs",
    "No report is written",
    "is not part of this module",
)


def _restore_mapping() -> None:
    """Restore `onnx.mapping`, which PopART's tests import and ONNX had until 1.19."""
    if hasattr(onnx, "mapping"):
        return
    mapping = types.ModuleType("onnx.mapping")
    kinds = [kind for kind in onnx.TensorProto.DataType.values() if kind]
    dtypes = {kind: onnx.helper.tensor_dtype_to_np_dtype(kind) for kind in kinds}
    vars(mapping).update(
        TENSOR_TYPE_TO_NP_TYPE=dtypes,
        NP_TYPE_TO_TENSOR_TYPE={dtype: kind for kind, dtype in dtypes.items()},
    )
    vars(onnx)["mapping"] = sys.modules["onnx.mapping"] = mapping


_restore_mapping()

_times: dict[str, float] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure the processor time of a test with its fixtures."""
    start = time.process_time()
    try:
        return (yield)
    finally:
        _times[item.nodeid] = time.process_time() - start
        _write({"test": item.nodeid, "seconds": _times[item.nodeid]})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write how a test ended."""
    report = yield
    if report.when == "call" or report.outcome != "passed":
        error = "" if call.excinfo is None else f"{call.excinfo.typename}: {call.excinfo.value}"
        outcome: str = getattr(report, "told", report.outcome)
        if outcome == "failed" and any(words in error for words in _REFUSALS):
            outcome = "refused"
        _write({"test": item.nodeid, "outcome": outcome, "error": error[:400]})
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write that a file cannot be read, such as for want of a package."""
    if report.failed:
        last = [line for line in str(report.longrepr).splitlines() if line.startswith("E  ")]
        error = last[-1].removeprefix("E").strip() if last else "cannot be collected"
        _write({"test": report.nodeid, "outcome": "failed", "error": error})


def _write(line: dict[str, Any]) -> None:
    with Path(os.environ[_OUTCOMES]).open("a") as file:
        file.write(json.dumps(line) + "\n")
