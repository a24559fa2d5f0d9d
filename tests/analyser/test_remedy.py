"""Remedies for tiles that lack memory, against figures computed on paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.analyser.small_report import Shape
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser import remedy as module
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.figures import missing_bytes
from tilescope.analyser.remedy import (
    PRESETS,
    Excess,
    FitAdvice,
    fit_advice,
    fit_verdict,
)
from tilescope.engine.machine import load_machine
from tilescope.reports import Report


def gains(found: FitAdvice) -> dict[str, int]:
    return {remedy.name: remedy.gain_bytes for remedy in found.remedies}


def test_what_lacks(variation) -> None:
    # Highest addresses 288, 264 three times, 252, 232, 112 twice; a tile has 250 bytes.
    found = fit_advice(variation(Shape(bytes_per_tile=250)))
    assert not found.fits
    assert (found.tile_id, found.before) == (0, Excess(5, 38, 38 + 3 * 14 + 2))
    # At step 3, in and act live, 128 bytes, and the weights of 320.
    assert (found.simultaneous_bytes, found.least_tiles, found.n_tiles) == (448, 2, 8)
    assert found.spare_bytes == 0


def test_gains_on_the_worst_tile(variation) -> None:
    found = fit_advice(variation(Shape(bytes_per_tile=250)))
    assert gains(found) == {
        # The weights take 20 in place of 40; at step 3, 'in' 8 in place of 16 beside act of 16.
        "half": 20 + 8,
        "ipus": 20,
        "gaps": 8,
        # Two exchanges have 3 bytes of code on every tile.
        "exchange_code": 3,
        # On tile 0, the message of step 2 takes as much as 'act' in the product, elsewhere 'act'
        # lives in the product only beside 'in'.
        "proportion": 0,
    }
    after = {remedy.name: remedy.after for remedy in found.remedies}
    assert after["half"] == Excess(1, 10, 10)
    assert after["gaps"] == Excess(4, 30, 30 + 3 * 14)
    assert after["ipus"] == Excess(1, 18, 18)
    assert after["exchange_code"] == Excess(4, 35, 35 + 3 * 11)
    assert after["proportion"] == Excess(2, 38, 40)
    assert not any(remedy.is_enough for remedy in found.remedies)


def test_what_suffices_together(variation) -> None:
    # Half weights spread over twice the IPUs leave 10 of 40 bytes, and 8 of 'in' go: 38 in all.
    found = fit_advice(variation(Shape(bytes_per_tile=250)))
    assert found.together == ("half", "ipus")
    assert not found.is_certain
    assert found.rest == Excess(0, 0, 0)
    assert fit_verdict(found) == (
        "5 of 8 tiles lack memory: 38 B on tile 0, the worst, 82 B together. What lives at one"
        " step, 448 B, needs at least 2 tiles. 'Use half precision' and 'Use more IPUs' together"
        " may make it fit."
    )
    less = fit_advice(variation(Shape(bytes_per_tile=100)))
    assert less.together == ()
    assert "together do not make it fit" in fit_verdict(less)


def test_weights_that_lie_on_one_tile_are_spread(variation) -> None:
    # Tile 0 has 80 bytes of weights, three others 40: 50 on each of the IPU's four tiles.
    found = fit_advice(variation(Shape(bytes_per_tile=300, planted_bytes=40)))
    assert found.before == Excess(1, 28, 28)
    (spread,) = [remedy for remedy in found.remedies if remedy.name == "spread"]
    assert (spread.gain_bytes, spread.after, spread.certainty) == (30, Excess(0, 0, 0), "exact")
    assert spread.is_enough
    assert spread.command == ""  # a graph of the graph API
    assert found.together == ("spread",)
    assert fit_verdict(found).endswith("'Spread always-live variables' makes it fit.")


def test_a_program_that_fits(small: Report) -> None:
    found = fit_advice(small)
    assert found.fits
    assert (found.tile_id, found.spare_bytes, found.before) == (0, 1000 - 288, Excess(0, 0, 0))
    assert fit_verdict(found).endswith("has 712 B left.")
    assert gains(found) == {"half": 28, "ipus": 20, "gaps": 8, "exchange_code": 3}


def test_a_report_without_memory(variation) -> None:
    with pytest.raises(BadQuestion, match="holds no memory"):
        fit_advice(variation(Shape(has_memory=False)))


def test_more_ipus_help_where_weights_lie_on_several(tmp_path: Path) -> None:
    path = generate_report(tmp_path / "one", n_tiles=16, n_steps=60, n_variables=30, seed=5)
    with analyser.open(path) as report:
        assert "ipus" not in gains(fit_advice(report))


def test_commands_repeat_the_run(variation, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"model_sha256": "0", "model_name": "net"}
    monkeypatch.setattr(module, "provenance", lambda _: facts)
    report = variation(Shape(bytes_per_tile=250))
    found = {one.name: one.command for one in fit_advice(report).remedies}
    base = "tilescope run net.onnx --machine small.toml --ipus 2 --tiles 4"
    assert found["half"] == f"{base} --precision half --report half"
    assert found["proportion"] == (
        f"{base} --available-memory-proportion 0.125 --report proportion"
    )
    assert found["ipus"].startswith("tilescope run net.onnx --machine small.toml --ipus 4")
    assert found["gaps"] == ""


def test_a_model_in_half_has_partial_sums_left(variation, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"model_sha256": "0", "model_name": "net", "precision": "half"}
    monkeypatch.setattr(module, "provenance", lambda _: facts)
    found = fit_advice(variation(Shape(bytes_per_tile=250)))
    (half,) = [one for one in found.remedies if one.name == "half"]
    assert (half.title, half.certainty) == ("Use half partial sums", "at most")
    assert half.command.endswith("--precision half --partials half --report half")


@pytest.mark.parametrize("n_ipus", [1, 2])
def test_more_remedies_never_take_more(tmp_path: Path, n_ipus: int) -> None:
    path = generate_report(
        tmp_path / "some", n_tiles=16, n_ipus=n_ipus, n_steps=60, n_variables=40, seed=7
    )
    with analyser.open(path) as report:
        memory = module._Memory(report, np.arange(16 * n_ipus))
        lacks = missing_bytes(report)
        assert memory.excess(()) == Excess(
            int(np.count_nonzero(lacks)), int(lacks.max()), int(lacks.sum())
        )
        for name in ("half", "gaps", "proportion", "instrumentation", "exchange_code"):
            alone, both = memory.gain((name,)), memory.gain((name, "half"))
            assert (alone >= 0).all()
            assert (both >= alone).all()
        # Spreading moves bytes; it removes none, but for what is rounded up.
        assert -16 * n_ipus <= memory.gain(("spread",)).sum() <= 0


def test_the_presets() -> None:
    for name in PRESETS:
        assert load_machine(name).tiles_per_ipu in module._WHOLE_IPUS


class FakeMemory:
    """Memory that one of some sets of remedies makes fit."""

    def __init__(self, *enough: set[str]) -> None:
        self._enough = enough

    def excess(self, names) -> Excess:
        return (
            Excess(0, 0, 0) if any(one <= set(names) for one in self._enough) else Excess(1, 8, 8)
        )


def test_gaps_are_a_remedy_only_if_nothing_else_suffices() -> None:
    names = ["gaps", "half", "spread"]
    found = module._least_set(FakeMemory({"gaps"}, {"half", "spread"}), names)  # type: ignore[arg-type]
    assert found == ("half", "spread")
    found = module._least_set(FakeMemory({"gaps", "half"}), names)  # type: ignore[arg-type]
    assert found == ("gaps", "half")
    # Of equal numbers, those whose gains are exact.
    found = module._least_set(FakeMemory({"half"}, {"spread"}), names)  # type: ignore[arg-type]
    assert found == ("spread",)
    assert module._least_set(FakeMemory(), names) == ()  # type: ignore[arg-type]
