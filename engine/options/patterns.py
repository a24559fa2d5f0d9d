"""Rewrites of models, which an option turns off by name: ``patterns.<name>``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["PATTERNS", "pattern_option"]

#: Every rewrite by name, with what it does. Names that PopRT has are PopRT's.
#: Source: graphcore/PopRT, benchmarks/bert/test_bert_base.py and examples/bert/test_bertsquad.py.
PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "pow_pattern": "Compute powers of 2, 3, 1/2, -1/2, -1 and -2 by squares and roots",
        "layer_norm_pattern": "Find layer and instance normalisations that are taken apart",
        "rms_norm_pattern": "Find root mean square normalisations that are taken apart",
        "softmax_pattern": "Find softmax that is taken apart",
        "erf_gelu_pattern": "Find GELU by the error function",
        "gelu_pattern": "Find GELU by the hyperbolic tangent",
        "swish_pattern": "Find x · sigmoid(x)",
        "hard_swish_pattern": "Find x · clip(x + 3, 0, 6) / 6",
        "pre_scale": "Fold a power of two that a product is scaled by into constant operands",
        "fold_batch_norm": "Fold batch normalisations into the convolution or factor before them",
    }
)


def pattern_option(name: str) -> str:
    """Return the option that turns a rewrite on or off."""
    return f"patterns.{name}"
