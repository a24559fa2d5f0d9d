"""Modules as text, with the blocks that they begin."""

from __future__ import annotations

import sys

import torch

__all__ = ["module_repr", "print"]


def module_repr(m: torch.nn.Module) -> str:
    """Return a module as text: as PyTorch does, with its hooks in front of its name.

    Parameters
    ----------
    m
        The module.
    """
    extra = m.extra_repr()
    lines = extra.split("\n") if extra else []
    for name, child in m.named_children():
        text = module_repr(child).replace("\n", "\n  ")
        lines.append(f"({name}): {text}")
    hooks = "".join(f"{hook!r} " for hook in m._forward_pre_hooks.values())
    start = f"{hooks}{m._get_name()}("
    if not lines:
        return f"{start})"
    if len(lines) == 1 and extra and not [*m.children()]:
        return f"{start}{lines[0]})"
    body = "\n  ".join(lines)
    return f"{start}\n  {body}\n)"


def print(m: torch.nn.Module) -> None:  # PopTorch's name
    """Write a module to stdout, with the blocks that it begins."""
    sys.stdout.write(f"{module_repr(m)}\n")
