"""Errors of baseline stores.

BaselineError               baseline: base of all
├── BaselineMissing         baseline_missing: nothing is stored for a model, machine and options
└── StoreNotUsable          store_not_usable: no permission, no repository, a branch of other files
"""

from __future__ import annotations

__all__ = ["BaselineError", "BaselineMissing", "StoreNotUsable"]


class BaselineError(Exception):
    """Base of every error of a store; ``code`` is stable, the text is for people."""

    code = "baseline"
    exit_code = 2


class BaselineMissing(BaselineError):
    """Nothing is stored under a key."""

    code = "baseline_missing"


class StoreNotUsable(BaselineError):
    """The store cannot be read or written."""

    code = "store_not_usable"
