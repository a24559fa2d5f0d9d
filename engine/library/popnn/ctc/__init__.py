"""Alignments of labels with sequences: their loss with its gradient, and the search for labels."""
