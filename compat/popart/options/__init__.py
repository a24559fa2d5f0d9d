"""Options of a session: the classes of settings, `SessionOptions`, and which options act."""

from __future__ import annotations

from popart.options.effects import effect_of, warn_without_effect
from popart.options.session_options import SessionOptions
from popart.options.setting_groups import (
    AccumulateOuterFragmentSettings,
    AutodiffSettings,
    AutomaticLossScalingSettings,
    BatchSerializationSettings,
    ExecutionPhaseSettings,
    ExperimentalSettings,
    NumIOTiles,
    ReplicatedCollectivesSettings,
    TensorLocationSettings,
)

__all__ = [
    "AccumulateOuterFragmentSettings",
    "AutodiffSettings",
    "AutomaticLossScalingSettings",
    "BatchSerializationSettings",
    "ExecutionPhaseSettings",
    "ExperimentalSettings",
    "NumIOTiles",
    "ReplicatedCollectivesSettings",
    "SessionOptions",
    "TensorLocationSettings",
    "effect_of",
    "warn_without_effect",
]
