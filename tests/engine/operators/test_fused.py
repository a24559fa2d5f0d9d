"""Operators that onnxruntime's optimiser and quantiser write, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx
from tilescope.engine.errors import BadModel
from tilescope.engine.options import resolve

RANDOM = np.random.default_rng(11)
FLOATS, BYTES = (TensorProto.FLOAT,), (TensorProto.UINT8,)
Given = Sequence[np.ndarray | None]


def _floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def _bytes(*shape: int, dtype: str = "uint8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _scalar(value: float, dtype: str = "float32") -> np.ndarray:
    return np.array(value, dtype)


def _model(
    op_type: str, given: Given, kinds: Sequence[int] = FLOATS, **attributes: Any
) -> onnx.ModelProto:
    """Return a model of one node: its first input is the model's, the others are constants."""
    names = ["" if array is None else f"i{k}" for k, array in enumerate(given)]
    results = [f"y{k}" for k in range(len(kinds))]
    node = helper.make_node(
        op_type, names, results, name="fused", domain="com.microsoft", **attributes
    )
    arrays = {n: a for n, a in zip(names, given, strict=True) if a is not None}
    first = arrays.pop(names[0])
    kind = helper.np_dtype_to_tensor_dtype(first.dtype)
    outputs = [
        helper.make_tensor_value_info(name, of, None)
        for name, of in zip(results, kinds, strict=True)
    ]
    model = model_of([node], [info("i0", first.shape, kind)], outputs, arrays)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def _compared(
    tmp_path: Path, op_type: str, given: Given, kinds: Sequence[int] = FLOATS, **attributes: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    first = given[0]
    assert first is not None
    model = _model(op_type, given, kinds, **attributes)
    pairs = both(model, tmp_path / "fused.onnx", {"i0": first})
    for actual, expected in pairs:
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    return pairs


_X, _W, _K = _floats(2, 5, 8), _floats(8, 6), _floats(4, 3, 3, 3)
_FUSED: list[tuple[str, Given, dict[str, Any]]] = [
    ("Gelu", [_X], {}),
    ("QuickGelu", [_X], {"alpha": 1.5}),
    ("BiasGelu", [_X, _floats(8)], {}),
    ("FastGelu", [_X], {}),
    ("FastGelu", [_X, _floats(8)], {}),
    ("FusedMatMul", [_X, _W], {"alpha": 0.5}),
    ("FusedMatMul", [_X, _floats(2, 5, 3)], {"transA": 1}),
    ("FusedMatMul", [_X, _floats(2, 3, 8)], {"transB": 1, "alpha": 2.0}),
    ("FusedMatMul", [_floats(5, 2, 8), _floats(2, 8, 3)], {"transBatchA": 1}),
    ("FusedMatMul", [_floats(8, 2, 5), _floats(3, 2, 8)],
     {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1}),
    ("TransposeMatMul", [_X, _floats(2, 3, 8)], {"transB": 1}),
    ("FusedGemm", [_floats(4, 8), _W, _floats(6)], {"activation": "Relu", "alpha": 0.5}),
    ("FusedGemm", [_floats(4, 8), _W],
     {"activation": "LeakyRelu", "activation_alpha": 0.3}),
    ("FusedConv", [_floats(1, 3, 7, 7), _K, _floats(4)],
     {"activation": "HardSigmoid", "activation_params": [0.3, 0.4], "pads": [1, 1, 1, 1]}),
    ("FusedConv", [_floats(1, 3, 7, 7), _K, _floats(4), _floats(1, 4, 5, 5)],
     {"activation": "Relu"}),
    ("FusedConv", [_floats(1, 3, 7, 7), _K],
     {"activation": "Clip", "activation_params": [-1.0, 1.0]}),
    ("SkipLayerNormalization", [_X, _floats(2, 5, 8), _floats(8)], {"epsilon": 1e-3}),
    ("SkipLayerNormalization", [_X, _floats(2, 5, 8), _floats(8), _floats(8), _floats(8)], {}),
    ("SkipSimplifiedLayerNormalization", [_X, _floats(2, 5, 8), _floats(8)], {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op_type", "given", "attributes"),
    _FUSED,
    ids=[f"{i}-{one[0]}" for i, one in enumerate(_FUSED)],
)
def test_fused_operators(
    tmp_path: Path, op_type: str, given: Given, attributes: dict[str, Any]
) -> None:
    ((actual, expected),) = _compared(tmp_path, op_type, given, **attributes)
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("op_type", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_the_sum_of_a_skip_is_a_result(tmp_path: Path, op_type: str) -> None:
    values = [_X, _floats(2, 5, 8), _floats(8)]
    model = _model(op_type, values, FLOATS * 4)
    del model.graph.output[1:3]
    model.graph.node[0].output[1] = model.graph.node[0].output[2] = ""
    for actual, expected in both(model, tmp_path / "skip.onnx", {"i0": _X}):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


def test_embeddings(tmp_path: Path) -> None:
    ids = RANDOM.integers(0, 9, (2, 5)).astype(np.int32)
    segments = RANDOM.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    tables = [_floats(9, 8), _floats(6, 8), _floats(2, 8), _floats(8), _floats(8)]
    values = [ids, segments, *tables, mask]
    kinds = (TensorProto.FLOAT, TensorProto.INT32, TensorProto.FLOAT)
    for actual, expected in _compared(tmp_path, "EmbedLayerNormalization", values, kinds):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


_MASKS = [
    None,
    np.array([3, 5], np.int32),
    np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
    np.tril(np.ones((2, 5, 5), np.int32)),
]


@pytest.mark.parametrize("mask", _MASKS)
@pytest.mark.parametrize("is_causal", [0, 1])
def test_attention(tmp_path: Path, mask: np.ndarray | None, is_causal: int) -> None:
    values = [_X, _floats(8, 24), _floats(24), mask]
    pairs = _compared(tmp_path, "Attention", values, num_heads=2, unidirectional=is_causal)
    np.testing.assert_allclose(*pairs[0], rtol=2e-5, atol=2e-5)


def test_attention_after_earlier_keys(tmp_path: Path) -> None:
    values = [_X, _floats(8, 24), _floats(24), None, _floats(2, 2, 2, 3, 4)]
    for actual, expected in _compared(
        tmp_path, "Attention", values, FLOATS * 2, num_heads=2, unidirectional=1
    ):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


def test_attention_of_apart_operands(tmp_path: Path) -> None:
    values = [_X, _floats(2, 7, 8), _floats(2, 7, 8), _floats(24)]
    pairs = _compared(tmp_path, "MultiHeadAttention", values, num_heads=4)
    np.testing.assert_allclose(*pairs[0], rtol=2e-5, atol=2e-5)


_TABLES = [_floats(12, 2), _floats(12, 2)]
_WIDE = [_floats(12, 8), _floats(12, 8)]
_LAST, _ALL = np.array([4, 4], np.int32), np.array(5, np.int32)
_LATER, _TEN = np.array([7, 7], np.int32), np.array(8, np.int32)
_PAST = [_floats(2, 2, 3, 16), _floats(2, 2, 3, 16)]


@pytest.mark.parametrize(
    ("given", "attributes"),
    [
        ([_floats(2, 5, 32), _floats(2, 5, 32), _LAST, _ALL], {"local_window_size": 2}),
        ([_floats(2, 5, 32), _floats(2, 5, 32), _LAST, _ALL], {"softcap": 3.0, "scale": 0.3}),
        ([_floats(2, 5, 32), _floats(2, 5, 32), _LAST, _ALL, *_WIDE], {"do_rotary": 1}),
        ([_floats(2, 5, 32), _floats(2, 5, 32), _LATER, _TEN, *_WIDE],
         {"do_rotary": 1, "rotary_interleaved": 1}),
        ([None, None, _LAST, _ALL, *_WIDE], {"do_rotary": 1}),
    ],
    ids=["window", "cap", "rotary", "past", "packed"],
)  # fmt: skip
def test_attention_of_groups(tmp_path: Path, given: Given, attributes: dict[str, Any]) -> None:
    key, value, *rest = given
    x = _floats(2, 5, 64 if key is not None else 128)
    every = [x, key, value, None, None, *rest]
    if rest[0] is _LATER:  # onnxruntime takes earlier keys of one sequence only
        alone = [x, key, value, *_PAST, rest[0]]
        every = [*(array if array is None else array[:1] for array in alone), *rest[1:]]
    sizes = {"num_heads": 4, "kv_num_heads": 2}
    for actual, expected in _compared(
        tmp_path, "GroupQueryAttention", every, FLOATS * 3, **sizes, **attributes
    ):
        np.testing.assert_allclose(actual, expected, rtol=5e-5, atol=5e-5)


def test_attention_in_a_buffer_with_room_is_refused(tmp_path: Path) -> None:
    values = [_floats(2, 5, 64), *(_floats(2, 5, 32),) * 2, *_PAST, _LAST, _ALL]
    model = _model("GroupQueryAttention", values, FLOATS * 3, num_heads=4, kv_num_heads=2)
    onnx.save(model, tmp_path / "room.onnx")
    with pytest.raises(BadModel, match=r"seqlens_k is .* expected 7; buffers with room"):
        load_onnx(tmp_path / "room.onnx")


@pytest.mark.parametrize(
    ("x", "places", "attributes"),
    [
        (_floats(2, 5, 8), np.array([3]), {}),
        (_floats(2, 5, 8), np.array([[0, 1, 2, 3, 4], [7, 6, 5, 4, 3]]), {"interleaved": 1}),
        (_floats(2, 3, 5, 4), np.array([2]), {"interleaved": 1}),
        (_floats(2, 5, 32), np.array([1]), {"num_heads": 2, "rotary_embedding_dim": 4}),
    ],
)
def test_rotation(
    tmp_path: Path, x: np.ndarray, places: np.ndarray, attributes: dict[str, Any]
) -> None:
    pairs = _compared(tmp_path, "RotaryEmbedding", [x, places, *_TABLES], **attributes)
    np.testing.assert_allclose(*pairs[0], rtol=2e-5, atol=2e-5)


def test_a_normalisation_without_a_domain(tmp_path: Path) -> None:
    """Onnxruntime saves this operator in the domain of ONNX, which does not have it."""
    model = _model("SimplifiedLayerNormalization", [_X, _floats(8)], axis=-1, epsilon=1e-4)
    model.graph.node[0].domain = ""
    ((actual, expected),) = both(model, tmp_path / "simple.onnx", {"i0": _X})
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_quantised_mean(tmp_path: Path, keepdims: int) -> None:
    """Onnxruntime has no kernel of it for processors: the expected values are numpy's."""
    x = _bytes(2, 3, 4, 5)
    values = [x, *_q(0.1, 7), *_q(0.05, 3)]
    model = _model("QLinearReduceMean", values, BYTES, axes=[2, -1], keepdims=keepdims)
    onnx.save(model, tmp_path / "mean.onnx")
    compiled = compile_model(load_onnx(tmp_path / "mean.onnx"), load_machine("gc200"))
    with Engine(compiled.executable, resolve()) as engine:
        actual = compiled.run(engine, {"i0": x})["y0"]
    mean = (0.1 * (x.astype(np.float64) - 7)).mean(axis=(2, 3), keepdims=bool(keepdims))
    expected = np.clip(np.rint(mean / 0.05) + 3, 0, 255)
    assert actual.shape == expected.shape
    assert np.abs(actual.astype(int) - expected).max() <= 1


def test_quantised_attention(tmp_path: Path) -> None:
    weights = RANDOM.integers(-64, 64, (8, 24)).astype(np.int8)
    values = [
        _bytes(2, 5, 8), weights, _floats(24), _scalar(0.02), _scalar(0.01), None,
        _scalar(128, "uint8"), _scalar(0, "int8"),
    ]  # fmt: skip
    pairs = _compared(tmp_path, "QAttention", values, num_heads=2)
    np.testing.assert_allclose(*pairs[0], rtol=2e-5, atol=2e-5)


def _q(scale: float, zero: int) -> list[np.ndarray]:
    return [_scalar(scale), _scalar(zero, "uint8")]


_A, _B = _bytes(2, 3, 6, 6), _bytes(2, 3, 6, 6)
_QUANTISED: list[tuple[str, Given, dict[str, Any]]] = [
    ("QLinearAdd", [_A, *_q(0.1, 100), _B, *_q(0.2, 50), *_q(0.25, 60)], {}),
    ("QLinearAdd", [_A, *_q(0.1, 100), _bytes(6), *_q(0.2, 50), *_q(0.1, 128)], {}),
    ("QuantizeLinear", [_floats(3, 50), *_q(0.02, 100)], {}),
    ("QLinearMul", [_A, *_q(0.1, 100), _B, *_q(0.2, 50), *_q(0.5, 60)], {}),
    ("QLinearSigmoid", [_A, *_q(0.05, 120), *_q(1 / 256, 0)], {}),
    ("QLinearLeakyRelu", [_A, *_q(0.05, 120), *_q(0.04, 20)], {"alpha": 0.1}),
    ("QLinearGlobalAveragePool", [_A, *_q(0.05, 120), *_q(0.01, 99)], {}),
    ("QLinearAveragePool", [_A, *_q(0.05, 120), *_q(0.031, 99)],
     {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("QLinearAveragePool", [_A, *_q(0.05, 120), *_q(0.031, 99)],
     {"kernel_shape": [2, 2], "channels_last": 1}),
    ("QLinearConv", [_A, *_q(0.05, 120), RANDOM.integers(-64, 64, (4, 6, 3, 2)).astype(np.int8),
                     np.linspace(0.01, 0.02, 4, dtype=np.float32), np.zeros(4, np.int8),
                     *_q(0.3, 99), np.arange(4, dtype=np.int32)],
     {"channels_last": 1, "pads": [1, 0, 1, 0], "kernel_shape": [3, 2]}),
    ("QLinearConv", [_A, *_q(0.05, 120), RANDOM.integers(-64, 64, (6, 1, 3, 3)).astype(np.int8),
                     _scalar(0.01), _scalar(0, "int8"), *_q(0.1, 99)],
     {"channels_last": 1, "group": 6}),
    ("QLinearSoftmax", [_A, *_q(0.05, 120), *_q(1 / 256, 0)], {"axis": -1, "opset": 13}),
    ("QGemm", [_bytes(4, 8), *_q(0.02, 120), RANDOM.integers(-64, 64, (6, 8)).astype(np.int8),
               _scalar(0.01), _scalar(0, "int8"), np.arange(6, dtype=np.int32), *_q(0.02, 128)],
     {"transB": 1}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op_type", "given", "attributes"),
    _QUANTISED,
    ids=[f"{i}-{one[0]}" for i, one in enumerate(_QUANTISED)],
)
def test_quantised_operators(
    tmp_path: Path, op_type: str, given: Given, attributes: dict[str, Any]
) -> None:
    """Onnxruntime rounds scales before it adds: a value between two quanta may become either."""
    ((actual, expected),) = _compared(tmp_path, op_type, given, BYTES, **attributes)
    apart = np.abs(actual.astype(int) - expected)
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.02
    assert len(np.unique(actual)) > 5


def test_quantised_tensors_are_joined(tmp_path: Path) -> None:
    model = _model("QLinearConcat", [_A, *_q(0.1, 100), _B, *_q(0.2, 50)], BYTES, axis=1)
    node = model.graph.node[0]
    weights = {"ys": _scalar(0.15), "yz": _scalar(90, "uint8")}
    inputs = ["ys", "yz", *node.input]
    del node.input[:]
    node.input.extend(inputs)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    ((actual, expected),) = both(model, tmp_path / "join.onnx", {"i0": _A})
    assert np.abs(actual.astype(int) - expected).max() <= 1
    by_hand = np.clip(np.rint((_A - 100.0) * 0.1 / 0.15) + 90, 0, 255)
    assert np.abs(actual[:, :3] - by_hand).max() <= 1


def test_choices_between_quantised_tensors(tmp_path: Path) -> None:
    condition = RANDOM.integers(0, 2, _A.shape).astype(np.bool_)
    values = [condition, _A, *_q(0.1, 100), _B, *_q(0.2, 50), *_q(0.15, 90)]
    ((actual, expected),) = _compared(tmp_path, "QLinearWhere", values, BYTES)
    assert np.abs(actual.astype(int) - expected).max() <= 1


def test_products_that_return_floats(tmp_path: Path) -> None:
    weights = RANDOM.integers(-64, 64, (8, 6)).astype(np.int8)
    scale, zero = np.linspace(0.01, 0.02, 6, dtype=np.float32), np.zeros(6, np.int8)
    values = [
        _bytes(4, 8), weights, _scalar(0.02), scale, _scalar(120, "uint8"), zero, _floats(6)
    ]  # fmt: skip
    pairs = _compared(tmp_path, "MatMulIntegerToFloat", values)
    np.testing.assert_allclose(*pairs[0], rtol=1e-5, atol=1e-5)
    pairs = _compared(tmp_path, "DynamicQuantizeMatMul", [_floats(4, 8), weights, scale, zero])
    np.testing.assert_allclose(*pairs[0], rtol=1e-5, atol=1e-5)


_LSTM_STATES = [_floats(2, 1, 6), _floats(2, 1, 6)]


@pytest.mark.parametrize(
    ("rest", "n_scales", "attributes"),
    [
        ([_floats(1, 48)], 1, {}),
        ([None], 24, {"direction": "reverse", "clip": 0.5}),
        ([_floats(2, 48), None, *_LSTM_STATES, _floats(2, 18)], 1, {"direction": "bidirectional"}),
        ([_floats(1, 48)], 1, {"activations": ["Tanh", "Relu", "Softsign"]}),
    ],
    ids=["forward", "reverse", "both", "activations"],
)
def test_quantised_lstm(
    tmp_path: Path, rest: Given, n_scales: int, attributes: dict[str, Any]
) -> None:
    n = 2 if attributes.get("direction") == "bidirectional" else 1
    w, r = (RANDOM.integers(-64, 64, (n, k, 24)).astype(np.int8) for k in (5, 6))
    shape = (n,) if n_scales == 1 else (n, 24)
    scales = [np.abs(_floats(*shape)) * np.float32(0.01) for _ in range(2)]
    zeros = [RANDOM.integers(-4, 4, shape).astype(np.int8) for _ in range(2)]
    if n_scales > 1:  # onnxruntime takes zero points by channel only if all are equal
        zeros = [np.zeros(shape, np.int8)] * 2
    local = [*rest, *(None,) * (5 - len(rest))]
    values = [_floats(9, 1, 5), w, r, *local, scales[0], zeros[0], scales[1], zeros[1]]
    pairs = _compared(
        tmp_path, "DynamicQuantizeLSTM", values, FLOATS * 3, hidden_size=6, **attributes
    )
    for actual, expected in pairs:
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("lengths", "attributes", "words"),
    [
        (None, {"direction": "sideways"}, "expected a hidden_size of at least 1 and a direction"),
        (np.array([3, 2], np.int32), {}, "sequence_lens and input_forget are not supported"),
        (None, {"activations": ["Tanh", "Mish", "Tanh"]}, "its activations are Tanh, Mish, Tanh"),
    ],
)
def test_quantised_lstms_that_are_refused(
    tmp_path: Path, lengths: np.ndarray | None, attributes: dict[str, Any], words: str
) -> None:
    w, unit_counts, zero = (
        np.ones((1, 5, 24), np.int8),
        np.ones(1, np.float32),
        np.zeros(1, np.int8),
    )
    r = np.ones((1, 6, 24), np.int8)
    values = [
        _floats(9, 2, 5),
        w,
        r,
        None,
        lengths,
        None,
        None,
        None,
        unit_counts,
        zero,
        unit_counts,
        zero,
    ]
    onnx.save(
        _model("DynamicQuantizeLSTM", values, FLOATS * 3, hidden_size=6, **attributes),
        tmp_path / "odd.onnx",
    )
    with pytest.raises(BadModel, match=f"'fused' \\(DynamicQuantizeLSTM\\): .*{words}"):
        load_onnx(tmp_path / "odd.onnx")


@pytest.mark.parametrize("has_zeros", [False, True])
def test_weights_of_four_bits(tmp_path: Path, has_zeros: bool) -> None:
    n, depth, block = 6, 40, 16
    n_blocks = -(-depth // block)
    zeros = _bytes(n * -(-n_blocks // 2)) if has_zeros else None
    values = [
        _floats(3, depth), _bytes(n, n_blocks, block // 2),
        np.abs(_floats(n * n_blocks)) + np.float32(0.1), zeros,
    ]  # fmt: skip
    sizes: dict[str, Any] = {"N": n, "K": depth, "bits": 4, "block_size": block}
    pairs = _compared(tmp_path, "MatMulNBits", values, **sizes)
    np.testing.assert_allclose(*pairs[0], rtol=1e-4, atol=1e-4)


def test_an_unknown_activation_is_refused(tmp_path: Path) -> None:
    model = _model("FusedConv", [_floats(1, 3, 7, 7), _K], activation="Mish")
    onnx.save(model, tmp_path / "odd.onnx")
    with pytest.raises(BadModel, match=r"'fused'.*its activation is 'Mish': expected Clip, Hard"):
        load_onnx(tmp_path / "odd.onnx")


def test_a_mask_of_another_shape_is_refused(tmp_path: Path) -> None:
    values = [_X, _floats(8, 24), _floats(24), np.ones((2, 9), np.int32)]
    onnx.save(_model("Attention", values, num_heads=2), tmp_path / "odd.onnx")
    with pytest.raises(BadModel, match=r"mask has shape \(2, 9\): expected \(2,\), \(2, 5\) or"):
        load_onnx(tmp_path / "odd.onnx")


def test_floats_are_not_quantised_values(tmp_path: Path) -> None:
    values = [_X, *_q(0.1, 3), _B, *_q(0.2, 50), *_q(0.25, 60)]
    onnx.save(_model("QLinearAdd", values, BYTES), tmp_path / "odd.onnx")
    with pytest.raises(BadModel, match="'i0' is float32; expected int8 or uint8"):
        load_onnx(tmp_path / "odd.onnx")


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ([_X, _floats(2, 4, 7, 2), _floats(2, 4, 7, 2)], FLOATS),
        ([_X, _floats(2, 5, 8), _floats(2, 5, 8), _floats(24), None, None,
          _floats(2, 4, 3, 2), _floats(2, 4, 3, 2)], FLOATS * 3),
    ],
    ids=["other sequence", "past"],
)  # fmt: skip
def test_attention_of_earlier_operands(tmp_path: Path, given: Given, kinds: Sequence[int]) -> None:
    for actual, expected in _compared(tmp_path, "MultiHeadAttention", given, kinds, num_heads=4):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("n_apart", [0, 1])
def test_attention_of_packed_operands(tmp_path: Path, n_apart: int) -> None:
    """Onnxruntime has no kernel of them for processors: it is given the operands apart."""
    apart = [_X, _floats(2, 5, 8), _floats(2, 5, 8)]
    ((_, expected),) = _compared(tmp_path, "MultiHeadAttention", apart, num_heads=4)
    in_heads = [x.reshape(2, 5, 4, 2) for x in apart[n_apart:]]
    values = [*apart[:n_apart], np.stack(in_heads, axis=3)]
    path = tmp_path / "packed.onnx"
    onnx.save(_model("MultiHeadAttention", values, num_heads=4), path)
    compiled = compile_model(load_onnx(path), load_machine("gc200", tiles_per_ipu=4))
    with Engine(compiled.executable, resolve()) as engine:
        actual = compiled.run(engine, {"i0": values[0]})["y0"]
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


def test_attention_of_other_ranks_is_refused(tmp_path: Path) -> None:
    values = [_X, _floats(2, 7, 4, 2, 2), _X]
    onnx.save(_model("MultiHeadAttention", values, num_heads=4), tmp_path / "odd.onnx")
    with pytest.raises(BadModel, match=r"expected queries, keys and values of three dimensions"):
        load_onnx(tmp_path / "odd.onnx")


_OTHERS: list[tuple[str, Given, int, dict[str, Any]]] = [
    ("CDist", [_floats(5, 8), _floats(7, 8)], TensorProto.FLOAT, {"metric": "euclidean"}),
    ("CDist", [_floats(5, 8), _floats(7, 8)], TensorProto.FLOAT, {"metric": "sqeuclidean"}),
    ("ExpandDims", [_X, np.array(-2, np.int32)], TensorProto.FLOAT, {}),
    ("GatherND", [_X, np.array([[0, 1], [1, 4]])], TensorProto.FLOAT, {}),
    ("GridSample", [_floats(1, 2, 4, 5), np.tanh(_floats(1, 3, 3, 2))], TensorProto.FLOAT,
     {"mode": "bilinear", "padding_mode": "zeros", "align_corners": 0}),
    ("Pad", [_X, np.array([0, 1, 0, 0, 2, 1]), _floats(1)], TensorProto.FLOAT,
     {"mode": "constant"}),
    ("Trilu", [_floats(4, 5), np.array(1)], TensorProto.FLOAT, {"upper": 0}),
    ("NhwcMaxPool", [_bytes(2, 6, 7, 3)], TensorProto.UINT8,
     {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 0, 1]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op_type", "given", "kind", "attributes"),
    _OTHERS,
    ids=[f"{i}-{one[0]}" for i, one in enumerate(_OTHERS)],
)
def test_other_operators(
    tmp_path: Path, op_type: str, given: Given, kind: int, attributes: dict[str, Any]
) -> None:
    ((actual, expected),) = _compared(tmp_path, op_type, given, (kind,), **attributes)
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


def test_an_unknown_metric_is_refused(tmp_path: Path) -> None:
    values = [_floats(5, 8), _floats(7, 8)]
    onnx.save(_model("CDist", values, metric="cosine"), tmp_path / "odd.onnx")
    with pytest.raises(BadModel, match=r"'fused' \(CDist\): expected .* metric of euclidean"):
        load_onnx(tmp_path / "odd.onnx")


def test_a_range_in_the_domain_of_onnxruntime(tmp_path: Path) -> None:
    numbers = {"a": np.array(1.0, np.float32), "b": np.array(7.0, np.float32)}
    numbers["c"] = np.array(2.5, np.float32)
    nodes = [
        helper.make_node("Range", list(numbers), ["r"], domain="com.microsoft"),
        helper.make_node("Add", ["r", "x"], ["y"]),
    ]
    model = model_of(nodes, [info("x", [3])], [info("y", [3])], numbers)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    ((actual, expected),) = both(model, tmp_path / "range.onnx", {"x": _floats(3)})
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["int4", "uint4", "uint8"])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_rows_of_a_table_of_four_bits(tmp_path: Path, kind: str, has_zeros: bool) -> None:
    kinds = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4}
    low = -8 if kind == "int4" else 0
    names, columns = ["t", "i0", "s"], 64
    indices = RANDOM.integers(0, 6, (2, 3))
    scales = np.abs(_floats(6, 2)) + np.float32(0.1)
    weights = {"s": scales}
    numbers = {"t": RANDOM.integers(low, low + 16, (6, columns))}
    if has_zeros:
        names.append("z")
        numbers["z"] = RANDOM.integers(low, low + 16, (6, 2))
    node = helper.make_node(
        "GatherBlockQuantized", names, ["y0"], name="fused", domain="com.microsoft",
        block_size=32, quantize_axis=1, gather_axis=0, bits=4,
    )  # fmt: skip
    inputs = [info("i0", [2, 3], TensorProto.INT64)]
    model = model_of([node], inputs, [info("y0", [2, 3, columns])], weights, opset=21)
    for name, full in numbers.items():
        if kind == "uint8":
            packed = (full[:, 0::2] | full[:, 1::2] << 4).astype(np.uint8)
            model.graph.initializer.append(onnx.numpy_helper.from_array(packed, name))
        else:
            tensor = helper.make_tensor(name, kinds[kind], full.shape, full.reshape(-1))
            model.graph.initializer.append(tensor)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.ir_version = 10
    ((actual, expected),) = both(model, tmp_path / "table.onnx", {"i0": indices})
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_quantised_embeddings(tmp_path: Path) -> None:
    ids = RANDOM.integers(0, 9, (2, 5)).astype(np.int32)
    segments = RANDOM.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    tables = [_bytes(9, 8), _bytes(6, 8), _bytes(2, 8), _bytes(8), _bytes(8)]
    scales = [_scalar(s) for s in (0.01, 0.02, 0.015, 0.01, 0.005)]
    zeros = [_scalar(z, "uint8") for z in (120, 128, 100, 130, 127)]
    values = [ids, segments, *tables, mask, *scales, *zeros]
    kinds = (TensorProto.FLOAT, TensorProto.INT32)
    for actual, expected in _compared(tmp_path, "QEmbedLayerNormalization", values, kinds):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)
