"""Header of a report: provenance, target, options in effect, notices."""

from __future__ import annotations

from sqlalchemy import Boolean, Float, Integer, Table, Text

from tilescope.reports.declaration.definition import column, metadata

__all__ = ["engine_option", "notice", "provenance", "target"]

provenance = Table(
    "provenance",
    metadata,
    column("provenance_id", Integer, "Identity", primary_key=True),
    column(
        "key",
        Text,
        "model_name, model_path (from the top of its repository), model_sha256,"
        " tilescope_version, python_version, numpy_version, numba_version,"
        " seed, engine_name, graph_digest (operations, attributes, shapes and edges; no names, no"
        " weights), weights_digest, or a name with prefix wall_ for wall-clock facts",
        unique=True,
    ),
    column("value", Text, "The fact as text"),
    comment="Provenance of the report",
)

target = Table(
    "target",
    metadata,
    column("target_id", Integer, "Always 1", primary_key=True),
    column("name", Text, "Name of the machine, such as gc200"),
    column("target_type", Text, "Always IPUModel: the machine is simulated"),
    column("architecture", Text, "Generation, such as ipu2"),
    column("parameter_set", Text, "hardware or ipu_model"),
    column("n_ipus", Integer, "Number of IPUs in one replica"),
    column("n_replicas", Integer, "Number of identical replicas, stored once"),
    column("tiles_per_ipu", Integer, "Tiles of one IPU"),
    column("bytes_per_tile", Integer, "Memory of one tile, bytes"),
    column("non_interleaved_bytes", Integer, "Non-interleaved region of one tile, bytes"),
    column("interleaved_bytes", Integer, "Interleaved region of one tile, bytes"),
    column("n_worker_contexts", Integer, "Worker contexts of one tile"),
    column("clock_hz", Float, "Tile clock, hertz"),
    column("exchange_bytes_per_cycle", Float, "Per tile and direction, bytes per cycle"),
    column("host_bytes_per_cycle", Float, "Host link of one IPU, bytes per tile cycle"),
    column("sync_cycles", Integer, "Fixed cost of an internal sync, cycles"),
    comment="The machine the program was compiled for",
)

engine_option = Table(
    "engine_option",
    metadata,
    column("engine_option_id", Integer, "Identity", primary_key=True),
    column("name", Text, "Key, such as autoReport.all", unique=True),
    column("value", Text, "Value in effect, as text"),
    column("origin", Text, "environment, command line, code or default"),
    column("has_effect", Boolean, "Whether it has an effect in this version of the engine"),
    comment="Options in effect, with their origins",
)

notice = Table(
    "notice",
    metadata,
    column("notice_id", Integer, "Identity", primary_key=True),
    column("severity", Text, "info, warning or error"),
    column("code", Text, "Stable short name, such as out_of_tile_memory"),
    column("message", Text, "One-sentence message"),
    comment="Messages of the engine about this program",
)
