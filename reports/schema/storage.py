"""Storage: packed arrays in hashed chunks, hashed blocks of rows, milestones."""

from __future__ import annotations

from tilescope.reports.schema.table import ColumnSpec, TableSpec

__all__ = ["array", "array_chunk", "chunk", "milestone", "row_block"]

array = TableSpec(
    "array",
    "Packed arrays in this report",
    (
        ColumnSpec("array_id", "integer", "Identity"),
        ColumnSpec("name", "text", "Name in the catalogue of arrays", is_unique=True),
        ColumnSpec("dtype", "text", "Little-endian numpy type of one value, such as <i8"),
        ColumnSpec("n_columns", "integer", "Values in one row; 1 for a plain column"),
        ColumnSpec("chunk_rows", "integer", "Rows of a full chunk"),
        ColumnSpec("chunk_columns", "integer", "Columns of a full chunk"),
    ),
)

array_chunk = TableSpec(
    "array_chunk",
    "Rectangles of arrays: their chunks and summaries",
    (
        ColumnSpec("array_chunk_id", "integer", "Identity"),
        ColumnSpec(
            "array_id",
            "integer",
            "Array that the chunk belongs to",
            refers_to=("array", "array_id"),
        ),
        ColumnSpec("row_start", "integer", "First row"),
        ColumnSpec("n_rows", "integer", "Number of rows"),
        ColumnSpec("column_start", "integer", "First column"),
        ColumnSpec("n_columns", "integer", "Number of columns"),
        ColumnSpec(
            "digest",
            "bytes",
            "Digest of the packed values, which names the chunk",
            refers_to=("chunk", "digest"),
        ),
        ColumnSpec("minimum", "integer", "Smallest value, in the array's unit"),
        ColumnSpec("maximum", "integer", "Largest value, in the array's unit"),
        ColumnSpec(
            "total", "integer", "Sum of the values, in the array's unit; saturated to 64 bits"
        ),
        ColumnSpec(
            "packed_digest",
            "bytes",
            "BLAKE2b-128 of the codec and the packed bytes, which readers verify; null if only"
            " digest covers them",
            is_nullable=True,
            since=7,
        ),
    ),
    unique=("array_id", "row_start", "column_start"),
)

chunk = TableSpec(
    "chunk",
    "Packed values; identical content is stored once",
    (
        ColumnSpec("chunk_id", "integer", "Identity"),
        ColumnSpec(
            "digest", "bytes", "BLAKE2b-128 of the unpacked bytes and their type", is_unique=True
        ),
        ColumnSpec("codec", "text", "Codec: zstd, or shuffle+zstd"),
        ColumnSpec("raw_bytes", "integer", "Length when unpacked, in bytes"),
        ColumnSpec("data", "bytes", "The packed bytes, at most 512 KiB"),
    ),
)

row_block = TableSpec(
    "row_block",
    "Digests of blocks of rows, checked when a table is first read",
    (
        ColumnSpec("row_block_id", "integer", "Identity"),
        ColumnSpec("table_name", "text", "The table whose rows are covered"),
        ColumnSpec("first_id", "integer", "Primary key of the first row"),
        ColumnSpec("last_id", "integer", "Primary key of the last row"),
        ColumnSpec("n_rows", "integer", "Number of rows"),
        ColumnSpec("digest", "bytes", "BLAKE2b-128 of the rows in order of their primary key"),
    ),
)

milestone = TableSpec(
    "milestone",
    "Progress of the writer; a milestone seals all earlier rows",
    (
        ColumnSpec("milestone_id", "integer", "Identity, in order of time"),
        ColumnSpec(
            "name",
            "text",
            "created, compiled, run, trace or finished; a complete report ends in finished",
        ),
        ColumnSpec("n_row_blocks", "integer", "Number of rows in row_block at this milestone"),
        ColumnSpec(
            "digest", "bytes", "BLAKE2b-128 chained over the digests of all row blocks so far"
        ),
    ),
)
