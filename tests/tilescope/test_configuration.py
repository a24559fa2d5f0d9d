"""``tilescope.toml``: what it says, and one sentence for every mistake in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilescope.configuration import BadConfiguration, read

Run = Callable[..., Any]


def written(folder: Path, text: str) -> Path:
    path = folder / "tilescope.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_it_is_found_in_a_directory_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, '[diff]\nfail-on = ["cycles.total:+1%"]\nwarn-on = ["memory.*:+0B"]\n')
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    actual = read(None)
    assert actual.path == path
    assert [(gate.text, gate.level) for gate in actual.gates] == [
        ("cycles.total:+1%", "fail"),
        ("memory.*:+0B", "warn"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[diff\n", "is not TOML: Expected ']' at the end of a table declaration (at line 1"),
        ("[dif]\n", "dif: unknown key; expected diff, baseline, acknowledge"),
        ("diff = 1\n", "diff: expected a table [diff]"),
        ('[diff]\nfail_on = ["a:1"]\n', "diff.fail_on: unknown key; expected fail-on, warn-on"),
        ('[diff]\nfail-on = "cycles.total:+1%"\n', "diff.fail-on: expected a list such as"),
        ("[diff]\nfail-on = [1]\n", "diff.fail-on[0]: expected a gate such as"),
        (
            '[diff]\nfail-on = ["cycles.total:+1%", "cycles.totl:+1%"]\n',
            "diff.fail-on[1]: unknown metric 'cycles.totl'; the nearest is 'cycles.total'",
        ),
        ("acknowledge = 1\n", "acknowledge: expected tables [[acknowledge]]"),
        (
            '[[acknowledge]]\nmetric = "cycles.total"\nreason = "r"\n',
            "acknowledge[0]: the key 'until' is missing",
        ),
        (
            '[[acknowledge]]\nmetric = "cycles.total"\nreason = "r"\nuntil = "soon"\n',
            "acknowledge[0].until: expected a date such as 2026-12-31, got soon",
        ),
        (
            '[[acknowledge]]\nmetric = "cycle.total"\nreason = "r"\nuntil = 2026-12-31\n',
            "acknowledge[0]: unknown metric 'cycle.total'",
        ),
        (
            '[[acknowledge]]\nmetric = "cycles.total"\nreason = ""\nuntil = 2026-12-31\n',
            "acknowledge[0].reason: expected a string, got ''",
        ),
        (
            '[[acknowledge]]\nmetric = "cycles.total"\nreason = "r"\nuntil = 2026-12-31\n'
            'limit = "+1KiB"\n',
            "acknowledge[0]: limit of cycles.total: unit 'KiB' is not one of",
        ),
        ("[baseline]\nstore = 3\n", "baseline.store: expected a string, got 3"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadConfiguration) as error:
        read(path)
    assert said in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"cannot read .*: No such file"):
        read(tmp_path / "gone.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadConfiguration, match="is not UTF-8"):
        read(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    ("until", "limit", "code", "said"),
    [
        ("9999-12-31", "", 0, "Acknowledged until 9999-12-31: new kernel."),
        ("9999-12-31", 'limit = "+20%"', 0, "Acknowledged up to +20% until 9999-12-31"),
        ("9999-12-31", 'limit = "+2%"', 1, "outside the limit +0%."),
        ("2001-01-01", "", 1, "note: The acknowledgement of cycles.total expired on 2001-01-01"),
    ],
)
def test_gates_and_acknowledgements_of_the_file_count(
    tilescope: Run,
    reports_directory: Path,
    tmp_path: Path,
    until: str,
    limit: str,
    code: int,
    said: str,
) -> None:
    config = written(
        tmp_path,
        '[diff]\nfail-on = ["cycles.total:+0%"]\n'
        f'[[acknowledge]]\nmetric = "cycles.total"\nuntil = {until}\n'
        f'reason = "new kernel"\n{limit}',
    )
    finished = tilescope(
        "diff", reports_directory / "baseline", reports_directory / "slower", "--config", config
    )
    assert finished.code == code, finished.err
    assert said in finished.out


def test_an_unknown_metric_of_the_file_ends_the_command(
    tilescope: Run, reports_directory: Path, tmp_path: Path
) -> None:
    config = written(tmp_path, '[diff]\nfail-on = ["cycles.totl:+0%"]\n')
    finished = tilescope(
        "diff", reports_directory / "baseline", reports_directory / "slower", "--config", config
    )
    assert (finished.code, finished.out) == (2, "")
    assert finished.err.startswith(f"tilescope: {config}: diff.fail-on[0]: unknown metric")
    assert len(finished.err.splitlines()) == 1


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users: needs root")


@needs_root
@pytest.mark.parametrize("planted", ["file", "directory", "link", "file and directory"])
@pytest.mark.parametrize("command", ["baseline list", "diff"])
def test_a_file_of_another_user_is_not_used(
    tilescope: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str, command: str
) -> None:
    """Anyone can put one into /tmp, above the directories of others."""
    above, work = tmp_path / "above", tmp_path / "above" / "work"
    work.mkdir(parents=True)
    path = written(above, '[baseline]\nstore = "planted"\n')
    if planted == "link":
        path.rename(tmp_path / "target.toml")
        path.symlink_to(tmp_path / "target.toml")
        os.lchown(path, 31_002, 31_002)
    if "file" in planted:
        os.chown(path, 31_002, 31_002)
    if "directory" in planted:
        os.chown(above, 31_002, 31_002)
    monkeypatch.chdir(work)
    arguments = command.split() if command != "diff" else ["diff", "a", "b"]
    finished = tilescope(*arguments)
    assert (finished.code, finished.out, len(finished.err.splitlines())) == (2, "", 1)
    assert f"{path} is not used: it or its directory belongs to user 31002" in finished.err
    assert "--config" in finished.err
    if command != "diff":
        assert tilescope(*arguments, "--config", path).code == 0
        assert tilescope(*arguments, "--config", "/dev/null").code == 0


@needs_root
def test_a_file_of_root_is_used_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a checkout which the CI system made."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        path = written(Path(name), '[baseline]\nstore = "s"\n')
        monkeypatch.chdir(name)
        os.seteuid(31_001)
        try:
            assert read(None).store == "s"
            assert read(None).path == path.resolve()
        finally:
            os.seteuid(0)


def test_what_is_no_file_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "tilescope.toml")
    assert read(None).path is None
    (tmp_path / "tilescope.toml").unlink()
    with (tmp_path / "tilescope.toml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadConfiguration, match="is longer than 1,048,576 bytes"):
        read(None)
