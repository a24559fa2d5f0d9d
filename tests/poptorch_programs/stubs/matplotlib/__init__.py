"""What programs import of matplotlib: pictures that nobody sees."""
