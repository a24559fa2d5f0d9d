"""Pages over the analyser."""
