"""Trained models: a catalogue pinned by hash, and a local store."""

from tilescope.engine.models.catalogue import Companion, Model, ModelInput, all_models, find
from tilescope.engine.models.store import cached, companion_paths, fetch

__all__ = [
    "Companion",
    "Model",
    "ModelInput",
    "all_models",
    "cached",
    "companion_paths",
    "fetch",
    "find",
]
