"""Training, evaluation and prediction on the device, compared with Keras's own on the host."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import torch
from keras import layers, optimizers

from tilescope.engine import load_machine
from tilescope.engine.errors import BadInput, BadOption
from tilescope.engine.frontend.torch import load_torch
from tilescope.engine.session.trainer import Trainer
from tilescope.engine.training import Loss, Sgd, for_training
from tilescope.keras import IPUConfig, IPUStrategy, PipelineStage

# Keras 3.15's variables have the form of before numpy 2 for it.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

_BATCH = 8
_X = np.random.default_rng(0).standard_normal((4 * _BATCH, 8, 8, 2)).astype(np.float32)
_CLASSES = np.random.default_rng(1).integers(0, 3, 4 * _BATCH)
_Y = np.eye(3, dtype=np.float32)[_CLASSES]


def _network() -> Any:
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            layers.Input((8, 8, 2)),
            layers.Conv2D(4, 3, padding="same", use_bias=False),
            layers.BatchNormalization(momentum=0.5),
            layers.Activation("relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )


def _fitted(model: Any, optimizer: Any, epochs: int = 2, **compiled: Any) -> Any:
    model.compile(
        loss="categorical_crossentropy", optimizer=optimizer, metrics=["accuracy"], **compiled
    )
    return model.fit(_X, _Y, batch_size=_BATCH, epochs=epochs, shuffle=False, verbose=0)


def _on_ipu(make: Callable[[], Any] = _network) -> Any:
    with IPUStrategy().scope():
        return make()


def _same_weights(ours: Any, expected: Any, *, rtol: float, atol: float) -> None:
    for a, b in zip(ours.weights, expected.weights, strict=True):
        if "seed" not in a.path:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol, atol, err_msg=a.path)


_OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optimizers.SGD(0.05, weight_decay=0.01),
    "momentum": lambda: optimizers.SGD(0.05, momentum=0.9),
    "nesterov": lambda: optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "clipped": lambda: optimizers.SGD(0.05, global_clipnorm=0.1),
    "clipped by value": lambda: optimizers.SGD(0.05, clipvalue=0.02),
    "adam": lambda: optimizers.Adam(0.01, epsilon=1e-2),
    "adamw": lambda: optimizers.AdamW(0.01, weight_decay=0.05),
    "adamax": lambda: optimizers.Adamax(0.01),
    "rmsprop": lambda: optimizers.RMSprop(0.01, momentum=0.5, epsilon=1e-2),
    "centered": lambda: optimizers.RMSprop(0.01, centered=True, epsilon=1e-2),
    "adadelta": lambda: optimizers.Adadelta(0.5),
}


@pytest.mark.parametrize("kind", _OPTIMIZERS)
def test_weights_and_losses_are_those_of_keras(kind: str) -> None:
    ours, expected = _on_ipu(), _network()
    history = _fitted(ours, _OPTIMIZERS[kind]()).history
    expected_history = _fitted(expected, _OPTIMIZERS[kind]()).history
    _same_weights(ours, expected, rtol=2e-3, atol=2e-5)
    np.testing.assert_allclose(history["loss"], expected_history["loss"], rtol=1e-4)
    np.testing.assert_allclose(history["accuracy"], expected_history["accuracy"])
    assert ours.optimizer.iterations.numpy() == 8


def test_evaluation_and_prediction_follow_the_weights() -> None:
    ours, expected = _on_ipu(), _network()
    for model in (ours, expected):
        _fitted(model, "sgd", 1)
    np.testing.assert_allclose(
        ours.evaluate(_X, _Y, batch_size=_BATCH, verbose=0),
        expected.evaluate(_X, _Y, batch_size=_BATCH, verbose=0),
        rtol=1e-4,
    )
    for model in (ours, expected):
        model.set_weights([weight * 0.5 for weight in model.get_weights()])
    found = ours.predict(_X, batch_size=_BATCH, verbose=0)
    np.testing.assert_allclose(found, expected.predict(_X, verbose=0), rtol=1e-4, atol=1e-6)
    for model in (ours, expected):  # training goes on from the weights that were set
        _fitted(model, "sgd", 1)
    _same_weights(ours, expected, rtol=1e-3, atol=1e-5)


def test_validation_and_callbacks_see_the_weights_of_their_epoch(tmp_path: Path) -> None:
    ours = _on_ipu()
    ours.compile(loss="categorical_crossentropy", optimizer="sgd")
    path = tmp_path / "epoch.keras"
    history = ours.fit(
        _X, _Y, batch_size=_BATCH, epochs=2, verbose=0, validation_data=(_X, _Y),
        callbacks=[keras.callbacks.ModelCheckpoint(path, monitor="val_loss")],
    ).history  # fmt: skip
    saved = keras.models.load_model(path)
    assert type(saved) is keras.Sequential
    found = saved.evaluate(_X, _Y, verbose=0)
    np.testing.assert_allclose(found, history["val_loss"][-1], rtol=1e-4)


def test_a_schedule_of_the_rate() -> None:
    def rate() -> Any:
        schedule = optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
        return optimizers.SGD(schedule)

    ours, expected = _on_ipu(), _network()
    for model in (ours, expected):
        _fitted(model, rate())
    _same_weights(ours, expected, rtol=1e-3, atol=1e-5)


def test_classes_as_numbers_and_weights_of_samples() -> None:
    weight = np.linspace(0, 1, len(_X)).astype(np.float32)
    ours, expected = _on_ipu(), _network()
    for model in (ours, expected):
        model.compile(loss="sparse_categorical_crossentropy", optimizer="sgd")
        model.fit(_X, _CLASSES, sample_weight=weight, batch_size=_BATCH, shuffle=False, verbose=0)
    _same_weights(ours, expected, rtol=1e-3, atol=1e-5)


def _plain() -> Any:
    """Return a network whose steps depend on the mean of all samples alone."""
    keras.utils.set_random_seed(3)
    inputs = layers.Input((8, 8, 2))
    x = layers.Flatten()(inputs)
    with PipelineStage(0):
        x = layers.Dense(12, activation="relu")(x)
    with PipelineStage(1):
        x = layers.Dense(3, activation="softmax")(x)
    return keras.Model(inputs, x)


def _unstaged() -> Any:
    model = _plain()
    for layer in model.layers:
        object.__setattr__(layer, "_ipu_stage", None)
    return model


@pytest.mark.parametrize(("n_ipus", "accumulated"), [(1, 4), (2, 1), (2, 2)])
def test_a_step_takes_batches_of_accumulation_and_replicas(n_ipus: int, accumulated: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = n_ipus
    config.ipu_model.tiles_per_ipu = 16
    config.configure_ipu_system()
    n = n_ipus * accumulated
    ours, expected = _on_ipu(_unstaged), _unstaged()
    ours.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=accumulated)
    _fitted(ours, optimizers.SGD(0.1), steps_per_execution=n)
    expected.compile(loss="categorical_crossentropy", optimizer=optimizers.SGD(0.1))
    expected.fit(_X, _Y, batch_size=n * _BATCH, epochs=2, shuffle=False, verbose=0)
    _same_weights(ours, expected, rtol=1e-4, atol=1e-6)


def test_stages_of_a_pipeline() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.ipu_model.tiles_per_ipu = 16
    config.configure_ipu_system()
    ours, expected = _on_ipu(_plain), _unstaged()
    stages = [given.pipeline_stage for given in ours.get_pipeline_stage_assignment()]
    assert stages == [None, None, 0, 1]
    ours.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
    _fitted(ours, optimizers.SGD(0.1), steps_per_execution=4)
    expected.compile(loss="categorical_crossentropy", optimizer=optimizers.SGD(0.1))
    expected.fit(_X, _Y, batch_size=4 * _BATCH, epochs=2, shuffle=False, verbose=0)
    _same_weights(ours, expected, rtol=1e-4, atol=1e-6)
    (program,) = ours._ipu_training.values()
    assert program.engine.executable.machine.n_ipus == 2
    ours.reset_pipeline_stage_assignment()
    ours.set_pipeline_stage_assignment([0, 0, 0, 1])
    assert [given.pipeline_stage for given in ours.get_pipeline_stage_assignment()][-1] == 1
    with pytest.raises(BadInput, match="4 layers, and 1 stages"):
        ours.set_pipeline_stage_assignment([0])


def test_batches_that_make_no_step() -> None:
    model = _on_ipu(_unstaged)
    model.set_gradient_accumulation_options(3)
    with pytest.raises(BadInput, match=r"takes 3 batches .* steps_per_execution=3"):
        _fitted(model, "sgd")
    with pytest.raises(BadOption, match="give a number from 1"):
        model.set_gradient_accumulation_options(0)


def test_batches_of_another_shape_have_a_program_of_their_own() -> None:
    ours, expected = _on_ipu(_unstaged), _unstaged()
    for model in (ours, expected):
        model.compile(loss="categorical_crossentropy", optimizer=optimizers.SGD(0.1))
        model.fit(_X[:20], _Y[:20], batch_size=_BATCH, epochs=2, shuffle=False, verbose=0)
    _same_weights(ours, expected, rtol=1e-4, atol=1e-6)


def test_the_device_draws_dropout() -> None:
    def make() -> Any:
        keras.utils.set_random_seed(3)
        return keras.Sequential(
            [layers.Input((16,)), layers.Dropout(0.5, seed=4), layers.Dense(1, use_bias=False)]
        )

    model = _on_ipu(make)
    model.set_weights([np.ones((16, 1), np.float32)])
    model.compile(loss=lambda _, predicted: predicted, optimizer=optimizers.SGD(1.0))
    model.fit(np.ones((4, 16), np.float32), np.ones((4, 1)), batch_size=4, verbose=0)
    moved = 1 - model.get_weights()[0].ravel()
    np.testing.assert_allclose(moved * 2, np.round(moved * 2))  # means of 4 masks of 0 and 2
    assert 0 < moved.mean() < 2
    np.testing.assert_allclose(
        model.predict(np.ones((4, 16)), verbose=0), np.full((4, 1), 16 - moved.sum()), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("optimizer", "sentence"),
    [
        (optimizers.Ftrl, "Ftrl has no counterpart .* SGD"),
        (lambda: optimizers.Adam(amsgrad=True), "amsgrad is not computed"),
        (lambda: optimizers.SGD(use_ema=True), "use_ema is not computed"),
        (lambda: optimizers.SGD(clipnorm=1.0), "use global_clipnorm or clipvalue"),
        (lambda: optimizers.SGD(momentum=0.5, weight_decay=0.1), "leave one of them out"),
        (lambda: optimizers.RMSprop(weight_decay=0.1), "use AdamW"),
    ],
)
def test_optimizers_that_the_device_does_not_compute(
    optimizer: Callable[[], Any], sentence: str
) -> None:
    with pytest.raises(BadOption, match=sentence):
        _fitted(_on_ipu(_unstaged), optimizer())


def test_models_outside_the_scope_stay_keras_own() -> None:
    _on_ipu()
    model = _network()
    assert type(model) is keras.Sequential
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _fitted(model, "sgd", 1)


def test_channels_last_costs_nothing() -> None:
    """Transposes around convolutions are views: no step moves their elements."""

    class Network(torch.nn.Module):
        def __init__(self, *, is_channels_last: bool) -> None:
            super().__init__()
            self.convolutions = torch.nn.ModuleList(
                [torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 16, 3)]
            )
            self.is_channels_last = is_channels_last

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for convolution in self.convolutions:
                if self.is_channels_last:
                    x = convolution(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
                else:
                    x = convolution(x)
                x = torch.relu(x)
            return x

    cycles = {}
    machine = load_machine("gc200", tiles_per_ipu=64)
    for is_channels_last in (False, True):
        shape = (2, 16, 16, 3) if is_channels_last else (2, 3, 16, 16)
        program = load_torch(
            Network(is_channels_last=is_channels_last), (torch.zeros(shape),), is_training=True
        )
        trained = for_training(program.model, Loss(kind="identity"), Sgd(lr=0.1))
        with Trainer(trained, machine) as trainer:
            trainer.step(program.take((torch.zeros(shape),)))
            cycles[is_channels_last] = trainer.engine.n_cycles()[0]
    assert cycles[True] <= 1.02 * cycles[False]
