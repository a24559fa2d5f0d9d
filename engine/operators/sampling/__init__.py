"""Elements between positions: resizing, grids and regions."""
