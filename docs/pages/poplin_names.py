"""The functions of poplin by header."""

from __future__ import annotations

from collections.abc import Iterator

from docs.pages.poplibs_name import FLOPS, MADE, PLANNED, PLANS, SOLVER, Name, all_of

__all__ = ["poplin_names"]


def poplin_names() -> Iterator[Name]:
    """Yield the functions of the headers of poplin."""
    header, ours = "poplin/Convolution", "library.poplin.convolution.convolution"
    yield Name(header, "convolution", ours)
    yield Name(
        header,
        "convolutionWithOutput",
        "library.popops.elementwise.operations.copy_to",
        "of the result",
    )
    place = "library.poplin.allocators.create_convolution"
    for name, what in (("Weights", "weights"), ("Biases", "biases"), ("Input", "input")):
        yield Name(header, f"create{name}", f"{place}_{what}")
    yield Name(header, "createConvOutput", "", MADE)
    yield Name(header, "addBias", "library.popops.elementwise.in_place.binary_in_place", '`"add"`')
    yield from all_of(header, "getFwdFlops getFwdPerfectCycleCount", "", FLOPS)
    yield Name(header, "preplanConvolutions", "", PLANNED)
    names = "reportPlanInfo reportPlanEstimatedCosts reportDetailedPlanEstimatedCosts"
    yield from all_of(header, names, "", PLANS)
    yield Name(header, "convolutionValidateOptions", ours, "arguments are checked by the call")
    names = "calculateWeightDeltas"
    yield Name(header, names, "library.poplin.weight_gradient.weight_gradient")
    note = "part of `transposed_convolution`"
    ours = "library.poplin.transposed.transposed_convolution"
    yield Name(header, "weightsTransposeChansFlipXY", ours, note)
    names = "getBwdFlops getWuFlops getBwdPerfectCycleCount getWuPerfectCycleCount"
    yield from all_of(header, names, "", FLOPS)
    place = "library.poplin.updates.convolution"
    yield Name(header, "convolutionWeightUpdate", f"{place}_weight_update")
    yield Name(header, "convolutionBiasUpdate", f"{place}_bias_update")
    yield Name(header, "reportWeightUpdatePlanInfo", "", PLANS)
    note = "a view: `dim_shuffle`; products copy it if they have to"
    yield Name(header, "fullyConnectedWeightTranspose", "library.poplin.convolution.matmul", note)
    place = "library.poplin.allocators.create_convolution"
    header = "poplin/MultiConvolution"
    yield Name(header, "convolution", "library.poplin.convolution.convolution", "one call each")
    for name in ("Weights", "Input"):
        yield Name(header, f"create{name}", f"{place}_{name.lower()}", "one call each")
    ours = "library.poplin.transposed.transposed_convolution"
    yield Name(header, "weightsTransposeChansFlipXY", ours, "part of one call each")
    ours = "library.poplin.weight_gradient.weight_gradient"
    yield Name(header, "calculateWeightDeltas", ours, "one call each")
    ours = "library.poplin.updates.convolution_weight_update"
    yield Name(header, "convolutionWeightUpdate", ours, "one call each")
    yield from all_of("poplin/ConvPreplan", "preplan", "", PLANNED)
    names = "getDilatedSize getInputIndex getKernelIndex getOutputRangeForKernelIndex"
    names += " getOutputRangeForInputIndex getOutputRangeForKernelRange getInputRange"
    names += " getOutputRangeForInputRange getKernelRange"
    yield from all_of("poplin/ConvUtil", names, "library.window.Window", "used inside")
    ours = "library.poplin.transposed.transposed_convolution"
    yield Name("poplin/ConvUtil", "getGradientParams", ours, "used inside")
    ours = "library.poplin.weight_gradient.weight_gradient"
    yield Name("poplin/ConvUtil", "getWeightUpdateParams", ours, "used inside")
    yield Name("poplin/FullyConnected", "getMatMulPrePlanParameters", "", PLANNED)
    yield from _matmul_names()
    yield from all_of("poplin/MeshGrid", "linspace meshgrid2d", "", "`add_constant` of numpy's")
    yield from _solver_names()
    header = "poplin/experimental"
    yield from all_of(f"{header}/LuFactorization", "LUFactorization", "", SOLVER)
    names = "createQRFactorizationMatrices QRFactorization"
    yield from all_of(f"{header}/QRFactorization", names, "", SOLVER)


def _matmul_names() -> Iterator[Name]:
    """Yield the functions of the header of products of matrices."""
    header, ours = "poplin/MatMul", "library.poplin.convolution.matmul"
    yield from all_of(header, "matMul matMulGrouped", ours, "the first dimension is the group")
    names = "matMulWithOutput matMulGroupedWithOutput"
    yield from all_of(
        header, names, "library.popops.elementwise.operations.copy_to", "of the result"
    )
    note = "of a product"
    yield from all_of(
        header,
        "matMulAcc matMulGroupedAcc",
        "library.popops.elementwise.scaled_add.scaled_add",
        note,
    )
    yield from all_of(header, "matMulReportPlan matMulGroupedReportPlan", "", PLANS)
    for side in ("LHS", "RHS"):
        place = f"library.poplin.allocators.create_matmul_input_{side.lower()}"
        names = f"createMatMulInput{side} createMatMulGroupedInput{side}"
        yield from all_of(header, names, place, "the first dimension is the group")
    yield from all_of(header, "createMatMulOutput createMatMulGroupedOutput", "", MADE)
    place, note = "library.poplin.allocators.create_matmul_input_rhs", "then a copy to it"
    names = "preArrangeMatMulInputRHS preArrangeMatMulGroupedInputRHS"
    yield from all_of(header, names, place, note)
    yield Name(header, "transposeGroupedMatrix", "graph.Tensor.dim_shuffle")
    names = "matMulGetConvPlanParams preplanMatMuls"
    yield from all_of(header, names, "", PLANNED)
    yield Name(header, "matmulValidateOptions", ours, "arguments are checked by the call")


def _solver_names() -> Iterator[Name]:
    """Yield the names of triangular systems and Cholesky factors."""
    for header, place, names, plan in (
        (
            "poplin/Cholesky",
            "library.poplin.cholesky",
            {
                "cholesky": "cholesky",
                "choleskyInPlace": "cholesky_in_place",
                "createCholeskyInput": "create_cholesky_input",
            },
            "getCholeskyMatMulPrePlanParameters",
        ),
        (
            "poplin/TriangularSolve",
            "library.poplin.triangular",
            {
                "createTriangularSolveInputLHS": "create_triangular_solve_input_lhs",
                "createTriangularSolveInputRHS": "create_triangular_solve_input_rhs",
                "triangularMask": "triangular_mask",
                "triangularSolve": "triangular_solve",
            },
            "getTriangularSolveMatMulPrePlanParameters",
        ),
    ):
        for public, ours in names.items():
            yield Name(header, public, f"{place}.{ours}")
        yield Name(header, plan, "", PLANNED)
