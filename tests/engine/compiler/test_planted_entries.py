"""Cached compilations with hostile content, or in a folder of others, are at most a miss."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.engine.compiler.entries import decode

from tilescope.engine.compiler.cache.store import CacheFolder
from tilescope.engine.compiler.executable.container import NotAnEntry
from tilescope.reports.integrity.digests import DIGEST_BYTES

ARRAY: dict[str, Any] = {
    "name": "a", "dtype": "<i8", "stored": "<i8", "shape": [0], "codec": "zstd", "raw_bytes": 0,
    "begin": 0, "bytes": 0, "digest": "00",
    "seal": hashlib.sha256(b"").hexdigest()[: 2 * DIGEST_BYTES],
}  # fmt: skip

CHANGES: list[dict[str, Any]] = [
    {"dtype": "O", "shape": [1]},
    {"dtype": "no type"},
    {"shape": [1 << 70]},
    {"shape": [-1]},
    {"shape": "x"},
    {"shape": [1 << 50], "raw_bytes": 1 << 53},
    {"shape": [1 << 62, 1 << 62], "raw_bytes": 8},
    {"stored": "O", "shape": [1], "raw_bytes": 8},
    {"shape": [1], "raw_bytes": 8, "digest": "zz"},
    {"bytes": -1},
    {"bytes": "1"},
    {"name": []},
    {"begin": -1},
    {"begin": 8},
    {"codec": "plain", "shape": [1], "raw_bytes": 8},
    {"codec": "plain", "shape": [1], "raw_bytes": 8, "dtype": "O"},
]


def entry(header: object) -> bytes:
    """Return an entry with a header and the digest of it, which anyone can compute."""
    text = json.dumps(header).encode()
    digest = hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()
    return b"TSEXEC02" + digest + len(text).to_bytes(8, "little") + text


def test_the_form_of_an_entry_is_the_one_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "entry").write_bytes(entry({"facts": {"a": 1}, "arrays": [ARRAY]}))
    with (tmp_path / "entry").open("rb") as file:
        facts, arrays = decode(file, (tmp_path / "entry").stat().st_size)
    assert (facts, list(arrays)) == ({"a": 1}, ["a"])


@pytest.mark.parametrize(
    "header",
    [
        {},
        [],
        None,
        {"facts": {}, "arrays": None},
        {"facts": {}, "arrays": [None]},
        {"facts": {}, "arrays": [{}]},
        {"arrays": [ARRAY]},
        *({"facts": {}, "arrays": [{**ARRAY, **changes}]} for changes in CHANGES),
    ],
    ids=lambda header: json.dumps(header)[:200],
)
def test_a_header_with_its_digest_is_not_trusted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, header: object
) -> None:
    folder = CacheFolder(tmp_path, "executable")
    path = folder.path_of(b"x")
    path.write_bytes(entry(header))
    with path.open("rb") as file, pytest.raises(NotAnEntry):
        decode(file, path.stat().st_size)
    assert folder.load(b"x", lambda facts, arrays: (facts, arrays)) is None
    assert "is not usable and is replaced" in caplog.text


def test_a_header_that_nests_too_deep_is_not_read(tmp_path: Path) -> None:
    text = b"[" * 100_000
    digest = hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()
    folder = CacheFolder(tmp_path, "plan")
    content = b"TSEXEC02" + digest + len(text).to_bytes(8, "little") + text
    folder.path_of(b"x").write_bytes(content)
    assert folder.load(b"x", lambda facts, _: facts) is None


def test_an_entry_that_builds_nothing_is_a_miss(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path / "cache", "plan")
    folder.store(b"x", {"a": 1}, {})

    for error in (AttributeError, OverflowError, ZeroDivisionError, TypeError, IndexError):

        def build(_facts: object, _arrays: object, error: type[Exception] = error) -> None:
            raise error

        assert folder.load(b"x", build) is None


@pytest.mark.parametrize("kind", ["executable", "plan", "exchanges"])
def test_a_cache_of_others_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    path = tmp_path / "cache"
    CacheFolder(path, kind).store(b"x", {"a": 1}, {})
    assert CacheFolder(path, kind).load(b"x", lambda facts, _: facts) == {"a": 1}
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    path.chmod(0o777)
    folder = CacheFolder(path, kind)
    assert folder.load(b"x", lambda facts, _: facts) is None
    folder.store(b"y", {"a": 2}, {})
    assert len(list(path.iterdir())) == 1
    assert caplog.messages == [
        f"warning: continuing without cached compilations: {path} may be written by other users;"
        f" run `chmod go-w {path}`, or name another directory"
    ]
