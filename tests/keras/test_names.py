"""Names of Graphcore's and TensorFlow's that programs use, and what they refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import tilescope
from tilescope import analyser
from tilescope.analyser.program.operations import operations
from tilescope.engine.errors import BadInput, BadOption
from tilescope.keras import IPUConfig, IPUStrategy, PipelineStage, ipu, tf
from tilescope.keras.config import configured

#: The program of Graphcore's workshop of October 2023, with its three import lines changed into
#: two, fewer epochs, and digits in place of CIFAR-10, which would have to be downloaded.
_WORKSHOP = """
from tilescope.keras import ipu, tf
from keras.layers import *
from program_data import load_data

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()
with ipu.ipu_strategy.IPUStrategy().scope():
    (x_train, y_train), (x_test, y_test) = load_data()
    x_train = x_train.astype('float32') / 255.0
    y_train = tf.keras.utils.to_categorical(y_train, 10)
    ds_train = tf.data.Dataset.from_tensor_slices((x_train, y_train)).batch(64, drop_remainder=True)

    model = tf.keras.Sequential([
        Conv2D(32, (3, 3), padding='same', input_shape=x_train.shape[1:]),
        Activation('relu'),
        Conv2D(32, (3, 3)),
        Activation('relu'),
        MaxPooling2D(pool_size=(2, 2)),
        Dropout(0.25),
        Conv2D(64, (3, 3), padding='same'),
        Activation('relu'),
        Conv2D(32, (3, 3)),
        Activation('relu'),
        MaxPooling2D(pool_size=(2, 2)),
        Dropout(0.25),
        Flatten(),
        Dense(512),
        Activation('relu'),
        Dropout(0.5),
        Dense(10),
        Activation('softmax')
    ])

    model.compile(loss='categorical_crossentropy',
                  optimizer=tf.optimizers.SGD(learning_rate=0.016),
                  metrics=['accuracy'])

    history = model.fit(ds_train, epochs=2)
    assert history.history['loss'][-1] < history.history['loss'][0]
"""
#: Two batches of 64 pictures of 32 × 32 pixels in which a class is bright in rows of its own.
_DATA = """
import numpy as np


def load_data():
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, (150, 1))
    pictures = random.integers(0, 100, (150, 32, 32, 3))
    for picture, (label,) in zip(pictures, labels):
        picture[3 * label : 3 * label + 3] += 155
    return (pictures.astype('uint8'), labels), (pictures.astype('uint8'), labels)
"""


def test_the_program_of_the_workshop(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_WORKSHOP)
    (tmp_path / "program_data.py").write_text(_DATA)
    paths = [str(Path(tilescope.__file__).parents[1]), *sys.path]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "KERAS_BACKEND": "torch",
        "POPLAR_ENGINE_OPTIONS": json.dumps(
            {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "report")}
        ),
    }
    ran = subprocess.run(
        [sys.executable, "program.py"],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    with analyser.open(tmp_path / "report") as report:
        names = {one.name for one in operations(report, "model").operations}
    parts = {part for name in names for part in re.split("[./]", name)}
    assert {"conv2d", "conv2d_3", "max_pooling2d_1", "dense_1", "activation_5", "loss"} <= parts


def test_settings_of_the_ipus() -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = [4]
    config.ipu_model.version = "ipu21"
    config.ipu_model.tiles_per_ipu = 8
    config.machine = "gc200"
    with pytest.warns(UserWarning, match=r"floating_point_behaviour\.inv has no effect"):
        config.floating_point_behaviour.inv = True
    with pytest.warns(UserWarning, match="allow_recompute has no effect"):
        config.allow_recompute = True
    config.configure_ipu_system()
    machine = configured().machine(2)
    assert (machine.n_ipus, machine.n_replicas, machine.tiles_per_ipu) == (2, 2, 8)
    with pytest.raises(BadOption, match="takes 3 IPUs, which do not divide the 4"):
        configured().machine(3)
    with pytest.raises(BadOption, match="did you mean 'auto_select_ipus'"):
        config.auto_select_ipu = 2
    with pytest.raises(BadOption, match="choose ipu1, ipu2, ipu21"):
        config.ipu_model.version = "ipu3"
    config.auto_select_ipus = 0
    with pytest.raises(BadOption, match="auto_select_ipus is 0"):
        config.configure_ipu_system()


def test_stages_have_numbers() -> None:
    with pytest.raises(BadOption, match="takes a number from 0, not -1"):
        PipelineStage(-1)
    assert ipu.keras.PipelineStage is PipelineStage
    assert ipu.ipu_strategy.IPUStrategy is IPUStrategy
    assert ipu.config.IPUConfig is IPUConfig


def test_what_tensorflow_has_and_keras_lacks() -> None:
    assert tf.keras is keras
    with pytest.raises(AttributeError, match=r"has no 'function': it has keras, optimizers"):
        _ = tf.function


def test_arrays_in_batches() -> None:
    x, y = np.arange(20).reshape(10, 2), np.arange(10)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    assert [len(batch[1]) for batch in data] == [4, 4, 2]
    assert len(data.repeat(2)) == 6
    (first, _) = next(iter(data))
    np.testing.assert_array_equal(first, x[:4])
    whole = tf.data.Dataset.from_tensor_slices((x, y)).batch(4, drop_remainder=True)
    assert len(whole) == 2
    assert [len(batch[1]) for batch in data.take(1)] == [4]
    doubled = data.map(lambda a, b: (a * 2, b)).prefetch(2).cache()
    np.testing.assert_array_equal(doubled[0][0], x[:4] * 2)
    shuffled = tf.data.Dataset.from_tensor_slices(y).shuffle(10, seed=1).batch(10)
    order = shuffled[0]
    assert sorted(order) == list(range(10))
    assert list(order) != list(range(10))
    shuffled.on_epoch_end()
    assert list(shuffled[0]) != list(order)
    with pytest.raises(BadInput, match=r"different numbers of samples: \[3, 10\]"):
        tf.data.Dataset.from_tensor_slices((x, y[:3]))
    with pytest.raises(BadInput, match="give it to repeat"):
        data.repeat(0)
    with pytest.raises(BadInput, match="batches of 0"):
        tf.data.Dataset.from_tensor_slices(y).batch(0)


def test_a_keras_on_another_backend_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keras.py").write_text(
        "class backend:\n    @staticmethod\n    def backend():\n        return 'jax'\n"
    )
    program = (
        "import keras\nfrom tilescope.engine.errors import BadInput\n"
        "try:\n    import tilescope.keras\nexcept BadInput as error:\n    print(error)\n"
    )
    paths = [str(tmp_path), str(Path(tilescope.__file__).parents[1]), *sys.path]
    ran = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Keras runs on 'jax'" in ran.stdout
    assert "KERAS_BACKEND=torch" in ran.stdout
