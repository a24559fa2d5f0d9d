"""Leaves these tests out where PyTorch is missing; `make test-torch` installs it."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]
