"""Products of matrices, sums by equations, Fourier transforms."""
