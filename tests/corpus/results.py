"""The results of the corpus on disk: one line per row, so that an interrupted run continues."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from tests.corpus.measure import Measured
from tests.corpus.rows import Figures

__all__ = ["ROOT", "Results", "sources_digest"]

ROOT = Path(__file__).parents[2]
#: What decides the figures of a row, besides the engine.
_PROGRAMS = ("measure.py", "programs.py", "published.toml", "rows.py")


def sources_digest(root: Path = ROOT) -> str:
    """Return the digest of the engine's sources and of the published programs and figures."""
    engine = [path for path in (root / "engine").rglob("*") if path.suffix in {".py", ".toml"}]
    digest = hashlib.sha256()
    for path in sorted([*engine, *(root / "tests/corpus" / name for name in _PROGRAMS)]):
        name = path.relative_to(root).as_posix()
        # The packaged tables are results.
        if not name.startswith("engine/fidelity/"):
            digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


class Results:
    """A file of results: a header with a digest, then a line per row.

    Parameters
    ----------
    path
        The file. It starts anew if it has another digest; a last line that was cut is dropped.
    digest
        Of the sources of the results.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self._path = path
        #: Results by key of their row.
        self.by_key: dict[str, Measured] = {}
        header, *lines = self._lines() or [{}]
        if header.get("digest") == digest:
            self.by_key = {str(line["row"]): _measured(line) for line in lines}
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = [{"digest": digest}, *(_entry(*pair) for pair in self.by_key.items())]
        path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")

    def _lines(self) -> list[dict[str, object]]:
        if not self._path.exists():
            return []
        *whole, _ = self._path.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in whole]

    def add(self, key: str, measured: Measured) -> None:
        """Append the result of a row; it replaces an earlier one."""
        self.by_key[key] = measured
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(f"{json.dumps(_entry(key, measured))}\n")


def _entry(key: str, measured: Measured) -> dict[str, object]:
    return {"row": key, **measured.as_json()}


def _measured(line: Mapping[str, object]) -> Measured:
    facts = {name: value for name, value in line.items() if name != "row"}
    ours = facts.pop("ours")
    figures = Figures(**ours) if isinstance(ours, dict) else None
    return Measured(figures, **facts)  # type: ignore[arg-type]
