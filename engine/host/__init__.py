"""What exists for the host's speed only: without it, an engine that is right and slow is left."""
