"""Write the generated reference pages: ``python docs/generate.py [--check] [PAGE …]``.

Without arguments, all pages are written. ``--check`` writes nothing, lists stale pages, and exits
with 1 if there are any.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

# Import the checkout's packages, whatever the working directory and installed version.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "compat"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs.pages import (
    cli,
    codelets,
    corpus,
    fidelity,
    graph_api,
    half,
    layers,
    machines,
    metrics,
    nightly,
    operators,
    options,
    popart,
    poplibs,
    poptorch,
    poptorch_suite,
    pva,
    recomputation,
    schema,
    speed,
    torch_operators,
)

__all__ = ["PAGES", "main"]

DOCS = Path(__file__).resolve().parent
#: Path below ``docs`` and render function, by page.
PAGES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "cli": ("reference/cli.md", cli.render),
    "codelets": ("reference/codelets.md", codelets.render),
    "corpus": ("reference/corpus.md", corpus.render),
    "fidelity": ("explanation/fidelity.md", fidelity.render),
    "graph-api": ("reference/graph-api.md", graph_api.render),
    "half": ("reference/half.md", half.render),
    "metrics": ("reference/metrics.md", metrics.render),
    "nightly": ("reference/nightly.md", nightly.render),
    "operators": ("reference/operators.md", operators.render),
    "options": ("reference/options.md", options.render),
    "popart": ("reference/popart.md", popart.render),
    "poplibs": ("reference/poplibs.md", poplibs.render),
    "poptorch": ("reference/poptorch.md", poptorch.render),
    "poptorch-suite": ("reference/poptorch-suite.md", poptorch_suite.render),
    "pva": ("reference/pva.md", pva.render),
    "recomputation": ("explanation/recomputation.md", recomputation.render),
    "recomputation-picture": ("images/recomputation.svg", recomputation.picture),
    "schema": ("reference/schema.md", schema.render),
    "speed": ("explanation/speed.md", speed.render),
    "torch": ("reference/torch.md", torch_operators.render),
    "layers": ("images/layers.svg", layers.render),
    "machines": ("reference/machines.md", machines.render),
}


def main(arguments: list[str] | None = None, docs: Path = DOCS) -> int:
    """Write pages below a folder, or check them, and return the exit code.

    Parameters
    ----------
    arguments
        Command-line arguments; those of the process if None.
    docs
        The folder that contains ``reference`` and ``explanation``.
    """
    parser = argparse.ArgumentParser(prog="docs/generate.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if stale")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=", ".join(PAGES))
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.pages if name not in PAGES]
    if unknown:
        parser.error(f"unknown page {unknown[0]!r}; known: {', '.join(PAGES)}")
    stale = []
    for name in chosen.pages or PAGES:
        place, render = PAGES[name]
        path, text = docs / place, render()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        sys.stdout.write(f"{place} is {'out of date' if chosen.check else 'written'}\n")
        if not chosen.check:
            path.write_text(text, encoding="utf-8")
    return 1 if chosen.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
