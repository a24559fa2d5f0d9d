"""Innermost loops of kernels: vectors, blocks and pairs as LLVM IR, rounding, work arrays."""
