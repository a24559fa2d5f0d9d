"""Tables of the analyser in, Plotly figures out; pure, so that tests look at data, not pixels."""
