"""Options of public programs, current and earlier releases: none of them ends a program."""

from __future__ import annotations

import json

import pytest

from tilescope.engine.errors import BadOption
from tilescope.engine.options import resolve
from tilescope.engine.options.catalogue import OPTIONS

#: Options as public programs set them, by where they stand.
PROGRAMS: dict[str, dict[str, object]] = {
    "graphcore/examples, ResNet on several pods": {
        "target.gatewayMode": "true",
        "target.syncReplicasIndependently": "true",
        "target.hostSyncTimeout": "900",
        "target.maxStreamCallbackThreadsPerNumaNode": "auto",
    },
    "a script for POD128": {
        "target.gatewayMode": "true",
        "target.syncReplicasIndependently": "true",
        "target.hostSyncTimeout": "600",
    },
    "a training script of SDK 2.4": {
        "autoReport.all": "true",
        "autoReport.directory": "./reports",
        "autoReport.streamAtEachRun": "false",
    },
    "verilator's back end for Poplar": {
        "autoReport.all": "true",
        "autoReport.streamAtEachRun": "false",
        "autoReport.directory": "./poplar_report",
    },
    "a launch script with a number": {
        "opt.enableMultiAccessCopies": "false",
        "target.hostSyncTimeout": 900,
    },
    "poplibs, tools/convolution_layer": {
        "target.textSectionSizeInBytes": "0x6000",
        "target.workerStackSizeInBytes": "0x200",
        "target.supervisorStackSizeInBytes": "0x80",
    },
    "poplibs, tests of casts": {
        "target.workerStackSizeInBytes": "0x8000",
        "debug.allowOutOfMemory": "true",
        "debug.executionProfile": "compute_sets",
        "prng.enable": "true",
        "prng.seed": "42",
    },
    "poplibs, tools/general_matrix_multiply": {
        "target.textSectionSizeInBytes": "0xe000",
        "target.workerStackSizeInBytes": "0x180",
    },
    "tensorflow, IPU back end": {
        "target.textSectionSizeInBytes": "0xa000",
        "target.workerStackSizeInBytes": "0x400",
    },
    "gbp-poplar": {
        "debug.instrumentCompute": "true",
        "debug.computeInstrumentationLevel": "tile",
        "target.workerStackSizeInBytes": "4096",
    },
    "poplar-api, RuntimeOptions": {
        "target.syncMethod": "polling",
        "target.syncPollPeriodUs": "0",
        "target.exceptionPollPeriodUs": "250000",
        "streamCallbacks.multiThreadMode": "collaborative",
        "streamCallbacks.numWorkerThreads": "auto",
        "streamCallbacks.maxLookahead": "unlimited",
    },
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_options_of_a_public_program_are_taken(program: str) -> None:
    value = PROGRAMS[program]
    options = resolve(environ={"POPLAR_ENGINE_OPTIONS": json.dumps(value)})
    recorded = {record.name for record in options.records()}
    for name in value:
        assert (OPTIONS[name].successor or name) in recorded


@pytest.mark.parametrize(
    ("text", "value"), [("0x200", 512), ("0X1f", 31), ("512", 512), (" 7 ", 7)]
)
def test_integers_are_decimal_or_hexadecimal(text: str, value: int) -> None:
    options = resolve(environ={}, code={"debug.workerStackSizeInBytes": text})
    assert options.count("debug.workerStackSizeInBytes") == value


@pytest.mark.parametrize(
    "text", ["0x", "0x1g", "x10", "-0x1", "0x" + "f" * 16, "0x" + "f" * 17, "auto"]
)
def test_other_integers_are_refused(text: str) -> None:
    with pytest.raises(BadOption, match="expected an integer from 0, decimal or hexadecimal"):
        resolve(environ={}, code={"prng.seed": text})


def test_an_earlier_name_sets_its_successor() -> None:
    options = resolve(environ={}, code={"target.workerStackSizeInBytes": "0x400"})
    assert options.count("debug.workerStackSizeInBytes") == 1024
    both = {"target.workerStackSizeInBytes": 1, "debug.workerStackSizeInBytes": 1}
    with pytest.raises(BadOption, match="are one option under two names; remove the first"):
        resolve(environ={}, code=both)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("autoReport.directoryName", "did you mean 'autoReport.directory'?"),
        ("autoreport.all", "did you mean 'autoReport.all'?"),
        ("directory", "did you mean 'autoReport.directory'?"),
        ("target.streamAtEachRun", "did you mean 'autoReport.streamAtEachRun'?"),
        ("banana", "the page Engine options lists all known ones"),
        ("target.frobnicate", "the page Engine options lists all known ones"),
        ("x" * 1000, "the page Engine options lists all known ones"),
    ],
)
def test_a_hint_is_given_only_where_a_key_is_near(key: str, hint: str) -> None:
    with pytest.raises(BadOption) as error:
        resolve(environ={}, code={key: "true"})
    assert str(error.value).endswith(f"; {hint}")


def test_options_of_a_run_take_precedence() -> None:
    environ = {
        "POPLAR_ENGINE_OPTIONS": '{"target.syncMethod": "hybrid", "target.hostSyncTimeout": "5"}',
        "POPLAR_RUNTIME_OPTIONS": '{"target.syncMethod": "polling"}',
    }
    options = resolve(environ=environ)
    assert options.text("target.syncMethod") == "polling"
    assert options.real("target.hostSyncTimeout") == 5
    with pytest.raises(BadOption, match="POPLAR_RUNTIME_OPTIONS is not valid JSON"):
        resolve(environ={"POPLAR_RUNTIME_OPTIONS": "{"})
