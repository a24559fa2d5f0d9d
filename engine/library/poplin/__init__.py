"""Products and convolutions, as PopLibs' poplin."""
