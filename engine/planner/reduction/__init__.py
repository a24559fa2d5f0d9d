"""Plans of reductions: stages, the pieces of each, and the choice."""
