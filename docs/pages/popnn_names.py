"""The functions of popnn and poprand by header."""

from __future__ import annotations

from collections.abc import Iterator

from docs.pages.poplibs_name import FLOPS, PLANNED, Name, all_of

__all__ = ["norm_names", "popnn_names", "recurrent_names"]


def norm_names() -> Iterator[Name]:
    """Yield the functions of the headers of normalisations."""
    for kind, module in (
        ("batch", "batch_norm"),
        ("group", "group_norm"),
        ("layer", "layer_norm"),
        ("instance", "instance_norm"),
    ):
        header = f"popnn/{kind.capitalize()}Norm"
        place = f"library.popnn.norm.{module}"
        yield Name(header, f"{kind}NormStatistics", f"{place}.{kind}_norm_statistics")
        yield Name(header, f"{kind}NormWhiten", f"{place}.{kind}_norm_whiten")
        yield Name(header, f"{kind}Normalise", f"{place}.{kind}_normalise")
        yield Name(header, f"{kind}NormParamGradients", f"{place}.{kind}_norm_param_gradients")
        yield Name(header, f"{kind}NormGradients", f"{place}.{kind}_norm_gradients")
        yield Name(header, f"{kind}NormParamUpdate", f"{place}.{kind}_norm_param_update")
    place, note = "library.popnn.norm.batch_norm", "`replicas=…`"
    for name in ("Statistics", "Gradients"):
        ours = f"{place}.batch_norm_{name.lower()}"
        yield Name("popnn/BatchNorm", f"distributedBatchNorm{name}", ours, note)
    yield from all_of("popnn/InstanceNorm", "getFwdFlops getBwdFlops getWuFlops", "", FLOPS)
    names = "createNormGamma createNormBeta createNormParams"
    yield from all_of("popnn/Norms", names, "", "any mapping: operands are exchanged")
    flops = "getNormFwdFlops getNormBwdFlops getNormWuFlops"
    yield from all_of("popnn/Norms", flops, "", FLOPS)
    yield from all_of("poplin/Norms", names, "", "any mapping: operands are exchanged")
    header = "poplin/Norms"
    yield Name(header, "distributedNormStatistics", f"{place}.batch_norm_statistics", note)
    ours = f"{place}.batch_norm_gradients"
    yield Name(header, "distributedNormStatisticsGradients", ours, note)
    yield Name(header, "normStatistics", f"{place}.batch_norm_statistics")
    yield Name(header, "normWhiten", f"{place}.batch_norm_whiten")
    yield Name(header, "normalise", f"{place}.batch_normalise")
    yield Name(header, "normParamGradients", f"{place}.batch_norm_param_gradients")
    names = "normGradients normStatisticsGradients"
    yield from all_of(header, names, ours, "one call for both gradients")


def recurrent_names() -> Iterator[Name]:
    """Yield the functions of the headers of recurrent layers."""
    place = "library.popnn.recurrent"
    allocators = f"{place}.allocators"
    state = f"{allocators}.create_recurrent_state"
    for kind, creators in (
        ("Lstm", "createInitialOutput createInitialCellState createInitialState"),
        ("Gru", "createInitialState"),
    ):
        header, module = f"popnn/{kind}", kind.lower()
        ours = f"library.popnn.recurrent.{module}.{module}"
        yield Name(header, f"{module}Fwd", ours)
        order = f"library.popnn.recurrent.{module}.{kind.upper()}_UNITS"
        yield Name(header, f"getDefaultBasic{kind}CellOrder", order)
        yield from all_of(header, creators, state, "zeros if left out")
        yield Name(header, "createInput", f"{allocators}.create_recurrent_input")
        names = "createWeightsKernel createWeightsBiases createWeights"
        yield from all_of(header, names, f"{allocators}.create_{module}_weights")
        yield Name(header, f"getBasic{kind}CellFwdFlops", "", FLOPS)
        names = f"getBasic{kind}CellBwdFlops getBasic{kind}CellWuFlops"
        yield from all_of(header, names, "", FLOPS)
        backward = f"{place}.backward.{module}_backward"
        yield Name(header, f"{module}Bwd", backward)
        update = f"{place}.backward.{module}_weight_update"
        yield Name(header, f"{module}WU", update)
        yield Name(header, f"{module}BwdWithWU", backward, "`with_weights=True`")
    yield Name(
        "popnn/Lstm",
        "zeroInitialState",
        "library.popops.elementwise.fill.fill",
        "`0`; zeros if left out",
    )
    yield Name("popnn/Lstm", "getMatMulPrePlanParameters", "", PLANNED)
    yield Name("popnn/Gru", "createAttention", "", "any mapping: operands are exchanged")
    yield Name("popnn/Gru", "auGruFwd", "library.popnn.recurrent.gru.gru", "`attention=…`")
    backward, update = f"{place}.backward.gru_backward", f"{place}.backward.gru_weight_update"
    names = "auGruBwd auGruBwdWithWU"
    yield from all_of("popnn/Gru", names, backward, "`attention=…`")
    yield Name("popnn/Gru", "auGruWU", update)
    header, ours = "popnn/Recurrent", "library.popnn.recurrent.rnn.rnn"
    names = "rnnFwdSequence forwardWeightInput forwardIterate getOutputFromFwdState"
    yield from all_of(header, names, ours, "one call for all steps")
    yield Name(header, "createFwdState", state, "zeros if left out")
    yield Name(header, "createInput", f"{allocators}.create_recurrent_input")
    names = "createWeightsInput createWeightsFeedback"
    yield from all_of(header, names, f"{allocators}.create_rnn_weights")
    yield Name(header, "getMatMulPrePlanParameters", "", PLANNED)
    yield Name(header, "getFwdFlops", "", FLOPS)
    yield from all_of(header, "getBwdFlops getWuFlops", "", FLOPS)
    backward = f"{place}.backward.rnn_backward"
    names = "createBwdState backwardGradientStep rnnBwdSequence"
    yield from all_of(header, names, backward, "one call for all steps")
    yield Name(header, "paramDeltaUpdate", f"{place}.backward.rnn_weight_update")
    names = "createInitialState createRecurrentTensor createInputTensor createOutputTensor"
    yield from all_of("popnn/Rnn", f"{names} shiftRnnTensor", ours, "part of the loop")
    yield Name("popnn/Rnn", "Rnn", ours, "loops of user-defined cells: program `Repeat`")


def popnn_names() -> Iterator[Name]:
    """Yield the functions of the other headers of popnn, and those of poprand."""
    for name in ("logSoftmax", "logSoftmaxInPlace"):
        ours = "log_softmax" + "_in_place" * name.endswith("InPlace")
        yield Name("popnn/LogSoftmax", name, f"library.popnn.softmax.{ours}")
    header, place = "popnn/NonLinearity", "library.popnn.non_linearity.non_linearity"
    yield Name(header, "nonLinearity", place)
    yield Name(header, "nonLinearityInPlace", f"{place}_in_place")
    yield Name(
        header,
        "nonLinearityInputGradient",
        "library.popnn.non_linearity.non_linearity_input_gradient",
        "no scaled softmax",
    )
    kinds = "sigmoid relu tanh gelu gelu_erf swish softmax softmax_stable softmax_scaled"
    names = "sigmoid relu tanh gelu geluErf swish softmax softmaxStable scaledSoftmaxStable"
    for name, kind in zip(names.split(), kinds.split(), strict=True):
        yield Name(header, name, place, f'`"{kind}"`')
        yield Name(header, f"{name}InPlace", f"{place}_in_place", f'`"{kind}"`')
    header = "popnn/Pooling"
    yield Name(header, "pool", "library.popnn.pool.pool", "two field dimensions")
    yield Name(header, "getOutputFieldShape", "library.window.output_size")
    names = "getFwdFlops getFwdPerfectCycleCount"
    yield from all_of(header, names, "", FLOPS)
    yield from all_of(header, "getBwdFlops getBwdPerfectCycleCount", "", FLOPS)
    place = "library.popnn.pool_gradient"
    note = "`average_pool_input_gradient` for averages and sums"
    yield Name(header, "poolInputGradient", f"{place}.max_pool_input_gradient", note)
    yield Name(
        "popnn/SpatialSoftMax",
        "spatialSoftMax2D",
        "library.popnn.spatial_softmax.spatial_softmax_2d",
    )
    yield Name("popnn/experimental/ROIAlign", "roiAlignFwd", "", "in models, as ONNX's `RoiAlign`")
    place = "library.popnn.roi_align.roi_align_input_gradient"
    yield Name("popnn/experimental/ROIAlign", "roiAlignInputGradient", place)
    yield from _ctc_inference()
    yield from _ctc_loss()
    for name in ("calcLoss", "calcAccuracy"):
        ours = name.replace("L", "_l").replace("A", "_a")
        yield Name("popnn/Loss", name, f"library.popnn.loss.{ours}")
    for name in ("argMax", "argMin", "maxAndArgMax", "minAndArgMin"):
        ours = name.replace("A", "_a").replace("M", "_m")
        yield Name("popnn/Loss", name, f"library.popops.reduction.arg_reduce.{ours}", "int32")
    yield Name("popnn/Loss", "topK", "library.popops.sorting.sort.top_k_with_permutation")
    for name, ours in (
        ("dropout", "dropout"),
        ("shapedDropout", "shaped_dropout"),
        ("uniform", "uniform"),
        ("logUniform", "log_uniform"),
        ("bernoulli", "bernoulli"),
        ("normal", "normal"),
        ("truncatedNormal", "truncated_normal"),
    ):
        place = f"library.poprand.random_numbers.{ours}"
        yield Name("poprand/RandomGen", name, place, "equal on any tiling")
    note = "no state: every call takes a seed"
    yield Name("poprand/RandomGen", "setSeed", "", note)


def _ctc_inference() -> Iterator[Name]:
    header, place = "popnn/CTCInference", "library.popnn.ctc"
    yield Name(header, "plan", f"{place}.beam_plan.plan_ctc_beams")
    yield Name(header, "createDataInput", f"{place}.beam_plan.create_ctc_beam_input")
    search = f"{place}.beam_search.ctc_beam_search"
    yield Name(header, "beamSearchDecoderLogits", search)
    yield Name(header, "beamSearchDecoderLogProbabilities", search, "`takes_logs=True`")


def _ctc_loss() -> Iterator[Name]:
    header, place = "popnn/CTCLoss", "library.popnn.ctc"
    yield Name(header, "plan", f"{place}.loss_plan.plan_ctc_loss")
    for name in ("createDataInput", "createLabelsInput"):
        ours = name.replace("create", "create_ctc_").replace("Input", "_input").lower()
        yield Name(header, name, f"{place}.loss_plan.{ours}")
    for name, ours in (
        ("calcLossAndGradient", "ctc_loss_and_gradient"),
        ("calcCTCLoss", "ctc_loss"),
    ):
        yield Name(header, f"{name}Logits", f"{place}.loss.{ours}")
        yield Name(
            header,
            f"{name}LogProbabilities",
            f"{place}.loss.{ours}",
            "`CtcLossOptions(takes_logs=True)`",
        )
