"""What a change touches, as the architecture page counts it: six tasks, and their limits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.architecture.test_imports import sources

from tilescope.analyser.summary.metrics import METRICS
from tilescope.webapp.pages import modules

ROOT = Path(__file__).parents[2]
_SECTION = (ROOT / "docs/explanation/architecture.md").read_text("utf-8").partition(
    "## What a change touches\n"
)[2].partition("\n## ")[0]  # fmt: skip
_ROWS = {
    cells[0]: cells[1:]
    for line in _SECTION.splitlines()
    if line.startswith("|")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}
_FILE = re.compile(r"`([\w./]+\.(?:py|js))`")


@pytest.mark.parametrize(
    ("task", "most_touched", "most_read"),
    [
        ("A metric", 1, 0),
        ("The law of the exchange", 1, 3),
        ("What the chart of liveness shows", 3, 0),
        ("A page", 4, 1),
        ("An operator of a known family", 1, 1),
        ("A report table", 4, 1),
    ],
)
def test_a_task_touches_few_files(task: str, most_touched: int, most_read: int) -> None:
    touched, read = _ROWS[task]
    files = _FILE.findall(touched) + _FILE.findall(read)
    assert all((ROOT / name).is_file() for name in files)
    assert len(re.findall(r"`[\w./]+`", touched)) <= most_touched
    assert len(re.findall(r"`[\w./]+`|\]\(", read)) <= most_read


def test_metrics_are_named_in_one_file() -> None:
    """What lists, compares, gates and exports them takes all there are."""
    texts = _texts()
    others = "".join(text for path, text in texts.items() if not path.endswith("/metrics.py"))
    alone = [name for name in METRICS if f'"{name}"' not in others]
    assert len(alone) >= 20


def test_a_page_is_a_module_a_name_and_an_icon() -> None:
    for page in modules():
        name = page.__name__.rpartition(".")[2]
        assert (ROOT / f"webapp/assets/icons/{page.ICON}.svg").is_file()
        known = [path for path, text in _texts().items() if f'    "{name}",\n' in text]
        known = [path for path in known if re.match("webapp/(pages|[a-z]+.py)", path)]
        assert known == ["webapp/pages/__init__.py"]


def test_the_law_of_the_exchange_is_in_one_file() -> None:
    law = re.compile(r"/ ?\(?[\w.]*exchange_bytes_per_cycle")
    dividing = [
        path for path, text in _texts().items() if path.startswith("engine/") and law.search(text)
    ]
    assert dividing == ["engine/machine/exchange_law.py"]


def _texts() -> dict[str, str]:
    """Return the sources by their paths below the top."""
    return {path.as_posix(): (ROOT / path).read_text("utf-8") for path in sources()}
