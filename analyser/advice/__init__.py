"""What to change: insights by gain, remedies, where cycles go, what an operation waits for."""
