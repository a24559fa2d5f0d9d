"""Pure functions from the analyser's tables to what is drawn; tests check data, not pixels."""
