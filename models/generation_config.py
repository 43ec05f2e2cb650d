"""The options of `generate` that a folder of Hugging Face sets in generation_config.json, for calls that do not.

Each entry is read, or changes no id, or is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from .pretrained import is_one, kind_name
from .weights import CONFIG, GENERATION, PretrainedError, entries

WHOLE = (
    "max_length", "max_new_tokens", "min_length", "min_new_tokens", "top_k", "num_beams", "num_return_sequences",
    "no_repeat_ngram_size",
)  # fmt: skip
OPTIONS: dict[str, Any] = (
    dict.fromkeys(WHOLE, int)
    | dict.fromkeys(("temperature", "top_p", "min_p", "length_penalty", "repetition_penalty"), float)
    | dict.fromkeys(("do_sample", "renormalize_logits"), bool)
    | dict.fromkeys(("suppress_tokens", "begin_suppress_tokens"), Sequence[int])
    | {"bad_words_ids": Sequence[Sequence[int]], "sequence_bias": Sequence[Sequence[Any]]}
    | {"early_stopping": bool | str, "forced_eos_token_id": int | Sequence[int], "stop_strings": str | Sequence[str]}
)
MOST = 1000  # beams
ONES = "typical_p", "encoder_repetition_penalty", "num_beam_groups", "guidance_scale"
ZEROS = (
    "epsilon_cutoff", "eta_cutoff", "encoder_no_repeat_ngram_size", "diversity_penalty", "token_healing",
    "penalty_alpha",
)  # fmt: skip
NEUTRAL = dict.fromkeys(ONES, 1) | dict.fromkeys(ZEROS, 0)
"""The only values of entries that would change ids."""
CHANGES_NO_ID = (
    r"(bos|eos|pad|decoder_start)_token_id|(use|low)_.*|.*cache.*|output_.*|return_dict_in_generate|.*assistant.*|"
    r".*lookbehind|prompt_lookup_num_tokens|max_matching_ngram_size|speculation_type|prefill_chunk_size|.*compile.*|"
    r"remove_invalid_values|transformers_version|_.*"
)


def checked(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Options of `generate`, by the names of `transformers`, where max_length and min_length count the prompt.

    Raises ValueError for an unknown name, and for a value of the wrong kind.
    """
    for name, value in (settings or {}).items():
        if name not in OPTIONS:
            raise ValueError(f"generation_config: unknown option {name!r}; expected {', '.join(OPTIONS)}")
        if not is_one(value, OPTIONS[name]):
            raise ValueError(f"generation_config: {name} is {shown(value)}; expected {kind_name(OPTIONS[name])}")
        if name in ("num_beams", "num_return_sequences") and not 1 <= value <= MOST:
            raise ValueError(f"generation_config: {name} is {shown(value)}; expected 1 to {MOST}")
    return dict(settings or {})


def read_settings(folder: Path) -> dict[str, Any]:
    """The options that generation_config.json sets, or, without that file, config.json. Raises PretrainedError."""
    file = folder / (GENERATION if (folder / GENERATION).exists() else CONFIG)
    found = {name: value for name, value in entries(file).items() if value is not None}
    for name in [name for name in found if name not in OPTIONS]:
        value, no_option = found.pop(name), file.name == CONFIG or re.fullmatch(CHANGES_NO_ID, name)
        if value != NEUTRAL[name] if name in NEUTRAL else not no_option:
            expected = NEUTRAL.get(name, "no such entry")
            raise PretrainedError(f"{file}: {name} is {shown(value)}; expected {expected}: remove it to go without")
    try:
        return checked({"top_k": 50} | found if found.get("do_sample") else found)  # as `transformers` draws
    except ValueError as error:
        raise PretrainedError(f"{file}: {str(error).removeprefix('generation_config: ')}") from None
