"""Codelets and the vertices that run them: fields, regions, laws, compute sets."""
