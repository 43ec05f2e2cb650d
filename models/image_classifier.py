"""A small convolutional network that classifies images, after LeNet (LeCun et al. 1998)."""

from __future__ import annotations

from tinytensor import nn


class ImageClassifier(nn.Sequential):
    """Two convolutions, each with a ReLU and a pool that halves the image, and a linear map to the classes.

    Args:
        size: height and width of the images, of one channel; it must be a multiple of 4 for two halvings.
        classes: the number of kinds of images.
        channels: the number of filters of each convolution.

    Shapes: images (batch, 1, size, size) -> logits (batch, classes).
    Raises ValueError for a size that 4 does not divide.
    """

    def __init__(self, size: int, classes: int = 10, channels: tuple[int, int] = (16, 32)) -> None:
        if size < 4 or size % 4:
            raise ValueError(f"ImageClassifier: 4 must divide the size of the images, got {size}")
        first, second = channels
        super().__init__(
            nn.Conv2d(1, first, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(second * (size // 4) ** 2, classes),
        )
