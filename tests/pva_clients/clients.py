"""Ten public clients of libpva, and what each has to find in a report."""

from __future__ import annotations

import re
import subprocess
import unittest
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from tests.pva_clients.reports import Case, Kind
from tests.pva_clients.source import Source

import pva

__all__ = ["CLIENTS", "Client", "source_of"]

ADDONS = ("graphcore/ipu_tensorflow_addons", "6dcfc49a591a62da92e8b866458d795a957f20a6")
POPLINER = ("graphcore/popliner", "12424d684ae7fa656fab4c46c54edb112ffdeaa2")
BENCHMARKS = (
    "graphcore-research/sparsity-benchmarks",
    "bab5449f6017dba05a57cc66666dbfd462fe4dad",
)
SPLATS = ("nmjfry/ipu-3dgs", "d517743da0b23d6027901e42f436b660d51afd61")
EXAMPLES = ("graphcore/examples", "3cc8f81f13728dd8c17d0d3c8d2fc1549b159485")
TENSORFLOW = ("graphcore/tensorflow", "b2127bbabc09ef32150efdf468e3edf3c90ef460")

_POPLINER_FILES = (
    "popliner/__init__.py",
    "popliner/stage.py",
    "popliner/operation.py",
    "popliner/operation_list.py",
    "popliner/greedy_solver.py",
    "popliner/parse_args.py",
    "popliner/spreadsheet.py",
)
_REPTIL_FILES = tuple(
    f"reptil/{name}.py"
    for name in (
        "__init__",
        "_reptil",
        "_cycles",
        "_io",
        "_memory",
        "_reptil_namespace",
        "_statistics",
        "_utils",
    )
)


@dataclass(frozen=True)
class Client:
    """A file or package of a public repository.

    ``check`` runs it on a report and asserts that its figures are those of the summary. ``kinds``
    are the reports that it can read.
    """

    repository: str
    commit: str
    path: str
    check: Callable[[Source, Case], None]
    kinds: frozenset[Kind] = frozenset(("network", "function", "pipeline"))


def _agree(what: str, found: float, expected: float) -> None:
    """Assert that a figure is the one expected."""
    assert abs(found - expected) < 1e-6 * max(abs(expected), 1), f"{what}: {found}, not {expected}"


def pipeline_utilities(source: Source, case: Case) -> None:
    """Memory and cycles of layers and of pipeline stages."""
    tool = source.definitions(_PVA_UTILS)
    with pva.openReport(case.path) as report:
        ipus = range(case.n_ipus)
        code = sum(tool.get_vertex_code(report, ipu) for ipu in ipus)
        _agree("vertex code", code, case.memory["vertex_code_bytes"])
        held = sum(tool.get_total_memory(report, ipu) for ipu in ipus)
        _agree("memory", held, case.memory["total_bytes"])
        control = sum(tool.get_control_code(report, ipu) for ipu in ipus)
        _agree("control code by name", tool.get_control_code(report, 0, ""), control)
        exchange = sum(tool.get_internal_exchange_code(report, ipu) for ipu in ipus)
        by_name = tool.get_internal_exchange_code(report, 0, "")
        _agree("exchange code by name", by_name, exchange)
        if case.kind != "pipeline":
            if case.n_ipus > 1:
                return
            steps = tool.get_layer_cycle(report, "", compile_only=False)
            phases = case.execution["compute_cycles"] + case.execution["exchange_cycles"]
            _agree("cycles of layers", steps * len(report.execution.runs), phases)
            return
        # Handing over ends in a copy on the second IPU, which a round begins with.
        every = {step.program.name: step for step in report.execution.steps}
        copied = every["hand over"].ipus[1].cycles
        actual = tool.get_pipeline_stage_cycles(report, compute_cycle_only=True)
        first, second = every["stage 0"].ipus[0].cycles, every["stage 1"].ipus[1].cycles
        assert actual == [first, second + copied], actual
        full = tool.get_pipeline_stage_cycles(report, compute_cycle_only=False)
        assert len(set(full)) == 1, "IPUs meet at every exchange"
        assert full[0] > max(actual)


def popliner(source: Source, case: Case) -> None:
    """Code, state and variables of all layers on the tiles of the first IPU."""
    with source.package("", *_POPLINER_FILES) as load, _report(case) as report:
        operations = load("popliner.operation_list").OperationList(report)
        memory = load("popliner.greedy_solver").GreedySolver(operations).get_memory_for_layers()
        tiles = report.compilation.ipus[0].tiles
        for name, category in (
            ("vertex_state", "vertexInstanceState"),
            ("exchange_code", "internalExchangeCode"),
            ("vertex_code", "vertexCode"),
        ):
            held = [getattr(tile.memory.category, category).total for tile in tiles]
            assert memory[name].tolist() == held, name
        state = sum(tile.memory.category.vertexInstanceState.total for tile in tiles)
        assert int(memory["vertex_state"].sum()) == state > 0
        control = [tile.memory.category.controlCode.total for tile in tiles]
        assert (memory["control_code"] <= control).all()


def single_stage(source: Source, case: Case) -> None:
    """PopLiner's own test that it never counts more than libpva does."""
    with source.package("", *_POPLINER_FILES) as load, _report(case) as report:
        operations = load("popliner.operation_list").OperationList(report)
        actual = load("popliner.greedy_solver").GreedySolver(operations).get_memory_for_layers()
        with mock.patch.dict("sys.modules", {"pytest": mock.MagicMock()}):
            test = source.definitions("tests/test_single_stage.py")
        test.check_programs(report, actual, {})
        if case.n_ipus == 1:  # it compares with all tiles
            test.check_code_memory(report, actual, {})


def reptil(source: Source, case: Case) -> None:
    """Memory by category and cycles by type of program."""
    with source.package("ipu/reptil/src/", *_REPTIL_FILES) as load:
        tool = load("reptil").open_report(str(case.path))
        memory, execution = tool.memory, case.execution
        _agree("memory", memory.excluding_gaps.total, case.memory["total_bytes"])
        _agree("vertex code", memory.vertex.total, case.memory["vertex_code_bytes"])
        _agree("exchange code", memory.exchange.total, case.memory["exchange_code_bytes"])
        _agree("always live", memory.always_live.total, case.memory["always_live_bytes"])
        peak = case.memory["always_live_bytes"] + case.memory["peak_not_always_live_bytes"]
        _agree("peak liveness", memory.peak_liveness, peak)
        for ipu, held in enumerate(memory.excluding_gaps.ipus):
            _agree(f"memory of IPU {ipu}", held, case.by_ipu[ipu]["memory.total"])
        cycles = tool.cycles.program()
        for kind, phase in (("OnTileExecute", "compute"), ("DoExchange", "exchange")):
            _agree(kind, cycles.get(kind, 0), execution[f"tile_cycles_{phase}_cycles"])
        _agree("Sync", cycles.get("Sync", 0), execution["tile_cycles_sync_cycles"])
        assert "Total running time" in tool.summary
        assert len(tool.cycles.intervals()["stream_copies"]) > 0


def splats(source: Source, case: Case) -> None:
    """A table of steps and of runs with their phases."""
    printed = source.script("tools/read_profile.py", case.path.parent, str(case.path))
    runs = [int(actual.replace(",", "")) for actual in re.findall(r"Run \d+: ([\d,]+)", printed)]
    _agree("cycles of runs", sum(runs), case.execution["total_cycles"])
    if case.n_ipus == 1:
        totals = re.findall(r"TOTAL\s+([\d,]+)", printed)
        counted = sum(int(actual.replace(",", "")) for actual in totals)
        _agree("cycles by phase", counted, case.execution["total_cycles"])


def tutorial(source: Source, case: Case) -> None:
    """The example of the tutorial about profiling."""
    printed = source.script(
        "tutorials/tutorials/poplar/tut4_profiling/libpva/python_example.py", case.path.parent
    )
    _graph_facts(printed, case)


def _graph_facts(printed: str, case: Case) -> None:
    """Assert that compute sets and tiles are those of the summary."""
    sets = int(re.findall(r"compute sets: +(\d+)", printed)[0])
    _agree("compute sets", sets, case.summary["graph"]["compute_sets"])
    tiles = int(re.findall(r"tiles on target: +(\d+)", printed)[0])
    _agree("tiles", tiles, case.summary["machine"]["n_tiles"])
    assert case.summary["provenance"]["tilescope_version"] in printed


def walkthrough(source: Source, case: Case) -> None:
    """The walkthrough of the tutorial about libpva, with a report in place of its model's."""
    directory = case.path.parent / "walkthrough"
    training = directory / "mydirectory" / "training"
    training.mkdir(parents=True, exist_ok=True)
    (training / "profile.pop").write_bytes(case.path.read_bytes())
    with mock.patch.object(subprocess, "run"), mock.patch.dict("os.environ"):
        printed = source.script(_WALKTHROUGH, directory)
    _graph_facts(printed, case)
    assert (directory / "MemoryByTilePlot.png").stat().st_size > 0


def tensorflow_assertions(source: Source, case: Case) -> None:
    """The assertions about reports of the tests of TensorFlow for the IPU."""
    extensions = source.definitions(
        "tensorflow/python/ipu/test_utils/test_case_extensions.py"
    ).TestCaseExtensions

    class Test(extensions, unittest.TestCase):  # type: ignore[misc, valid-type]
        def assertAllInRange(self, values: Any, low: int, high: int) -> None:  # noqa: N802
            assert ((low <= np.array(values)) & (np.array(values) <= high)).all(), values

        def assertLen(self, values: Any, n: int) -> None:  # noqa: N802
            assert len(values) == n

    test, memory, execution = Test(), case.memory, case.execution
    with pva.openReport(case.path) as report:
        test.assert_total_tile_memory(report, memory["total_bytes"], tolerance=0)
        test.assert_max_tile_memory(report, memory["max_tile_bytes"], tolerance=0)
        test.assert_always_live_memory(report, memory["always_live_bytes"], tolerance=0)
        test.assert_execution_report_cycles(
            report, execution["total_cycles"], tolerance=0, expected_executions=execution["n_runs"]
        )
        test.assert_compute_io_overlap_percentage(report, -1)
        # On one track, the share of exchanges between IPUs is that of the summary.
        share = execution["global_exchange_cycles"] / execution["total_cycles"]
        test.assert_global_exchange_percentage(report, share + 1e-9)
        if share:
            with np.testing.assert_raises(AssertionError):
                test.assert_global_exchange_percentage(report, share - 1e-3)


def lstm_memory(source: Source, case: Case) -> None:
    """The memory of all tiles, as the tests of recurrent layers compare it."""
    tool = source.definitions("tensorflow/compiler/plugin/poplar/tests/lstm_test.py")
    with pva.openReport(case.path) as report:
        _agree("memory", tool._totalTileMemory(report), case.memory["total_bytes"])


def gru_memory(source: Source, case: Case) -> None:
    """The same in the tests of Keras' layers."""
    tool = source.definitions("ipu_tensorflow_addons/v1/layers/gru_training_test.py")
    with pva.openReport(case.path) as report:
        _agree("memory", tool._total_tile_memory(report), case.memory["total_bytes"])


@contextmanager
def _report(case: Case) -> Any:
    """Open a report with its debug contexts, as PopLiner does."""
    with pva.openReport(case.path, case.debug_info) as report:
        yield report


_PVA_UTILS = "ipu_tensorflow_addons/keras/experimental/auto_pipeline/utils/pva_utils.py"
_WALKTHROUGH = "tutorials/tutorials/popvision/libpva/walkthrough_code_only.py"
_LSTM = "tensorflow/compiler/plugin/poplar/tests/lstm_test.py"
CLIENTS: tuple[Client, ...] = (
    Client(*ADDONS, _PVA_UTILS, pipeline_utilities),
    Client(*POPLINER, "popliner", popliner, frozenset(("network", "function"))),
    Client(*POPLINER, "tests/test_single_stage.py", single_stage, frozenset(("network",))),
    Client(*BENCHMARKS, "ipu/reptil", reptil),
    Client(*SPLATS, "tools/read_profile.py", splats),
    Client(
        *EXAMPLES, "tutorials/tutorials/poplar/tut4_profiling/libpva/python_example.py", tutorial
    ),
    Client(*EXAMPLES, _WALKTHROUGH, walkthrough),
    Client(
        *TENSORFLOW,
        "tensorflow/python/ipu/test_utils/test_case_extensions.py",
        tensorflow_assertions,
    ),
    Client(*TENSORFLOW, _LSTM, lstm_memory),
    Client(*ADDONS, "ipu_tensorflow_addons/v1/layers/gru_training_test.py", gru_memory),
)


def source_of(client: Client, folder: Path) -> Source:
    """Return where the files of a client are."""
    return Source(client.repository, client.commit, folder)
