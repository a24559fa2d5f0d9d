"""Two custom operators: a cube of other operators, and a leaky ReLU of codelets.

    tilescope run model.onnx --operators examples/custom_operators.py

In a program, ``import custom_operators`` registers them. They are those of PopART's tutorials,
which write them in C++. As a program, this file checks them against numpy:

    python examples/custom_operators.py
"""

import numpy as np

from tilescope import engine

# Cube: decomposed into operators that exist, which also give its gradient.


def cube(node, into):
    x = node.operand(0)
    return into.emit(engine.operator("Mul"), into.emit(engine.operator("Mul"), x, x), x)


def cube_in_numpy(_node, arrays):
    return arrays[0] ** 3


CUBE = engine.custom_operator("Cube", domain="custom.ops", decompose=cube, evaluate=cube_in_numpy)


# LeakyRelu: codelets compute it and its gradient.


def vector_law(batch, machine):
    """15 of overhead, then load, compare, multiply, select and store per 8 bytes."""
    return 15 + 5 * batch.n_vectors(batch.size["out"][:, 0], "out", machine)


@engine.codelet(
    engine.Field("x", "in"),
    engine.Field("out", "out", size_of="x", dtype_of="x"),
    scalars=[engine.Scalar("alpha", "float")],
    law=vector_law,
    code_bytes=96,
)
def leaky_relu(x, out, alpha):
    for i in range(out.size):
        out[i] = x[i] if x[i] > 0 else alpha * x[i]


@engine.codelet(
    engine.Field("gradient", "in"),
    engine.Field("x", "in", size_of="gradient"),
    engine.Field("out", "out", size_of="gradient", dtype_of="gradient"),
    scalars=[engine.Scalar("alpha", "float")],
    law=vector_law,
    code_bytes=104,
)
def leaky_relu_gradient(gradient, x, out, alpha):
    for i in range(out.size):
        out[i] = gradient[i] if x[i] > 0 else alpha * gradient[i]


def like_input(node):
    x = node.operand(0)
    return [(x.shape, x.dtype)]


def lower_leaky_relu(at, op):
    scalars = {"alpha": op.attributes["alpha"]}
    return engine.map_codelet(at.builder, leaky_relu, [at.tensor(op.operand(0))], scalars=scalars)


def lower_leaky_relu_gradient(at, op):
    operands = [at.tensor(value) for value in op.operands]
    scalars = {"alpha": op.attributes["alpha"]}
    return engine.map_codelet(at.builder, leaky_relu_gradient, operands, scalars=scalars)


def gradient_in_numpy(node, arrays):
    gradient, x = arrays
    return np.where(x > 0, gradient, np.float32(node.attributes["alpha"]) * gradient)


LEAKY_RELU_GRADIENT = engine.custom_operator(
    "LeakyReluGrad",
    domain="custom.ops",
    n_inputs=2,
    attributes={"alpha": 0.01},
    infer=like_input,
    lower=lower_leaky_relu_gradient,
    evaluate=gradient_in_numpy,
)


def leaky_relu_in_numpy(node, arrays):
    (x,) = arrays
    return np.where(x > 0, x, np.float32(node.attributes["alpha"]) * x)


def differentiate_leaky_relu(op, into, gradients):
    alpha = op.attributes["alpha"]
    return [into.emit(LEAKY_RELU_GRADIENT, gradients[0], op.operand(0), alpha=alpha)]


LEAKY_RELU = engine.custom_operator(
    "LeakyRelu",
    domain="custom.ops",
    attributes={"alpha": 0.01},
    infer=like_input,
    lower=lower_leaky_relu,
    evaluate=leaky_relu_in_numpy,
    gradient=differentiate_leaky_relu,
)


def main() -> None:
    x = np.linspace(-2, 2, 1_000, dtype=np.float32).reshape(10, 100)
    engine.check_operator(CUBE, [x])
    engine.check_operator(LEAKY_RELU, [x], {"alpha": 0.2})
    engine.check_operator(LEAKY_RELU_GRADIENT, [x[::-1], x], {"alpha": 0.2})
    print("Cube, LeakyRelu and LeakyReluGrad agree with numpy")


if __name__ == "__main__":
    main()
