"""What takes too long for every change, run as one: ``make nightly``, and its last results."""
