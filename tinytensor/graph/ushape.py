"""The layout of a U-Net (Ronneberger et al. 2015): down to the smallest image, and up again on the other side."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

from .picture import Picture


def as_u(picture: Picture) -> Picture:
    """Lay the picture out as a U if its skips form one; otherwise return it unchanged.

    A skip leads from an image (of two axes, or three) to one of its size, and around smaller ones. Two or more, each
    within another, make a U: both ends of a skip are at one height, and what reads the innermost one rises.
    """
    turn = {v.id: i for i, v in enumerate(picture.vertices) if v.kind in ("op", "module", "output")}
    sizes = {v.id: v.shape[2:] for v in picture.vertices if v.kind in ("op", "module") and len(v.shape) in (4, 5)}
    if picture.direction != "TB" or len(set(sizes.values())) < 3:
        return picture
    readers: dict[str, list[str]] = {place: [] for place in turn}
    for edge in picture.edges:
        readers.setdefault(edge.tail, []).append(edge.head)
    skips: list[tuple[str, str]] = []
    for tail, size in sizes.items():
        if len(readers[tail]) > 1:
            smaller = [x for x in _after([tail], readers) if _smaller(sizes.get(x, ()), size)]
            around = {x for x in _after(smaller, readers) if sizes.get(x) == size}
            skips += [(tail, head) for head in dict.fromkeys(readers[tail]) if head in around]
    nested = all(turn[b] > turn[d] and _smaller(sizes[c], sizes[a]) for (a, b), (c, d) in pairwise(skips))
    if len(skips) < 2 or not nested or {edge.kind for edge in picture.edges} - {"data", "residual"}:
        return picture
    innermost, turning = skips[-1]
    below, rising = _after([innermost], readers) - {innermost}, _after([turning], readers)
    edges = [dataclasses.replace(e, rises=e.head in rising and e.tail in below) for e in picture.edges]
    return dataclasses.replace(picture, levels=tuple(skips), edges=tuple(edges))


def _smaller(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(one) == len(other) and all(a < b for a, b in zip(one, other))


def _after(first: list[str], readers: dict[str, list[str]]) -> set[str]:
    """Some vertices, and all that is computed from them."""
    found, waiting = set(first), list(first)
    while waiting:
        new = set(readers.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found
