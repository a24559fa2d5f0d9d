"""Memory and cycles of an LSTM of 1,000 steps with and without checkpoints."""
