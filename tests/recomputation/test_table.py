"""The table of the page on recomputation is what the programs need now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.recomputation.measure import TABLE, measure


@pytest.mark.slow
def test_the_table_is_what_the_programs_need_now(tmp_path: Path) -> None:
    measured = json.loads(json.dumps(measure(tmp_path)))
    assert measured == json.loads(TABLE.read_text(encoding="utf-8")), (
        "run `python -m tests.recomputation` and `python docs/generate.py`"
    )


def test_what_is_alive_between_the_passes_falls_by_what_is_counted() -> None:
    kinds = json.loads(TABLE.read_text(encoding="utf-8"))["kinds"]
    falls = [
        kinds["none"][name] - kinds["standard"][name]
        for name in ("stored_bytes", "alive_at_loss_bytes")
    ]
    assert falls[0] == falls[1]
