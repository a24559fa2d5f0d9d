"""``tilescope.toml``: what it says, and one sentence for every mistake in it."""

from __future__ import annotations

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
    found = read(None)
    assert found.path == path
    assert [(gate.text, gate.level) for gate in found.gates] == [
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
    done = tilescope(
        "diff", reports_directory / "baseline", reports_directory / "slower", "--config", config
    )
    assert done.code == code, done.err
    assert said in done.out


def test_an_unknown_metric_of_the_file_ends_the_command(
    tilescope: Run, reports_directory: Path, tmp_path: Path
) -> None:
    config = written(tmp_path, '[diff]\nfail-on = ["cycles.totl:+0%"]\n')
    done = tilescope(
        "diff", reports_directory / "baseline", reports_directory / "slower", "--config", config
    )
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"tilescope: {config}: diff.fail-on[0]: unknown metric")
    assert len(done.err.splitlines()) == 1
