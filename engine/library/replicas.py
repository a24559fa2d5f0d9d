"""Replicas of a program that share the statistics of a normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilescope.engine.arguments import a_count, a_list, shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor
from tilescope.engine.library.builder import Builder

__all__ = ["Replicas"]


@dataclass(frozen=True)
class Replicas:
    """Replicas with equal shares of a batch, and how they add tensors.

    Source: graphcore/poplibs sdk-release-3.4, include/poplin/Norms.hpp,
    DistributedNormReduceCallback.

    Parameters
    ----------
    n_images
        Images of all replicas that share statistics (``normBatchSize``).
    add
        Takes a builder, tensors of this replica, and the number of replicas; adds a program, and
        returns the sums over the replicas in the same order.
    """

    n_images: int
    add: Callable[[Builder, Sequence[Tensor], int], Sequence[Tensor]]

    def __post_init__(self) -> None:
        """Check the arguments.

        Raises
        ------
        BadGraph
            If the number of images is less than 1, or `add` is not a function.
        """
        a_count("The images of replicas", self.n_images, 1)
        if not callable(self.add):
            raise BadGraph(f"The sum over replicas is {shown(self.add)}: expected a function")

    def count(self, n_images: int) -> int:
        """Return the number of replicas with some images each.

        Raises
        ------
        BadGraph
            If they do not divide all images.
        """
        if self.n_images > n_images and self.n_images % n_images:
            raise BadGraph(
                f"Replicas share {self.n_images} images, of which this one has {n_images}: expected"
                " a multiple of them"
            )
        return max(1, self.n_images // n_images)

    def total(self, builder: Builder, tensors: Sequence[Tensor], n_images: int) -> list[Tensor]:
        """Return the sums of tensors over all replicas; themselves if there is only one.

        Raises
        ------
        BadGraph
            If the images of a replica do not divide all images, or the function returns other
            tensors.
        """
        n_replicas = self.count(n_images)
        if n_replicas == 1:
            return [*tensors]
        subject = "The sums over replicas"
        sums = [*a_list(subject, self.add(builder, tensors, n_replicas), "a list of tensors")]
        layout = [(tuple(x.shape), x.dtype) for x in tensors]
        if not all(isinstance(x, Tensor) for x in sums) or layout != [
            (tuple(x.shape), x.dtype) for x in sums
        ]:
            raise BadGraph(
                f"{subject}: expected {len(tensors)} tensors of the shapes and types given"
            )
        return sums
