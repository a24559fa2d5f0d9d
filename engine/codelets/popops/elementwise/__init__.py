"""Elementwise vertices: one to three operands, copies, fills, fused expressions."""
