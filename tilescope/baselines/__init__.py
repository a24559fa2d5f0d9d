"""Where reports to compare against are stored, by model."""

from tilescope.baselines.errors import (
    BaselineError,
    BaselineMissing,
    PushRefused,
    StoreNotUsable,
)
from tilescope.baselines.key import BaselineKey, key_of
from tilescope.baselines.store import BaselineStore, open_store

__all__ = [
    "BaselineError",
    "BaselineKey",
    "BaselineMissing",
    "BaselineStore",
    "PushRefused",
    "StoreNotUsable",
    "key_of",
    "open_store",
]
