"""Where things come from and whether they are equal: debug contexts, callers, digests."""
