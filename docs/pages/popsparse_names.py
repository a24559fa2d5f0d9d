"""The functions of popsparse by header."""

from __future__ import annotations

from collections.abc import Iterator

from docs.pages.poplibs_name import Name

__all__ = ["popsparse_names"]

_DYNAMIC = "not supported: dynamic sparse products"


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
