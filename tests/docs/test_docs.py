"""Everything that the pages mention exists, and everything public is on a page."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tilescope.main import COMMANDS, main
from tilescope.reports.schema import TABLES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FRONT = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*FRONT, *sorted(DOCS.rglob("*.md"))]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = dict(re.findall(r"^([a-z][a-z-]*):.*?## (.+)$", MAKEFILE, re.MULTILINE))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def help_of(*command: str) -> str:
    """Return the help text of a command."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        code = main([*command, "--help"])
    assert code == 0, command
    return text.getvalue()


def options_of(*command: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", help_of(*command)))


GROUPS = {"models": ("list", "fetch", "check", "cut"), "baseline": ("save", "get", "list")}


def full_commands() -> list[tuple[str, ...]]:
    singles = [(name,) for name in COMMANDS if name not in GROUPS]
    return [*singles, *((name, inner) for name, inners in GROUPS.items() for inner in inners)]


def shell_lines(page: Path) -> list[str]:
    """Return the commands of a page's shell blocks, continued lines joined."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text_of(page), re.MULTILINE | re.DOTALL)
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip()]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", text_of(page))
    local = [t.split("#")[0] for t in targets if "://" not in t and not t.startswith("#")]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_every_page_can_be_reached_from_the_front() -> None:
    reached: set[Path] = set()
    waiting = [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        targets = re.findall(r"\]\(([^)\s#]+)", text_of(page))
        waiting += [(page.parent / target).resolve() for target in targets if "://" not in target]
    assert {page_id(page) for page in DOCS.rglob("*.md")} <= {page_id(page) for page in reached}


@pytest.mark.parametrize("command", full_commands(), ids=" ".join)
def test_every_command_and_option_is_on_the_reference_page(command: tuple[str, ...]) -> None:
    page = text_of(DOCS / "reference/cli.md")
    assert f"tilescope {' '.join(command)}" in page
    assert {option for option in options_of(*command) if option not in page} == set()


def test_every_table_is_on_the_reference_page() -> None:
    page = text_of(DOCS / "reference/schema.md")
    assert [name for name in TABLES if name not in page] == []


def test_every_metric_is_on_the_reference_page() -> None:
    from tilescope.analyser.summary.metrics import METRICS

    page = text_of(DOCS / "reference/metrics.md")
    assert [name for name in METRICS if f"`{name}`" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_command_a_page_shows_exists(page: Path) -> None:
    for line in shell_lines(page):
        for part in re.findall(r"(?:^|[\s(;])(tilescope [^)\n]*)", line):
            words = shlex.split(part.replace('"', " "), comments=True)[1:]
            command = tuple(words[: 2 if words[0] in GROUPS else 1])
            if command == ("--help",) or words[0].endswith((".", ":")):
                continue
            assert command in full_commands(), line
            used = {word.split("=")[0] for word in words if word.startswith("--")}
            assert used <= options_of(*command) | {"--help"}, line


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_make_target_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`make ([a-z-]+)", text_of(page)))
    named |= {
        match[1] for line in shell_lines(page) if (match := re.match(r"make ([a-z-]+)", line))
    }
    assert named <= set(TARGETS)


def test_make_help_lists_every_target() -> None:
    # A nested make prints the directory it enters.
    command = ["make", "--no-print-directory", "help"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {line.split()[1]: " ".join(line.split()[2:]) for line in process.stdout.splitlines()}
    assert listed == TARGETS


def test_every_make_target_has_a_description() -> None:
    phony = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == set(TARGETS)


@pytest.mark.parametrize(
    "module", ["tilescope.engine.options", "tilescope.reports", "tilescope.analyser"]
)
def test_the_order_of_the_data_flow_is_stated(module: str) -> None:
    assert f"`{module.split('.')[1]}/`" in text_of(DOCS / "explanation/architecture.md")
