"""The vendored Plotly bundle: its version, hash and address agree."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tilescope import webapp

_ASSETS = Path(webapp.__file__).parent / "assets"


def test_the_bundle_s_note_states_version_and_hash() -> None:
    bundle = (_ASSETS / "plotly-basic.min.js").read_bytes()
    note = (_ASSETS / "plotly-basic.md").read_text()
    banner = re.search(rb"plotly\.js \(basic - minified\) v([\d.]+)", bundle[:400])
    assert banner
    version = banner.group(1).decode()
    assert f"- Version: {version}," in note
    assert hashlib.sha256(bundle).hexdigest() in note
    assert f"plotly-basic.min.js?m={version}'" in (_ASSETS / "charts.js").read_text()
    assert "MIT License" in (_ASSETS / "plotly-basic.LICENSE.txt").read_text()
