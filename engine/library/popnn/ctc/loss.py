"""The loss of sequences whose alignment with their labels is not known, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, INT32, DType, Tensor, View, dtype_of
from tilescope.engine.library.argument_check import check_rank, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.ctc_options import CtcLossOptions
from tilescope.engine.library.popnn.ctc.layout import Layout
from tilescope.engine.library.popnn.ctc.loss_plan import check_plan, plan_ctc_loss
from tilescope.engine.library.popnn.ctc.wavefront import Alignment, Wavefront, run_wavefront
from tilescope.engine.library.popnn.softmax import log_softmax_in_place
from tilescope.engine.library.popops.elementwise.in_place import unary_in_place
from tilescope.engine.library.popops.elementwise.map import call, map_in_place, operand
from tilescope.engine.library.popops.elementwise.operations import cast, copy_to
from tilescope.engine.library.popops.reduction.reduce import reduce, reduce_with_output
from tilescope.engine.planner.ctc import CtcLossPlan

__all__ = ["LOG_OF_NOTHING", "ctc_loss", "ctc_loss_and_gradient", "least_impossible"]

#: The logarithm of no probability, by type of what is computed: the smallest half, and a float far
#: below all sums of logarithms. PopLibs takes the smallest half for both, so that losses beyond it
#: are lost.
LOG_OF_NOTHING = {FLOAT16: -65504.0, FLOAT32: -1e30}
#: A loss beyond this share of minus that is infinite: no alignment gives the label.
#: Source: graphcore/poplibs, commit 52679f23, zeroInfinityRelTolerance
_SHARE = 0.99
_FLOATS = (FLOAT16, FLOAT32)
_DEFAULTS = CtcLossOptions()


def least_impossible(dtype: DType) -> float:
    """Return beyond which loss, of a type of results, no alignment gives a label."""
    return -_SHARE * LOG_OF_NOTHING[dtype]


@checked
def ctc_loss_and_gradient(
    builder: Builder,
    scores: View,
    labels: View,
    steps: View,
    lengths: View,
    *,
    plan: CtcLossPlan | None = None,
    options: CtcLossOptions = _DEFAULTS,
) -> tuple[Tensor, Tensor]:
    """Return the loss of every sequence, and the gradient of their sum.

    Parameters
    ----------
    builder
        Target of the program.
    scores
        Shape (steps, batch, classes), float16 or float32: what softmax makes probabilities of, or
        the logarithms of these.
    labels
        Classes, int32, shape (batch, longest label). What is beyond the length of a label is not
        read.
    steps, lengths
        int32, shape (batch,): steps of every sequence, 1 or more, and lengths of the labels.
    plan
        The split over tiles; by default, that of `plan_ctc_loss` with partials of float32.
    options
        Blank, type of the results, and others.

    Returns
    -------
    loss : Tensor
        Shape (batch,): minus the logarithm of the probability of the label. Where no alignment
        gives the label, 65,504 with partials of float16, and 10³⁰ with those of float32.
    gradient : Tensor
        Shape (steps, batch, classes), with respect to what softmax takes, also if the scores are
        logarithms. Beyond the steps of a sequence, it holds the probabilities.

    Raises
    ------
    BadGraph
        If shapes, types, the blank or the plan do not fit.

    Notes
    -----
    The gradient is the probability of a class less that of the alignments of the label that have
    it at the step. Source: graphcore/poplibs sdk-release-3.4, include/popnn/CTCLoss.hpp,
    calcLossAndGradientLogits and calcLossAndGradientLogProbabilities. There, 65,504 is infinite
    with partials of either type.
    """
    call_of = _Call("ctc_loss_and_gradient", scores, labels, steps, lengths)
    loss, gradient = call_of.add(builder, plan, options)
    assert gradient is not None, "the call computes it"
    return loss, gradient


@checked
def ctc_loss(
    builder: Builder,
    scores: View,
    labels: View,
    steps: View,
    lengths: View,
    *,
    plan: CtcLossPlan | None = None,
    options: CtcLossOptions = _DEFAULTS,
) -> Tensor:
    """Return the loss of every sequence alone: see `ctc_loss_and_gradient`.

    Raises
    ------
    BadGraph
        As there.

    Notes
    -----
    The loops are the same. Source: graphcore/poplibs sdk-release-3.4, include/popnn/CTCLoss.hpp,
    calcCTCLossLogits and calcCTCLossLogProbabilities.
    """
    call_of = _Call("ctc_loss", scores, labels, steps, lengths, has_gradient=False)
    return call_of.add(builder, plan, options)[0]


@dataclass(frozen=True)
class _Call:
    """A call of one of the two functions, with its operands."""

    name: str
    scores: View
    labels: View
    steps: View
    lengths: View
    has_gradient: bool = True

    def add(
        self, builder: Builder, plan: CtcLossPlan | None, options: CtcLossOptions
    ) -> tuple[Tensor, Tensor | None]:
        """Add the program; return the losses, and the gradient if the call has one."""
        kind = self.scores.dtype
        out_kind = kind if options.out_type is None else dtype_of(options.out_type)
        blank = options.blank
        self._check(blank, out_kind)
        n_steps, n_batch, n_classes = self.scores.shape
        longest = self.labels.shape[1]
        sizes = (n_batch, n_steps, longest, n_classes)
        plan = plan or plan_ctc_loss(builder, kind, self.scores.shape, longest)
        check_plan(self.name, builder, plan, kind, sizes)
        detail = {"scores": list(self.scores.shape), "labels": list(self.labels.shape)}
        build = builder.inside(
            "ctcLoss", f"popnn.{self.name}", {**detail, "blank": blank, **plan.detail()}
        )
        partials = FLOAT32 if plan.shape.partial_bytes == FLOAT32.n_bytes else FLOAT16
        layout = Layout(build, plan)
        logs = self._logs(build, layout, takes_logs=options.takes_logs)
        by_part = logs
        if plan.label_tiles > 1:
            by_part = layout.by_step(kind, "broadcast")
            copy_to(build, logs.broadcast_to(by_part.shape), by_part, "broadcast")
        alignment = Alignment(
            by_part,
            self.labels,
            self.steps,
            self.lengths,
            blank,
            partials,
            LOG_OF_NOTHING[partials],
        )
        wave = run_wavefront(build, layout, alignment)
        loss = _loss_of(build, wave)
        gradient = None
        if self.has_gradient:
            gradient = _gradient_of(build, layout, wave, (logs, loss))
        if options.zero_infinity:
            _zero_infinity(build, loss, gradient, least_impossible(partials))
        if out_kind != partials:
            loss = cast(build, loss, out_kind)
            gradient = gradient and cast(build, gradient, out_kind)
        if gradient is not None:
            gradient = gradient.reshape(n_batch, n_steps, n_classes).dim_shuffle(1, 0, 2)
        return loss, gradient

    def _logs(self, builder: Builder, layout: Layout, *, takes_logs: bool) -> Tensor:
        """Return logarithms of probabilities by the plan, shape (1, batch, steps, classes)."""
        is_whole = layout.plan.label_tiles == 1
        add = layout.by_step if is_whole else layout.data
        logs = add(self.scores.dtype, "logProbabilities")
        ordered = self.scores.dim_shuffle(1, 0, 2)
        copy_to(builder, ordered.reshape(1, *ordered.shape), logs, "logProbabilities")
        if not takes_logs:
            log_softmax_in_place(builder, logs, 3)
        return logs

    def _check(self, blank: int, out_kind: DType) -> None:
        """Refuse operands that do not fit.

        Raises
        ------
        BadGraph
            Says what is expected.
        """
        check_rank(f"{self.name}: its scores", self.scores, "steps, batch, classes")
        if self.scores.dtype not in _FLOATS or out_kind not in _FLOATS:
            raise BadGraph(
                f"{self.name}: {self.scores.name!r} is {self.scores.dtype} and the result"
                f" {out_kind}: expected float16 or float32"
            )
        _, n_batch, n_classes = self.scores.shape
        check_rank(f"{self.name}: its labels", self.labels, "batch, longest label")
        expected = {"labels": (n_batch, self.labels.shape[1]), "steps": (n_batch,)}
        for name, shape in {**expected, "lengths": (n_batch,)}.items():
            view: View = getattr(self, name)
            if view.dtype != INT32 or tuple(view.shape) != shape:
                raise BadGraph(
                    f"{self.name}: its {name} {view.name!r} are {view.dtype} {tuple(view.shape)}:"
                    f" expected int32 {shape}"
                )
        if not 0 <= blank < n_classes:
            raise BadGraph(f"{self.name}: the blank is class {blank} of {n_classes}")


def _loss_of(builder: Builder, wave: Wavefront) -> Tensor:
    """Return the losses, shape (batch,)."""
    n_batch = wave.ends.shape[0]
    loss = wave.ends
    if loss.n_elements > n_batch:
        loss = reduce(builder, "log_add", loss, [1, 2])
    loss = loss.reshape(n_batch)
    unary_in_place(builder, "negate", loss)
    return loss


def _gradient_of(
    builder: Builder, layout: Layout, wave: Wavefront, operands: tuple[Tensor, Tensor]
) -> Tensor:
    """Return exp(logs) - exp(gradient + loss), shape (1, batch, steps, classes)."""
    logs, loss = operands
    total = wave.gradients
    if layout.plan.label_tiles > 1:
        total = layout.data(wave.gradients.dtype, "gradient")
        reduce_with_output(builder, "log_add", wave.gradients, total, [0])
    if logs.dtype != total.dtype:
        logs = cast(builder, logs, total.dtype)
    rest = call("exp", operand(2)) - call("exp", operand(0) + operand(1))
    map_in_place(builder, rest, [total, loss.reshape(1, loss.shape[0], 1, 1), logs])
    return total


def _zero_infinity(builder: Builder, loss: Tensor, gradient: Tensor | None, most: float) -> None:
    """Replace losses beyond a number, and their gradients, by 0."""
    if gradient is not None:
        is_over = call("greater", operand(1), most)
        by_sequence = loss.reshape(1, loss.shape[0], 1, 1)
        map_in_place(builder, call("select", 0.0, operand(0), is_over), [gradient, by_sequence])
    is_over = call("greater", operand(0), most)
    map_in_place(builder, call("select", 0.0, operand(0), is_over), [loss])
