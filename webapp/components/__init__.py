"""Parts that several pages show: tables, grids, panels, icons."""
