"""Keras on PyTorch, and a small machine for its models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilescope.keras import config
from tilescope.keras.config import Configured


@pytest.fixture(autouse=True)
def _small_machine() -> Iterator[None]:
    before = config.configured()
    config._current[0] = Configured(tiles_per_ipu=16)
    yield
    config._current[0] = before
