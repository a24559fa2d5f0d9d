"""Which tests belong to a change, the nearest first, and how many of them fit into a minute."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

__all__ = ["DURATIONS", "GOLDEN_PATH", "chosen", "durations", "near_tests"]

#: Where tests/conftest.py keeps the seconds of each test file, below pytest's cache.
DURATIONS = "tilescope/durations"
#: A file whose tests never ran here, seconds.
_UNKNOWN_S = 3.0
#: Of the tests of a change; the golden path and the start of the processes take the rest.
_MOST_S = 45.0
#: One path through every room: compile, run, write, read, compare, serve, ask.
GOLDEN_PATH = (
    "tests/golden",  # compile, run, write, read
    "tests/oracle/test_copies.py",
    "tests/reports/test_snapshot.py",
    "tests/analyser/test_search.py",
    "tests/tilescope/test_queries.py",
    "tests/pva/test_names.py",
    "tests/webapp/test_http.py",
    "tests/webapp/test_callbacks.py",
    "tests/javascript/test_scripts.py",
    "tests/architecture/test_imports.py",
)
#: Folders whose tests need longer or other packages.
_APART = frozenset({"bench", "torch"})
#: Folders whose tests belong to files that no test imports.
_OF_SUFFIX = {
    ".md": "tests/docs",
    ".js": "tests/javascript",
    ".toml": "tests/architecture",
}
_CODE = ("analyser/", "engine/", "reports/", "tilescope/", "webapp/", "compat/")


def near_tests(changed: Iterable[str], root: Path) -> list[str]:
    """Return the test files that belong to changed files, the nearest first.

    A test file is near a module if it is called after it, farther if it imports it, and farther
    still if it is in the folder that mirrors the module's.

    Parameters
    ----------
    changed
        Paths below the root, as git writes them.
    root
        Of the checkout.
    """
    texts = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted((root / "tests").rglob("test_*.py"))
        if not _APART.intersection(path.parts)
    }
    ranks: dict[str, tuple[int, int]] = {}
    for name in changed:
        for test, text in texts.items():
            rank = _rank(name, test, text)
            if rank is not None:
                ranks[test] = min(ranks.get(test, rank), rank)
    return sorted(ranks, key=lambda test: (ranks[test], test))


def _rank(changed: str, test: str, text: str) -> tuple[int, int] | None:
    """Return how far a test file is from a changed file; None if they have nothing in common."""
    path = Path(changed)
    apart = -len(_shared_folders(path, Path(test)))
    if changed == test:
        return 0, apart
    if path.suffix in _OF_SUFFIX:
        return (1, apart) if test.startswith(f"{_OF_SUFFIX[path.suffix]}/") else None
    if path.suffix != ".py" or not changed.startswith((*_CODE, "tests/")):
        return None
    if path.name == "conftest.py" and test.startswith(f"{path.parent}/"):
        return 1, apart
    if Path(test).stem.startswith(f"test_{path.stem.strip('_')}"):
        return 1, apart
    if _imports(text, _module(changed)):
        return 2, apart
    is_beside = -apart == len(_folders(path)) == len(Path(test).parts) - 2
    return (3, apart) if is_beside else None


def _folders(changed: Path) -> list[str]:
    """Return the folders of a file as those of its tests are called."""
    return [part for part in changed.parts[:-1] if part not in ("compat", "tests")]


def _shared_folders(changed: Path, test: Path) -> list[str]:
    """Return the folders that a test mirrors."""
    pairs = zip(_folders(changed), test.parts[1:-1], strict=False)
    return [first for first, second in pairs if first == second]


def _module(name: str) -> str:
    """Return the module of a file as tests import it."""
    parts = name.removesuffix(".py").removesuffix("/__init__").split("/")
    if parts[0] == "compat":
        return ".".join(parts[1:])
    is_top = parts[0] in ("tests", "tilescope")
    return ".".join(parts if is_top else ["tilescope", *parts])


def _imports(text: str, module: str) -> bool:
    """Return whether a test imports a module, or a name of it from its package."""
    if re.search(rf"^\s*(from|import) {re.escape(module)}\b", text, re.MULTILINE):
        return True
    package, _, name = module.rpartition(".")
    names = rf"^\s*from {re.escape(package)} import (\([^)]*\)|[^\n]*)"
    return any(
        re.search(rf"\b{name}\b", actual.group(1))
        for actual in re.finditer(names, text, re.MULTILINE)
    )


def durations(root: Path) -> Mapping[str, float]:
    """Return the seconds of test files that ran in this checkout."""
    file = root / ".pytest_cache" / "v" / DURATIONS
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def chosen(tests: Sequence[str], seconds: Mapping[str, float]) -> tuple[list[str], int]:
    """Return the tests that fit into the time, in their order, and the number of the others."""
    selected: list[str] = []
    left_s = _MOST_S
    for test in tests:
        took_s = seconds.get(test, _UNKNOWN_S)
        if took_s <= left_s:
            selected.append(test)
            left_s -= took_s
    return selected, len(tests) - len(selected)
