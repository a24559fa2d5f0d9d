"""Points: those that are far apart, and those that are near."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import Any

import torch

from poptorch.errors import createPoptorchError

__all__ = ["fps", "nearest"]


def fps(
    src: torch.Tensor, ptr: list[int], ratio: float = 0.5, random_start: bool = False
) -> torch.Tensor:
    """Return numbers of points that are far apart, of every cloud.

    Parameters
    ----------
    src
        Points, of shape (points, dimensions).
    ptr
        Where clouds begin, and the number of points.
    ratio
        Share of the points.
    random_start
        Whether the first point of a cloud is drawn.

    Raises
    ------
    Error
        When an argument has another type.
    """
    if not isinstance(src, torch.Tensor):
        raise createPoptorchError(
            f"`fps` must take a torch.tensor input. {type(src)} is not supported."
        )
    if not isinstance(ptr, list):
        raise createPoptorchError("`ptr` must be a list of integers.")
    if len(ptr) < 2:
        raise createPoptorchError("`ptr` must contain at least 2 elements.")
    if not isinstance(ratio, float):
        raise createPoptorchError(f"`ratio` must be of float type. {type(ratio)} is not supported.")
    if not isinstance(random_start, bool):
        raise createPoptorchError(
            f"`random_start` must be of bool type. {type(random_start)} is not supported."
        )
    clouds = pairwise(ptr)
    return torch.cat([_far_apart(src, *cloud, ratio, random_start) for cloud in clouds])


def _far_apart(
    src: torch.Tensor, first: int, end: int, ratio: float, random_start: bool
) -> torch.Tensor:
    """Return numbers of points of a cloud: the next is the one farthest from those before."""
    points, n_points = src[first:end], end - first
    chosen = torch.randint(n_points, (1,)) if random_start else torch.zeros(1, dtype=torch.long)
    numbers = [chosen]
    distances = (points - points.index_select(0, chosen)).square().sum(-1)
    for _ in range(ceil(n_points * ratio) - 1):
        chosen = distances.argmax(0, keepdim=True)
        numbers.append(chosen)
        to_chosen = (points - points.index_select(0, chosen)).square().sum(-1)
        distances = torch.minimum(distances, to_chosen)
    return torch.cat(numbers) + first


def nearest(x: torch.Tensor, y: torch.Tensor, batch_x: Any = None, batch_y: Any = None) -> Any:
    """Return, of every point, the number of the nearest other point in its batch.

    Parameters
    ----------
    x
        Points, of shape (points, dimensions).
    y
        Other points, likewise.
    batch_x, batch_y
        Batches of the points: a list or a tensor of one dimension; all are one batch by default.

    Raises
    ------
    Error
        When an argument has another type.
    """
    for name, points in (("x", x), ("y", y)):
        if not isinstance(points, torch.Tensor):
            raise createPoptorchError(
                f"`nearest` must take a torch.tensor `{name}` input. {type(points)} is not"
                " supported."
            )
    batches = [[] if batch is None else batch for batch in (batch_x, batch_y)]
    if not all(isinstance(batch, (list, torch.Tensor)) for batch in batches):
        raise createPoptorchError(
            "`batch_x` and `batch_y` must be torch.Tensors or lists while `batch_x` is of type"
            f" {type(batches[0])} and `batch_y` is of type {type(batches[1])}."
        )
    x, y = (points.unsqueeze(-1) if points.dim() == 1 else points for points in (x, y))
    distances = (x.unsqueeze(1) - y.unsqueeze(0)).square().sum(-1)
    if all(len(batch) for batch in batches):
        of_x, of_y = (torch.as_tensor(batch) for batch in batches)
        is_apart = of_x.unsqueeze(1) != of_y.unsqueeze(0)
        distances = torch.where(is_apart, torch.finfo(distances.dtype).max, distances)
    return distances.argmin(1)
