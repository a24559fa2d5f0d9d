"""Root mean square normalisation: that of layers without the mean.

The steps are those of layer normalisation in graphcore/poplibs sdk-release-3.4,
lib/poplin/Norms.cpp, as far as they are needed; the definition is ONNX's, RMSNormalization.
"""

from __future__ import annotations

from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.norm.statistics import (
    check_input,
    grouped,
    inverse_root_mean_square,
    ungrouped,
    with_channels,
)
from tilescope.engine.library.popops.elementwise.operations import binary

__all__ = ["root_mean_square_normalise"]


@checked
def root_mean_square_normalise(builder: Builder, x: View, epsilon: float) -> Tensor:
    """Return x divided by √(mean of its squares + epsilon), per row.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (rows, columns); sums are float32.
    epsilon
        Added to the mean.

    Raises
    ------
    BadGraph
        If the tensor has fewer than two dimensions, or another type.
    """
    check_input("root_mean_square_normalise", x)
    detail = {"shape": list(x.shape), "epsilon": epsilon}
    build = builder.inside("rmsNormalise", "popnn.rmsNormalise", detail)
    apart = grouped(build, x, 1, is_strided=False)
    inverse = inverse_root_mean_square(build, apart, epsilon)
    white = binary(build, "multiply", apart, with_channels(apart, inverse))
    return ungrouped(build, white, tuple(x.shape), 1, is_strided=False)
