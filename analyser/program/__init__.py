"""Programs, compute sets, exchanges, operations and their plans."""
