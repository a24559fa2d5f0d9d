"""Transformations of images."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

__all__ = ["Compose", "ConvertImageDtype", "Normalize", "Resize", "ToPILImage", "ToTensor"]


class Compose:
    """Transformations one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class Resize:
    """Bytes to those of an image of another size."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, image: Any) -> Any:
        pixels = torch.from_numpy(np.asarray(image, np.float32))[None, None]
        sizes = (self.size, self.size)
        resized = torch.nn.functional.interpolate(pixels, sizes, mode="bilinear")
        return resized[0, 0].round().byte().numpy()


class ConvertImageDtype:
    """Numbers in another type."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return image.to(self.dtype)


class ToTensor:
    """Bytes to numbers from 0 to 1, with a dimension of channels in front."""

    def __call__(self, image: Any) -> torch.Tensor:
        return torch.from_numpy(np.asarray(image, np.float32)[None] / 255)


class Normalize:
    """Numbers of a mean of 0 and a deviation of 1."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean, self.std = (torch.tensor(v)[:, None, None] for v in (mean, std))

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - self.mean) / self.std


class ToPILImage:
    """Numbers to an image of the package that has them."""

    def __call__(self, tensor: torch.Tensor) -> Any:
        from PIL import Image

        return Image.fromarray((tensor[0].numpy() * 255).clip(0, 255).astype(np.uint8))
