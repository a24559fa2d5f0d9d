"""Opening and reading reports, also while they are written."""
