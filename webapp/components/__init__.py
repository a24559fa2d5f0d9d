"""Components shared by the pages: tables, grids, panels, icons."""
