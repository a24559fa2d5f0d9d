"""The compiler's output: steps, messages, memory and costs, and their binary format."""
