"""Models that are compiled after others of their name are the programs that they are alone."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.compiler.flat import flat
from tests.properties.drawn_models import models

from tilescope.engine import compile_model, load_machine
from tilescope.engine.compiler.cache import plans
from tilescope.engine.compiler.executable.executable import CompileRecord
from tilescope.engine.ir import Model


def compiled(model: Model, folder: Path) -> list[Any]:
    """Return the program of a model, with the lowered operations of a folder."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(plans, "memo_folder", lambda: folder)
        machine = load_machine("gc200", n_ipus=1, tiles_per_ipu=16)
        executable = compile_model(model, machine).executable
    return flat(replace(executable.alone, record=CompileRecord()))


@given(st.lists(models(), min_size=2, max_size=3))
def test_a_model_takes_no_operation_of_another_one(drawn: list[Model]) -> None:
    with tempfile.TemporaryDirectory() as name:
        alone = [compiled(model, Path(name) / str(i)) for i, model in enumerate(drawn)]
        after = [compiled(model, Path(name) / "shared") for model in drawn]
        again = [compiled(model, Path(name) / "shared") for model in drawn]
    assert after == alone
    assert again == alone
