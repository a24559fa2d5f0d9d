"""The memory of tiles: liveness, constraints, addresses, and what does not fit."""
