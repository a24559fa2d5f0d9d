"""The search for the best labels of sequences."""

from __future__ import annotations

from typing import Any

import torch

from poptorch.ops.marks import check_tensor
from tilescope.engine.frontend.torch import markers

__all__ = ["ctc_beam_search_decoder"]


def ctc_beam_search_decoder(
    probs: torch.Tensor,
    lengths: torch.Tensor,
    blank: int = 0,
    beam_width: int = 100,
    top_paths: int = 1,
) -> list[torch.Tensor]:
    """Return the best labels of sequences: logarithms of probabilities, lengths, classes.

    Parameters
    ----------
    probs
        Logarithms of probabilities, of shape (steps, batch, classes).
    lengths
        Steps of the sequences, of shape (batch,).
    blank
        The class of no label.
    beam_width
        Beams of the search.
    top_paths
        How many labels are returned.

    Raises
    ------
    Error
        When an argument is not a tensor.
    """
    check_tensor(probs, "ctc_beam_search_decoder: probs must be a torch.tensor argument.")
    check_tensor(lengths, "ctc_beam_search_decoder: lengths must be a torch.tensor argument.")
    steps, batch, _ = probs.shape
    examples = [
        torch.zeros(batch, top_paths, dtype=probs.dtype),
        torch.zeros(batch, top_paths, dtype=torch.int32),
        torch.zeros(batch, top_paths, steps, dtype=torch.int32),
    ]
    attributes: dict[str, Any] = {
        "blank": blank,
        "beam_width": beam_width,
        "top_paths": top_paths,
    }
    operands = [probs, lengths.to(torch.int32)]
    return markers.custom_op(
        operands, "CtcBeamSearchDecoder", "ai.graphcore", 1, examples, attributes
    )
