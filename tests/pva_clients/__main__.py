"""Run public clients of libpva on reports of one and of two IPUs: ``python -m tests.pva_clients``.

Their files are fetched once, or read from a folder: ``--folder``.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.pva_clients.clients import CLIENTS, source_of
from tests.pva_clients.reports import all_cases
from tests.pva_clients.source import NotReachable

_ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run every client on every report; return 1 if one fails or cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder",
        type=Path,
        default=_ROOT / "build" / "pva-clients",
        help="holds the files by repository and path; missing ones are fetched",
    )
    folder = parser.parse_args().folder.resolve()
    os.environ["TQDM_DISABLE"] = "1"  # PopLiner draws bars
    n_failed = n_tried = 0
    with TemporaryDirectory() as directory:
        cases = all_cases(Path(directory))
        for client in CLIENTS:
            for case in cases:
                if case.kind not in client.kinds:
                    continue
                n_tried += 1
                try:
                    client.check(source_of(client, folder), case)
                except NotReachable as error:
                    verdict = f"NOT REACHABLE {error}"
                except Exception as error:  # a client may fail in any way
                    verdict = f"FAILED {type(error).__name__}: {error}"
                else:
                    verdict = "ok"
                n_failed += verdict != "ok"
                position = f"{client.repository}: {client.path}"
                sys.stdout.write(f"{position:104} {case.name:17} {verdict}\n")
    sys.stdout.write(f"{n_tried - n_failed} of {n_tried} agree with tilescope summary\n")
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
