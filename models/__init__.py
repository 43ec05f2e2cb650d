"""Models for sequence tasks, their data, and how they are trained."""

if __name__ == "models":  # the folder itself, found in the root of the repository
    raise ImportError("models is a part of tinytensor; write: from tinytensor import models")

import os

from tinytensor.tracing import looks_through

from . import data
from .encoder import Encoder
from .language_model import LanguageModel
from .loading import load
from .marian import Marian
from .recurrent import Seq2Seq
from .transformer import Transformer
from .translator import Translator

__all__ = ["Encoder", "LanguageModel", "Marian", "Seq2Seq", "Transformer", "Translator", "data", "load"]

if os.environ.get("TINYTENSOR_TEXTBOOK") != "1" and os.path.exists(
    os.path.join(os.path.dirname(__file__), "fast", "__init__.py")
):
    from . import fast

looks_through(os.path.dirname(__file__), False)  # show calls in here as made here
