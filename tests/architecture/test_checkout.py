"""A checkout that cannot work says so in one sentence."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_checkout_without_links_says_what_to_do(tmp_path: Path) -> None:
    """Without links, git writes their targets into files."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "compat").mkdir()
    (tmp_path / "compat" / "tilescope").write_text("../tilescope")
    process = subprocess.run(
        ["make", "setup"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert process.returncode == 2
    assert "This checkout has no symbolic links" in process.stderr
    assert "git config core.symlinks true" in process.stderr
    assert not (tmp_path / ".venv").exists()
