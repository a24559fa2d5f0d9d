"""Library functions: they expand operations into compute sets and copies, and return the output."""
