"""The functions of popsparse by header."""

from __future__ import annotations

from collections.abc import Iterator

from docs.pages.poplibs_name import PLANS, Name, all_of

__all__ = ["popsparse_names"]

_EMBEDDING = "`add_variable`: look-ups are sent to all parts, slices are copied to them"
_BLOCK_SPARSE = "not supported: experimental; `sparse_dense_matmul` multiplies blocks"


def popsparse_names() -> Iterator[Name]:
    """Yield the functions of the headers of popsparse."""
    header, place = "popsparse/MatMul", "library.popsparse.static_product"
    note = "`static_`: the pattern is known at compile time"
    for public, ours in {
        "createSparseDenseMatMulLHS": "create_sparse_dense_matmul_lhs",
        "createSparseDenseMatMulRHS": "create_sparse_dense_matmul_rhs",
        "createDenseSparseMatMulLHS": "create_dense_sparse_matmul_lhs",
        "createDenseSparseMatMulRHS": "create_dense_sparse_matmul_rhs",
        "sparseDenseMatMul": "sparse_dense_matmul",
        "denseSparseMatMul": "dense_sparse_matmul",
    }.items():
        yield Name(header, public, f"{place}.{ours}", note)
    header, place = "popsparse/FullyConnected", "library.popsparse.fully_connected"
    for public, ours in {
        "createFullyConnectedWeights": "create_fully_connected_weights",
        "createFullyConnectedInput": "create_fully_connected_input",
        "fullyConnectedFwd": "fully_connected_fwd",
        "fullyConnectedGradA": "fully_connected_grad_a",
        "fullyConnectedSparseGradW": "fully_connected_sparse_grad_w",
    }.items():
        yield Name(header, public, f"{place}.{ours}")
    yield Name(header, "fullyConnectedDenseGradWSerialSplits", "", PLANS)
    header, place = "popsparse/Embedding", "library.popsparse.embedding"
    note = "tables of single values"
    yield Name(header, "embeddingSlice", f"{place}.embedding_slice", note)
    yield Name(header, "embeddingUpdateAdd", f"{place}.embedding_update_add", note)
    yield from all_of(header, "createIndicesTensor createSliceTensor", "", _EMBEDDING)
    header = "popsparse/experimental"
    place, note = "library.popsparse.block_softmax", "blocks of 1, 4, 8 or 16; one group"
    for public, ours in {
        "bsSoftmax": "bs_softmax",
        "bsSoftmaxInPlace": "bs_softmax_in_place",
        "bsSoftmaxGrad": "bs_softmax_grad",
    }.items():
        yield Name(f"{header}/BlockSparse", public, f"{place}.{ours}", note)
    names = "createBSMatMulInputLHS createBSMatMulInputRHS bsMatMul"
    yield from all_of(f"{header}/BlockSparseMatMul", names, "", _BLOCK_SPARSE)
