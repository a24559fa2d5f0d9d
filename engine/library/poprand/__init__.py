"""Random numbers, as PopLibs' poprand."""
