"""MNIST and Fashion-MNIST, both as the digits in the folder that DIGITS names."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

__all__ = ["MNIST", "FashionMNIST"]

#: Bytes before images and labels.
_IMAGES, _LABELS = 16, 8


class MNIST(torch.utils.data.Dataset):
    """Labelled digits: tensors of shape (1, 28, 28), or what a transformation makes of them."""

    def __init__(
        self, root: str, train: bool = True, transform: Any = None, download: bool = False
    ) -> None:
        del root, download
        folder, start = Path(os.environ["DIGITS"]), "train" if train else "t10k"
        most = int(os.environ.get("DIGITS_MOST", "0")) or None
        images = np.fromfile(folder / f"{start}-images-idx3-ubyte", np.uint8, offset=_IMAGES)
        self.data = torch.from_numpy(images.reshape(-1, 28, 28)[:most])
        labels = np.fromfile(folder / f"{start}-labels-idx1-ubyte", np.uint8, offset=_LABELS)
        self.targets = torch.from_numpy(labels[:most].astype(np.int64))
        self._transform = transform
        self.classes = [str(number) for number in range(10)]

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image = self.data[index].numpy()
        return self._transform(image) if self._transform else image, int(self.targets[index])


class FashionMNIST(MNIST):
    """Digits in place of clothes, in the same form."""
