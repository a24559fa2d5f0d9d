"""What a report may hold and whether it is whole: chunks, digests, seals, constraints, limits."""
