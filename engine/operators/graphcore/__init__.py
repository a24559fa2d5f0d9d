"""PopART's own operators, of the domain ``ai.graphcore``: by subject, as compositions of others."""
