"""The expected coordinates of fields under their softmax.

Source of the steps: graphcore/poplibs sdk-release-3.4, lib/popnn/SpatialSoftMax.cpp.
"""

from __future__ import annotations

import numpy as np

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popnn.softmax import softmax_in_place
from tilescope.engine.library.popops.elementwise.operations import binary, in_one, rearranged, unary

__all__ = ["spatial_softmax_2d"]


@checked
def spatial_softmax_2d(
    builder: Builder, fields: View, temperature: View, *, disable_softmax: bool = False
) -> Tensor:
    """Return the expected position of every field, from -1 to 1 along each of its sides.

    Parameters
    ----------
    builder
        Target of the program.
    fields
        float16 or float32, shape (fields, height, width).
    temperature
        Of the same type, one element: the fields are divided by it.
    disable_softmax
        Whether the fields are weights already, and only multiplied by the positions.

    Returns
    -------
    Tensor
        Shape (fields, 2): the row, and the column.

    Raises
    ------
    BadGraph
        If types or shapes are not supported.

    Notes
    -----
    As there, the softmax is over all fields jointly, so that the weights of all of them add up
    to 1.
    """
    if len(fields.shape) != 3 or fields.dtype not in (FLOAT16, FLOAT32):
        raise BadGraph(
            f"spatial_softmax_2d: {fields.name!r} is {fields.dtype} of shape {fields.shape}:"
            " expected fields, height and width of float16 or float32"
        )
    if temperature.dtype != fields.dtype or temperature.n_elements != 1:
        raise BadGraph(
            f"spatial_softmax_2d: the temperature {temperature.name!r} is {temperature.dtype} of"
            f" shape {temperature.shape}: expected one {fields.dtype}"
        )
    n_fields, height, width = fields.shape
    detail = {"shape": list(fields.shape), "softmax": not disable_softmax}
    build = builder.inside("spatialSoftMax2D", "popnn.spatialSoftMax2D", detail)
    scale = unary(build, "inverse", temperature).reshape(1)
    flat = rearranged(build, in_one(build, fields), (fields.n_elements,), "fields")
    weights = binary(build, "multiply", flat, scale)
    if not disable_softmax:
        softmax_in_place(build, weights)
    rows, columns = np.meshgrid(*(np.linspace(-1, 1, n) for n in (height, width)), indexing="ij")
    coordinates = np.stack([rows.reshape(-1), columns.reshape(-1)], axis=1)
    value = weights.reshape(1, n_fields, height * width)
    dtype = np.float16 if fields.dtype == FLOAT16 else np.float32
    return matmul(build, value, coordinates[None].astype(dtype), "positions").reshape(n_fields, 2)
