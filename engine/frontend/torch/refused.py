"""PyTorch's operators without a rule: PyTorch takes them apart, or they are refused."""

from __future__ import annotations

__all__ = ["LEFT", "REFUSED"]

_BACKEND = (
    "names the kernel of a backend; torch.export writes aten.conv2d and the like in its place"
)
_SHAPE = "has as many results as data decide"
_COMPLEX = "makes complex numbers, which the machine does not have"
_SOLVER = "needs a solver of linear algebra, which the machine does not have"

#: Operators that PyTorch takes apart into operators that have rules.
LEFT = (
    "aten.cosine_similarity",
    "aten.diag_embed",
    "aten.diff",
    "aten.embedding_bag",
    "aten.heaviside",
    "aten.kron",
    "aten.linalg_matrix_norm",
    "aten.logit",
    "aten.movedim",
    "aten.multilabel_soft_margin_loss",
    "aten.pairwise_distance",
    "aten.rot90",
    "aten.sinc",
    "aten.tensordot",
    "aten.trace",
    "aten.triplet_margin_loss",
)

#: Operators that are refused, with what follows their name in a sentence.
REFUSED = {
    "aten.Int": "makes a Python number of a tensor, so that data would decide what is computed",
    "aten.as_strided": "addresses memory by strides, and a tensor on the tiles has none:"
    " write it with slices, unfold or expand",
    "aten.bincount": f"{_SHAPE}: use torch.zeros(n).scatter_add with a known number of bins",
    "aten.convolution_overrideable": _BACKEND,
    "aten.cummax": "is not supported: the library has running sums and products only",
    "aten.cummin": "is not supported: the library has running sums and products only",
    "aten.fft_fft": _COMPLEX,
    "aten.fft_rfft": _COMPLEX,
    "aten.linalg_inv_ex": _SOLVER,
    "aten.linalg_svd": _SOLVER,
    "aten._linalg_svd": _SOLVER,
    "aten.masked_select": f"{_SHAPE}: use torch.where",
    "aten.mkldnn_convolution": _BACKEND,
    "aten.mode": "is not supported",
    "aten.nonzero": f"{_SHAPE}: use torch.where with three operands",
    "aten.unique_consecutive": _SHAPE,
    "aten._unique2": _SHAPE,
    "aten.view_as_complex": _COMPLEX,
}
