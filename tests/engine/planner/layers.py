"""Convolutions and products of published networks, by their shapes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LAYERS", "Layer"]


@dataclass(frozen=True)
class Layer:
    """A convolution of an image, or a product where `kernel` is 0.

    For a product, `groups` is the batch size, `size` the rows, and `inputs` and `outputs` the inner
    dimension and the columns.
    """

    name: str
    inputs: int
    outputs: int
    size: int
    kernel: int = 0
    stride: int = 1
    groups: int = 1
    dtype: str = "float16"
    is_computed: bool = False


LAYERS = (
    # ResNet-50, arXiv 1512.03385, table 1
    Layer("resnet50 first", 3, 64, 224, 7, 2),
    Layer("resnet50 conv2 1x1", 64, 64, 56, 1),
    Layer("resnet50 conv2 3x3", 64, 64, 56, 3),
    Layer("resnet50 conv2 expand", 64, 256, 56, 1),
    Layer("resnet50 conv3 3x3", 128, 128, 28, 3),
    Layer("resnet50 conv3 down", 256, 512, 56, 1, 2),
    Layer("resnet50 conv4 3x3", 256, 256, 14, 3),
    Layer("resnet50 conv4 3x3 float", 256, 256, 14, 3, dtype="float32"),
    Layer("resnet50 conv4 expand", 256, 1024, 14, 1),
    Layer("resnet50 conv5 3x3", 512, 512, 7, 3),
    Layer("resnet50 dense", 2048, 1000, 1),
    # VGG-16, arXiv 1409.1556
    Layer("vgg16 first", 3, 64, 224, 3),
    Layer("vgg16 conv3", 256, 256, 56, 3),
    Layer("vgg16 conv5", 512, 512, 14, 3),
    Layer("vgg16 dense", 4096, 4096, 1),
    # MobileNetV2, arXiv 1801.04381
    Layer("mobilenet first", 3, 32, 224, 3, 2),
    Layer("mobilenet depthwise 112", 32, 32, 112, 3, groups=32),
    Layer("mobilenet depthwise 56", 144, 144, 56, 3, groups=144),
    Layer("mobilenet depthwise 28 down", 192, 192, 28, 3, 2, groups=192),
    Layer("mobilenet depthwise 14 float", 384, 384, 14, 3, groups=384, dtype="float32"),
    Layer("mobilenet depthwise 56 float", 144, 144, 56, 3, groups=144, dtype="float32"),
    Layer("mobilenet depthwise 7 float", 960, 960, 7, 3, groups=960, dtype="float32"),
    Layer("mobilenet project", 144, 24, 56, 1),
    Layer("mobilenet last", 320, 1280, 7, 1),
    # EfficientNet-B0, arXiv 1905.11946
    Layer("efficientnet depthwise 5x5", 240, 240, 28, 5, groups=240),
    Layer("efficientnet depthwise 5x5 float", 240, 240, 28, 5, groups=240, dtype="float32"),
    Layer("efficientnet squeeze", 480, 20, 1, 1),
    Layer("efficientnet project", 672, 112, 14, 1),
    # ResNeXt-50 32x4d, arXiv 1611.05431
    Layer("resnext50 grouped", 128, 128, 56, 3, groups=32),
    # BERT base, sequence 384, arXiv 1810.04805
    Layer("bert query", 768, 768, 384),
    Layer("bert intermediate", 768, 3072, 384),
    Layer("bert output", 3072, 768, 384),
    Layer("bert scores", 64, 384, 384, groups=12, is_computed=True),
    Layer("bert context", 384, 64, 384, groups=12, is_computed=True),
    Layer("bert intermediate float", 768, 3072, 128, dtype="float32"),
)
