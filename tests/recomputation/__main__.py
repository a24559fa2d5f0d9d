"""``python -m tests.recomputation``: measure an LSTM with and without checkpoints."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.recomputation.measure import TABLE, measure


def main() -> None:
    """Write the table from which the documentation's page and picture are generated."""
    with tempfile.TemporaryDirectory() as folder:
        table = measure(Path(folder))
    for kind, figures in table["kinds"].items():
        sys.stdout.write(
            f"{kind}: {figures['cycles']:,} cycles, {figures['peak_bytes']:,} bytes at the peak,"
            f" {figures['alive_at_loss_bytes']:,} between the passes\n"
        )
    TABLE.write_text(json.dumps(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
