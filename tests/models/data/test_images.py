"""Images of digits: repeatable, of every digit, and each recognisable as what it is."""

import numpy as np
import pytest

from tinytensor.models.data.images import SIZE, digits
from tinytensor.models.image_classifier import ImageClassifier


def test_shapes_dtypes_and_range():
    images, labels = digits(300)
    assert (images.shape, images.dtype) == ((300, 1, SIZE, SIZE), np.float32)
    assert (labels.shape, labels.dtype) == ((300,), np.int64)
    assert (images.min(), images.max()) == (0, 1)
    assert set(labels) == set(range(10))
    assert digits(0)[0].shape == (0, 1, SIZE, SIZE)
    assert digits(2, size=28)[0].shape == (2, 1, 28, 28)


def test_they_follow_from_the_seed():
    first, again, other = digits(150, 1), digits(150, 1), digits(150, (1, 1))
    assert (first[0] == again[0]).all()
    assert (first[1] == again[1]).all()
    assert not (first[0] == other[0]).all()


def test_each_is_drawn_its_own_way_and_like_its_kind():
    """The nearest of other images is of the same digit, mostly: what is drawn differs, and is not noise."""
    known, names = digits(1500, 0)
    images, labels = digits(150, 1)
    rows, others = images.reshape(150, -1), known.reshape(1500, -1)
    distances = (rows**2).sum(1)[:, None] - 2 * rows @ others.T + (others**2).sum(1)
    right = names[distances.argmin(axis=1)] == labels
    assert distances.min() > 1
    assert right.mean() > 0.7
    for digit in range(10):
        ink = known[names == digit].mean()
        assert 0.08 < ink < 0.4


def test_the_classifier_takes_images_that_can_be_halved_twice():
    assert ImageClassifier(28)[-1].in_features == 32 * 49
    with pytest.raises(ValueError, match="4 must divide the size of the images, got 22"):
        ImageClassifier(22)
