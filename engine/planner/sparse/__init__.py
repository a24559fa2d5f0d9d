"""Plans of sparse products: where the blocks of a pattern are, and what dense rows go there."""
