"""A tokenizer as plain values, for `texts.js`: by what `saved()` says of it, and the text of each id."""

from __future__ import annotations

from typing import Any

KINDS = {"toy": "words", "characters": "characters", "bytes": "bytes"}


def described(tokenizer: Any, model: Any) -> dict[str, Any]:
    """The parts of a tokenizer that the page needs.

    Raises TypeError for one that the page does not have, ValueError for one with other ids than the model.
    """
    saved = tokenizer.saved()[0] if hasattr(tokenizer, "saved") else {}
    if saved.get("kind") not in KINDS:
        raise TypeError(f"live: no tokenizer like {type(tokenizer).__name__}; expected ToyText, Characters or Bytes")
    parts = ("embedding", "source_embedding", "target_embedding")
    sizes = [getattr(model, name).num_embeddings for name in parts if hasattr(model, name)]
    counts = [*tokenizer.sizes] if saved["kind"] == "toy" else [len(tokenizer)] * len(sizes)
    if sizes != counts:
        raise ValueError(f"live: the model has {sizes} ids and the tokenizer {counts}; expected that of its training")
    source, target = ("source_pieces", "target_pieces") if saved["kind"] == "toy" else ("pieces", "pieces")
    return {
        "kind": KINDS[saved["kind"]],
        "source": getattr(tokenizer, source)(range(counts[0])),
        "target": getattr(tokenizer, target)(range(counts[-1])),
        "characters": saved.get("characters"),
        "language": saved.get("pair", "").partition("-")[2],
    }
