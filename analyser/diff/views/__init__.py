"""Tables and series of two reports side by side, as pages and commands show them."""
