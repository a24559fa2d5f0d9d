"""The tables of a report, declared with SQLAlchemy; the source of `tilescope.reports.schema`."""

from tilescope.reports.declaration.definition import metadata

# The modules below register their tables with the metadata.
from tilescope.reports.declaration import graph, header, memory, run, storage  # isort: skip

__all__ = ["graph", "header", "memory", "metadata", "run", "storage"]
