"""Remedies for tiles that lack memory, against figures computed on paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.analyser.small_report import Shape
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser.advice import experiments as experiments_module
from tilescope.analyser.advice import needed_memory, remedy_command, training_sizes
from tilescope.analyser.advice import remedy as module
from tilescope.analyser.advice.experiments import experiments
from tilescope.analyser.advice.remedy import (
    Excess,
    FitAdvice,
    fit_advice,
    fit_verdict,
)
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory import uses as memory_uses
from tilescope.analyser.memory.tile_memory import largest_tiles
from tilescope.analyser.time.figures import missing_bytes
from tilescope.reports import Report, schema
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY


def state(monkeypatch: pytest.MonkeyPatch, facts: dict[str, str]) -> None:
    """Let every report state these facts."""
    for reader in (module, remedy_command, training_sizes):
        monkeypatch.setattr(reader, "provenance", lambda _: facts)


def gains(found: FitAdvice) -> dict[str, int]:
    return {remedy.name: remedy.gain_bytes for remedy in found.remedies}


def test_what_lacks(variation) -> None:
    # Highest addresses 288, 264 three times, 252, 232, 112 twice; a tile has 250 bytes.
    actual = fit_advice(variation(Shape(bytes_per_tile=250)))
    assert not actual.fits
    assert (actual.tile_id, actual.before) == (0, Excess(5, 38, 38 + 3 * 14 + 2))
    # At step 3, in and act live, 128 bytes, and the weights of 320.
    assert (actual.simultaneous_bytes, actual.least_tiles, actual.n_tiles) == (448, 2, 8)
    assert actual.spare_bytes == 0


def test_gains_on_the_worst_tile(variation) -> None:
    actual = fit_advice(variation(Shape(bytes_per_tile=250)))
    assert gains(actual) == {
        # The weights take 20 in place of 40; at step 3, 'in' 8 in place of 16 beside act of 16.
        "half": 20 + 8,
        "ipus": 20,
        # Two exchanges have 3 bytes of code on every tile.
        "exchange_code": 3,
    }
    after = {remedy.name: remedy.after for remedy in actual.remedies}
    assert after["half"] == Excess(1, 10, 10)
    assert after["ipus"] == Excess(1, 18, 18)
    assert after["exchange_code"] == Excess(4, 35, 35 + 3 * 11)
    assert not any(remedy.is_enough for remedy in actual.remedies)


def test_what_suffices_together(variation) -> None:
    # Half weights spread over twice the IPUs leave 10 of 40 bytes, and 8 of 'in' go: 38 in all.
    actual = fit_advice(variation(Shape(bytes_per_tile=250)))
    assert actual.together == ("half", "ipus")
    assert not actual.is_certain
    assert actual.rest == Excess(0, 0, 0)
    assert fit_verdict(actual) == (
        "5 of 8 tiles lack memory: 38 B on tile 0, the worst, 82 B together. Variables and"
        " constants that live at one step, 448 B, need at least 2 tiles, without any code or"
        " message. 'Use half precision' and 'Use more IPUs' together may make it fit."
    )
    less = fit_advice(variation(Shape(bytes_per_tile=100)))
    assert less.together == ()
    assert fit_verdict(less).endswith(
        "do not suffice: 147 B would still lack on the worst tile, where gaps take 8 B."
    )


def test_weights_that_lie_on_one_tile_are_spread(variation) -> None:
    # Tile 0 has 80 bytes of weights, three others 40: 50 on each of the IPU's four tiles.
    actual = fit_advice(variation(Shape(bytes_per_tile=300, planted_bytes=40)))
    assert actual.before == Excess(1, 28, 28)
    (spread,) = [remedy for remedy in actual.remedies if remedy.name == "spread"]
    assert (spread.gain_bytes, spread.after, spread.certainty) == (30, Excess(0, 0, 0), "exact")
    assert spread.is_enough
    assert spread.command == ""  # a graph of the graph API
    assert actual.together == ("spread",)
    assert fit_verdict(actual).endswith("'Spread always-live variables' makes it fit.")


def test_a_program_that_fits(small: Report) -> None:
    actual = fit_advice(small)
    assert actual.fits
    assert (actual.tile_id, actual.spare_bytes, actual.before) == (0, 1000 - 288, Excess(0, 0, 0))
    assert fit_verdict(actual).endswith("has 712 B left.")
    assert gains(actual) == {"half": 28, "ipus": 20, "exchange_code": 3}


def test_a_report_without_memory(variation) -> None:
    with pytest.raises(BadQuestion, match="holds no memory"):
        fit_advice(variation(Shape(has_memory=False)))


def test_more_ipus_help_where_weights_lie_on_several(tmp_path: Path) -> None:
    path = generate_report(tmp_path / "one", n_tiles=16, n_steps=60, n_variables=30, seed=5)
    with analyser.open(path) as report:
        assert "ipus" not in gains(fit_advice(report))


def test_commands_repeat_the_run(variation, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"model_sha256": "0", "model_name": "net"}
    state(monkeypatch, facts)
    report = variation(Shape(bytes_per_tile=250))
    results = {remedy.name: remedy.command for remedy in fit_advice(report).remedies}
    base = "tilescope run net.onnx --machine small.toml --ipus 2 --tiles 4"
    assert results["half"] == f"{base} --precision half --report half"
    together = fit_advice(report).command
    assert together == (
        "tilescope run net.onnx --machine small.toml --ipus 4 --tiles 4 --precision half"
        " --report half-ipus"
    )
    assert results["ipus"].startswith("tilescope run net.onnx --machine small.toml --ipus 4")
    assert results["exchange_code"] == ""


def test_experiments_repeat_the_run_in_half_and_on_another_machine(
    variation, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = variation(Shape())
    assert experiments(report) == ()  # a graph of the graph API
    for reader in (experiments_module, remedy_command, training_sizes):
        monkeypatch.setattr(
            reader, "provenance", lambda _: {"model_sha256": "0", "model_name": "m"}
        )
    machine = replace(target(report), name="gc200", preset_tiles_per_ipu=1472, tiles_per_ipu=64)
    for reader in (experiments_module, remedy_command):
        monkeypatch.setattr(reader, "target", lambda _: machine)
    ipus = f" --ipus {machine.n_ipus}" if machine.n_ipus > 1 else ""
    assert {one.title: one.command for one in experiments(report)} == {
        "In half precision": f"tilescope run m.onnx --machine gc200{ipus} --tiles 64"
        " --precision half --report half",
        "On bow": f"tilescope run m.onnx{ipus} --machine bow --report machine",
    }
    monkeypatch.setattr(
        experiments_module, "provenance", lambda _: {"model_sha256": "0", "precision": "half"}
    )
    assert [one.title for one in experiments(report)] == ["On bow"]


def test_a_model_in_half_is_not_made_half_again(variation, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"model_sha256": "0", "model_name": "net", "precision": "half"}
    state(monkeypatch, facts)
    actual = fit_advice(variation(Shape(bytes_per_tile=250)))
    assert "half" not in gains(actual)
    commands = [remedy.command for remedy in actual.remedies if remedy.command]
    assert all("--precision half" in command for command in commands)


@pytest.mark.parametrize("n_ipus", [1, 2])
def test_more_remedies_never_take_more(tmp_path: Path, n_ipus: int) -> None:
    path = generate_report(
        tmp_path / "some", n_tiles=16, n_ipus=n_ipus, n_steps=60, n_variables=40, seed=7
    )
    with analyser.open(path) as report:
        memory = needed_memory.Needed(report, np.arange(16 * n_ipus))
        lacks = missing_bytes(report)
        assert memory.excess(()) == Excess(
            int(np.count_nonzero(lacks)), int(lacks.max()), int(lacks.sum())
        )
        for name in ("half", "tiles", "instrumentation", "exchange_code"):
            alone, both = memory.gain((name,)), memory.gain((name, "half"))
            assert (alone >= 0).all()
            assert (both >= alone).all()
        # Spreading moves bytes; it removes none, but for what is rounded up.
        assert -16 * n_ipus <= memory.gain(("spread",)).sum() <= 0


class FakeMemory:
    """Memory that one of some sets of remedies makes fit."""

    def __init__(self, *enough: set[str]) -> None:
        self._enough = enough

    def excess(self, names) -> Excess:
        return (
            Excess(0, 0, 0) if any(item <= set(names) for item in self._enough) else Excess(1, 8, 8)
        )


def test_the_fewest_remedies_that_suffice() -> None:
    names = ["half", "spread", "ipus"]
    actual = module._least_set(FakeMemory({"half"}, {"half", "spread"}), names)  # type: ignore[arg-type]
    assert actual == ("half",)
    # Of equal numbers, those whose gains are exact.
    actual = module._least_set(FakeMemory({"half"}, {"spread"}), names)  # type: ignore[arg-type]
    assert actual == ("spread",)
    assert module._least_set(FakeMemory(), names) == ()  # type: ignore[arg-type]


def test_messages_take_half_as_their_variables_do(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {
        "variable_id": [0, 1, 2, 3, 4, 5, 6],
        "dtype": ["float32", "bool", "float16", "uint8", "uint8", "uint8", "uint8"],
        # The last message is of a report that does not say what it carries.
        "sender_id": [None, None, None, 0, 1, 2, None],
        "purpose": [None] * 7,
    }
    monkeypatch.setattr(needed_memory, "variable_columns", lambda _: columns)
    monkeypatch.setattr(needed_memory, "has_training", lambda _: False)
    actual = needed_memory._is_halved.__wrapped__(None)  # type: ignore[attr-defined]
    assert actual.tolist() == [True, False, False, True, False, False, False]


def test_fewer_tiles_than_the_preset_has(tmp_path: Path) -> None:
    path = generate_report(tmp_path / "few", n_tiles=16, n_steps=60, n_variables=30, seed=5)
    with analyser.open(path) as report:
        memory = needed_memory.Needed(report, np.arange(16))
        gain = memory.gain(("tiles",))
        highest = memory._rows["including_gaps"]
        code = np.zeros(16, np.int64)
        for name, sizes in memory._by_category.items():
            code += 0 if MEMORY_CATEGORY[name].is_variable else sizes
        # Sixteen of 1,472 tiles: all but code is divided by 92, and rounded up.
        expected = [-(-max(int(a - c), 0) // 92) for a, c in zip(highest, code, strict=True)]
        assert (np.maximum(highest - gain - code, 0) == expected).all()


def test_the_worst_tile_is_that_of_the_rankings(tmp_path: Path) -> None:
    path = generate_report(tmp_path / "some", n_tiles=64, n_steps=60, n_variables=40, seed=3)
    with analyser.open(path) as report:
        assert fit_advice(report).tile_id == largest_tiles(report, 1).tile_id[0]


@pytest.mark.parametrize(
    ("batch", "gain"), [("4", 16 + 96), ("3", 2 * 10 + 128), ("1", None), ("x", None)]
)
def test_a_smaller_batch_shrinks_what_comes_and_goes(
    variation, monkeypatch: pytest.MonkeyPatch, batch: str, gain: int | None
) -> None:
    # On tile 0, at most two variables of 16 bytes are live beside the weights: of a batch of 3, one
    # sample of each takes 6 bytes at most. Code and state take 192 bytes.
    facts = {"model_sha256": "0", "model_name": "net", "batch": batch}
    state(monkeypatch, facts)
    results = {
        remedy.name: remedy for remedy in fit_advice(variation(Shape(bytes_per_tile=250))).remedies
    }
    if gain is None:
        assert "batch" not in results
        return
    smaller = results["batch"]
    assert (smaller.gain_bytes, smaller.certainty) == (gain, "at most")
    assert smaller.title == f"Use a batch of {int(batch) // 2} in place of {batch}"
    assert f" --batch {int(batch) // 2} --report batch" in smaller.command
    assert f" --batch {batch} " in results["half"].command


def test_a_command_computes_the_batch_in_as_many_parts(
    variation, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"model_sha256": "0", "model_name": "net", "batch": "8", "batch_parts": "4"}
    state(monkeypatch, facts)
    found = {x.name: x.command for x in fit_advice(variation(Shape(bytes_per_tile=250))).remedies}
    assert " --batch 8 --batch-parts 4 " in found["half"]


def test_recomputation_leaves_what_steps_use(variation, monkeypatch: pytest.MonkeyPatch) -> None:
    def gain(streamed: list[int]) -> int | None:
        # 'in' is used at steps 0 and 1, 'act' at 3 and 6, the message at 2.
        known = tuple(map(np.array, ([0, 0, 2, 2, 3], [0, 1, 3, 6, 2], streamed)))
        for reader in (module, needed_memory, memory_uses):
            monkeypatch.setattr(reader, "uses", lambda _: known)
        report = variation(Shape(bytes_per_tile=250))
        return gains(fit_advice(report)).get("recompute")

    # Of two variables of 16 bytes that live at steps 2 and 3, one is used.
    assert gain([]) == 16
    # What the host sends lives from step 0 to 3, beside 'act'.
    assert not gain([0])
    assert gain([2]) == 16


def test_a_report_that_lacks_uses_is_not_recomputed(variation) -> None:
    assert "recompute" not in gains(fit_advice(variation(Shape(bytes_per_tile=250))))


def test_the_steps_that_use_a_variable(tmp_path: Path) -> None:
    path = generate_report(tmp_path / "one", n_tiles=16, n_steps=60, n_variables=30, seed=5)
    with analyser.open(path) as report:
        variable, step, streamed = memory_uses.uses(report)
        programs = report.array("program_variable.program_id").read().tolist()
        variables = report.array("program_variable.variable_id").read().tolist()
        leaves = report.array("liveness.program_id").read().tolist()
        kinds = dict(report.rows(schema.program, "program_id", "kind"))
    expected = sorted(
        (item, index)
        for index, leaf in enumerate(leaves)
        for program, item in zip(programs, variables, strict=True)
        if program == leaf
    )
    assert list(zip(variable.tolist(), step.tolist(), strict=True)) == expected != []
    of_streams = {
        item
        for program, item in zip(programs, variables, strict=True)
        if kinds[program].startswith("StreamCopy")
    }
    assert set(streamed.tolist()) == of_streams
