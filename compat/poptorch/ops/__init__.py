"""What models call in ``forward``: blocks, marks of tensors, control flow, operators of the device.

On the host, they compute what PyTorch would.
"""

from poptorch.ops.blocks import BeginBlock, Block, BlockFunction, removeBlocks
from poptorch.ops.control_flow import cond, for_loop
from poptorch.ops.custom import CPU, custom_op
from poptorch.ops.decoding import ctc_beam_search_decoder
from poptorch.ops.geometry import fps, nearest
from poptorch.ops.marks import (
    identity_loss,
    ipu_print_tensor,
    nop,
    recomputationCheckpoint,
    serializedMatMul,
    set_available_memory,
    set_overlap_for_input,
    set_overlap_for_output,
)
from poptorch.ops.multi_conv import MultiConv
from poptorch.ops.scopes import Attribute, NameScope
from poptorch.ops.slices import dynamic_slice, dynamic_update

__all__ = [
    "CPU",
    "Attribute",
    "BeginBlock",
    "Block",
    "BlockFunction",
    "MultiConv",
    "NameScope",
    "cond",
    "ctc_beam_search_decoder",
    "custom_op",
    "dynamic_slice",
    "dynamic_update",
    "for_loop",
    "fps",
    "identity_loss",
    "ipu_print_tensor",
    "nearest",
    "nop",
    "recomputationCheckpoint",
    "removeBlocks",
    "serializedMatMul",
    "set_available_memory",
    "set_overlap_for_input",
    "set_overlap_for_output",
]
