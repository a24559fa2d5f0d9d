"""Hostile requests to a real server: honest ones with parts replaced, and plain garbage.

    python -m tests.faults.requests --number 10000 --seed 1

No answer may be an internal error, no line of the log a traceback, no answer may hold a path of
the server, and its memory may not grow.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.request_samples import Request, broken, garbled, samples
from tests.faults.server import CLOSED, WAITING, Reply, Server, running_server
from tests.generated_report import generate_report

__all__ = ["damaged_reports", "main", "report_ids", "run", "send_hostile"]

_MIB = 1 << 20
#: Requests of the first part, after which memory may not grow: caches are full.
_SETTLED = 0.3
#: Part of the requests whose bytes are changed, too.
_GARBLED = 0.4
_CLIENTS = 12
#: A request that was cut short gets no answer before the server's deadline.
_PATIENCE_S = 3.0


def damaged_reports(folder: Path) -> None:
    """Write files that are listed as reports and that no page can show."""
    full = generate_report(folder / "whole", n_tiles=8, n_steps=24, n_variables=10, seed=1)
    peer = generate_report(folder / "other", n_tiles=16, n_steps=30, n_variables=12, seed=2)
    content = bytearray(full.read_bytes())
    files = {
        "empty": b"",
        "text": b"not a report\n" * 500,
        "short": bytes(content[:5_000]),
        "flipped": bytes(content[:9_000]) + b"\xff" * 60 + bytes(content[9_060:]),
        "late": bytes(content[:-3_000]) + bytes(3_000),
        "schema": bytes(content[:60]) + (99).to_bytes(4) + bytes(content[64:]),
        "foreign": bytes(content[:68]) + (7).to_bytes(4) + bytes(content[72:]),
    }
    for name, data in files.items():
        (folder / name).mkdir()
        (folder / name / "profile.pop").write_bytes(data)
    (folder / "killed").mkdir()
    (folder / "killed" / "profile_ab.pop").write_bytes(peer.read_bytes()[:20_000])
    (folder / "killed" / "profile_ab.pop-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(5_000))
    locked = folder / "locked" / "profile.pop"
    locked.parent.mkdir()
    locked.write_bytes(content)
    locked.chmod(0)


def report_ids(server: Server) -> list[str]:
    """Return the ids of all reports that a server lists."""
    return [entry["id"] for entry in json.loads(server.get("/api/reports").body)["reports"]]


def send_hostile(server: Server, n: int, seed: int, secret: str) -> dict[str, int | float]:
    """Send ``n`` hostile requests, and return counts of what came back.

    Parameters
    ----------
    server : Server
        Where to.
    n : int
        Number of requests.
    seed : int
        The same seed gives the same requests.
    secret : str
        A text that no answer may hold, such as the server's folder.
    """
    draw = random.Random(seed)
    ids = report_ids(server)
    honest = samples(server, ids)
    counts: dict[str, int | float] = dict.fromkeys(
        (
            "requests",
            "answers_2xx",
            "answers_3xx",
            "answers_4xx",
            "answers_5xx",
            "closed",
            "waiting",
            "leaks",
            "internal",
        ),
        0,
    )
    slowest_s, settled_bytes = 0.0, 0
    with ThreadPoolExecutor(_CLIENTS) as clients:
        hostile = (_hostile(honest, draw, ids).encode(server) for _ in range(n))
        requests = [garbled(data, draw) if draw.random() < _GARBLED else data for data in hostile]
        sent = clients.map(lambda data: _timed(server, data), requests)
        for number, (data, (reply, seconds)) in enumerate(zip(requests, sent, strict=True)):
            if number == int(n * _SETTLED):
                settled_bytes = server.memory_bytes()
            if reply.status != WAITING:
                slowest_s = max(slowest_s, seconds)
            _count(counts, reply, secret)
            if reply.status >= 500 or secret.encode() in reply.head + reply.body:
                sys.stderr.write(f"{reply.status} for {data[:1500]!r}: {reply.body[:300]!r}\n")
    return counts | {
        "slowest_s": round(slowest_s, 3),
        "tracebacks": len(server.complaints()),
        "growth_mib": round((server.memory_bytes() - settled_bytes) / _MIB, 1),
    }


def _hostile(honest: Sequence[Request], draw: random.Random, ids: Sequence[str]) -> Request:
    """Return a broken request; every report is asked for, the damaged ones, too."""
    return broken(draw.choice(honest), draw, ids)


def _timed(server: Server, data: bytes) -> tuple[Reply, float]:
    """Return the answer to a request, and the seconds that it took."""
    start = time.monotonic()
    return server.send(data, timeout_s=_PATIENCE_S), time.monotonic() - start


def _count(counts: dict[str, int | float], reply: Reply, secret: str) -> None:
    """Count one answer."""
    counts["requests"] += 1
    counts["leaks"] += secret.encode() in reply.head + reply.body
    counts["internal"] += b"Internal error" in reply.body
    names = {CLOSED: "closed", WAITING: "waiting"}
    counts[names.get(reply.status, f"answers_{reply.status // 100}xx")] += 1


def run(n: int, seed: int) -> dict[str, int | float]:
    """Send hostile requests to a server of sound and damaged reports; return counts."""
    with tempfile.TemporaryDirectory(prefix="hostile-requests-") as name:
        folder = Path(name) / "served-reports"
        damaged_reports(folder)
        with running_server(folder, Path(name) / "log") as server:
            counts = send_hostile(server, n, seed, os.path.realpath(folder))
            for line in server.complaints()[:20]:
                sys.stderr.write(line + "\n")
            sys.stderr.write(server.log.read_text("utf-8", "replace")[-6_000:])
            return counts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; 1 if the server failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.requests")
    parser.add_argument("--number", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    counts = run(options.number, options.seed)
    print(json.dumps(counts, indent=2))  # noqa: T201  the result
    return int(any(counts[name] for name in ("answers_5xx", "leaks", "internal", "tracebacks")))


if __name__ == "__main__":
    sys.exit(main())
