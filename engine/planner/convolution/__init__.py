"""Plans of convolutions and products: candidates, their costs, and the choice."""
