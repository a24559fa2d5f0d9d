"""Public programs written against PopART, run as they are."""
