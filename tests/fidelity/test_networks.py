"""Builders of whole networks, without compiling one: forms and the search for a batch."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from tests.fidelity import networks, transformers
from tests.fidelity.networks import largest_batch
from tests.fidelity.reference import all_references


@pytest.mark.parametrize("largest", [64, 90, 92, 127])
def test_the_largest_batch_is_found_in_few_steps(
    monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    """Of 16 multiples of four, four bisections leave one."""
    visited = []

    def compiled(kind: str, batch: int) -> SimpleNamespace:
        assert kind == "half"
        visited.append(batch)
        return SimpleNamespace(overfull_tiles=np.arange(batch > largest))

    monkeypatch.setattr(networks, "_compiled", compiled)
    assert largest_batch() == {"half, largest batch": largest // 4 * 4}
    assert len(visited) == 4


def test_every_form_has_a_row_beside_the_same_figure() -> None:
    figures = all_references()["C19"].figures
    assert [figure.name for figure in figures] == list(transformers._FORMS)
    assert {figure.published for figure in figures} == {664}


def test_forms_differ_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer has two normalisations and the embedding a third; casts come in pairs."""
    for name, size in (("_LAYERS", 1), ("_WORDS", 8), ("_VOCABULARY", 16)):
        monkeypatch.setattr(transformers, name, size)
    casts, functions = {}, {}
    for name, form in transformers._FORMS.items():
        model = transformers._bert(1, form)
        kinds = Counter(node.source for node in model.operations)
        casts[name.removeprefix("half, batch 1").removeprefix(", ")] = kinds["Cast"] - 1
        functions[form.gelu] = kinds["Erf"], kinds["Tanh"]
        wide = {node.operand(0).dtype for node in model.operations if node.source == "Softmax"}
        assert wide == {"float32" if "softmax" in form.float_kinds else "float16"}
    assert functions == {"erf": (1, 0), "tanh": (0, 1)}
    assert casts == {
        "": 0,
        "a share of 0.4": 0,
        "32 I/O tiles": 0,
        "normalisation in float": 6,
        "softmax in float": 2,
        "GELU by tanh in float": 2,
        "GELU taken apart": 0,
        "as in the example": 8,
    }
