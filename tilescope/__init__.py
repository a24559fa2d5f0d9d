"""The front door: the `tilescope` command."""
