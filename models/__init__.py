"""Models for sequence tasks, their data, and how they are trained."""

from .transformer import Transformer

__all__ = ["Transformer"]
