"""What programs import of scikit-learn to look at their predictions."""
