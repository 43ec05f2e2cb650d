"""Toy languages to translate between: English and French, English and Korean, from our own grammar."""

from .alignment import alignment_error_rate, corpus_alignment_error_rate
from .context import context_pairs
from .pairs import PAIRS, Pair, crossing, pairs, written
from .task import TranslationTask, Vocabulary
from .text import ToyText

__all__ = [
    "PAIRS",
    "Pair",
    "ToyText",
    "TranslationTask",
    "Vocabulary",
    "alignment_error_rate",
    "context_pairs",
    "corpus_alignment_error_rate",
    "crossing",
    "pairs",
    "written",
]
