"""Codes and figures of a report are defined once; these tests detect duplicates."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.architecture.test_imports import sources

from tilescope.reports.schema.vocabulary import (
    BOUNDS,
    MEMORY_CATEGORY,
    PHASES,
    PROGRAM_KINDS,
    REGIONS,
)

ROOT = Path(__file__).parents[2]
VOCABULARY = Path("reports/schema/vocabulary.py")
FIGURES = Path("reports/figures.py")
#: Developer tools: published lists beside ours, and generated figures by category.
TOOLS = (Path("engine/fidelity"), Path("reports/generate"))
#: Files that may list codes or compare with a limit, and why.
ALLOWED = {
    Path("engine/compiler/memory/layout.py"): "categories by address, when to lay out anew",
    Path("webapp/figures/theme.py"): "the colours of the series",
    Path("webapp/pages/trace_panels.py"): "kinds with a column of their own",
    Path("engine/codelets/poplin/reduce_partials.py"): "the library's limit for a single region",
}
CODES = {
    "kinds": {name for name, kind in PROGRAM_KINDS.items() if kind.is_step},
    "phases": set(PHASES),
    "categories": set(MEMORY_CATEGORY),
    "regions": {text for region in REGIONS for text in (region.label, region.array)},
    "bounds": set(BOUNDS),
}
LIMITS = {"allocatable_bytes", "capacity_bytes", "executable_bytes"}


def _strings(literal: ast.expr) -> Iterator[str]:
    """Yield the strings that a literal lists: elements, keys, and elements of its elements."""
    parts: list[ast.expr | None] = []
    if isinstance(literal, ast.Dict):
        parts = [*literal.keys]
    elif isinstance(literal, ast.Tuple | ast.List | ast.Set):
        parts = [*literal.elts]
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        elif isinstance(part, ast.Tuple | ast.List):
            yield from _strings(part)


def second_lists(tree: ast.AST) -> Iterator[str]:
    """Yield literals that list three codes of one kind or more."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict | ast.Tuple | ast.List | ast.Set):
            actual = set(_strings(node))
            for subject, codes in CODES.items():
                if len(actual & codes) >= 3:
                    yield f"line {node.lineno} lists {subject}: {', '.join(sorted(actual & codes))}"


def _has_word(node: ast.AST, *words: str) -> bool:
    names = (
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute | ast.Name)
    )
    return any(word in name for name in names for word in words)


def second_figures(tree: ast.AST) -> Iterator[str]:
    """Yield quotients that look like a balance or efficiency, and comparisons with a limit."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Div)
            and _has_word(node.left, "mean", "busy", "worked", "active_total", "total_tile")
            and _has_word(node.right, "max", "busiest", "offered", "tiles")
        ):
            yield f"line {node.lineno} divides: {ast.unparse(node)}"
        if isinstance(node, ast.Compare) and any(
            isinstance(part, ast.Attribute) and part.attr in LIMITS for part in ast.walk(node)
        ):
            yield f"line {node.lineno} compares: {ast.unparse(node)}"


@pytest.mark.parametrize(("find", "home"), [(second_lists, VOCABULARY), (second_figures, FIGURES)])
def test_nothing_is_defined_twice(find: Callable[[ast.AST], Iterator[str]], home: Path) -> None:
    results = [
        f"{path}: {sentence}"
        for path in sources()
        if path != home and path not in ALLOWED and not any(map(path.is_relative_to, TOOLS))
        for sentence in find(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    ]
    assert not results, f"take it from {home} instead:\n" + "\n".join(results)


@pytest.mark.parametrize(
    ("find", "text"),
    [
        (second_lists, 'X = {"OnTileExecute": 1, "DoExchange": 2, "Sync": 3}'),
        (second_lists, 'X = (("stack", 1), ("controlCode", 2), ("message", 3))'),
        (second_figures, "x = busy.mean() / busy.max()"),
        (second_figures, "x = busy / offered"),
        (second_figures, "x = used > machine.allocatable_bytes"),
    ],
)
def test_a_second_definition_is_found(find: Callable[[ast.AST], Iterator[str]], text: str) -> None:
    assert list(find(ast.parse(text)))


def test_the_rates_of_the_exchange_are_read_by_its_law_only() -> None:
    """Another form of the law is one edit; reports say which rates a machine has."""
    names = ("exchange_bytes_per_cycle", "paired_exchange_bytes_per_cycle")
    readers = {
        str(path.relative_to(ROOT).parent)
        for path in (ROOT / "engine").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in names
    }
    assert readers == {"engine/compiler/exchange", "engine/machine", "engine/recorder"}
