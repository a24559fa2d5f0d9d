"""Attributes of nodes, and keys of a model's metadata, that PopART gives a meaning.

Source: graphcore/popart, willow/include/popart/names.hpp.
"""

from __future__ import annotations

__all__ = [
    "AVAILABLE_MEMORY",
    "COLLECTIVE_GROUP",
    "COLLECTIVE_OPERATOR",
    "COMM_GROUP_SIZE",
    "COMM_GROUP_TYPE",
    "CONV_DITHERING",
    "DEBUG_INFO",
    "EXCHANGE_STRATEGY",
    "EXCLUDED_PATTERNS",
    "EXECUTION_PHASE",
    "INPLACE_NAMES",
    "INPLACE_PRIORITIES",
    "OUTLINE",
    "OUTPUT_LOCATION",
    "PARTIALS_TYPE",
    "PIPELINE_STAGE",
    "RECOMPUTE",
    "REPLICATION_FACTOR",
    "SCHEDULE_PRIORITY",
    "SERIALIZE_FACTOR",
    "SERIALIZE_MODE",
    "SERIALIZE_MODES",
    "SERIALIZE_PRECISION",
    "STREAM_MODE",
    "TILE_SET",
    "VARIABLE_SETTINGS",
    "VIRTUAL_GRAPH",
]

AVAILABLE_MEMORY = "__available_memory"
COLLECTIVE_GROUP = "__collectiveCommGroup"
COLLECTIVE_OPERATOR = "__collectiveOperator"
COMM_GROUP_SIZE = "__comm_group_size"
COMM_GROUP_TYPE = "__comm_group_type"
CONV_DITHERING = "__enable_conv_dithering"
DEBUG_INFO = "__debug_info_id"
EXCHANGE_STRATEGY = "__exchange_strategy"
EXCLUDED_PATTERNS = "__exclude_patterns"
EXECUTION_PHASE = "__execution_phase"
INPLACE_NAMES = "__inplace_op_names"
INPLACE_PRIORITIES = "__inplace_op_priorities"
OUTLINE = "__outline"
OUTPUT_LOCATION = "__output_tensor_location"
PARTIALS_TYPE = "__partials_type"
PIPELINE_STAGE = "__pipeline_stage"
RECOMPUTE = "__recompute_output_in_backward_pass"
REPLICATION_FACTOR = "__replicationFactor"
SCHEDULE_PRIORITY = "__schedule_priority"
SERIALIZE_FACTOR = "__serialize_matmul_factor"
SERIALIZE_MODE = "__serialize_matmul_mode"
SERIALIZE_PRECISION = "__serialize_matmul_precision"
STREAM_MODE = "__replicated_stream_mode"
TILE_SET = "__tile_set"
VARIABLE_SETTINGS = "__variable_settings"
VIRTUAL_GRAPH = "__ipu_number"

#: Values of `SERIALIZE_MODE`; ``none`` sets nothing.
SERIALIZE_MODES = ("input_channels", "reducing_dim", "output_channels")
