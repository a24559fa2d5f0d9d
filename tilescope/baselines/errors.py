"""Errors of baseline stores.

BaselineError               baseline: base of all
├── BaselineMissing         baseline_missing: nothing is stored for a model
└── StoreNotUsable          store_not_usable: no permission, no repository, a branch of other files
    └── PushRefused         push_refused: the remote does not take the branch
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["BaselineError", "BaselineMissing", "PushRefused", "StoreNotUsable"]

#: Stored keys that a message lists.
_N_LISTED = 5


class BaselineError(Exception):
    """Base of every error of a store; ``code`` is stable, the text is for people."""

    code = "baseline"
    exit_code = 2


class BaselineMissing(BaselineError):
    """Nothing is stored under a key.

    Parameters
    ----------
    key
        The key.
    store
        The store in words, such as ``branch baselines``.
    stored
        Keys of the store.
    n_old
        Baselines of a layout that is no longer read.
    """

    code = "baseline_missing"

    def __init__(self, key: str, store: str, stored: Iterable[str], n_old: int = 0) -> None:
        names = sorted(stored)
        held = ", ".join(names[:_N_LISTED]) or "nothing"
        if len(names) > _N_LISTED:
            held += f" and {len(names) - _N_LISTED} more"
        if n_old:
            held += f", and {n_old} stored by machine and options before 0.1.0, which are not read"
        super().__init__(
            f"no baseline for {key} in {store}, which holds {held}; after a renaming, name the"
            " model with --name; at the first run, store one with: tilescope baseline save REPORT"
        )


class StoreNotUsable(BaselineError):
    """The store cannot be read or written."""

    code = "store_not_usable"


class PushRefused(StoreNotUsable):
    """The remote does not take the branch, for a reason that does not pass."""

    code = "push_refused"
