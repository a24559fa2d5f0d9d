"""The shape of a convolution or product."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilescope.engine.number.dtype import dtype_of
from tilescope.engine.tiling.input_range import FieldWindow

__all__ = ["ConvolutionShape"]


@dataclass(frozen=True)
class ConvolutionShape:
    """The shape of an operation; a product has a kernel of 1 and its rows as columns of the field.

    Parameters
    ----------
    groups
        Convolution groups, or matrices of a batch.
    images
        Images of the batch.
    height, width
        Output field.
    in_channels, out_channels
        Of one group.
    kernel, stride, dilation, padding_before
        Rows and columns.
    in_height, in_width
        Input field.
    dtype, partial_dtype
        Type of the inputs and weights, and of the partial sums.
    is_matmul
        Whether it is a product of matrices.
    runs
        Channel group sizes for which the input can be read in place, ascending.
    is_input_constant
        Whether the input is laid out before the program runs.
    is_input_local
        Whether the input is divided among the tiles that read it: constants, and an input that is
        allocated for the plan.
    weights
        ``constant``; for computed weights, ``rows`` if the outputs of an input are contiguous, else
        ``strided``.
    weight_groupings
        Groups, inputs and outputs of a grouping for which computed weights can be read in place,
        ascending; they have no padding.
    has_free_weights
        Whether the weights will be allocated for the plan, and thus be read in place.
    swapped
        For a product, the product of the transposed operands in reverse order.
    input_parts
        Number of serial parts of the inputs; this is one part. If there are several, the outputs
        have the type of the partial sums.
    """

    groups: int
    images: int
    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding_before: tuple[int, int] = (0, 0)
    in_height: int = 0
    in_width: int = 0
    dtype: str = "float32"
    partial_dtype: str = "float32"
    is_matmul: bool = False
    runs: tuple[int, ...] = ()
    is_input_constant: bool = False
    is_input_local: bool = False
    weights: str = "constant"
    weight_groupings: tuple[tuple[int, int, int], ...] = ()
    has_free_weights: bool = False
    swapped: ConvolutionShape | None = None
    input_parts: int = 1

    @property
    def item_bytes(self) -> int:
        """Size of an input, bytes."""
        return dtype_of(self.dtype).n_bytes

    @property
    def partial_bytes(self) -> int:
        """Size of a partial sum, bytes."""
        return dtype_of(self.partial_dtype).n_bytes

    @property
    def result_dtype(self) -> str:
        """Type of the outputs: half for float8 inputs, else the type of the inputs."""
        if self.input_parts > 1:
            return self.partial_dtype
        return "float16" if self.item_bytes == 1 else self.dtype

    @property
    def result_bytes(self) -> int:
        """Size of an output, bytes."""
        return dtype_of(self.result_dtype).n_bytes

    @property
    def is_pointwise(self) -> bool:
        """Whether the kernel is one element."""
        return self.kernel == (1, 1)

    @property
    def is_flat(self) -> bool:
        """Whether the output field is the input field, element by element."""
        return (
            self.is_pointwise
            and self.stride == (1, 1)
            and self.padding_before == (0, 0)  # cropping at one end may offset padding at the other
            and (self.height, self.width) == (self.in_height, self.in_width)
        )

    def window(self, d: int) -> FieldWindow:
        """Return the window along rows (0) or columns (1)."""
        return FieldWindow(self.kernel[d], self.stride[d], self.dilation[d], self.padding_before[d])

    @property
    def n_products(self) -> int:
        """Multiplications, including padding of the field."""
        channels = self.groups * self.in_channels * self.out_channels
        return channels * self.images * self.height * self.width * prod(self.kernel)

    @property
    def operation(self) -> str:
        """Its name in reports."""
        return "matmul" if self.is_matmul else "convolution"
