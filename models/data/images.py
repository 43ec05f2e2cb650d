"""Generated images of digits: strokes of a pen, each time shifted, turned, stretched and noisy.

A digit is a few strokes in a unit square, straight lines and arcs, x to the right and y down. A pen follows them, and
the distance of a pixel from the nearest stroke decides how dark it becomes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SIZE = 20
"""Height and width of an image, in pixels."""

AT_A_TIME = 128  # images to keep the distances from pixels to strokes of in memory


def _line(*points: tuple[float, float]) -> Any:
    """Straight lines from point to point."""
    return np.array(points)


def _arc(x: float, y: float, width: float, height: float, start: float, end: float) -> Any:
    """A part of an ellipse around (x, y), from one angle in degrees to another: 0 is right of it, 90 below."""
    angles = np.radians(np.linspace(start, end, max(2, int(abs(end - start) / 30) + 1)))
    return np.stack([x + width * np.cos(angles), y + height * np.sin(angles)], axis=1)


def _joined(*strokes: Any) -> Any:
    return np.concatenate(strokes)


STROKES: list[list[Any]] = [
    [_arc(0.5, 0.5, 0.28, 0.42, 0, 360)],
    [_line((0.35, 0.25), (0.55, 0.08), (0.55, 0.92))],
    [_joined(_arc(0.5, 0.3, 0.25, 0.22, 190, 400), _line((0.24, 0.92), (0.78, 0.92)))],
    [_joined(_arc(0.47, 0.29, 0.24, 0.21, 200, 450), _arc(0.47, 0.71, 0.27, 0.21, 270, 520))],
    [_line((0.62, 0.92), (0.62, 0.08), (0.2, 0.65), (0.82, 0.65))],
    [_joined(_line((0.75, 0.08), (0.3, 0.08), (0.27, 0.45)), _arc(0.48, 0.66, 0.26, 0.25, 230, 510))],
    [_joined(_line((0.66, 0.1), (0.42, 0.3), (0.28, 0.6)), _arc(0.5, 0.68, 0.23, 0.24, 180, 540))],
    [_line((0.22, 0.08), (0.78, 0.08), (0.42, 0.92))],
    [_arc(0.5, 0.29, 0.2, 0.2, 0, 360), _arc(0.5, 0.71, 0.25, 0.22, 0, 360)],
    [_joined(_arc(0.5, 0.32, 0.23, 0.24, 0, 360), _line((0.7, 0.6), (0.52, 0.92)))],
]
"""The strokes of each digit, as points that the pen goes through."""


def _segments() -> Any:
    """The strokes as pairs of points, (digit, segment, end, x and y); shorter digits repeat their last segment."""
    pairs = [np.concatenate([np.stack([s[:-1], s[1:]], axis=1) for s in strokes]) for strokes in STROKES]
    most = max(map(len, pairs))
    return np.stack([p[np.minimum(np.arange(most), len(p) - 1)] for p in pairs])


SEGMENTS = _segments()


def digits(count: int, seed: Any = 0, size: int = SIZE) -> tuple[Any, Any]:
    """Images of handwriting, and the digit of each: always the same for the same seed.

    Each is turned by up to 15 degrees, slanted, scaled in width and height by its own factors, shifted, written with
    its own thickness of the pen, and made noisy.

    Args:
        count: the number of images; every digit is equally likely.
        seed: the seed for `numpy.random.default_rng`.
        size: height and width in pixels.

    Returns float32 (count, 1, size, size), from 0 for paper to 1 for ink, and int64 (count,).
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count)
    angle, slant = rng.uniform(-0.26, 0.26, (2, count))
    wide, high = rng.uniform(0.65, 0.95, (2, count))
    shift = rng.uniform(-0.1, 0.1, (count, 1, 1, 2))
    thickness = rng.uniform(0.05, 0.11, count)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
    stretch = np.zeros((count, 2, 2))
    stretch[:, 0, 0], stretch[:, 0, 1], stretch[:, 1, 1] = wide, slant, high
    points = np.einsum("nij,nsej->nsei", turn @ stretch, SEGMENTS[labels] - 0.5) + 0.5 + shift
    images = np.empty((count, 1, size, size), dtype=np.float32)
    for start in range(0, count, AT_A_TIME):
        some = slice(start, start + AT_A_TIME)
        images[some, 0] = _ink(points[some].astype(np.float32), thickness[some, None, None].astype(np.float32), size)
    images += rng.normal(0, 0.1, images.shape).astype(np.float32)
    return np.clip(images, 0, 1), labels


def _ink(points: Any, thickness: Any, size: int) -> Any:
    """The darkness of each pixel, (n, size, size): 1 on a stroke, less at its edge, 0 away from it."""
    middle = (np.arange(size, dtype=np.float32) + 0.5) / size
    start, along = points[:, :, 0], points[:, :, 1] - points[:, :, 0]
    length = np.maximum((along * along).sum(axis=-1), 1e-9)[..., None, None]
    dx = middle - start[:, :, None, None, 0]  # from the start of each segment to each column of pixels
    dy = middle[:, None] - start[:, :, None, None, 1]  # and to each row
    way_x, way_y = along[:, :, None, None, 0], along[:, :, None, None, 1]
    share = np.clip((dx * way_x + dy * way_y) / length, 0, 1)  # the place of the nearest point on the segment
    squared = (dx - share * way_x) ** 2 + (dy - share * way_y) ** 2
    distance = np.sqrt(squared.min(axis=1))
    return np.clip((thickness - distance) * size + 0.5, 0, 1)
