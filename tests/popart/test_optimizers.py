"""Optimizers: defaults, values of tensors, refusals and replacements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import popart

NO_STRING: Any = {1: (0.1, True)}


def test_what_is_not_set_is_constant() -> None:
    sgd = popart.SGD({"defaultLearningRate": (0.2, False)})
    assert (sgd.learningRates().getDefault().isConst(), sgd.getLossScalingVal()) == (False, 1.0)
    assert sgd.learningRates().getDefault().val() == float(np.float32(0.2))
    for values, unset in (
        (sgd.weightDecays(), 0.0),
        (sgd.momentums(), 0.0),
        (sgd.dampenings(), 0.0),
        (sgd.velocityScalings(), 1.0),
        (sgd.nesterov(), 0.0),
    ):
        assert (values.getDefault().val(), values.getDefault().isConst()) == (unset, True)
    adam = popart.Adam({})
    assert adam.mode is popart.AdamMode.Adam
    assert adam.accl1Type is popart.DataType.FLOAT
    numbers = [values.getDefault().val() for values in adam.values.values()]
    assert numbers == pytest.approx([0.1, 0.0, 0.9, 0.999, 1e-6, 10.0])
    adaptive = popart.Adaptive({})
    assert adaptive.mode is popart.AdaptiveMode.RMSProp
    numbers = [values.getDefault().val() for values in adaptive.values.values()]
    assert numbers == pytest.approx([0.01, 0.0, 0.99, 0.0, 1e-6])


def test_a_tensor_s_own_values_keep_the_defaults_of_the_others() -> None:
    sgd = popart.SGD({"defaultMomentum": (0.7, True), "defaultLearningRate": (0.1, True)})
    sgd.insertSpecific("w", {"learningRate": (0.2, False)})
    assert sgd.learningRates().get("w") == popart.OptimizerValue(0.2, False)
    assert sgd.momentums().get("w").val() == float(np.float32(0.7))
    assert sgd.hasSpecific("w")
    assert not sgd.hasSpecific("v")
    with pytest.raises(popart.popart_exception, match="already a specific value for w"):
        sgd.insertSpecific("w", {})


def test_constant_sgd_is_an_sgd() -> None:
    optimizer = popart.ConstSGD(0.1, 0.2, 0.5)
    assert isinstance(optimizer, popart.SGD)
    assert optimizer.getLossScalingVal() == 0.5
    assert optimizer.weightDecays().getDefault().val() == float(np.float32(0.2))
    by_name = popart.ConstSGD(learning_rate=0.1, weight_decay=0.2, loss_scaling=0.5)
    by_name.validReplacement(optimizer)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: popart.SGD({"rate": (0.1, True)}), "Invalid SGD key, rate, the allowed keys are"),
        (lambda: popart.SGD(NO_STRING), "must be a py::str"),
        (lambda: popart.SGD({"lossScaling": 1.0}), "must be a py::tuple"),
        (lambda: popart.SGD({"lossScaling": (0.0, True)}), "Loss scaling cannot be 0"),
        (lambda: popart.ConstSGD(-0.1), r"Negative learning rate \(-0.1\) in SGD"),
        (lambda: popart.ConstSGD(0.0), "Constant, zero learning rate in SGD"),
        (lambda: popart.SGD({"defaultMomentum": (-1.0, True)}), r"Negative momentum \(-1\) in SGD"),
        (
            lambda: popart.SGD({"defaultVelocityScaling": (0.0, True)}),
            r"Non-positive velocity scaling \(0\) in SGD is not supported",
        ),
        (
            lambda: popart.SGD({"nesterov": (1.0, True), "defaultDampening": (0.1, True)}),
            r"dampening \(0.1\) in SGD shouled be zero",
        ),
        (lambda: popart.Adam({"defaultEps": (0.0, True)}), "Non-positive eps"),
        (lambda: popart.Adam({"alpha": (0.1, True)}), "Invalid Adam key, alpha"),
        (lambda: popart.Adaptive({"defaultAlpha": (-1.0, True)}), "Negative alpha"),
        (
            lambda: popart.Adaptive({}, mode=popart.AdaptiveMode.AdaGrad, rmsprop_tf_variant=True),
            "only valid with the RMSProp and CenteredRMSProp",
        ),
        (
            lambda: popart.SGD({}).insertSpecific("w", {"lossScaling": (1.0, True)}),
            "Invalid key lossScaling in SGD::insertSpecific",
        ),
    ],
)
def test_refusals(make, message: str) -> None:
    with pytest.raises(popart.popart_exception, match=message):
        make()


def test_a_learning_rate_that_may_be_replaced_may_be_zero() -> None:
    assert popart.SGD({"defaultLearningRate": (0.0, False)}).learningRates().getDefault().val() == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (popart.ConstSGD(0.1), popart.ConstSGD(0.2), "Problem with learning rates. Default value"),
        (
            popart.ConstSGD(0.1),
            popart.SGD({"defaultLearningRate": (0.1, False)}),
            "constant value with a non constant value",
        ),
        (popart.ConstSGD(0.1), popart.Adam({}), "of type SGD with new optimizer of type Adam"),
        (popart.Adam({}), popart.Adam({}, popart.AdamMode.Lamb), "Adam modes do not match"),
        (
            popart.ConstSGD(0.1),
            popart.ConstSGD(0.1, clip_norm_settings=[popart.ClipNormSettings.clipAllWeights(1.0)]),
            "Clip norm settings do not match",
        ),
    ],
)
def test_replacements_that_are_refused(old, new, message: str) -> None:
    with pytest.raises(popart.popart_runtime_error, match=message):
        old.validReplacement(new)


def test_values_that_may_be_replaced_are_replaced() -> None:
    old = popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)})
    new = popart.SGD({"defaultLearningRate": (0.2, False), "defaultMomentum": (0.9, True)})
    old.validReplacement(new)
    with_own = popart.SGD({"defaultLearningRate": (0.2, False), "defaultMomentum": (0.9, True)})
    with_own.insertSpecific("w", {})
    with pytest.raises(popart.popart_runtime_error, match="different number of specific tensors"):
        old.validReplacement(with_own)


def test_limits_of_norms() -> None:
    some = popart.ClipNormSettings.clipWeights(["a", "b"], 2.0)
    every = popart.ClipNormSettings.clipAllWeights(2.0)
    assert (some.getWeightIds(), some.getMaxNorm()) == (["a", "b"], 2.0)
    assert some != every
    with pytest.raises(popart.popart_exception, match="Mode::ClipSpecifiedWeights"):
        every.getWeightIds()
