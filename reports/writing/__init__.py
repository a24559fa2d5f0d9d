"""Writing: one engine at a time, milestone by milestone, in one crash-safe file."""
