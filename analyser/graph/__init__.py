"""The graph of operations and its layout."""
