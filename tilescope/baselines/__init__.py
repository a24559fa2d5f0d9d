"""Where reports to compare against are stored, by model, machine and options."""

from tilescope.baselines.errors import BaselineError, BaselineMissing, StoreNotUsable
from tilescope.baselines.key import BaselineKey, key_of
from tilescope.baselines.store import BaselineStore, open_store

__all__ = [
    "BaselineError",
    "BaselineKey",
    "BaselineMissing",
    "BaselineStore",
    "StoreNotUsable",
    "key_of",
    "open_store",
]
