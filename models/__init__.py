"""Models for sequence tasks, their data, and how they are trained."""

from .recurrent import Seq2Seq
from .transformer import Transformer
from .translator import Translator

__all__ = ["Seq2Seq", "Transformer", "Translator"]
