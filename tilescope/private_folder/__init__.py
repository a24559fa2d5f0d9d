"""Folders that only their user may change: caches of code and of compilations, and logs.

What is in such a folder is used as if this process had written it, compiled code included. Files of
the user's own work, such as models and reports, are not kept in one.
"""

from tilescope.private_folder.access import NotPrivate, foreign_owner, warn_once
from tilescope.private_folder.folder import PARTIAL, PrivateFolder

__all__ = ["PARTIAL", "NotPrivate", "PrivateFolder", "foreign_owner", "warn_once"]
