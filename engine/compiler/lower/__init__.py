"""From the author's program tree to steps."""
