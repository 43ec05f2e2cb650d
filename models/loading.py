"""One door to trained models, wherever they come from: `load` finds out what is at a path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from . import gguf_file, huggingface
from .data.units import SAVED
from .encoder import Encoder
from .language_model import LanguageModel
from .marian import Marian
from .pretrained import make_codec, make_model, read_folder
from .recurrent import Seq2Seq
from .transformer import Transformer
from .translator import CODECS

MODELS = {model.__name__: model for model in (Encoder, LanguageModel, Marian, Seq2Seq, Transformer)}


def load(path: str | os.PathLike[str], device: str = "cpu") -> Any:
    """The model at a path, on a device, in evaluation mode, with its tokenizer.

        model = models.load("SmolLM2-135M-Instruct.Q4_1.gguf")
        ids = model.tokenizer.chat("What is the capital of France?")
        print(model.tokenizer.decode(model.generate([ids], 40)[0].tolist()))

    Args:
        path: a folder of Hugging Face, a GGUF file, or a folder of ours. Nothing is fetched, and no code of it is run.

    Returns one of `MODELS`. Its attribute `tokenizer` has `encode` and `decode`, and for folders and files of others
    `chat`; it is None for a model of ids alone.

    Raises PretrainedError, with the file's name, for anything else, and where a package is missing.
    """
    where, name = Path(path), os.fspath(path)
    tokenizer: Any
    if gguf_file.is_gguf(where) or (where.suffix == ".gguf" and where.is_file()):
        config, weights, tokenizer = gguf_file.read_file(where)
        found = huggingface.as_folder(where, config, weights, tokenizer)
    elif huggingface.is_theirs(where):
        found, tokenizer = huggingface.read_folder(where)
    else:
        found = read_folder(where)
        tokenizer = None if found.text is None else make_codec(found, CODECS | SAVED, name)
    model = make_model(found, MODELS, name, device)
    model.tokenizer = tokenizer
    return model
