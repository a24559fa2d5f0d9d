"""A report in a few figures, and how its things are found: metrics, summaries, search by name."""
