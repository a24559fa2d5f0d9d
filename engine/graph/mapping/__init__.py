"""Tile mappings of variables and views, and what follows from them."""
