"""BERT of two layers with values in streaming memory, in phases, in shards of two replicas."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.torch.networks import NETWORKS

from tilescope.engine import load_machine
from tilescope.engine.ir import Location, LocationRule, Locations, Model, Placement, Purpose
from tilescope.engine.session.trainer import Trainer
from tilescope.engine.training import Lamb, Sgd

#: Parts of names of nodes, by phase: words and places are in the first one.
_PHASES = {"/layers.0/": 1, "/layers.1/": 2, "/dense/": 3}


def _phased(model: Model) -> Model:
    def phase(name: str) -> int:
        return next((number for part, number in _PHASES.items() if part in name), 0)

    return replace(
        model,
        operations=tuple(
            replace(op, placement=Placement(phase=phase(op.name)))
            if op.name.startswith("/")
            else op
            for op in model.operations
        ),
    )


def _state_bytes(trainer: Trainer) -> dict[Purpose, int]:
    """Return the bytes of variables that a run begins with, by purpose."""
    variables = trainer.compiled.executable.graph.variables
    kept = [v for v in variables if v.values is not None and v.n_elements > 1]
    return {
        purpose: sum(v.n_elements * v.dtype.n_bytes for v in kept if v.purpose == purpose)
        for purpose in (Purpose.WEIGHT, Purpose.OPTIMISER_STATE)
    }


@pytest.mark.slow
def test_bert_trains_as_on_the_tiles(tmp_path: Path) -> None:
    machine = load_machine("gc200", tiles_per_ipu=32, n_ipus=2, n_replicas=2)
    bert = NETWORKS["bert"]
    model = bert.model(tmp_path / "bert.onnx", Sgd(lr=0.1))
    assert model.training is not None
    lamb = Lamb(lr=1e-2, weight_decay=0.01)
    model = replace(model, training=replace(model.training, optimiser=lamb, n_replicas=2))
    batch = {name: np.stack([array, array[::-1]]) for name, array in bert.batch().items()}
    with Trainer(model, machine) as trainer:
        losses = [trainer.step(batch)["loss"] for _ in range(3)]
        before, peak = _state_bytes(trainer), trainer.compiled.executable.memory.excluding_gaps
    off_chip = LocationRule(Location(is_off_chip=True))
    shards = LocationRule(Location(is_off_chip=True, is_sharded=True), least_sharded=1)
    kinds = {"weights": off_chip, "activations": off_chip, "optimizer-state": shards}
    with Trainer(replace(_phased(model), locations=Locations(kinds)), machine) as trainer:
        now = [trainer.step(batch)["loss"] for _ in range(3)]
        np.testing.assert_allclose(now, losses, rtol=1e-5)
        assert losses[2].mean() < losses[0].mean()
        assert set(_state_bytes(trainer).values()) == {0}
        buffers = trainer.compiled.executable.graph.remote_buffers
        n_bytes = sum(buffer.n_bytes for buffer in buffers if buffer.values is not None)
        # Half of both moments: what each of two replicas has. Shards of one element do not move.
        moments_bytes = before[Purpose.OPTIMISER_STATE] // 2 - 2 * 4
        assert n_bytes == before[Purpose.WEIGHT] + moments_bytes
        fallen = peak - trainer.compiled.executable.memory.excluding_gaps
        assert (fallen > 0).all()
