"""Layers of neural networks, as PopLibs' popnn: activations, pools, softmax, norms, recurrence."""
