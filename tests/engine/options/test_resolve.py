from __future__ import annotations

import json
import logging
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine.errors import BadOption
from tilescope.engine.options import (
    CACHE_VARIABLES,
    ENVIRONMENT_VARIABLE,
    OPTIONS,
    EngineOptions,
    Kind,
    engine_directory,
    resolve,
)
from tilescope.engine.options.patterns import PATTERNS, pattern_option


def from_environment(text: str) -> EngineOptions:
    return resolve(environ={ENVIRONMENT_VARIABLE: text})


def refused(text: str) -> str | None:
    """Return the error message for a text, or None if it is valid."""
    try:
        from_environment(text)
    except BadOption as error:
        return str(error)
    return None


def refusal(text: str) -> str:
    with pytest.raises(BadOption) as caught:
        from_environment(text)
    message = str(caught.value)
    assert "\n" not in message
    assert ENVIRONMENT_VARIABLE in message
    return message


@pytest.mark.parametrize("environ", [{}, {ENVIRONMENT_VARIABLE: ""}, {ENVIRONMENT_VARIABLE: " \n"}])
def test_without_options_no_report_is_written(environ: dict[str, str]) -> None:
    options = resolve(environ=environ)
    assert not options.writes_report
    assert not options.instrument
    assert options.allow_out_of_memory
    assert options.profiled_runs == 2
    assert options.report_directory == Path()


@pytest.mark.parametrize("true", ['"true"', "true", "1", '"1"', '"True"'])
def test_a_flag_may_be_a_string_a_boolean_or_a_number(true: str) -> None:
    options = from_environment(f'{{"autoReport.all": {true}}}')
    assert options.writes_graph_profile
    assert options.writes_execution_profile
    assert options.instrument


@pytest.mark.parametrize("five", ["5", '"5"', "5.0"])
def test_a_count_may_be_a_number_or_a_string(five: str) -> None:
    name = "autoReport.executionProfileProgramRunCount"
    assert from_environment(f'{{"{name}": {five}}}').profiled_runs == 5


def test_all_with_a_single_part_off_leaves_that_part_out() -> None:
    options = from_environment(
        '{"autoReport.all":"true","autoReport.outputExecutionProfile":"false"}'
    )
    assert options.writes_graph_profile
    assert not options.writes_execution_profile
    assert not options.instrument


def test_one_part_alone_makes_a_report() -> None:
    options = from_environment('{"autoReport.outputGraphProfile": true}')
    assert options.writes_report
    assert not options.writes_execution_profile


def test_precedence_is_environment_command_line_code_default() -> None:
    name = "autoReport.directory"
    environ = {ENVIRONMENT_VARIABLE: json.dumps({name: "from_env"})}
    values = {"command_line": {name: "from_line"}, "code": {name: "from_code"}}
    assert resolve(environ=environ, **values).text(name) == "from_env"
    assert resolve(environ={}, **values).text(name) == "from_line"
    assert resolve(environ={}, code=values["code"]).text(name) == "from_code"
    assert resolve(environ={}).text(name) == "."


def test_the_records_name_the_origin() -> None:
    options = resolve(
        environ={ENVIRONMENT_VARIABLE: '{"autoReport.all": "true"}'},
        command_line={"autoReport.directory": "here"},
        code={"debug.allowOutOfMemory": False},
    )
    rows = {row.name: (row.value, row.origin) for row in options.records()}
    assert rows == {
        "autoReport.all": ("true", "environment"),
        "autoReport.directory": ("here", "command line"),
        "autoReport.outputGraphProfile": ("true", "environment"),
        "autoReport.outputExecutionProfile": ("true", "environment"),
        "autoReport.outputDebugInfo": ("true", "environment"),
        "autoReport.executionProfileProgramRunCount": ("2", "default"),
        "debug.instrument": ("true", "environment"),
        "debug.allowOutOfMemory": ("false", "code"),
        "convolutionOptions.availableMemoryProportion": ("0.6", "default"),
        "matmulOptions.availableMemoryProportion": ("0.6", "default"),
        "enableEngineCaching": ("false", "default"),
        "cachePath": ("session_cache", "default"),
        "convolutionOptions.partialsType": ("float", "default"),
        "matmulOptions.partialsType": ("float", "default"),
        "enableOutlining": ("true", "default"),
        **{pattern_option(name): ("true", "default") for name in PATTERNS},
    }


def test_variables_for_the_executable_cache(caplog: pytest.LogCaptureFixture) -> None:
    assert resolve(environ={}).cache_directory is None
    assert resolve(environ={"POPART_CACHE_DIR": ""}).cache_directory is None
    for name in CACHE_VARIABLES:
        assert resolve(environ={name: "here"}).cache_directory == Path("here")
    both = {"POPTORCH_CACHE_DIR": "torch", "POPXL_CACHE_DIR": "popxl"}
    for _ in range(2):
        assert resolve(environ=both).cache_directory == Path("popxl")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["warning: POPTORCH_CACHE_DIR is ignored: POPXL_CACHE_DIR takes precedence"]
    line = {"enableEngineCaching": True, "cachePath": "line"}
    assert resolve(environ={}, command_line=line).cache_directory == Path("line")
    assert resolve(environ=both, command_line=line).cache_directory == Path("popxl")
    text = '{"cachePath": "options"}'
    options = resolve(environ={**both, ENVIRONMENT_VARIABLE: text})
    assert options.cache_directory == Path("options")
    assert from_environment(text).cache_directory is None
    assert from_environment('{"enableEngineCaching": true}').cache_directory == Path(
        "session_cache"
    )


def test_an_option_without_effect_warns_once_and_is_recorded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = '{"debug.branchRecordFlush": "false"}'
    with caplog.at_level(logging.WARNING):
        first, second = from_environment(text), from_environment(text)
    lines = [r.getMessage() for r in caplog.records if "debug.branchRecordFlush" in r.getMessage()]
    assert len(lines) == 1
    for options in (first, second):
        rows = [row for row in options.records() if row.name == "debug.branchRecordFlush"]
        assert [(row.value, row.origin, row.has_effect) for row in rows] == [
            ("false", "environment", False)
        ]


def test_the_warning_is_one_plain_line_on_stderr() -> None:
    program = "from engine.options import resolve; resolve(); resolve()"
    process = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[3],
        env={ENVIRONMENT_VARIABLE: '{"profiler.format": "v3", "opt.enableInlining": 1}'},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == ""
    assert process.stderr == (
        "warning: profiler.format, opt.enableInlining have no effect here;"
        " recorded in the report only\n"
    )


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("autoreport.all", "autoReport.all"),
        ("autoReport.dir", "autoReport.directory"),
        ("debug.workerStackSizeInByte", "debug.workerStackSizeInBytes"),
        ("debug.allowOutofMemory", "debug.allowOutOfMemory"),
        ("instrument", "debug.instrument"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(wrong: str, nearest: str) -> None:
    message = refusal(json.dumps({wrong: "true"}))
    assert f"'{wrong}'" in message
    assert f"'{nearest}'" in message


def test_malformed_json_is_located() -> None:
    assert "line 1, column 25" in refusal('{"autoReport.all":"true"')
    assert "column 2" in refusal("{'autoReport.all':'true'}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('["autoReport.all"]', "a list"),
        ("3", "a number"),
        ("null", "null"),
        ('{"autoReport.all": null}', "null"),
        ('{"autoReport.all": "yes"}', "'yes'"),
        ('{"autoReport.all": {"a": 1}}', "an object"),
        ('{"autoReport.all": 2}', "'2'"),
        ('{"autoReport.directory": ""}', "an empty string"),
        ('{"autoReport.directory": "a\\u0000b"}', "'a?b'"),
        ('{"autoReport.executionProfileProgramRunCount": -1}', "'-1'"),
        ('{"autoReport.executionProfileProgramRunCount": 1.5}', "'1.5'"),
        ('{"autoReport.executionProfileProgramRunCount": 1e300}', "an integer"),
        ('{"target.hostSyncTimeout": "soon"}', "'soon'"),
        ('{"debug.computeInstrumentationLevel": "core"}', "vertex or tile or ipu or device"),
        ('{"autoReport.all": NaN}', "NaN"),
        ('{"autoReport.all": "true", "autoReport.all": "false"}', "duplicate key"),
        ('{"prng.seed": ' + "9" * 5000 + "}", "too long"),
        ('{"prng.seed": "' + "9" * 5000 + '"}', "an integer"),
        ("[" * 100_000, "too deeply"),
    ],
)
def test_a_wrong_value_is_one_sentence(text: str, said: str) -> None:
    message = refusal(text)
    assert said in message
    assert len(message) < 400


@given(st.text(max_size=60))
def test_any_text_is_options_or_one_sentence(text: str) -> None:
    sentence = refused(text)
    if sentence is None:
        assert not from_environment(text).writes_report
    else:
        assert "\n" not in sentence


@given(st.dictionaries(st.sampled_from(sorted(OPTIONS)), st.text(string.printable, max_size=8)))
def test_any_known_key_is_recorded_or_refused_by_name(values: dict[str, str]) -> None:
    text = json.dumps(values)
    sentence = refused(text)
    if sentence is None:
        assert set(values) <= {row.name for row in from_environment(text).records()}
    else:
        assert any(f"'{name}'" in sentence for name in values)


def test_every_default_is_a_value_of_its_option() -> None:
    for spec in OPTIONS.values():
        if spec.default is not None:
            options = resolve(environ={}, code={spec.name: spec.default})
            assert options.value(spec.name) == spec.default
        if spec.follows is not None:
            assert OPTIONS[spec.follows].kind is Kind.FLAG


def test_a_home_directory_is_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    options = from_environment('{"autoReport.directory": "~/report"}')
    assert options.report_directory == tmp_path / "report"


def test_a_named_engine_has_its_own_folder() -> None:
    options = from_environment('{"autoReport.directory": "out"}')
    assert engine_directory(options) == Path("out")
    assert engine_directory(options, "inference") == Path("out/inference")


@given(st.text(min_size=1, max_size=200))
def test_no_name_leaves_the_folder_of_reports(name: str) -> None:
    folder = engine_directory(resolve(environ={}, code={"autoReport.directory": "out"}), name)
    assert folder.parent == Path("out")
    assert folder.name not in {"", ".", ".."}
    assert folder.name.isascii()
    assert len(folder.name) < 100


def test_names_with_equal_cleaned_forms_have_different_folders() -> None:
    options = resolve(environ={}, code={"autoReport.directory": "out"})
    folders = {engine_directory(options, name) for name in ("a b", "a/b", "a_b", "a:b")}
    assert len(folders) == 4
