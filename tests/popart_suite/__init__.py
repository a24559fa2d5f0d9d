"""PopART's own tests against the `popart` module here: `make popart-suite POPART=path`."""
