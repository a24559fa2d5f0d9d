"""Expected errors of operations: kinds of calls, machines without figures, other tables."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from tests.analyser.small_report import Shape, write_small_report

from tilescope import analyser
from tilescope.analyser.advice.trust import (
    CALLS,
    NOT_IN_CORPUS,
    KindTrust,
    ReportTrust,
    Trust,
    kind_of,
    report_trust,
)
from tilescope.analyser.program.operations import operations
from tilescope.corpus_trust import packaged_trust

ROOT = Path(__file__).parents[2]
TRUST = Trust(
    "0123abcd",
    (
        KindTrust("convolutions", "gc2", "±40 %", "±41 %", 3),
        KindTrust("convolutions", "gc200", "±7 %", "±9 %", 3),
        KindTrust("depthwise convolutions", "gc200", "factor 2.5", "±30 %", 3),
    ),
)


def trust_in(path: Path, shape: Shape, trust: Trust | None = TRUST) -> ReportTrust:
    with analyser.open(write_small_report(path, shape)) as report:
        return report_trust(report, trust)


def test_calls_and_nodes_have_kinds() -> None:
    assert kind_of("poplin.matMul") == kind_of("Gemm") == "products"
    assert kind_of("popops.reduce") == kind_of("ReduceMean") == "reductions"
    assert kind_of("popnn.gruFwd") == kind_of("LSTM") == "recurrent layers"
    assert kind_of("popops.map") == kind_of("Softmax") == ""


@pytest.mark.parametrize(
    ("detail", "kind"),
    [
        ('{"groups": 1}', "convolutions"),
        ('{"groups": 32}', "depthwise convolutions"),
        ('{"attributes": {"group": 32}}', "depthwise convolutions"),
        ('{"groups": "many"}', "convolutions"),
        ("[1]", "convolutions"),
        ("no JSON", "convolutions"),
        ("", "convolutions"),
    ],
)
def test_a_convolution_in_groups_is_of_another_kind(detail: str, kind: str) -> None:
    assert kind_of("poplin.convolution", detail) == kind
    assert kind_of("poplin.matMul", detail) == "products"


def test_every_kind_is_in_the_packaged_table_and_every_call_exists() -> None:
    kinds = {kind.kind for kind in packaged_trust().kinds}
    assert {*CALLS, "depthwise convolutions"} <= kinds
    for call in (call for calls in CALLS.values() for call in calls):
        room, _, name = call.rpartition(".")
        if not room:
            assert onnx.defs.has(call), call
            continue
        sources = (ROOT / "engine/library" / room).rglob("*.py")
        texts = "".join(path.read_text(encoding="utf-8") for path in sources)
        assert f'"{call}"' in texts or f'"{name}"' in texts, call


def test_the_table_is_that_of_the_generation(tmp_path: Path) -> None:
    first = trust_in(tmp_path / "first", Shape(architecture="ipu1"))
    assert first.short("layer1/conv") == "±40 %"
    assert "on the IPU Model of GC2 (table 0123abcd)" in first.notes[0]
    third = trust_in(tmp_path / "third", Shape(architecture="ipu21", target_name="c600"))
    assert third.text("layer1/conv") == "convolutions: cycles ±7 %, memory ±9 %"
    assert third.notes[1:] == (
        "This report is of the hardware figures of c600, for which the corpus has no figures.",
    )
    unknown = trust_in(tmp_path / "unknown", Shape(architecture="tpu"))
    assert unknown.text("layer1/conv") == NOT_IN_CORPUS
    assert unknown.notes == ("The corpus has no programs for tpu.",)


def test_a_report_of_the_machine_of_the_table_needs_no_further_note(tmp_path: Path) -> None:
    shape = Shape(target_name="gc200", parameter_set="ipu_model", fidelity_version="0123abcd")
    assert len(trust_in(tmp_path, shape).notes) == 1


def test_a_report_of_another_table_says_so(tmp_path: Path) -> None:
    shape = Shape(target_name="gc200", parameter_set="ipu_model", fidelity_version="beef0000")
    assert trust_in(tmp_path, shape).notes[1:] == ("It was made with table beef0000.",)


def test_convolutions_in_groups_have_their_own_error(tmp_path: Path) -> None:
    shape = Shape(conv_detail=json.dumps({"groups": 8}))
    assert trust_in(tmp_path, shape).short("layer1/conv") == "factor 2.5"


def test_steps_are_of_the_kind_of_their_call(tmp_path: Path) -> None:
    with analyser.open(write_small_report(tmp_path)) as report:
        trust = report_trust(report, TRUST, "step")
        listed = operations(report, "step")
        errors = {listed.by_key[key].name: trust.short(key) for key in listed.by_key}
        by_call = trust.of_calls(listed)
    assert errors["layer1/conv"] == "±7 %"
    assert errors["in"] == "–"
    assert by_call["StreamCopyMid"] == NOT_IN_CORPUS


def test_a_kind_without_whole_programs_is_unknown(tmp_path: Path) -> None:
    table = Trust("0123abcd", (KindTrust("convolutions", "gc200", "unknown", "unknown", 0),))
    text = trust_in(tmp_path, Shape(), table).text("layer1/conv")
    assert text == "convolutions: unknown, no published program is built in full"


def test_without_a_table_nothing_is_said(tmp_path: Path) -> None:
    trust = trust_in(tmp_path, Shape(), None)
    assert (trust.notes, trust.short("layer1/conv"), trust.text("layer1/conv")) == ((), "–", "–")
