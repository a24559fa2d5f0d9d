"""The executable cache: compiled programs stored in a directory and reused across processes."""
