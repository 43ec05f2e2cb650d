"""Looking inside a model: every value by name, to read (`nn.cache`) and to change (`nn.intervene`)."""

from .cache import cache
from .intervene import intervene

__all__ = ["cache", "intervene"]
