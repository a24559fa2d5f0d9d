"""Hostile models through the command line: refused in a sentence, or run, never an internal error.

python -m tests.faults.models --number 2000 --seed 1
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message
from tests.faults.hostile_models import (
    HOSTILE_FILES,
    HOSTILE_MODELS,
    addition,
    small_models,
)

from tilescope.main import main as tilescope

__all__ = ["Outcome", "hostile_folder", "main", "mutated", "outcome", "run", "write_hostile"]

#: Success, checked and not ready, refused, did not fit the machine or this computer.
ALLOWED_CODES = frozenset((0, 1, 2, 4))
MOST_CHARACTERS = 400
MOST_SECONDS = 2.0
_COMMANDS = (("run", "--no-report", "--quiet", "--tiles", "4"), ("models", "check"))
_NUMBERS = (-1, 0, 1, 7, 99, 1 << 31, (1 << 63) - 1, -(1 << 63))
_TEXTS = ("", "x", "y", "Relu", "If", "a\0b", "\u202e", "n" * 70_000, "then_branch", "axis")


@dataclass(frozen=True)
class Outcome:
    """What a command did with a model: exit code, message, seconds."""

    code: int
    message: str
    seconds: float

    @property
    def problem(self) -> str:
        """What is wrong with it; empty for nothing."""
        if self.code not in ALLOWED_CODES:
            return f"exit {self.code}"
        if "Traceback" in self.message:
            return "traceback"
        is_list = "operators are not supported yet" in self.message
        if not is_list and (len(self.message) > MOST_CHARACTERS or self.message.count("\n") > 1):
            return f"message of {len(self.message):,} characters"
        if self.code > 1 and not self.message.strip():
            return "no message"
        return "" if self.seconds <= MOST_SECONDS else "slow"


def outcome(command: Sequence[str], path: Path) -> Outcome:
    """Return what a command does with a model, in this process."""
    out, err = io.StringIO(), io.StringIO()
    start = time.perf_counter()
    with redirect_stdout(out), redirect_stderr(err):
        code = tilescope([*command, str(path)])
    return Outcome(code, err.getvalue(), time.perf_counter() - start)


def hostile_folder(folder: Path) -> None:
    """Write what external data may refer to beside a model."""
    (folder / "folder").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(bytes(24))
    (folder.parent / "weights.bin").write_bytes(bytes(24))
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to("/etc/hostname")
    (folder / "circle").symlink_to("circle")
    (folder / "zero").symlink_to("/dev/zero")


def write_hostile(name: str, path: Path) -> None:
    """Write a hostile model, or what stands in its place."""
    if name in HOSTILE_FILES:
        HOSTILE_FILES[name](path)
        return
    model = addition()
    HOSTILE_MODELS[name](model)
    path.write_bytes(model.SerializeToString())


def mutated(draw: random.Random) -> bytes:
    """Return a small model with fields replaced or removed, or with bytes changed."""
    model = draw.choice(small_models())
    for _ in range(draw.choice((1, 1, 2, 3))):
        _mutate(draw.choice(_messages(model)), draw)
    try:
        data = bytearray(model.SerializeToString())
    except EncodeError:
        data = bytearray(addition().SerializeToString())
    if draw.random() < 0.25:
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
    if draw.random() < 0.1:
        del data[draw.randrange(len(data)) :]
    return bytes(data)


def _messages(message: Message) -> list[Message]:
    """Return a message and all in it."""
    results = [message]
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in value if field.is_repeated else [value]:
                results += _messages(part)
    return results


def _mutate(message: Message, draw: random.Random) -> None:
    """Replace, double or remove one field of a message."""
    fields = message.DESCRIPTOR.fields
    stated = [field for field, _ in message.ListFields()]
    field = draw.choice(stated) if stated and draw.random() < 0.8 else draw.choice(fields)
    if draw.random() < 0.2:
        message.ClearField(field.name)
        return
    texts = [text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text for text in _TEXTS]
    value: object = draw.choice(_NUMBERS)
    if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        value = draw.choice(texts)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        if field.is_repeated and getattr(message, field.name):
            parts = getattr(message, field.name)
            parts.add().CopyFrom(draw.choice(parts))
        return
    try:
        if field.is_repeated:
            values = [*getattr(message, field.name)]
            values[draw.randrange(len(values)) :] = [value] if values else []
            message.ClearField(field.name)
            getattr(message, field.name).extend(values or [value])
        else:
            setattr(message, field.name, value)
    except (ValueError, TypeError, DecodeError):
        message.ClearField(field.name)


def run(n: int, seed: int) -> dict[str, int | float]:
    """Run all hostile models and ``n`` mutated ones; return counts of their outcomes."""
    draw = random.Random(seed)
    counts: dict[str, int | float] = dict.fromkeys(
        ("models", "exit_0", "exit_1", "exit_2", "exit_4", "exit_other", "problems"), 0
    )
    slowest_s = 0.0
    with tempfile.TemporaryDirectory(prefix="hostile-models-") as name:
        folder = Path(name) / "models"
        hostile_folder(folder)
        (folder / "sound.onnx").write_bytes(addition().SerializeToString())
        for command in _COMMANDS:  # imports take longer than any answer
            outcome(command, folder / "sound.onnx")
        for number in range(-len(HOSTILE_FILES) - len(HOSTILE_MODELS), n):
            path = folder / f"model{number}.onnx"
            if number < 0:
                label = [*HOSTILE_FILES, *HOSTILE_MODELS][number]
                write_hostile(label, path)
            else:
                label = f"mutated {number}"
                path.write_bytes(mutated(draw))
            for command in _COMMANDS:
                end = outcome(command, path)
                counts["models"] += 1
                counts[f"exit_{end.code}" if end.code in ALLOWED_CODES else "exit_other"] += 1
                counts["problems"] += bool(end.problem)
                slowest_s = max(slowest_s, end.seconds)
                if end.problem:
                    sys.stderr.write(
                        f"{label}, {command[0]}: {end.problem}, {end.seconds:.1f} s:"
                        f" {end.message[:400]}\n"
                    )
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return counts | {"slowest_s": round(slowest_s, 3), "peak_mib": round(peak_mib)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; 1 if a model had another end than it may have."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.models")
    parser.add_argument("--number", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    onnx.checker.check_model(addition())
    counts = run(options.number, options.seed)
    print(json.dumps(counts, indent=2))  # noqa: T201  the result
    return int(counts["problems"] > 0)


if __name__ == "__main__":
    sys.exit(main())
