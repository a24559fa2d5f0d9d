"""Scripts of public repositories that were written against libpva, run on TileScope's reports."""
