"""Products of matrices."""

from __future__ import annotations

from tilescope.engine.frontend.onnx.node import Node, converter
from tilescope.engine.ir import Value


@converter("MatMul")
def _matmul(node: Node) -> Value:
    a, b = node.operand(0), node.operand(1)
    rank_a, rank_b = len(a.shape), len(b.shape)
    if rank_a == 1:
        a = node.reshape(a, (1, *a.shape))
    if rank_b == 1:
        b = node.reshape(b, (*b.shape, 1))
    out = node.emit("matmul", a, b, **node.memory, **node.partials)
    shape = out.shape
    if rank_b == 1:
        shape = shape[:-1]
    if rank_a == 1:
        shape = (*shape[:-2], *shape[-1:]) if rank_b > 1 else shape[:-1]
    return node.reshape(out, shape)


@converter("Gemm")
def _gemm(node: Node) -> Value:
    a, b = node.operand(0), node.operand(1)
    if node.attributes.get("transA", 0):
        a = node.emit("transpose", a, order=(1, 0))
    if node.attributes.get("transB", 0):
        b = node.emit("transpose", b, order=(1, 0))
    out = node.emit("matmul", a, b, **node.memory, **node.partials)
    alpha, beta = node.attributes.get("alpha", 1.0), node.attributes.get("beta", 1.0)
    if alpha != 1:
        out = node.binary("multiply", out, node.scalar(alpha, out))
    c = node.optional(2)
    if c is None or beta == 0:
        return out
    if beta != 1:
        c = node.binary("multiply", c, node.scalar(beta, out))
    return node.binary("add", out, c)
