"""Pure functions from the analyser's tables to Plotly figures; tests check data, not pixels."""
