"""Number types of the device and their grids of representable values."""
