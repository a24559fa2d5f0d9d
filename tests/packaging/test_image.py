"""The Dockerfile, checked as text since a Docker engine may be unavailable."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_image_has_two_stages_and_is_not_root() -> None:
    assert len(re.findall(r"^FROM ", RECIPE, re.MULTILINE)) == 2
    last_stage = RECIPE.rsplit("\nFROM ", 1)[1]
    assert re.findall(r"^USER (\S+)$", last_stage, re.MULTILINE) == ["tilescope"]
    assert last_stage.index("USER tilescope") < last_stage.index("CMD [")


def test_the_image_installs_by_the_tested_script_and_serves_the_reports() -> None:
    assert "docker/install.sh /opt/tilescope" in RECIPE
    assert '"serve", "/reports", "--host", "0.0.0.0"' in RECIPE


def test_versions_are_plain_and_name_no_host() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", pin) for pin in pins), pins
    names = [pin.split("==")[0].lower().replace("_", "-") for pin in pins]
    assert len(set(names)) == len(names)
    assert {"apsw", "dash", "numba", "numpy", "onnx", "pip", "pytest"} <= set(names)
