"""The formats of ``tilescope diff``: each is valid, and hostile names cannot break it."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.analyser.small_report import Shape, write_small_report

Run = Callable[..., Any]

HOSTILE = (
    "a\"'<script>alert(1)</script>|\n::error::x\r\n- [x](http://e) `c` ]]>&amp;\x07\u202e"
    + "n" * 10_000
)
GATES = (
    "--fail-on", "cycles.total:+0%",
    "--fail-on", "memory.max_tile:+1KiB",
    "--fail-on", "operation.cycles@*:+0c",
    "--warn-on", "memory.total:+0B",
)  # fmt: skip


@pytest.fixture(scope="module")
def hostile_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("hostile")
    first, second = folder / "one", folder / "other"
    write_small_report(first, Shape(conv_name=HOSTILE))
    write_small_report(second, Shape(conv_name=HOSTILE, conv_tile0_cycles=260, has_bias=True))
    return first, second


def test_tables_by_everything(tilescope: Run, reports_directory: Path) -> None:
    sides = reports_directory / "baseline", reports_directory / "slower"
    names = ("operation", "layer", "variable", "tile", "category", "ipu", "step", "path")
    finished = tilescope("diff", *sides, *(part for name in names for part in ("--by", name)))
    assert finished.code == 0
    lines = [line.split() for line in finished.out.splitlines()]
    assert ["layer1/conv", "poplin.convolution", "290", "350", "+60", "changed"] in lines
    assert ["layer1", "Conv", "290", "350", "+60", "changed"] in lines
    assert ["bias", "constant", "–", "16", "B", "+16", "B", "added"] in lines
    assert ["Tile", "0", "280", "B", "296", "B", "+16", "B", "changed"] in lines
    assert ["Constants", "320", "B", "336", "B", "+16", "B", "changed"] in lines
    assert ["layer1/conv", "OnTileExecute", "200", "260", "+60", "changed"] in lines
    assert ["layer1/conv/Compute", "200", "260", "+60", "changed"] in lines
    assert ["IPU", "0", "cycles.total", "485", "545", "+60", "+12.37", "%", "changed"] in lines


def test_by_leaves_other_tables_out(tilescope: Run, reports_directory: Path) -> None:
    sides = reports_directory / "baseline", reports_directory / "slower"
    actual = tilescope("diff", *sides, "--by", "tile", "--format", "json").json()
    assert list(actual["tables"]) == ["metric", "tile"]
    assert actual["tables"]["tile"] == [
        {
            "name": "Tile 0", "detail": "", "unit": "bytes", "baseline": 280, "candidate": 296,
            "delta": 16, "verdict": "changed", "percent_of_baseline": pytest.approx(16 / 2.8),
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("smallest", "steps", "variables"),
    [
        ("60c", 1, 1), ("61c", 0, 1), ("30%", 1, 1), ("31%", 0, 1), ("17B", 1, 0),
        ("17", 1, 0), ("1KiB", 1, 0), ("61", 0, 0),
    ],
)  # fmt: skip
def test_small_changes_are_left_out(
    tilescope: Run, reports_directory: Path, smallest: str, steps: int, variables: int
) -> None:
    sides = reports_directory / "baseline", reports_directory / "slower"
    actual = tilescope("diff", *sides, "--min-change", smallest, "--json").json()["tables"]
    assert (len(actual["step"]), len(actual["variable"])) == (steps, variables)


@pytest.mark.parametrize("smallest", ["", "-1%", "+1", "1us", "x", "1e3"])
def test_a_smallest_change_that_is_none(
    tilescope: Run, reports_directory: Path, smallest: str
) -> None:
    sides = reports_directory / "baseline", reports_directory / "slower"
    finished = tilescope("diff", *sides, "--min-change", smallest)
    assert (finished.code, finished.out, len(finished.err.splitlines())) == (2, "", 1)


def test_warnings_do_not_fail(tilescope: Run, reports_directory: Path) -> None:
    sides = reports_directory / "baseline", reports_directory / "slower"
    finished = tilescope("diff", *sides, "--warn-on", "cycles.total:+0%")
    assert finished.code == 0
    assert "warned: cycles.total: 485 cycles → 545 cycles" in finished.out


def test_passes_of_a_wildcard_are_one_line(tilescope: Run, reports_directory: Path) -> None:
    sides = reports_directory / "baseline", reports_directory / "same"
    finished = tilescope("diff", *sides, "--fail-on", "cycles.*:+0%")
    assert finished.out.count("passed: ") == 1
    assert "figures are within it." in finished.out


@pytest.mark.parametrize("name", ["markdown", "json", "junit", "html", "sarif", "text"])
def test_formats_take_hostile_names(
    tilescope: Run, hostile_pair: tuple[Path, Path], name: str
) -> None:
    gate = f"operation.cycles@{HOSTILE}:+1%"
    finished = tilescope(
        "diff", *hostile_pair, *GATES, "--fail-on", gate,
        "--by", "operation", "--by", "step", "--format", name,
    )  # fmt: skip
    assert finished.code == 1, finished.err
    assert not {"\x07", "\u202e", "\x1b"} & set(finished.out)
    check: dict[str, Callable[[str], object]] = {
        "markdown": is_markdown,
        "json": json.loads,
        "junit": is_junit,
        "html": is_html,
        "sarif": is_sarif,
        "text": str,
    }
    check[name](finished.out)


def is_markdown(text: str) -> None:
    assert "<script>" not in text
    assert "](http" not in text.replace(r"\]", "")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert tables
    assert all(line.endswith(" |") for line in tables)
    assert not any(line.startswith("::") for line in text.splitlines())
    assert len(text) < 65_536, "a comment on GitHub has at most so many characters"


def is_junit(text: str) -> None:
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    (suite,) = root
    children = [child.tag for child in suite]
    assert children == [
        "properties", *["testcase"] * int(suite.attrib["tests"]), "system-out", "system-err"
    ]  # fmt: skip
    required = ("name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname")
    assert set(required) <= set(suite.attrib)
    cases = suite.findall("testcase")
    assert all({"name", "classname", "time"} == set(case.attrib) for case in cases)
    failures = suite.findall("testcase/failure")
    assert len(failures) == int(suite.attrib["failures"]) > 0
    assert all({"message", "type"} == set(failure.attrib) for failure in failures)
    assert len(suite.findall("testcase/skipped")) == int(suite.attrib["skipped"]) == 1
    assert not root.attrib, "the schema of Ant allows none"


def is_html(text: str) -> None:
    tags: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert not {"src", "href"} & {name for name, _ in attrs}
            assert not any(name.startswith("on") for name, _ in attrs)

    Parser().feed(text)
    assert "script" not in tags
    assert {"html", "table", "li"} <= set(tags)
    assert "url(" not in text


def is_sarif(text: str) -> None:
    actual = json.loads(text)
    assert actual["version"] == "2.1.0"
    (run,) = actual["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] == "TileScope"
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note"}
        assert result["message"]["text"]
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        assert not physical["artifactLocation"]["uri"].startswith("/")
        assert physical["region"]["startLine"] >= 1
        assert set(result["partialFingerprints"]) == {"gate/v1"}
    assert {result["level"] for result in run["results"]} == {"error", "warning"}
    identities = [result["partialFingerprints"]["gate/v1"] for result in run["results"]]
    assert len(set(identities)) == len(identities)


KINDS = ("no_runs", "no_memory", "depends", "incomplete", "hostile", "machine", "empty")
PAIRS = [pair for kind in KINDS for pair in (("baseline", kind), (kind, "baseline"), (kind, kind))]


@pytest.fixture(scope="module")
def more_reports(reports_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a report of another machine, one without data, and all others."""
    folder = tmp_path_factory.mktemp("more")
    for path in reports_directory.iterdir():
        (folder / path.name).symlink_to(path)
    write_small_report(folder / "machine", Shape(target_name="other", bytes_per_tile=2000))
    write_small_report(folder / "empty", Shape(has_memory=False, n_runs=0))
    return folder


@pytest.mark.parametrize(("baseline", "candidate"), PAIRS)
def test_any_two_reports_compare_in_any_format(
    tilescope: Run, more_reports: Path, tmp_path: Path, baseline: str, candidate: str
) -> None:
    names = ("operation", "layer", "variable", "tile", "category", "ipu", "step", "path")
    formats = ("markdown", "json", "junit", "html", "sarif")
    arguments = (
        "diff", more_reports / baseline, more_reports / candidate,
        *(part for name in names for part in ("--by", name)),
        *(part for name in formats for part in ("--write", f"{name}={tmp_path / name}")),
        "--min-change", "1%",
    )  # fmt: skip
    gates = ("--fail-on", "*:+0%", "--fail-on", "*@ipu*:+0%", "--fail-on", "operation.*@*:+0")
    finished = tilescope(*arguments, *gates)
    if "incomplete" in (baseline, candidate):
        assert (finished.code, finished.out) == (2, "")
        assert "ended early" in finished.err
        finished = tilescope(*arguments)
        assert finished.code == 0
        assert "The run ended early" in finished.out
        return
    assert finished.code in {0, 1, 3}, finished.err
    if baseline == candidate:
        assert finished.code == (3 if baseline == "empty" else 0), "cycles of IPUs are missing"
    assert finished.err == ""


def test_sarif_names_the_line_of_a_gate_in_the_file(
    tilescope: Run, reports_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tilescope.toml").write_text('[diff]\nfail-on = [\n  "cycles.total:+0%",\n]\n')
    finished = tilescope(
        "diff", reports_directory / "baseline", reports_directory / "slower", "--format", "sarif"
    )
    (result,) = finished.json()["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "tilescope.toml"},
        "region": {"startLine": 3},
    }


def test_junit_without_a_gate_has_one_case(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope(
        "diff", reports_directory / "baseline", reports_directory / "same", "--format", "junit"
    )
    (case,) = ElementTree.fromstring(finished.out).iter("testcase")
    assert case.attrib["name"] == "compare"


def test_several_formats_in_one_call(
    tilescope: Run, reports_directory: Path, tmp_path: Path
) -> None:
    finished = tilescope(
        "diff", reports_directory / "baseline", reports_directory / "slower", *GATES,
        "--write", f"junit={tmp_path / 'gates.xml'}", "--write", f"html={tmp_path / 'diff.html'}",
    )  # fmt: skip
    assert "failed: cycles.total" in finished.out
    ElementTree.parse(tmp_path / "gates.xml")
    is_html((tmp_path / "diff.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("text", ["junit", "text=a.txt", "pdf=a", "junit="])
def test_a_format_that_cannot_be_written(
    tilescope: Run, reports_directory: Path, text: str
) -> None:
    sides = reports_directory / "baseline", reports_directory / "slower"
    finished = tilescope("diff", *sides, "--write", text)
    assert (finished.code, finished.out) == (2, "")
    assert "expected FORMAT=FILE for --write" in finished.err


def test_a_file_that_cannot_be_written_is_one_sentence(
    tilescope: Run, reports_directory: Path, tmp_path: Path
) -> None:
    sides = reports_directory / "baseline", reports_directory / "slower"
    finished = tilescope("diff", *sides, "--write", f"junit={tmp_path / 'gone' / 'gates.xml'}")
    assert finished.code == 2
    assert finished.err.startswith(f"tilescope: Invalid value: cannot write {tmp_path}")
    assert len(finished.err.splitlines()) == 1


def test_a_report_of_another_schema_version_is_one_sentence(
    tilescope: Run, reports_directory: Path
) -> None:
    old = Path(__file__).parents[1] / "golden" / "v1" / "small.pop"
    finished = tilescope(
        "diff", old, reports_directory / "baseline", "--fail-on", "cycles.total:+0%"
    )
    assert (finished.code, finished.out, len(finished.err.splitlines())) == (2, "", 1)
    assert "schema" in finished.err


def test_annotations_and_step_summary(
    tilescope: Run,
    hostile_pair: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    gate = f"operation.cycles@{HOSTILE}:+1%"
    finished = tilescope("diff", *hostile_pair, *GATES, "--fail-on", gate, "--github")
    commands = [line for line in finished.out.splitlines() if line.startswith("::")]
    assert [line.partition(" ")[0] for line in commands] == ["::error"] * 4 + ["::warning"]
    assert commands[0].startswith("::error title=cycles.total::cycles.total: 485 cycles → 545")
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("before\n## TileScope diff\n")
    is_markdown(text.removeprefix("before\n"))


def test_a_long_step_summary_is_cut_after_a_line_with_what_fails_first(
    tilescope: Run, reports_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilescope.analyser.export.MOST_SUMMARY_BYTES", 2_000)
    summary = tmp_path / "summary.md"
    summary.write_text("x" * 500)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    for name, value in (
        ("SERVER_URL", "https://git.example"),
        ("REPOSITORY", "me/it"),
        ("RUN_ID", "7"),
    ):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    sides = reports_directory / "baseline", reports_directory / "slower"
    gates = ("--fail-on", "memory.category.*:+1GB", "--fail-on", "cycles.total:+0%")
    files = ("--write", f"html={tmp_path / 'diff.html'}")
    assert tilescope("diff", *sides, *gates, *files, "--github").code == 1
    text = summary.read_text()
    assert 1_500 < len(text.encode()) <= 2_000
    assert "| ❌ failed | cycles.total" in text
    assert text.index("❌ failed") < text.index("✅ passed")
    *lines, last = text.rstrip().splitlines()
    assert "Cut at 1 MiB" in last
    assert f"{tmp_path / 'diff.html'}`; it is an artifact" in last
    assert "(https://git.example/me/it/actions/runs/7)" in last
    assert all(line.endswith("|") for line in lines if line.startswith("| "))

    summary.write_text("x" * 1_990)
    tilescope("diff", *sides, *gates, "--github")
    assert summary.read_text() == "x" * 1_990
