"""Storage: packed arrays in hashed chunks, hashed blocks of rows, milestones."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Integer, LargeBinary, Table, Text, UniqueConstraint

from tilescope.reports.declaration.definition import column, metadata

__all__ = ["array", "array_chunk", "chunk", "milestone", "row_block"]

array = Table(
    "array",
    metadata,
    column("array_id", Integer, "Identity", primary_key=True),
    column("name", Text, "Name in the catalogue of arrays", unique=True),
    column("dtype", Text, "Little-endian numpy type of one value, such as <i8"),
    column("n_columns", Integer, "Values in one row; 1 for a plain column"),
    column("chunk_rows", Integer, "Rows of a full chunk"),
    column("chunk_columns", Integer, "Columns of a full chunk"),
    comment="Packed arrays in this report",
)

array_chunk = Table(
    "array_chunk",
    metadata,
    column("array_chunk_id", Integer, "Identity", primary_key=True),
    column("array_id", Integer, "Array that the chunk belongs to", ForeignKey("array.array_id")),
    column("row_start", Integer, "First row"),
    column("n_rows", Integer, "Number of rows"),
    column("column_start", Integer, "First column"),
    column("n_columns", Integer, "Number of columns"),
    column(
        "digest",
        LargeBinary,
        "Digest of the packed values, which names the chunk",
        ForeignKey("chunk.digest"),
    ),
    column("minimum", Integer, "Smallest value, in the array's unit"),
    column("maximum", Integer, "Largest value, in the array's unit"),
    column("total", Integer, "Sum of the values, in the array's unit; saturated to 64 bits"),
    UniqueConstraint("array_id", "row_start", "column_start"),
    comment="Rectangles of arrays: their chunks and summaries",
)

chunk = Table(
    "chunk",
    metadata,
    column("chunk_id", Integer, "Identity", primary_key=True),
    column("digest", LargeBinary, "BLAKE2b-128 of the unpacked bytes and their type", unique=True),
    column("codec", Text, "Codec: zstd, or shuffle+zstd"),
    column("raw_bytes", Integer, "Length when unpacked, in bytes"),
    column("data", LargeBinary, "The packed bytes, at most 512 KiB"),
    comment="Packed values; identical content is stored once",
)

row_block = Table(
    "row_block",
    metadata,
    column("row_block_id", Integer, "Identity", primary_key=True),
    column("table_name", Text, "The table whose rows are covered"),
    column("first_id", Integer, "Primary key of the first row"),
    column("last_id", Integer, "Primary key of the last row"),
    column("n_rows", Integer, "Number of rows"),
    column("digest", LargeBinary, "BLAKE2b-128 of the rows in order of their primary key"),
    comment="Digests of blocks of rows, checked when a table is first read",
)

milestone = Table(
    "milestone",
    metadata,
    column("milestone_id", Integer, "Identity, in order of time", primary_key=True),
    column("name", Text, "created, compiled, run or finished; a complete report ends in finished"),
    column("n_row_blocks", Integer, "Number of rows in row_block at this milestone"),
    column("digest", LargeBinary, "BLAKE2b-128 chained over the digests of all row blocks so far"),
    comment="Progress of the writer; a milestone seals all earlier rows",
)
