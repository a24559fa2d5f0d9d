"""Print the largest files and functions of some folders, for information only."""

from __future__ import annotations

import ast
import statistics
import sys
from pathlib import Path

SHOWN = 12


def function_sizes(path: Path, tree: ast.Module) -> list[tuple[int, str]]:
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{path}:{node.lineno} {node.name}")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def largest(title: str, sizes: list[tuple[int, str]]) -> str:
    middle = statistics.median(lines for lines, _ in sizes)
    rows = [f"  {lines:5d}  {name}" for lines, name in sorted(sizes, reverse=True)[:SHOWN]]
    return "\n".join([f"{len(sizes)} {title}, half of them up to {middle:.0f} lines", *rows])


def main(folders: list[str]) -> None:
    files: list[tuple[int, str]] = []
    functions: list[tuple[int, str]] = []
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            files.append((len(text.splitlines()), str(path)))
            functions += function_sizes(path, ast.parse(text))
    sys.stdout.write(f"{largest('files', files)}\n{largest('functions', functions)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
