"""The commands that take a report, as lines whose words stand for files and names."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from tilescope.main import main

__all__ = ["COMMAND_LINES", "answer"]

_LINES = """
summary {r}
insights {r}
insights {r} --ipu 0 --run 0
ledger {r}
ledger {r} {o}
ledger {o} {r} --run 0
fit {r}
memory {r} --tile 0 --tile 1 --variables --include-gaps
memory {r} --ipu 0 --breakdown category --order hardware
memory {r} --breakdown liveness
memory {r} --map total
memory {r} --list compute-sets --tile 1
memory {r} --list vertices
memory {r} --list exchanges
memory {r} --list addresses --tile 1
liveness {r}
liveness {r} --tile 1 --step 5
liveness {r} --ipu 0
programs {r}
programs {r} --depth 200 --limit 1000
programs {r} --search a
programs {r} --node 3 --run 0
ops {r}
ops {r} --layer step --run 0
ops {r} --layer model --ipu 0
ops {r} --why {operation}
ops {r} --plan {operation}
exchange {r}
exchange {r} --step 2 --run 0
variables {r}
variables {r} --tile 1 --sort lifetime
variables {r} --name {variable}
tile {r} 1
tile {r} 1 --map
trace {r}
trace {r} --range 10:400 --ipu 0
trace {r} --run 1
diff {r} {o}
diff {o} {r}
diff {o} {r} --by operation --by layer --by tile --by category --by ipu --by path
diff {r} {o} --format markdown --fail-on cycles.total:+1%
diff {r} {r}
export {r} --format bencher
export {r} --format github-action-benchmark
figure {r} memory --out {d}/out.json
figure {r} liveness --out {d}/out.json --candidate {o}
figure {r} phases --out {d}/out.json
figure {r} operations --out {d}/out.json
figure {r} histogram --out {d}/out.json --candidate {o}
baseline save {r} --store {d}/store
"""
_WITHOUT_JSON = ("export", "figure", "baseline", "diff {r} {o} --format")
#: Lines; all that can are there with ``--json`` and without.
COMMAND_LINES: tuple[str, ...] = tuple(
    f"{line}{ending}"
    for line in _LINES.strip().splitlines()
    for ending in ("", " --json")
    if not (ending and line.startswith(_WITHOUT_JSON))
)
_LOG = re.compile(r"details are in (.+)")


def answer(line: str, words: dict[str, str]) -> tuple[int, str, str]:
    """Run a line in this process; return exit code, output, and errors or a traceback."""
    arguments = [word.format(**words) for word in line.split(" ")]
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main(arguments)
    message = error.getvalue()
    log = _LOG.search(message)
    if log is not None:
        message = Path(log[1]).read_text(encoding="utf-8")
    return code, out.getvalue(), message
