"""Number types of the device and the grids that their values lie on."""
