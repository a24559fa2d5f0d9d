"""Marks of a report: its name, and those in the header of its file."""

from __future__ import annotations

__all__ = ["APPLICATION_ID", "OLDEST_VERSION", "REPORT_NAME", "SCHEMA_VERSION"]

#: File name of a finished report.
REPORT_NAME = "profile.pop"
#: The four letters "TSCP", kept in SQLite's header field ``application_id``.
APPLICATION_ID = 0x54534350
#: Kept in SQLite's header field ``user_version``; raised when tables, arrays or digests change.
SCHEMA_VERSION = 11
#: The oldest version that is read: what it lacks is null.
OLDEST_VERSION = 4
