"""The part of `cupyx` that is used, over the stand-in for CuPy."""

from linalg_of_cupy import errstate
