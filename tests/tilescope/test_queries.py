"""The query commands: output, JSON and exit codes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilescope.analyser.advice.trust import NOT_IN_CORPUS
from tilescope.analyser.summary.metrics import METRICS
from tilescope.corpus_trust import packaged_trust

Run = Callable[..., Any]


def test_summary(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("summary", reports_directory / "baseline")
    assert (finished.code, finished.err) == (0, "")
    lines = [line.split() for line in finished.out.splitlines()]
    assert ["Cycles", "970", "cycles"] in lines
    assert ["Fullest", "tile", "280", "B"] in lines
    assert ["autoReport.all", "true", "environment", "yes"] in lines
    assert "\x1b" not in finished.out
    assert all(line == line.rstrip() for line in finished.out.splitlines())


def test_summary_in_other_units(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("summary", reports_directory / "baseline", "--units", "bytes")
    assert "1,776 B" in finished.out
    assert "KiB" not in finished.out


def test_summary_json(tilescope: Run, reports_directory: Path) -> None:
    actual = tilescope("summary", reports_directory / "baseline", "--json").json()
    assert actual["is_complete"] is True
    assert actual["machine"]["tile_memory_bytes"] == 1000
    assert actual["memory"]["max_tile_bytes"] == 280
    assert actual["execution"]["total_cycles"] == 970
    assert actual["provenance"]["seed"] == "1"
    assert actual["options"][0]["origin"] == "environment"
    assert actual["notices"][0]["code"] == "no_effect"
    assert list(actual["metrics"]) == list(METRICS)
    assert actual["metrics"]["cycles.total"] == 970


def test_memory(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope(
        "memory", reports_directory / "baseline", "--tile", 0, "--tile", 5, "--variables"
    )
    lines = [line.split() for line in finished.out.splitlines()]
    assert ["Memory", "including", "gaps", "288", "B", "232", "B"] in lines
    assert ["weights", "float32", "0x190", "40", "B", "non-interleaved", "always"] in lines


def test_memory_lists_what_is_on_tiles(tilescope: Run, reports_directory: Path) -> None:
    path = reports_directory / "baseline"
    finished = tilescope("memory", path, "--list", "compute-sets", "--tile", 0, "--search", "relu")
    lines = [line.split() for line in finished.out.splitlines()]
    assert lines[1:] == [["layer1/relu", "6", "B", "40", "B", "1", "1", "1", "5"]]
    actual = tilescope("memory", path, "--list", "vertices", "--json").json()
    assert [row["code_bytes"] for row in actual["rows"]] == [720, 320]
    actual = tilescope("memory", path, "--list", "exchanges", "--json").json()
    assert [row["step_id"] for row in actual["rows"]] == [2, 4, 0]
    finished = tilescope("memory", path, "--list", "addresses", "--tile", 0)
    assert ["400", "40", "B", "constant", "weights"] in [
        line.split() for line in finished.out.splitlines()
    ]
    refused = tilescope("memory", path, "--list", "addresses")
    assert refused.code == 2
    assert "exactly one --tile" in refused.err
    refused = tilescope("memory", path, "--search", "relu")
    assert "--search requires --list" in refused.err


def test_a_program_has_its_code_by_kind_and_its_slowest_tiles(
    tilescope: Run, reports_directory: Path
) -> None:
    path = reports_directory / "baseline"
    actual = tilescope("programs", path, "--node", 4, "--json").json()
    assert actual["code"] == {"exchange_bytes": 0, "control_bytes": 8, "vertex_bytes": 720}
    cycles = [tile["cycles"] for tile in actual["slowest_tiles"]]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[0] == 200


def test_memory_json(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope(
        "memory", reports_directory / "baseline", "--json", "--breakdown", "category", "--tile", 4,
        "--variables", "--include-gaps",
    )  # fmt: skip
    actual = finished.json()
    rows = {row["key"]: row for row in actual["rows"]}
    assert actual["columns"] == ["Tile 4"]
    assert rows["excluding_gaps"]["bytes"] == [248]
    assert actual["tiles"]["total_bytes"] == [288, 264, 264, 264, 252, 232, 112, 112]
    assert actual["tiles"]["series_bytes"]["Gaps"][4] == 4
    assert actual["largest_tiles"]["tile_id"][0] == 0
    assert actual["variables"][0]["name"] == ["layer1/conv/exchange", "weights"]
    assert actual["capacity_bytes"] == 1000


def test_insights(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("insights", reports_directory / "baseline")
    assert finished.out.startswith(
        "It fits: the fullest tile holds 280 B of 1,000 B (28.00 %), all tiles"
    )
    lines = [line.split() for line in finished.out.splitlines()]
    assert ["0", "0", "288", "B", "280", "B"] in [line[:6] for line in lines]
    assert ["layer1/conv/exchange", "24", "B"] in lines
    assert "Use half precision: Every float32 variable takes half of its bytes" in finished.out
    assert "Tile 0 then holds 28 B less, if operations keep their plans." in finished.out


def test_insights_json(tilescope: Run, reports_directory: Path) -> None:
    actual = tilescope("insights", reports_directory / "baseline", "--json").json()
    assert actual["fits"] is True
    assert actual["fit"]["total_bytes"] == 1776
    assert [tile["tile_id"] for tile in actual["fullest_tiles"]] == [0, 1, 2, 3, 4]
    assert sum(actual["histogram"]["n_tiles"]) == 8
    assert actual["peak"]["step"] == 2
    assert actual["peak"]["variables"]["name"] == ["in", "layer1/conv/exchange"]
    assert [tip["saving_bytes"] for tip in actual["tips"]] == [28]


def test_liveness(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("liveness", reports_directory / "baseline", "--top", 1)
    assert "Peak at step 3, OnTileExecute (layer1/conv): 128 B" in finished.out
    lines = [line.split() for line in finished.out.splitlines()]
    # Its lifetime is [0, 4): the last step at which it is live is 3.
    assert ["in", "16", "float32", "64", "B", "0", "to", "3"] in lines
    assert ["1", "more", "64", "B"] in lines


def test_liveness_json(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope(
        "liveness", reports_directory / "baseline", "--json", "--tile", 0, "--step", 2
    )
    actual = finished.json()
    assert actual["source"] == "tile:0"
    assert actual["steps"]["not_always_live_bytes"] == [16, 16, 32, 32, 16, 16, 16]
    assert actual["steps"]["kind"][1] == "Sync"
    assert actual["step_variables"]["bytes"] == [16, 16]
    assert sum(actual["always_live_variables"]["bytes"]) == actual["always_live_bytes"] == 232


def test_programs(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("programs", reports_directory / "baseline", "--depth", 1, "--limit", 5)
    assert "    Repeat (loop) 3× (Id: 5)" not in finished.out
    assert "    … 6 nested" in finished.out
    deeper = tilescope("programs", reports_directory / "baseline", "--depth", 2, "--limit", 5)
    assert "    Repeat (loop) 3× (Id: 5)" in deeper.out
    assert "    … 1 more" in deeper.out


def test_programs_json(tilescope: Run, reports_directory: Path) -> None:
    (root, function) = tilescope("programs", reports_directory / "baseline", "--json").json()[
        "roots"
    ]
    assert root["label"] == "Sequence (main)"
    assert root["children"][4]["children"][1]["phase"] == "compute"
    assert function["root_kind"] == "function"
    actual = tilescope(
        "programs", reports_directory / "baseline", "--json", "--search", "relu"
    ).json()
    assert actual["n_matches"] == 2
    assert actual["matches"][0]["ancestors"] == [0, 5]
    node = tilescope("programs", reports_directory / "baseline", "--json", "--node", 7).json()
    assert [cost["n_executions"] for cost in node["costs"]] == [6, 6]
    assert node["vertices"][0]["vertex_type"] == "relu<half>"


def test_programs_node(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("programs", reports_directory / "baseline", "--node", 7)
    assert "    OnTileExecute (layer1/relu) (Id: 7)" in finished.out
    assert "Created by library poplin.convolution layer1/conv" in finished.out


@pytest.mark.parametrize("command", ["summary", "memory", "liveness", "programs", "ops"])
def test_names_of_a_report_cannot_drive_a_terminal(
    tilescope: Run, reports_directory: Path, command: str
) -> None:
    finished = tilescope(command, reports_directory / "hostile")
    assert finished.code == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(finished.out)
    as_json = tilescope(command, reports_directory / "hostile", "--json")
    assert as_json.out.isascii()


@pytest.mark.parametrize("command", ["summary", "memory", "liveness", "programs", "ops"])
def test_a_report_is_not_touched(tilescope: Run, reports_directory: Path, command: str) -> None:
    path = reports_directory / "baseline" / "profile.pop"
    before = (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns)
    assert tilescope(command, path).code == 0
    assert (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) == before
    assert [file.name for file in path.parent.iterdir()] == ["profile.pop"]


def test_an_incomplete_report_is_read_and_said_so(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("summary", reports_directory / "incomplete")
    assert finished.code == 0
    assert "The run ended early" in finished.out
    assert "Last milestone: run." in finished.out
    assert "The run ended early" in finished.err
    finished = tilescope("summary", reports_directory / "incomplete", "--json")
    answer = finished.json()
    assert (answer["is_complete"], answer["state"]["state"]) == (False, "ended early")
    assert (answer["newer_run"], finished.err) == (None, "")


def test_ops(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("ops", reports_directory / "baseline")
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.startswith(
        "1 library call takes 580 of 970 cycles (59.8%) in 2 recorded runs;"
    )
    lines = [line.split() for line in finished.out.splitlines()]
    call = ["layer1/conv", "poplin.convolution", "580", "59.8%"]
    assert call in [line[:4] for line in lines]
    assert ["poplin.convolution", "1", "580", "59.8%"] in [line[:4] for line in lines]
    node = tilescope("ops", reports_directory / "baseline", "--layer", "model")
    assert ["layer1", "Conv", "580"] in [line.split()[:3] for line in node.out.splitlines()]
    error = packaged_trust().kinds
    convolutions = next(k for k in error if (k.kind, k.machine) == ("convolutions", "gc200"))
    for out in (finished.out, node.out):
        assert any(line.endswith(convolutions.cycles) for line in out.splitlines())
        assert f"(table {packaged_trust().version})" in out
    step = tilescope("ops", reports_directory / "baseline", "--layer", "step")
    assert any(line.endswith(NOT_IN_CORPUS) for line in step.out.splitlines())


def test_ops_json(tilescope: Run, reports_directory: Path) -> None:
    actual = tilescope("ops", reports_directory / "baseline", "--json").json()
    assert (actual["layer"], actual["total_cycles"], actual["n_runs"]) == ("library", 970, 2)
    (call,) = actual["operations"]
    assert (call["cycles"], call["code_bytes"]) == (580, 16)
    assert actual["kinds"][0]["n_operations"] == 1
    assert list(actual["trust"]["expected_errors"]) == ["poplin.convolution"]
    assert "IPU Model of GC200" in actual["trust"]["notes"][0]


def test_ops_plan(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope(
        "ops", reports_directory / "baseline", "--plan", "layer1", "--units", "bytes"
    )
    assert (finished.code, finished.err) == (0, "")
    lines = [line.split() for line in finished.out.splitlines()]
    assert ["Split", "rows", "6"] in lines
    assert ["Asked", "for", "by", "Conv", "node", "layer1"] in lines
    assert ["compute", "190", "200", "+5.3%"] in lines
    assert ["exchange", "20", "–"] in lines
    assert ["What", "was", "predicted", "210", "200", "-4.8%"] in lines
    assert "0.25 of a tile is available, that is 250 B" in finished.out
    assert "none was left" in finished.out


def test_ops_plan_json(tilescope: Run, reports_directory: Path) -> None:
    actual = tilescope(
        "ops", reports_directory / "baseline", "--plan", "layer1/conv", "--json"
    ).json()
    assert actual["plan"]["split"] == {"rows": 6, "inputs": 1}
    assert actual["asked_by"] == {"name": "layer1", "operation": "Conv"}
    assert actual["parts"][0] == {
        "part": "compute",
        "predicted_cycles": 190,
        "compiled_cycles": 200,
        "is_exchange": False,
    }


def test_an_unknown_plan_is_one_sentence(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("ops", reports_directory / "baseline", "--plan", "layr1\x1b[2J")
    assert (finished.code, finished.out) == (2, "")
    assert "the nearest names are 'layer1/conv'" in finished.err
    assert "\x1b" not in finished.err
    assert len(finished.err.splitlines()) == 1


def test_diff_of_the_same_data(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("diff", reports_directory / "baseline", reports_directory / "same")
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.splitlines()[-1] == "The two reports hold identical data."


def test_diff(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("diff", reports_directory / "baseline", reports_directory / "slower")
    assert finished.code == 0
    lines = [line.split() for line in finished.out.splitlines()]
    assert ["layer1/conv", "OnTileExecute", "200", "260", "+60", "changed"] in lines
    assert ["bias", "constant", "–", "16", "B", "+16", "B", "added"] in lines
    assert "Cycles change by +60 cycles (+12.37 %)" in finished.out


def test_diff_json(tilescope: Run, reports_directory: Path) -> None:
    actual = tilescope(
        "diff", reports_directory / "baseline", reports_directory / "slower", "--json",
        "--fail-on", "cycles.total:+0%",
    ).json()  # fmt: skip
    assert actual["is_identical"] is False
    assert actual["metrics"]["cycles.total"]["delta"] == 60
    assert actual["metrics"]["cycles.total"]["verdict"] == "worse"
    assert actual["steps"]["changed"][0]["delta_cycles"] == 60
    assert actual["variables"]["added"][0]["candidate"]["bytes"] == 16
    assert actual["tiles"]["delta_bytes"] == [16, 0, 0, 0, 0, 0, 0, 0]
    assert actual["gates"][0]["status"] == "failed"


@pytest.mark.parametrize(
    ("candidate", "gates", "code"),
    [
        ("same", ["cycles.total:+0%", "memory.max_tile:+0B"], 0),
        ("slower", ["cycles.total:+13%"], 0),
        ("slower", ["cycles.total:+0%"], 1),
        ("slower", ["cycles.total:+13%", "memory.max_tile:+0B"], 1),
        ("no_runs", ["cycles.total:+0%"], 3),
        ("no_runs", ["memory.max_tile:+0B"], 0),
        ("slower", ["cycles.totl:+0%"], 2),
        ("slower", ["cycles.total"], 2),
    ],
)
def test_gates_decide_the_exit_code(
    tilescope: Run, reports_directory: Path, candidate: str, gates: list[str], code: int
) -> None:
    options = [part for gate in gates for part in ("--fail-on", gate)]
    finished = tilescope(
        "diff", reports_directory / "baseline", reports_directory / candidate, *options
    )
    assert finished.code == code
    if code == 2:
        assert len(finished.err.splitlines()) == 1
        assert "cycles.total" in finished.err


def test_a_gate_mentions_data_dependent_cycles(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope(
        "diff", reports_directory / "baseline", reports_directory / "depends",
        "--fail-on", "cycles.total:+0%",
    )  # fmt: skip
    assert finished.code == 0
    assert "These cycles are data-dependent." in finished.out


def test_the_summary_has_a_table_by_ipu(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("summary", reports_directory / "baseline")
    lines = [line.split() for line in finished.out.splitlines()]
    # Cycles, compute and exchange of two runs; memory, fullest tile.
    assert ["1", "880", "480", "80", "0", "704", "B", "248", "B", "68.75", "%"] in lines
    actual = tilescope("summary", reports_directory / "baseline", "--json").json()
    assert actual["metrics_by_ipu"]["cycles.total"] == [970, 880]
    assert sum(actual["metrics_by_ipu"]["memory.total"]) == actual["metrics"]["memory.total"]


def test_insights_for_time(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("insights", reports_directory / "baseline")
    assert "1. I/O not overlapped: I/O" in finished.out
    assert "Costs 400 cycles, gains up to 150 (15.46 %)" in finished.out
    assert finished.out.count("Expected error of convolutions: cycles ") == 1
    assert f"(table {packaged_trust().version})" in finished.out
    actual = tilescope("insights", reports_directory / "baseline", "--json").json()
    assert actual["shortfall"] is None
    errors = {row["subject"]: row["expected_error"] for row in actual["ranked"]}
    assert errors["layer1/conv"].startswith("convolutions: cycles ")
    assert errors["I/O"] == NOT_IN_CORPUS
    # Of the exchanges, 20 and three times 5 cycles in each of two runs, 48 bytes over four tiles at
    # 4 bytes a cycle would take 3.
    gains = [300, 150, 40 - 2 * 3, 30 - 6 * 3]
    assert [row["gain_cycles"] for row in actual["time"]["insights"]] == gains


def test_why_an_operation_takes_its_time(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("ops", reports_directory / "baseline", "--why", "layer1/conv")
    assert finished.out.startswith("layer1/conv takes 580 cycles (59.79 % of the time), 1.3 times")
    lines = [line.split() for line in finished.out.splitlines()]
    assert ["Imbalance", "0", "150", "150"] in lines
    assert ["0", "580", "1.35"] in lines
    assert "Runner-up: none was left." in finished.out
    assert "Even out the work" in finished.out
    actual = tilescope(
        "ops", reports_directory / "baseline", "--why", "layer1/conv", "--json"
    ).json()
    assert (actual["ideal_cycles"], actual["actual_cycles"]) == (430, 580)
    assert actual["slowest_tiles"][0]["tile_id"] == 0
    failed = tilescope("ops", reports_directory / "baseline", "--why", "conf")
    assert failed.code == 2
    assert "unknown operation 'conf'" in failed.err
    failed = tilescope("ops", reports_directory / "baseline", "--why", "x", "--run", 0)
    assert failed.code == 2


def test_what_makes_it_fit(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("fit", reports_directory / "too_large")
    assert finished.out.startswith(
        "5 of 8 tiles lack memory: 38 B on tile 0, the worst, 82 B together"
    )
    lines = [line.split() for line in finished.out.splitlines()]
    half = ["Use", "half", "precision", "28", "B", "estimate", "1", "10", "B", "10", "B"]
    assert half in lines
    actual = tilescope("fit", reports_directory / "too_large", "--json").json()
    assert actual["fits"] is False
    assert actual["before"] == {"n_tiles": 5, "worst_bytes": 38, "total_bytes": 82}
    assert actual["together"] == ["half", "ipus"]
    assert actual["remedies"][0]["name"] == "half"
    fits = tilescope("fit", reports_directory / "baseline")
    assert fits.out.startswith("It fits: the tile with the highest address has 712 B left.")
    assert tilescope("fit", reports_directory / "no_memory").code == 2


def test_ledger(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("ledger", reports_directory / "baseline", "--top", 1)
    assert finished.out.startswith("7,760 tile-cycles: 970 cycles in 2 recorded runs on 8 tiles.")
    lines = [line.split() for line in finished.out.splitlines()]
    # Of 3,880 tile-cycles of a run, 1,520 compute.
    assert ["Useful", "compute", "39.18", "%", "█" * 24, "3,040", "–"] in lines
    assert ["Imbalance", "15.46", "%", "█" * 9, "1,200", "≤", "150"] in lines
    assert ["in", "0", "20.62", "%"] in lines
    actual = tilescope("ledger", reports_directory / "baseline", "--json").json()
    assert sum(entry["tile_cycles"] for entry in actual["entries"]) == actual["total_tile_cycles"]
    assert actual["entries"][1]["causes"][0]["subject"] == "layer1/conv"
    single = tilescope("ledger", reports_directory / "baseline", "--run", 0, "--json").json()
    assert single["total_tile_cycles"] == 3880


def test_ledgers_of_two_reports(tilescope: Run, reports_directory: Path) -> None:
    paths = [reports_directory / name for name in ("baseline", "slower")]
    finished = tilescope("ledger", *paths)
    assert finished.out.startswith("Cycles of a run, mean over its tiles: baseline 485, candidate")
    actual = tilescope("ledger", *paths, "--json").json()
    totals = [
        actual[side]["total_cycles"] / actual[side]["n_runs"] for side in ("baseline", "candidate")
    ]
    changes = sum(change["delta_cycles"] for change in actual["changes"])
    assert abs(changes - (totals[1] - totals[0])) < 1e-6
    sizes = [abs(change["delta_cycles"]) for change in actual["changes"]]
    assert sizes == sorted(sizes, reverse=True)


def test_a_map_of_the_tiles(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("memory", reports_directory / "baseline", "--map", "message", "--ipu", 0)
    # Tile 0 holds a message, tiles 1 to 3 none; below them there are no tiles.
    assert finished.out.splitlines()[2:6] == [
        "IPU 0, a column of characters per column of tiles",
        "  0 @ ",
        "  1   ",
        "  2 __",
    ]
    actual = tilescope("memory", reports_directory / "baseline", "--map", "total", "--json").json()
    assert actual["ipus"][1]["bytes"][:2] == [[248, 232], [112, 112]]


def test_memory_in_hardware_order(tilescope: Run, reports_directory: Path) -> None:
    actual = tilescope(
        "memory", reports_directory / "baseline", "--json", "--order", "hardware", "--ipu", 0
    ).json()
    assert actual["tiles"]["tile_id"] == [0, 2, 1, 3]
    assert actual["tiles"]["total_bytes"] == [280, 264, 264, 264]
    assert actual["columns"] == ["IPU 0"]


@pytest.mark.parametrize("command", ["exchange", "variables", "tile"])
def test_hostile_names_in_new_commands(
    tilescope: Run, reports_directory: Path, command: str
) -> None:
    rest = (0,) if command == "tile" else ()
    finished = tilescope(command, reports_directory / "hostile", *rest)
    assert finished.code == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(finished.out)
    assert tilescope(command, reports_directory / "hostile", *rest, "--json").out.isascii()


def test_tile_shows_its_memory_over_time(tilescope: Run, reports_directory: Path) -> None:
    small = reports_directory / "baseline"
    actual = tilescope("tile", small, 0, "--map", "--step", "2", "--json").json()
    blocks = actual["blocks"]
    assert sorted(zip(blocks["name"], blocks["offset_bytes"], strict=True)) == [
        ("act", 16), ("in", 0), ("layer1/conv/exchange", 32), ("weights", 400),
    ]  # fmt: skip
    assert (actual["step"], actual["live_bytes"]) == (2, 192 + 40 + 32)
    assert [(gap["offset_bytes"], gap["bytes"]) for gap in actual["gaps"]] == [(16, 16), (48, 352)]
    text = tilescope("tile", small, 0, "--map").out
    assert "at liveness step 2: 264 B live in 3 of 4 blocks, 368 B in 2 gaps" in text
    assert "0x30  352 B  layer1/conv/exchange  weights" in text
    problem = tilescope("tile", small, 0, "--step", "2")
    assert problem.code == 2
    assert "--step requires --map" in problem.err
