"""Normalisations, softmax and losses."""
