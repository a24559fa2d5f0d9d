"""Plans with equal predicted cycles: the one whose results are in long runs is chosen."""

from __future__ import annotations

from tilescope.engine.machine import load_machine
from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.tiling import ConvolutionShape


def test_rows_are_split_rather_than_columns() -> None:
    """A projection of ResNet-50: 28 rows or 28 columns of the field take equal cycles.

    With its columns split, a tile has single pixels, every one a fragment of later exchanges.
    """
    shape = ConvolutionShape(
        groups=1,
        images=64,
        height=28,
        width=28,
        in_channels=256,
        out_channels=512,
        kernel=(1, 1),
        stride=(2, 2),
        dilation=(1, 1),
        padding_before=(0, 0),
        in_height=56,
        in_width=56,
        dtype="float16",
        partial_dtype="float32",
        runs=(1, 2, 4, 8, 16),
        weights="constant",
    )
    machine = load_machine("c600")
    plan = plan_convolution("projection", shape, machine)
    assert plan.split["rows"] > 1
    assert plan.split["columns"] == 1
    turned = {**plan.split, "rows": 1, "columns": plan.split["rows"]}
    peer = plan_convolution("projection", shape, machine, split=tuple(turned.items()))
    assert peer.predicted_cycles == plan.predicted_cycles
    assert peer.temporary_bytes == plan.temporary_bytes
