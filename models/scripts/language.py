"""The shared parts of the scripts that train on one text: the text, its units, and figures to compare with n-grams."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np

from .. import ngram
from ..data.stretches import StretchTask, toy_text, whole
from ..data.tokenizer import TokenizerError
from ..data.units import UNITS, Units
from ..training.evaluation import validation_loss
from ..training.presets import LANGUAGE_MODELS
from .command_line import Parser, UsageError, fraction, size, told

ORDERS = (5, 8, 12)  # of n-grams: the usual one, and longer ones for characters


class Text:
    """A text in ids: the part to learn from, and the held-out part at its end.

    Attributes:
        units: the units of the ids.
        training, held_out: ids.
        fingerprint: a hash that identifies it.
        characters: the number of characters in the held-out part.
    """

    def __init__(self, text: str, units: Units, held_out: float) -> None:
        cut = text.rfind("\n", 0, int(len(text) * (1 - held_out))) + 1 or int(len(text) * (1 - held_out))
        self.units = units
        self.training, self.held_out = (np.array(units.encode(part)) for part in (text[:cut], text[cut:]))
        self.characters = len(text) - cut
        self.fingerprint = hashlib.sha256(self.training.tobytes() + self.held_out.tobytes()).hexdigest()
        if not len(self.held_out):
            raise UsageError(f"--held-out {held_out} leaves nothing of {len(text):,} characters to be tested with")

    @staticmethod
    def of(arguments: argparse.Namespace) -> Text:
        """The text that the arguments name. Raises UsageError if there is none."""
        if arguments.units == "subwords" and importlib.util.find_spec("sentencepiece") is None:
            raise UsageError("sentencepiece is not installed; run: pip install -e '.[text]'")
        if arguments.text is None:
            text = toy_text(arguments.lines, arguments.seed)
        else:
            try:
                text = Path(arguments.text).read_text(encoding="utf-8-sig")  # a string in a resumed run
            except OSError as error:
                raise UsageError(f"cannot read {arguments.text}: {error.strerror or error}") from None
            except UnicodeDecodeError as error:
                raise UsageError(f"{arguments.text}: not UTF-8 (byte {error.start + 1})") from None
        if not text.strip():
            raise UsageError(f"{arguments.text}: there is no text in it")
        with told(TokenizerError, prefix="--"):  # the message begins with the argument's name
            units = UNITS[arguments.units](text, arguments.vocabulary)
        return Text(text, units, arguments.held_out)

    def stretches(self, length: int, seed: int) -> StretchTask:
        """A task of training on this text. Raises UsageError if it is too short."""
        with told(ValueError, prefix="--length: "):
            return StretchTask(self.training, length, seed)

    def loss(self, model: Any, length: int) -> float:
        """The mean negative log-likelihood of a held-out id (nats), given the ids before it."""
        return validation_loss(model, whole(np.concatenate([self.training[-1:], self.held_out]), length))

    def ngram_losses(self) -> dict[int, float]:
        """The same by n-grams with Kneser-Ney smoothing, by their length."""
        vocabulary = len(self.units)
        return {n: -ngram.log_probabilities(self.training, self.held_out, vocabulary, n).mean() for n in ORDERS}

    def told(self, loss: float) -> str:
        """The perplexity of an id, and of a character if their numbers differ, as text."""
        a_character = math.exp(loss * len(self.held_out) / self.characters)
        more = "" if len(self.held_out) == self.characters else f" ({a_character:.3f} a character)"
        return f"{math.exp(loss):.3f}{more}"


def add_text_arguments(p: Parser, *, units: str | None, length: int) -> None:
    """Add the arguments of a text and of the model to train on it."""
    p.add_argument("--text", type=Path, metavar="FILE", help="what to learn from, UTF-8; default: toy sentences")
    p.add_argument("--lines", type=size, default=20_000, help="of toy sentences")
    if units is not None:
        p.add_argument("--units", choices=UNITS, default=units, help="what the text is cut into")
        p.add_argument("--vocabulary", type=size, default=1000, help="of --units subwords")
        p.add_argument("--preset", choices=LANGUAGE_MODELS, default="gpt2-tiny", help="sizes and kind of the model")
    p.add_argument("--length", type=size, default=length, help="ids that the model sees at a time")
    p.add_argument(
        "--held-out", type=fraction, default=0.05, metavar="X", help="share of the text to test with, its end"
    )
