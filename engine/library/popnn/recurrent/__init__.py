"""Recurrent layers: LSTM, GRU and RNN, their weights and their loop over steps."""
