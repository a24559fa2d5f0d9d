"""Where else a step is shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.liveness import liveness_step_ids
from tilescope.analyser.step_places import step_places


def test_places_of_every_step(tmp_path: Path) -> None:
    with analyser.open(generate_report(tmp_path, n_tiles=16, n_ipus=2, n_steps=60)) as report:
        steps = liveness_step_ids(report)
        tiles = []
        for step_id in range(60):
            found = step_places(report, step_id)
            assert found.liveness_step is None or steps[found.liveness_step] == step_id
            assert found.operation
            tiles.append(found.busiest_tile)
        busy = np.array([tile for tile in tiles if tile is not None])
        assert busy.max() < 32
        assert None in tiles
        with pytest.raises(BadQuestion, match="step 60 does not exist"):
            step_places(report, 60)
