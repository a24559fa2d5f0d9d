"""Losses: what is appended to a model so that it can be trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tilescope.engine.errors import BadInput, BadModel, BadOption
from tilescope.engine.ir import (
    Expansion,
    IrBuilder,
    Model,
    Node,
    Operation,
    Optimiser,
    Recomputation,
    Training,
    Value,
)
from tilescope.engine.operators.ctc import CtcOperands, ctc_loss
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.elementwise import UNARY, binary, scalar, unary
from tilescope.engine.operators.loss import REDUCTIONS, class_loss
from tilescope.engine.operators.movement.layout import RESHAPE, reshape
from tilescope.engine.operators.quantisation import as_type
from tilescope.engine.operators.reduction import reduced
from tilescope.engine.training.modes import in_training_mode
from tilescope.engine.training.stated import stated

__all__ = ["LOSSES", "LOSS_OUTPUT", "Loss", "for_training"]

#: Losses by name, with what they compare.
LOSSES = {
    "cross-entropy": "scores before softmax with the number of a class",
    "ctc": "scores of steps before softmax with a sequence of classes, whose places are not known",
    "identity": "nothing: the output is the loss",
    "l1": "an output with labels of its shape: the absolute difference",
    "mse": "an output with labels of its shape: the square of the difference",
    "nll": "probabilities or their logarithms with the number of a class",
}

#: Name of the output that holds the loss.
LOSS_OUTPUT = "loss"

#: What the output of a model for ``nll`` may hold.
_CONTENTS = ("probabilities", "logarithms")


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What is minimised.

    Parameters
    ----------
    kind
        One of `LOSSES`.
    output
        Name of the model's output that is compared; its only or first one if empty.
    labels
        Name of the input that it is compared with.
    reduction
        ``mean`` or ``sum`` over all elements that count; ``none`` needs an output of one element.
    ignored
        A class that does not count; None if all do.
    blank
        Of ``ctc``: the class of no label.
    steps, lengths
        Of ``ctc``: names of inputs with the steps of every sequence and the length of every label;
        empty where all have all.
    longest
        Of ``ctc``: the longest label, where the labels are no input of the model.
    zero_infinity
        Of ``ctc``: whether losses and gradients of labels that no alignment gives are 0.
    of
        What the output holds for ``nll``, ``probabilities`` or ``logarithms``; told by the operator
        that computes it, if empty.
    factor
        What the loss is multiplied by.

    Raises
    ------
    BadOption
        When the loss or the reduction does not exist.
    """

    kind: str
    output: str = ""
    labels: str = "labels"
    reduction: str = "mean"
    ignored: int | None = None
    of: str = ""
    factor: float = 1.0
    blank: int = 0
    steps: str = ""
    lengths: str = ""
    longest: int = 0
    zero_infinity: bool = False

    def __post_init__(self) -> None:
        """Check the names."""
        if self.kind not in LOSSES:
            raise BadOption(f"There is no loss {self.kind!r}: choose one of {', '.join(LOSSES)}")
        if self.reduction not in REDUCTIONS:
            allowed = ", ".join(REDUCTIONS)
            raise BadOption(f"There is no reduction {self.reduction!r}: choose one of {allowed}")
        if self.of not in ("", *_CONTENTS):
            raise BadOption(f"nll is of {' or '.join(_CONTENTS)}, not of {self.of!r}")

    @property
    def facts(self) -> dict[str, str]:
        """What a report's provenance says of it, by key."""
        facts = {"loss": stated(self.kind, self, ["labels"])}
        return facts | ({"labels": self.labels} if self.kind != "identity" else {})


def for_training(  # noqa: PLR0913 # the options of training
    model: Model,
    loss: Loss,
    optimiser: Optimiser,
    n_rounds: int = 1,
    *,
    n_replicas: int = 1,
    is_averaged: bool = True,
    anchors: Sequence[str] = (),
    seed: int = 0,
    recomputation: Recomputation | None = None,
    counts_overflows: bool = False,
    name: str = LOSS_OUTPUT,
) -> Model:
    """Return a model that trains another one: with labels, a loss and an optimiser.

    Parameters
    ----------
    model
        As a front end loads it, with trainable parameters; see `load_onnx`.
    loss
        What is minimised. It becomes the first output.
    optimiser
        How gradients change parameters.
    n_rounds
        Micro-batches of a step, each of the batch of the model; a step follows their mean, or
        their sum without `is_averaged`.
    n_replicas
        Replicas that train on data of their own: the step follows the mean, or the sum, of what
        all of them lose.
    anchors
        Names of values whose gradients become outputs, called ``Gradient___`` and the name.
    seed
        What the masks of dropout are drawn from.
    recomputation
        What of the forward pass is computed again for the backward pass; nothing by default.
    counts_overflows
        Whether values that are beyond half are counted: ``Overflows___`` and the name of a pass
        are outputs, scalars of float32. It takes cycles and memory.
    name
        Of the output that is the loss.

    Raises
    ------
    BadModel
        When the model has no trainable parameter and no gradient is asked for, or loss and output
        do not fit.
    BadInput
        When the model has no such output.
    BadOption
        When a name is taken.
    """
    if not anchors and not any(parameter.is_trainable for parameter in model.parameters):
        raise BadModel(
            f"{model.name!r} has no parameter that can be trained: its weights are no"
            " floating-point initializers, or none of them was asked for"
        )
    model = in_training_mode(model, seed, n_replicas)
    outputs = dict(model.outputs)
    if loss.output and loss.output not in outputs:
        raise BadInput(f"There is no output {loss.output!r}; the model has {', '.join(outputs)}")
    predicted = outputs[loss.output or next(iter(outputs))]
    builder = IrBuilder(model.name)
    builder.inputs, builder.operations = [*model.inputs], [*model.operations]
    value = _Appended(builder, model, loss, name).of(predicted)
    others = tuple(pair for pair in model.outputs if pair[0] != name or pair[1] is not value)
    if any(other == name for other, _ in others):
        raise BadOption(f"An output of the model is called {name!r}: rename it")
    return replace(
        model,
        inputs=tuple(builder.inputs),
        operations=tuple(
            _told_apart(operation, anchors, recomputation) for operation in builder.operations
        ),
        outputs=((name, value), *others),
        training=Training(
            name,
            optimiser,
            n_rounds,
            is_averaged,
            tuple(anchors),
            recomputation or Recomputation(),
            loss.facts,
            counts_overflows,
            n_replicas,
        ),
    )


def _told_apart(
    operation: Operation, anchors: Sequence[str], recomputation: Recomputation | None
) -> Operation:
    """Return an operation that is no identity if its result is more than its operand.

    It is if its gradient is asked for, or if it is kept where the operand is computed again.
    """
    if operation.operator.key != "Identity":
        return operation
    is_checkpoint = recomputation is not None and recomputation.keeps(operation.name)
    if operation.output.name not in anchors and not is_checkpoint:
        return operation
    shape = {"shape": operation.output.shape}
    return replace(operation, operator=RESHAPE, attributes=shape)


class _Appended:
    """Appends a loss to a model."""

    def __init__(self, builder: IrBuilder, model: Model, loss: Loss, name: str) -> None:
        self.builder, self.model, self.loss, self.name = builder, model, loss, name
        node = Node(operator=UNARY, name="loss", source=loss.kind, inputs=())
        self.expansion = Expansion(builder, node, name)

    def of(self, predicted: Value) -> Value:
        """Return the loss.

        Raises
        ------
        BadModel
            When the output is not floating-point, or the loss and its shape do not agree.
        """
        if not predicted.dtype.startswith("float"):
            raise BadModel(
                f"Output {predicted.name!r} is {predicted.dtype}: a loss takes floating-point"
                " numbers"
            )
        kind = self.loss.kind
        if kind in ("nll", "cross-entropy"):
            value = self._of_classes(predicted)
        elif kind == "ctc":
            value = self._of_alignments(predicted)
        elif kind == "identity" and self.name == self.loss.output and prod(predicted.shape) == 1:
            value = predicted  # the output itself, in its shape
        elif kind == "identity":
            value = self._reduced(predicted)
        else:
            labels = self._labels(predicted.shape, predicted.dtype)
            apart = binary(self.expansion, "subtract", predicted, labels)
            value = self._reduced(
                unary(self.expansion, "absolute" if kind == "l1" else "square", apart)
            )
        if self.loss.factor == 1:
            return value
        return binary(
            self.expansion, "multiply", value, scalar(self.expansion, self.loss.factor, value)
        )

    def _of_classes(self, predicted: Value) -> Value:
        shape = predicted.shape
        if len(shape) < 2:
            raise BadModel(
                f"Output {predicted.name!r} has shape {shape}: {self.loss.kind} takes scores of"
                " shape (batch, classes, …)"
            )
        takes_logs = False
        if self.loss.kind == "nll":
            predicted, takes_logs = self._scores(predicted)
        labels = self._labels((shape[0], *shape[2:]), "int64")
        return class_loss(
            self.expansion,
            predicted,
            labels,
            reduction=self.loss.reduction,
            ignored=self.loss.ignored,
            takes_logs=takes_logs,
        )[0]

    def _of_alignments(self, predicted: Value) -> Value:
        loss, shape = self.loss, predicted.shape
        if len(shape) != 3:
            raise BadModel(
                f"Output {predicted.name!r} has shape {shape}: ctc takes scores of shape (steps,"
                " batch, classes)"
            )
        known = {value.name: value for value in self.builder.inputs}
        if loss.longest < 1 and loss.labels not in known:
            raise BadModel(
                f"ctc takes labels {loss.labels!r} of shape ({shape[1]}, longest label): say with"
                " ctc:longest=… how long they are at most"
            )
        labels = known.get(loss.labels) or self._labels((shape[1], loss.longest), "int64")
        steps, lengths = (
            known.get(name) or self.builder.input(name, (shape[1],), "int64") if name else None
            for name in (loss.steps, loss.lengths)
        )
        given = CtcOperands(predicted, labels, steps, lengths, loss.blank, loss.zero_infinity)
        return ctc_loss(self.expansion, given, loss.reduction)

    def _scores(self, predicted: Value) -> tuple[Value, bool]:
        """Return what the softmax before an output takes, or logarithms; and whether it is these.

        Raises
        ------
        BadModel
            When nothing says what the output holds.
        """
        producer = self._producer(predicted)
        if producer is not None and producer.operator is CAST:
            producer = self._producer(producer.operand(0)) or producer
        source = "" if producer is None else producer.source
        if (
            self.loss.of == ""
            and source in ("Softmax", "LogSoftmax")
            and _is_over_classes(producer)
        ):
            assert producer is not None
            return as_type(self.expansion, producer.operand(0), predicted.dtype), False
        if self.loss.of == "logarithms":
            return predicted, True
        if self.loss.of == "probabilities":
            return unary(self.expansion, "log", predicted), True
        raise BadModel(
            f"nll takes probabilities or their logarithms, and output {predicted.name!r} is neither"
            " that of Softmax nor of LogSoftmax over the classes: say which with"
            " nll:of=probabilities or nll:of=logarithms, or use cross-entropy for scores before"
            " softmax"
        )

    def _producer(self, value: Value) -> Operation | None:
        return next((op for op in self.builder.operations if value in op.results), None)

    def _labels(self, shape: tuple[int, ...], dtype: str) -> Value:
        name = self.loss.labels
        for value in self.builder.inputs:
            if value.name == name:
                if value.shape != shape:
                    raise BadModel(
                        f"Input {name!r} has shape {value.shape}, but labels have {shape}"
                    )
                return value
        return self.builder.input(name, shape, dtype)

    def _reduced(self, values: Value) -> Value:
        if self.loss.reduction == "none":
            return reshape(self.expansion, values, ()) if prod(values.shape) == 1 else values
        scale = 1 / prod(values.shape) if self.loss.reduction == "mean" else 1.0
        axes = range(len(values.shape))
        total = reduced(self.expansion, "sum", values, axes, scale) if values.shape else values
        return reshape(self.expansion, total, ())


def _is_over_classes(operation: Operation | None) -> bool:
    """Return whether a softmax is over the second of its operand's dimensions."""
    assert operation is not None
    rank = len(operation.operand(0).shape)
    axis = operation.attributes.get("axis", -1)
    is_one_row = operation.version < 13 and rank > 2  # batch and classes
    return axis % rank == 1 and not is_one_row
