"""The tables of PyTorch's operators hold all that PopTorch handles."""

from __future__ import annotations

from tilescope.engine.frontend.torch.refused import LEFT, REFUSED
from tilescope.engine.frontend.torch.table import RULES

#: Source: graphcore/poptorch sdk-release-3.3, poptorch/source: names of ``c10::aten``.
_POPTORCH = """
    Int __and__ __or__ __xor__ _cdist_forward _convolution _embedding_bag _log_softmax
    _prelu_kernel _reshape_alias _softmax _unsafe_view _weight_norm abs acos acosh
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d add addcdiv addcmul addmm
    addmv alias all amax amin any arange argmax argmin argsort as_strided asin asinh atan
    atan2 atanh avg_pool1d avg_pool2d avg_pool3d baddbmm batch_norm bernoulli bernoulli_
    bilinear binary_cross_entropy binary_cross_entropy_with_logits bincount bitwise_and
    bitwise_not bitwise_or bitwise_xor bmm broadcast_to bucketize cartesian_prod cat cdist
    ceil celu chunk clamp clamp_max clamp_min clone col2im constant_pad_nd contiguous conv2d
    convolution convolution_overrideable copy_ cos cosh cosine_embedding_loss
    cosine_similarity count_nonzero cross cross_entropy_loss ctc_loss cumprod cumsum detach
    div dot dropout einsum elu embedding embedding_bag empty eq erf erfc exp expand
    expand_as expm1 exponential_ feature_dropout flatten flip floor floor_divide fmod frac
    frobenius_norm full full_like gather ge gelu glu group_norm gru gt hardshrink
    hardsigmoid hardswish hardtanh hinge_embedding_loss im2col index index_fill index_put
    index_reduce index_select instance_norm is_complex isnan kl_div l1_loss layer_norm le
    leaky_relu linalg_cross linalg_vector_norm linear log log10 log1p log2 log_sigmoid
    log_sigmoid_forward log_softmax logical_and logical_not logical_or logsumexp lstm lt
    margin_ranking_loss masked_fill matmul max max_pool1d max_pool1d_with_indices max_pool2d
    max_pool2d_with_indices max_pool3d max_pool3d_with_indices maximum mean median meshgrid
    min minimum mish mkldnn_convolution mm mse_loss mul multilabel_soft_margin_loss mv
    nansum narrow native_batch_norm native_group_norm native_layer_norm ne neg new_full
    new_ones new_zeros nll_loss2d nll_loss2d_forward nll_loss_forward nll_loss_nd norm
    normal normal_ numpy_T one_hot ones ones_like pairwise_distance permute pixel_shuffle
    poisson_nll_loss pow prelu prod rand randint randn random_ randperm reciprocal
    reflection_pad1d reflection_pad2d relu remainder repeat replication_pad1d
    replication_pad2d replication_pad3d reshape rnn_relu rnn_tanh roll round rrelu
    rrelu_with_noise rsqrt rsub scatter scatter_ scatter_add scatter_add_ scatter_reduce
    scatter_reduce_ select selu sigmoid sign silu sin sinh size slice smooth_l1_loss
    soft_margin_loss softmax softplus softshrink sort split split_with_sizes sqrt square
    squeeze stack std std_mean sub sum t take_along_dim tan tanh tensordot threshold to topk
    transpose transpose_ triplet_margin_loss triu true_divide trunc type_as unbind unfold
    uniform_ unsafe_chunk unsqueeze upsample_bicubic2d upsample_bilinear2d upsample_linear1d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d var
    var_mean view where zeros zeros_like
""".split()  # noqa: SIM905 # lines of names, not one name a line

_PACKETS = {".".join(name.split(".")[:2]) for name in RULES}


def test_every_operator_of_poptorch_is_in_a_table():
    known = _PACKETS | set(LEFT) | set(REFUSED)
    names = [f"aten.{name}" for name in _POPTORCH]
    # An export has no operators that write in place, whose names end in an underscore.
    missing = [name for name in names if name not in known and name.rstrip("_") not in known]
    assert not missing


def test_tables_have_nothing_in_common():
    assert not _PACKETS & set(LEFT)
    assert not _PACKETS & set(REFUSED)
    assert not set(LEFT) & set(REFUSED)


def test_refusals_are_sentences():
    for name, reason in REFUSED.items():
        assert reason[0].islower(), name
        assert not reason.endswith("."), name
