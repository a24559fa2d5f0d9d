"""The functions of popops by header."""

from __future__ import annotations

from collections.abc import Iterator

from docs.pages.poplibs_name import PLANNED, SPLINES, Name, all_of

__all__ = ["elementwise_names", "popops_names", "slice_names"]

#: Elementwise functions of the library by those of popops.
_UNARY = {
    "abs": "absolute",
    "asin": "asin",
    "bitwiseNot": "bitwise_not",
    "cbrt": "cbrt",
    "ceil": "ceil",
    "cos": "cos",
    "countLeadingZeros": "count_leading_zeros",
    "erf": "erf",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "floor": "floor",
    "geluErf": "gelu_erf",
    "inv": "inverse",
    "isFinite": "is_finite",
    "log": "log",
    "log1p": "log1p",
    "logicalNot": "logical_not",
    "nearbyint": "nearby_int",
    "neg": "negate",
    "popcount": "popcount",
    "round": "round",
    "rsqrt": "rsqrt",
    "sigmoid": "sigmoid",
    "signum": "sign",
    "sin": "sin",
    "sqrt": "sqrt",
    "square": "square",
    "tan": "tan",
    "tanh": "tanh",
}
_BINARY = {
    "add": "add",
    "atan2": "atan2",
    "bitwiseAnd": "bitwise_and",
    "bitwiseOr": "bitwise_or",
    "bitwiseXnor": "bitwise_xnor",
    "bitwiseXor": "bitwise_xor",
    "div": "divide",
    "eq": "equal",
    "gt": "greater",
    "gteq": "greater_equal",
    "logicalAnd": "logical_and",
    "logicalOr": "logical_or",
    "lt": "less",
    "lteq": "less_equal",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "neq": "not_equal",
    "pow": "power",
    "rem": "remainder",
    "shiftLeft": "shift_left",
    "shiftRight": "shift_right",
    "shiftRightSignExtend": "shift_right_sign_extend",
    "sub": "subtract",
}
#: Functions of popops that return bools, which do not fit in place.
_TO_BOOL = (
    "eq",
    "gt",
    "gteq",
    "isFinite",
    "logicalAnd",
    "logicalNot",
    "logicalOr",
    "lt",
    "lteq",
    "neq",
)


def elementwise_names() -> Iterator[Name]:
    """Yield the functions of ElementWise.hpp, in three forms each."""
    header = "popops/ElementWise"
    for kind, functions in (("unary", _UNARY), ("binary", _BINARY)):
        for name, ours in functions.items():
            yield Name(header, name, f"library.popops.elementwise.operations.{kind}", f'`"{ours}"`')
            in_place = f"library.popops.elementwise.in_place.{kind}_in_place"
            if name not in _TO_BOOL:
                yield Name(header, f"{name}InPlace", in_place, f'`"{ours}"`')
            elif name != "isFinite":
                note = "results are bools: not in place"
                yield Name(
                    header, f"{name}InPlace", f"library.popops.elementwise.operations.{kind}", note
                )
            yield Name(
                header,
                f"{name}WithOutput",
                "library.popops.elementwise.operations.copy_to",
                "of the result",
            )
    for name in ("varianceToInvStdDev", "invStdDevToVariance"):
        for form in ("", "InPlace", "WithOutput"):
            yield Name(
                header,
                f"{name}{form}",
                "library.popops.elementwise.map.map_expression",
                "as an expression",
            )
    for name in ("select", "clamp"):
        yield Name(header, name, f"library.popops.elementwise.operations.{name}")
        if name == "select":
            yield Name(
                header, "selectInPlace", "library.popops.elementwise.in_place.select_in_place"
            )
        else:
            yield Name(
                header,
                f"{name}InPlace",
                "library.popops.elementwise.map.map_in_place",
                f'`call("{name}", …)`',
            )
        yield Name(
            header,
            f"{name}WithOutput",
            "library.popops.elementwise.operations.copy_to",
            "of the result",
        )
    yield Name(header, "map", "library.popops.elementwise.map.map_expression")
    yield Name(header, "mapInPlace", "library.popops.elementwise.map.map_in_place")
    yield Name(
        header, "mapWithOutput", "library.popops.elementwise.operations.copy_to", "of the result"
    )
    yield Name(header, "outputGeneratedCodelet", "", "codelets of expressions are not C++")


def slice_names() -> Iterator[Name]:
    """Yield the functions of DynamicSlice.hpp, and of headers about indices."""
    header = "popops/DynamicSlice"
    yield Name(
        header, "createSliceableTensor", "library.popops.slicing.sliceable.create_sliceable_tensor"
    )
    yield Name(
        header, "createIndicesTensor", "library.popops.slicing.sliceable.create_indices_tensor"
    )
    embedding = "library.popops.slicing.embedding"
    yield Name(header, "createSliceTensor", f"{embedding}.create_slice_tensor", "with a plan")
    yield Name(header, "plan", f"{embedding}.plan_embedding")
    names = "createGroupedSliceableTensor createGroupedSliceTensor"
    names += " createGroupedIndicesTensor createSliceableTensorFromSlice createDynamicSliceOutput"
    yield from all_of(header, names, "", "any mapping: operands are exchanged")
    yield Name(header, "getSliceMapping", "graph.Graph.tile_mapping", "of any view")
    yield Name(header, "dynamicSlice", "library.popops.slicing.dynamic_slice.dynamic_slice")
    yield Name(
        header,
        "dynamicSliceWithOutput",
        "library.popops.elementwise.operations.copy_to",
        "of the result",
    )
    yield Name(header, "dynamicUpdate", "library.popops.slicing.dynamic_slice.dynamic_update")
    yield Name(header, "multiSlice", "library.popops.slicing.multi_slice.multi_slice")
    yield Name(header, "multiUpdate", "library.popops.slicing.multi_update.multi_update")
    yield Name(header, "multiUpdateAdd", "library.popops.slicing.multi_update.multi_update_add")
    for name, operation in (("Max", "maximum"), ("Mul", "multiply")):
        ours = "library.popops.slicing.multi_update.multi_update_op"
        yield Name(header, f"multiUpdate{name}", ours, f'`"{operation}"`')
    yield Name(
        header, "groupedMultiSlice", "library.popops.slicing.multi_slice.grouped_multi_slice"
    )
    grouped = "library.popops.slicing.multi_update.grouped_multi_update"
    yield Name(header, "groupedMultiUpdate", grouped, "operation none")
    for name, operation in (("Add", "add"), ("Max", "maximum"), ("Mul", "multiply")):
        yield Name(header, f"groupedMultiUpdate{name}", grouped, f'`"{operation}"`')
    yield Name(header, "planMultiple", "", PLANNED)
    yield Name("popops/Gather", "gather", "library.popops.slicing.gather.gather_nd")
    yield Name("popops/Gather", "createGatherInput", "", "any mapping: operands are exchanged")
    yield Name("popops/Scatter", "scatter", "library.popops.slicing.gather.scatter_nd")
    for header, ours in (
        ("SelectScalarFromRows", "scalar_in_rows.select_scalar_from_rows"),
        ("UpdateScalarInRows", "scalar_in_rows.update_scalar_in_rows"),
        ("SequenceSlice", "sequence_slice.sequence_slice"),
    ):
        yield Name(
            f"popops/{header}", header[0].lower() + header[1:], f"library.popops.slicing.{ours}"
        )


def popops_names() -> Iterator[Name]:
    """Yield the functions of the other headers of popops."""
    reduction = "library.popops.reduction.reduce.reduce"
    for name, ours, note in (
        ("AllTrue.allTrue", reduction, '`"logical_and"`'),
        ("Cast.cast", "library.popops.elementwise.operations.cast", ""),
        ("Cast.castWithOutput", "library.popops.elementwise.operations.copy_to", "of the result"),
        ("Cast.checkAccuracyWhenCast", "", "deprecated there"),
        (
            "ElementWiseUtil.createOutputForElementWiseOp",
            "library.popops.elementwise.operations.similar",
            "",
        ),
        ("Encoding.encodeOneHot", "library.popops.slicing.one_hot.one_hot", ""),
        ("Encoding.iota", "library.popops.elementwise.iota.iota", ""),
        ("Fill.fill", "library.popops.elementwise.fill.fill", ""),
        ("GatherStatistics.histogram", "library.popops.reduction.histogram.histogram", ""),
        ("HostSliceTensor.createHostSliceableTensor", "", "streams take any mapping"),
        ("HostSliceTensor.createHostTransferableTensor", "", "streams take any mapping"),
        ("Loop.countedLoop", "program.Repeat", "with a counter of the program's own"),
        ("Loop.countedForLoop", "program.Repeat", "with a counter of the program's own"),
        (
            "Loop.addForLoopCounterVertex",
            "library.popops.elementwise.in_place.binary_in_place",
            '`"add"`',
        ),
        (
            "NaN.hasNaN",
            "library.popops.elementwise.operations.unary",
            '`"is_nan"`, then a reduction',
        ),
        (
            "NaN.hasNaNOrInf",
            "library.popops.elementwise.operations.unary",
            '`"is_finite"`, then a reduction',
        ),
        (
            "NormaliseImage.normaliseImage",
            "library.popops.elementwise.map.map_expression",
            "after padding",
        ),
        ("NormaliseImage.createNormaliseImageInput", "", "any mapping: operands are exchanged"),
        ("Pad.pad", "library.popops.slicing.padding.pad", ""),
        ("Rearrange.canUseFastTranspose", "", "chosen by the library"),
        (
            "Rearrange.addTransposeVertices",
            "library.popops.elementwise.operations.row_major_copy",
            "",
        ),
        (
            "Rearrange.partialTranspose",
            "library.popops.elementwise.operations.row_major_copy",
            "of a turned view",
        ),
        ("Rearrange.getMinimumRegroupGrainSize", "", "chosen by the library"),
        (
            "Rearrange.regroupTensor",
            "library.popops.elementwise.operations.row_major_copy",
            "of a turned view",
        ),
        ("Rearrange.regroupIfPossible", "library.popops.elementwise.operations.rearranged", ""),
        ("Rearrange.regroupIfBeneficial", "library.popops.elementwise.operations.rearranged", ""),
        ("Reduce.reduce", reduction, ""),
        ("Reduce.reduceWithOutput", "library.popops.reduction.reduce.reduce_with_output", ""),
        ("Reduce.reduceMany", "library.popops.reduction.reduce.reduce_many", ""),
        ("ScaledAdd.scaledAddTo", "library.popops.elementwise.scaled_add.scaled_add", ""),
        (
            "ScaledAdd.scaledSubtractFrom",
            "library.popops.elementwise.scaled_add.scaled_add",
            "negate the scale",
        ),
        ("Sort.sort", "library.popops.sorting.sort.sort", ""),
        ("Sort.sortInPlace", "library.popops.elementwise.operations.copy_to", "of the result"),
        ("Sort.sortKeyValue", "library.popops.sorting.sort.sort_key_value", ""),
        (
            "Sort.sortKeyValueInPlace",
            "library.popops.elementwise.operations.copy_to",
            "of the results",
        ),
        ("SplineBasis.splineBasis", "", SPLINES),
        ("SplineWeighting.splineWeighting", "", SPLINES),
        ("TopK.topK", "library.popops.sorting.sort.top_k", ""),
        (
            "TopK.topKKeyValue",
            "library.popops.sorting.sort.top_k_with_permutation",
            "then a gather",
        ),
        ("TopK.topKWithPermutation", "library.popops.sorting.sort.top_k_with_permutation", ""),
        ("TopK.createTopKInput", "", "any mapping: operands are exchanged"),
        ("Zero.zero", "library.popops.elementwise.fill.fill", "`0`"),
    ):
        header, _, function = name.partition(".")
        yield Name(f"popops/{header}", function, ours, note)
