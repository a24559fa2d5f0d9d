"""Reports that the clients read: a network on one IPU and on two, a function, a pipeline."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from tests.analyser.known_changes import Pipeline, sluggish
from tests.golden.recipe import network

from tilescope import analyser, engine
from tilescope.analyser.summary.metrics import ipu_values
from tilescope.engine import compile_model, load_machine
from tilescope.engine.graph import ROOT
from tilescope.engine.library.popops.elementwise.operations import unary
from tilescope.engine.program import Call, Function, Sequence, StreamCopyIn, StreamCopyOut
from tilescope.main import main

__all__ = ["Case", "Kind", "all_cases"]

Kind: TypeAlias = Literal["network", "function", "pipeline"]
#: Rounds of the pipeline: clients look at one in the middle.
_ROUNDS = 4


@dataclass(frozen=True)
class Case:
    """A report on the disk with what ``tilescope summary`` says of it."""

    kind: Kind
    path: Path

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.kind}, {self.n_ipus} IPU{'s' * (self.n_ipus > 1)}"

    @property
    def debug_info(self) -> Path:
        """The debug contexts beside it."""
        return self.path.with_name("debug.cbor")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What ``tilescope summary --json`` prints."""
        printed = io.StringIO()
        with redirect_stdout(printed):
            assert main(["summary", str(self.path), "--json"]) == 0
        results: dict[str, Any] = json.loads(printed.getvalue())
        return results

    @property
    def memory(self) -> dict[str, Any]:
        """The memory part of the summary."""
        results: dict[str, Any] = self.summary["memory"]
        return results

    @property
    def execution(self) -> dict[str, Any]:
        """The execution part of the summary."""
        results: dict[str, Any] = self.summary["execution"]
        return results

    @property
    def n_ipus(self) -> int:
        """IPUs of the machine."""
        return int(self.summary["machine"]["n_ipus"])

    @cached_property
    def by_ipu(self) -> list[dict[str, float]]:
        """Metrics of every IPU."""
        with analyser.open(self.path) as report:
            values = ipu_values(report)
        return [
            {name: float(value[ipu] or 0) for name, value in values.items()}
            for ipu in range(self.n_ipus)
        ]


def _network(directory: Path, n_ipus: int) -> Path:
    """Write the report of a small network that ran twice on eight tiles."""
    machine = load_machine("gc200", n_ipus=n_ipus, tiles_per_ipu=8 // n_ipus)
    compiled = compile_model(network(), machine)
    options = engine.resolve_options(
        code={"autoReport.all": True, "autoReport.directory": str(directory)}
    )
    with engine.Engine(compiled.executable, options) as device:
        for _ in range(2):
            compiled.run(device, compiled.random_inputs(0))
    return directory / "profile.pop"


def _function(directory: Path) -> Path:
    """Write the report of a function that is called three times on one IPU of four tiles."""
    graph = engine.Graph(load_machine("gc200", tiles_per_ipu=4))
    x = graph.add_variable("float32", (4096,), "x")
    graph.map_linearly(x)
    body = Sequence("body")
    unary(engine.Builder(graph, body, ROOT), "exp", x)
    function = Function(body, "shared")
    program = Sequence(
        "main", [StreamCopyIn("in", x), *[Call(function)] * 3, StreamCopyOut(x, "out")]
    )
    options = engine.resolve_options(
        code={"autoReport.all": True, "autoReport.directory": str(directory)}
    )
    with engine.Engine(engine.compile_programs(graph, [program]), options) as device:
        device.connect_stream("in", np.zeros(4096, np.float32))
        device.run()
    return directory / "profile.pop"


def all_cases(folder: Path) -> tuple[Case, ...]:
    """Write the reports into a folder."""
    pipeline = Pipeline(codelet=sluggish, rounds=_ROUNDS)
    return (
        Case("network", _network(folder / "network", 1)),
        Case("function", _function(folder / "function")),
        Case("network", _network(folder / "networks", 2)),
        Case("pipeline", pipeline(folder / "pipeline")),
    )
