"""Tracepoints of PopTorch's programs: a channel of their own, models, and data loaders."""

from __future__ import annotations

import inspect
from collections import Counter
from pathlib import Path

import pytest
import torch
from tests.libpvti.traced import records, run, traces

import poptorch
from tilescope.reports import open_report

_PROGRAM = """
import torch, poptorch
from torch.utils.data import TensorDataset
model = torch.nn.Linear(4, 2)
options = poptorch.Options()
data = TensorDataset(torch.ones(6, 4))
loader = poptorch.DataLoader(options, data, batch_size=2)
channel = poptorch.profiling.Channel("MyApp")
device = poptorch.inferenceModel(model, options)
class Counter:
    def count(self):
        return 3
counter = channel.instrument(Counter(), "count")
with channel.tracepoint("epoch"):
    for batch, in loader:
        device(batch)
assert counter.count() == 3
device.destroy()
"""


@pytest.mark.slow
def test_programs_models_and_loaders_are_traced(tmp_path: Path) -> None:
    run(_PROGRAM, tmp_path, is_silent=False)
    (path,) = traces(tmp_path)
    with open_report(path) as report:
        found = records(report)
    counts = Counter((channel, label) for _, kind, channel, label in found if kind == "begin")
    assert counts["MyApp", "MyApp.epoch"] == 1
    assert counts["MyApp", "__main__.Counter.count"] == 1
    assert counts["poptorch.DataLoader", "poptorch.DataLoader.next"] == 4  # the last finds the end
    model = "poptorch.inferenceModel"
    assert counts[model, f"{model}.modelCompilation"] == 1
    assert counts[model, f"{model}.modelExecution"] == 3
    assert counts[model, "poptorch.executor.executor.PoplarExecutor.destroy"] == 1
    assert counts["Poplar", "engine.run"] == 3


def test_nothing_is_wrapped_without_a_trace() -> None:
    channel = poptorch.profiling.Channel("MyApp")
    items = [1, 2]
    assert channel.instrument(items, "append") is items
    with channel.tracepoint("epoch"):
        pass
    loader = poptorch.DataLoader(poptorch.Options(), torch.utils.data.TensorDataset(torch.ones(2)))
    assert not inspect.isgenerator(iter(loader))
