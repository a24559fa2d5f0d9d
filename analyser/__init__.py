"""Questions about one report, differences between two, exports."""
