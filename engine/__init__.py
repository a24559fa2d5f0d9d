"""Model in, report out: the simulator of a tile processor."""
