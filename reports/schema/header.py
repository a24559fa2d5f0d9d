"""Header of a report: provenance, target, options in effect, notices."""

from __future__ import annotations

from tilescope.reports.schema.table import ColumnSpec, TableSpec

__all__ = ["engine_option", "notice", "provenance", "target"]

provenance = TableSpec(
    "provenance",
    "Provenance of the report",
    (
        ColumnSpec("provenance_id", "integer", "Identity"),
        ColumnSpec(
            "key",
            "text",
            "report_kind (profile if missing), model_name,"
            " model_path (from the top of its repository), model_sha256,"
            " tilescope_version, python_version, numpy_version, numba_version,"
            " seed, engine_name, fidelity_version (of the table of expected errors by kind),"
            " graph_digest (operations, attributes, shapes and edges; no names,"
            " no weights), weights_digest, or a name with prefix wall_ for wall-clock facts",
            is_unique=True,
        ),
        ColumnSpec("value", "text", "The fact as text"),
    ),
)

target = TableSpec(
    "target",
    "The machine the program was compiled for",
    (
        ColumnSpec("target_id", "integer", "Always 1"),
        ColumnSpec("name", "text", "Name of the machine, such as gc200"),
        ColumnSpec("target_type", "text", "Always IPUModel: the machine is simulated"),
        ColumnSpec("architecture", "text", "Generation, such as ipu2"),
        ColumnSpec("parameter_set", "text", "hardware or ipu_model"),
        ColumnSpec("n_ipus", "integer", "Number of IPUs in one replica"),
        ColumnSpec("n_replicas", "integer", "Number of identical replicas, stored once"),
        ColumnSpec("tiles_per_ipu", "integer", "Tiles of one IPU"),
        ColumnSpec("bytes_per_tile", "integer", "Memory of one tile, bytes"),
        ColumnSpec("non_interleaved_bytes", "integer", "Non-interleaved region of one tile, bytes"),
        ColumnSpec("interleaved_bytes", "integer", "Interleaved region of one tile, bytes"),
        ColumnSpec("n_worker_contexts", "integer", "Worker contexts of one tile"),
        ColumnSpec("clock_hz", "real", "Tile clock, hertz"),
        ColumnSpec("exchange_bytes_per_cycle", "real", "Per tile and direction, bytes per cycle"),
        ColumnSpec("host_bytes_per_cycle", "real", "Host link of one IPU, bytes per tile cycle"),
        ColumnSpec("sync_cycles", "integer", "Fixed cost of an internal sync, cycles"),
        ColumnSpec(
            "preset_tiles_per_ipu",
            "integer",
            "Tiles of an IPU of the preset that the machine is; null for a machine from a file",
            is_nullable=True,
            since=5,
        ),
    ),
)

engine_option = TableSpec(
    "engine_option",
    "Options in effect, with their origins",
    (
        ColumnSpec("engine_option_id", "integer", "Identity"),
        ColumnSpec("name", "text", "Key, such as autoReport.all", is_unique=True),
        ColumnSpec("value", "text", "Value in effect, as text"),
        ColumnSpec("origin", "text", "environment, command line, code or default"),
        ColumnSpec(
            "has_effect", "boolean", "Whether it has an effect in this version of the engine"
        ),
    ),
)

notice = TableSpec(
    "notice",
    "Messages of the engine about this program",
    (
        ColumnSpec("notice_id", "integer", "Identity"),
        ColumnSpec("severity", "text", "info, warning or error"),
        ColumnSpec("code", "text", "Stable short name, such as out_of_tile_memory"),
        ColumnSpec("message", "text", "One-sentence message"),
    ),
)
