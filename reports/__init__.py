"""What a report file is, how it is written, opened and checked."""
