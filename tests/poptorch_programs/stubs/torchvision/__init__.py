"""What programs of PyTorch import of torchvision for their data: digits from files of MNIST.

Only tests use it, where torchvision cannot be installed beside PyTorch's build for processors.
"""

from . import datasets, transforms

__all__ = ["datasets", "transforms"]
