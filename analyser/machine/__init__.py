"""The machine of a report: its tiles, their places, the patterns that their numbers follow."""
