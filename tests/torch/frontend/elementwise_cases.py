"""Elementwise functions, activations, comparisons and types."""

from __future__ import annotations

import torch
from tests.torch.frontend.cases import case, drawn, integers
from torch.nn import functional

_X, _Y = drawn(3, 5), drawn(3, 5, seed=1)
_SMALL, _POSITIVE = drawn(3, 5, low=-0.9, high=0.9), drawn(3, 5, low=0.2, high=3)
_ABOVE = drawn(3, 5, low=1.2, high=3)
_I, _J = integers(3, 5, low=-6, high=7), integers(3, 5, seed=1, low=1, high=5)
_B, _C = integers(3, 5, high=2).bool(), integers(3, 5, seed=1, high=2).bool()
_HALVES = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.0, -3.0])
_ODD = torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), -2.0])

_UNARY = {
    "abs": _X,
    "acos": _SMALL,
    "acosh": _ABOVE,
    "asin": _SMALL,
    "asinh": _X,
    "atan": _X,
    "atanh": _SMALL,
    "cos": _X,
    "cosh": _X,
    "deg2rad": _X,
    "erf": _X,
    "erfc": _X,
    "exp": _X,
    "exp2": _X,
    "expm1": _X,
    "log": _POSITIVE,
    "log10": _POSITIVE,
    "log1p": _POSITIVE,
    "log2": _POSITIVE,
    "neg": _X,
    "rad2deg": _X,
    "reciprocal": _POSITIVE,
    "rsqrt": _POSITIVE,
    "sigmoid": _X,
    "sin": _X,
    "sinh": _X,
    "sqrt": _POSITIVE,
    "square": _X,
    "tan": _SMALL,
    "tanh": _X,
    "frac": _X * 3,
}
_FLAT = {"ceil": _X * 3, "floor": _X * 3, "round": _HALVES, "sgn": _X, "sign": _X, "trunc": _X * 3}
_TESTS = ("isnan", "isinf", "isfinite")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_ACTIVATIONS = {
    "celu": lambda x: functional.celu(x, 0.7),
    "elu": lambda x: functional.elu(x, 0.7),
    "gelu": functional.gelu,
    "gelu tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "glu": lambda x: functional.glu(x[:, :4], 1),
    "hardshrink": functional.hardshrink,
    "hardsigmoid": lambda x: functional.hardsigmoid(3 * x),
    "hardswish": lambda x: functional.hardswish(3 * x),
    "hardtanh": lambda x: functional.hardtanh(x, -0.7, 0.6),
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.3),
    "log_sigmoid": functional.logsigmoid,
    "log_softmax": lambda x: functional.log_softmax(x, 0),
    "mish": functional.mish,
    "relu": functional.relu,
    "relu6": lambda x: functional.relu6(6 * x),
    "rrelu": lambda x: functional.rrelu(x, 0.1, 0.3),
    "selu": functional.selu,
    "silu": functional.silu,
    "softmax": lambda x: functional.softmax(x, -1),
    "softmax dtype": lambda x: functional.softmax(x, 1, dtype=torch.float32),
    "softplus": lambda x: functional.softplus(x, 2),
    "softplus threshold": lambda x: functional.softplus(10 * x, 1, 5),
    "softshrink": lambda x: functional.softshrink(x, 0.4),
    "softsign": functional.softsign,
    "tanhshrink": functional.tanhshrink,
    "threshold": lambda x: functional.threshold(x, 0.3, 0.7),
}

CASES = [
    *(case(name, getattr(torch, name), x) for name, x in _UNARY.items()),
    *(case(name, getattr(torch, name), x, has_gradient=False) for name, x in _FLAT.items()),
    *(case(f"{name} integers", getattr(torch, name), _J) for name in ("sqrt", "exp", "sigmoid")),
    *(
        case(f"{name} integers", getattr(torch, name), _I)
        for name in ("abs", "neg", "sign", "floor")
    ),
    case("round decimals", lambda x: torch.round(x, decimals=1), _X * 3, has_gradient=False),
    *(case(name, getattr(torch, name), _ODD, has_gradient=False) for name in _TESTS),
    *(case(f"{name} integers", getattr(torch, name), _I) for name in _TESTS),
    *(case(name, function, _X) for name, function in _ACTIVATIONS.items()),
    case("prelu", functional.prelu, drawn(2, 3, 4), drawn(3, seed=1)),
    case("prelu one", functional.prelu, _X, drawn(1, low=0.2)),
    case("selu kinks", functional.selu, torch.tensor([-1.0, 0.5, 2.0])),
    *(
        case(f"{name} {kind}", getattr(torch, name), a, b)
        for name in _COMPARISONS
        for kind, a, b in (
            ("float", _X, _Y),
            ("broadcast", _X, drawn(5, seed=2)),
            ("mixed", _I, _X),
            ("scalar", _I, 2),
        )
    ),
    *(case(f"{name} fraction", getattr(torch, name), _I, 1.5) for name in _COMPARISONS),
    case("eq bool", torch.eq, _B, _C),
    case("lt bool", torch.lt, _B, _C),
    *(
        case(name, getattr(torch, name), _B, _C)
        for name in ("logical_and", "logical_or", "logical_xor")
    ),
    case("logical_and numbers", torch.logical_and, _X, _I),
    case("logical_not", torch.logical_not, _B),
    case("logical_not numbers", torch.logical_not, _I),
    *(
        case(f"{name} {kind}", getattr(torch, name), a, b)
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
        for kind, a, b in (("bool", _B, _C), ("int", _I.int(), _J.int()))
    ),
    case("__and__", lambda a, b: a & b, _B, _C),
    case("__or__", lambda a, b: a | b, _I.int(), _J.int()),
    case("__xor__", lambda a, b: a ^ b, _B, _C),
    case("bitwise_not", torch.bitwise_not, _I.int()),
    case("bitwise_not bool", torch.bitwise_not, _B),
    case("bitwise_left_shift", torch.bitwise_left_shift, _J.int(), _J.int()),
    case("bitwise_right_shift", torch.bitwise_right_shift, _I.int() * 9, _J.int()),
    case("add", torch.add, _X, _Y),
    case("add alpha", lambda a, b: torch.add(a, b, alpha=0.3), _X, _Y),
    case("add scalar", lambda a: a + 2, _X),
    case("add number of integers", lambda a: a + 2.5, _I),
    case("add types", lambda a, b: a + b, _I, _X),
    case("add bool", lambda a, b: a + b, _B, _I),
    case("add row", torch.add, _X, drawn(5, seed=2)),
    case("add column", torch.add, _X, drawn(3, 1, seed=2)),
    case("add zero dimensions", lambda a, b: a + b, _I, torch.tensor(2.5), has_gradient=False),
    case("sub", torch.sub, _X, _Y),
    case("sub alpha", lambda a, b: torch.sub(a, b, alpha=2), _X, _Y),
    case("rsub", lambda a: 3 - a, _X),
    case("rsub alpha", lambda a, b: torch.rsub(a, b, alpha=2), _X, _Y),
    case("mul", torch.mul, _X, _Y),
    case("mul scalar", lambda a: a * 3, _I),
    case("mul bool", lambda a, b: a * b, _B, _X),
    case("div", torch.div, _X, _POSITIVE),
    case("div integers", torch.div, _I, _J),
    case(
        "div trunc",
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        _X * 5,
        _POSITIVE,
        has_gradient=False,
    ),
    case(
        "div floor",
        lambda a, b: torch.div(a, b, rounding_mode="floor"),
        _X * 5,
        _POSITIVE,
        has_gradient=False,
    ),
    case("div floor integers", lambda a, b: torch.div(a, b, rounding_mode="floor"), _I, _J),
    case("div trunc integers", lambda a, b: torch.div(a, b, rounding_mode="trunc"), _I, _J),
    case("floor_divide", lambda a: a // 2, _I),
    case("true_divide", torch.true_divide, _I, 4),
    case("remainder", torch.remainder, _I, 4),
    case("remainder negative", torch.remainder, _I, -4),
    case("remainder float", torch.remainder, _X * 5, 1.7),
    case("fmod", torch.fmod, _I, 4),
    case("fmod float", torch.fmod, _X * 5, 1.7),
    case("pow", torch.pow, _POSITIVE, _Y),
    case("pow 2", lambda a: a**2, _X),
    case("pow 3", lambda a: a**3, _X),
    case("pow half", lambda a: a**0.5, _POSITIVE),
    case("pow base", lambda a: 2.5**a, _X),
    case("pow integers", lambda a: a**2, _I),
    case("float_power", lambda a: torch.float_power(a, 2).float(), _POSITIVE, has_gradient=False),
    case("maximum", torch.maximum, _X, _Y),
    case("minimum", torch.minimum, _X, _Y),
    case("max pair", torch.max, _X, _Y),
    case("min pair", torch.min, _X, _Y),
    case("fmax", torch.fmax, _X, _Y),
    case("fmin", torch.fmin, _X, _Y),
    case("atan2", torch.atan2, _X, _Y, has_gradient=False),
    case("hypot", torch.hypot, _X, _Y),
    case("logaddexp", torch.logaddexp, _X, _Y),
    case("xlogy", torch.xlogy, _POSITIVE, _POSITIVE + 1),
    case("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.3), _X, _Y, _POSITIVE),
    case("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=0.3), _X, _Y, _POSITIVE),
    case("lerp", lambda a, b: torch.lerp(a, b, 0.3), _X, _Y),
    case("lerp tensor", torch.lerp, _X, _Y, _SMALL),
    case("clamp", lambda a: torch.clamp(a, -0.7, 0.6), _X),
    case("clamp integers", lambda a: torch.clamp(a, -2, 3), _I),
    case("clamp tensor", torch.clamp, _X, _Y - 1, _Y + 0.5),
    case("clamp_min", lambda a: torch.clamp_min(a, 0.1), _X),
    case("clamp_max", lambda a: torch.clamp_max(a, 0.1), _X),
    case("where", torch.where, _B, _X, _Y),
    case("where scalar", lambda c, a: torch.where(c, a, 0.0), _B, _X),
    case("masked_fill", lambda a, c: a.masked_fill(c, -3.0), _X, _B),
    case("masked_fill row", lambda a, c: a.masked_fill(c, 2.0), _X, _B[0]),
    case("nan_to_num", torch.nan_to_num, _ODD, has_gradient=False),
    case("to", lambda a: a.to(torch.int32), _X * 3),
    case("to double", lambda a: a.double().float(), _X, has_gradient=False),
    case("to bool", lambda a: a.bool(), _I),
    case("_to_copy half", lambda a: a.half().float(), _X, tolerance=1e-3),
    case("type_as", lambda a, b: a.type_as(b), _I, _X, has_gradient=False),
    case("detach", lambda a: a * a.detach(), _X),
    case("clone", lambda a: a.clone() * 2, _X),
    case("contiguous", lambda a: a.t().contiguous(), _X),
    case("copy_", lambda a, b: a.clone().copy_(b) * a, _X, _Y),
    case("sinc", torch.sinc, _POSITIVE, tolerance=1e-4),
    case("logit", torch.logit, drawn(3, 5, low=0.1, high=0.9)),
    case("heaviside", torch.heaviside, _X, _Y, has_gradient=False),
]
