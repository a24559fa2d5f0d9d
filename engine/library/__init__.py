"""What turns an operation into compute sets and copies; each function returns its output."""
