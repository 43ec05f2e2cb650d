"""GGUF files: a model and its tokenizer in one file, with weights of 2 to 32 bits, which become float32 here.

The package `gguf` reads the file. A table says what Hugging Face's config would call its numbers and weights, so that a
file goes the way of a folder from there on.
"""

from __future__ import annotations

import re
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import numpy as np

from tinytensor.machine.files import open_file
from tinytensor.nn import functional as F

from .families import Config
from .folder_tokenizer import FolderTokenizer, byte_pairs, packages
from .ids import NONE
from .weights import PretrainedError, Weight, pieces, reading

MAGIC = b"GGUF"
FAMILIES = ("llama", "qwen2", "qwen3")

ENTRIES = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
ENDS = {"bos_token_id": "bos_token_id", "eos_token_id": "eos_token_id", "pad_token_id": "padding_token_id"}

ALSO_END = ("eot_token_id", "eom_token_id")  # end of turn, end of message: generation ends there as well

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "attention.causal": (True,),
    "attention.scale": (0,),
    "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,),
    "attention.sliding_window": (0,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "logit_scale": (0,),
    "rope.scale_linear": (1,),
}
"""Entries of an architecture that change its numbers, and the values with which they do not."""

OTHERS = {
    *ENTRIES.values(), *NEUTRAL, "vocab_size", "attention.value_length", "rope.dimension_count", "rope.scaling.type",
    "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.finetuned", "tensor_data_layout",
}  # fmt: skip
"""All entries of an architecture that may be there."""

NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

FREQUENCIES, LLAMA3_FACTORS, LLAMA3_LENGTH = "rope_freqs.weight", (8.0, 32.0), 8192

CONTROL, USER_DEFINED = 3, 4  # kinds of tokens: those of a chat, and words that are never taken apart


def is_gguf(path: Path) -> bool:
    """True if a file is GGUF, whatever its name."""
    if not path.is_file():
        return False
    with reading(open_file, path) as file:
        return file.read(len(MAGIC)) == MAGIC


def read_file(path: Path) -> tuple[Config, dict[str, Weight], FolderTokenizer]:
    """The config, the weights by Hugging Face's names, and the tokenizer of a file.

    Raises PretrainedError that names the file: it is damaged, or its architecture is none of `FAMILIES`.
    """
    (gguf,) = packages("gguf")
    with reading(open_file, path) as file:
        _check_sizes(path, file)
    try:
        reader = gguf.GGUFReader(path)
        said = {name: field.contents() for name, field in reader.fields.items()}
    except Exception as error:  # whatever the package meets in a damaged file
        raise PretrainedError(f"{path}: no whole GGUF file ({type(error).__name__}: {error})") from None
    if (parts := said.get("split.count", 1)) > 1:
        raise PretrainedError(
            f"{path}: part {said.get('split.no', 0) + 1} of a file in {parts} parts; merge them first, for example by "
            "`llama-gguf-split --merge` of llama.cpp"
        )
    kind = said.get("general.architecture")
    if kind not in FAMILIES:
        raise PretrainedError(f"{path}: a model of architecture {shown(kind)}; expected {', '.join(FAMILIES)}")
    try:
        config = _config(path, str(kind), said)
        weights = {}
        for tensor in reader.tensors:
            weight = _weight(path, gguf, tensor)
            if tensor.name == FREQUENCIES:
                config["rope_scaling"] = _stretch(path, np.asarray(weight), config["rope_theta"])
                continue
            name, heads = _name(tensor.name), config["num_attention_heads"]
            shared = heads if ".q_proj" in name else config.get("num_key_value_heads", heads)
            is_turned = kind == "llama" and re.search(r"[qk]_proj\.", name)
            weights[name] = _unturned(weight, shared) if is_turned else weight
        config["vocab_size"] = len(weights["model.embed_tokens.weight"])
        config["tie_word_embeddings"] = "lm_head.weight" not in weights
        config["attention_bias"] = "model.layers.0.self_attn.q_proj.bias" in weights
        return config, weights, _tokenizer(path, said)
    except PretrainedError:
        raise
    except Exception as error:  # tokenizers raises plain ones
        raise PretrainedError(f"{path}: damaged, or of a kind that is not known here ({error!r})") from None


WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""The bytes of a value of each kind that has a fixed size."""
STRING, ARRAY = 8, 9


def _check_sizes(path: Path, file: Any) -> None:
    """Compare each count and length in the header with the size of the file, which no damaged one may exceed.

    Raises PretrainedError for a file that is cut or damaged, or of a machine with the other byte order.
    """
    file.seek(0, 2)
    end = file.tell()
    file.seek(len(MAGIC))

    def number(width: int) -> int:
        if len(found := file.read(width)) < width:
            raise PretrainedError(f"{path}: no whole GGUF file: it ends within its header, after {end:,} bytes")
        return int.from_bytes(found, "little")

    def pass_by(kind: int, count: int) -> None:
        if kind not in (*WIDTHS, STRING, ARRAY) or count * WIDTHS.get(kind, 8) > end - file.tell():
            raise PretrainedError(
                f"{path}: no whole GGUF file: {count:,} values of kind {kind} after byte {file.tell():,} of {end:,}"
            )
        for _ in range(count if kind in (STRING, ARRAY) else 0):
            pass_by(*((0, number(8)) if kind == STRING else (number(4), number(8))))
        file.seek(count * WIDTHS.get(kind, 0), 1)

    if (version := number(4)) & 0xFFFF == 0:
        raise PretrainedError(f"{path}: a GGUF file for big-endian machines; expected a little-endian one")
    tensors, entries = number(8), number(8)
    if version < 2 or tensors > end or entries > end:
        raise PretrainedError(f"{path}: GGUF version {version} with {tensors:,} weights and {entries:,} entries")
    for _ in range(entries):
        pass_by(STRING, 1)
        pass_by(number(4), 1)


def _config(path: Path, kind: str, said: dict[str, Any]) -> Config:
    """Hugging Face's config.json of the same model. Raises PretrainedError for an entry that has no place there."""
    found: dict[str, Any] = {"model_type": kind}
    for names, prefix in ((ENTRIES, kind), (ENDS, "tokenizer.ggml")):
        found |= {here: said[f"{prefix}.{there}"] for here, there in names.items() if f"{prefix}.{there}" in said}
    ends = [said[f"tokenizer.ggml.{name}"] for name in ("eos_token_id", *ALSO_END) if f"tokenizer.ggml.{name}" in said]
    if len(ends) > 1:
        found["eos_token_id"] = sorted({int(i) for i in ends})
    found = {name: value.item() if isinstance(value, np.generic) else value for name, value in found.items()}
    known = Config(path, {name.removeprefix(f"{kind}."): value for name, value in said.items()})
    for name in [name for name in said if name.startswith(f"{kind}.") and name.removeprefix(f"{kind}.") not in OTHERS]:
        raise PretrainedError(f"{path}: {name} is {shown(said[name])}, an entry that is not known here")
    for name, values in NEUTRAL.items():
        known.demand(name, *values)
    known.demand("tokenizer.ggml.add_eos_token", False)
    head_dim = found.get("head_dim") or found["hidden_size"] // found["num_attention_heads"]
    known.demand("rope.dimension_count", head_dim)
    known.demand("attention.value_length", head_dim)
    scaling = known.demand("rope.scaling.type", "none", "linear")
    if scaling == "linear":
        found["rope_scaling"] = {"rope_type": "linear", "factor": float(known["rope.scaling.factor"])}
    return Config(path, found)


def _stretch(path: Path, slower: np.ndarray, base: float) -> dict[str, Any]:
    """The rotary positions of Llama 3.1 and later, of which a file holds by how much each angle is slower."""
    angles = base ** (-np.arange(len(slower)) / len(slower))
    for factor in LLAMA3_FACTORS:
        stretch = F.RotaryStretch(factor, LLAMA3_LENGTH)
        if np.allclose(angles / stretch.slowed(angles), slower, rtol=1e-3):
            names = "factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"
            return {"rope_type": "llama3", **dict(zip(names, stretch))}
    raise PretrainedError(f"{path}: {FREQUENCIES} is not as in Llama 3.1 or 3.2")


def _name(there: str) -> str:
    """Hugging Face's name of a weight. Raises ValueError for one that such a model does not have."""
    found = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", there)
    if found is None or found[2] not in NAMES:
        raise ValueError(f"a weight {there!r}")
    prefix = "" if found[2] == "output" else f"model.layers.{found[1]}." if found[1] else "model."
    return f"{prefix}{NAMES[found[2]]}.{found[3]}"


def _weight(path: Path, gguf: Any, tensor: Any) -> Weight:
    """A weight that becomes float32 some rows at a time."""
    shape = tuple(int(size) for size in tensor.shape[::-1])  # the file says the last axis first

    def fill(out: np.ndarray) -> None:
        start = 0
        for piece in pieces(out):
            part = tensor.data[start : start + len(piece)]  # of a map: its pages would count as ours if touched
            at = tensor.data_offset + start * part[:1].nbytes
            found = np.fromfile(path, part.dtype, part.size, offset=at)
            if found.size < part.size:
                raise PretrainedError(f"{path}: became shorter while it was read; load it again")
            found = found.astype(found.dtype.newbyteorder("="), copy=False)
            piece[...] = gguf.quants.dequantize(found.reshape(part.shape), tensor.tensor_type)
            start += len(piece)

    try:
        gguf.quants.dequantize(tensor.data[:1], tensor.tensor_type)
    except NotImplementedError:
        raise PretrainedError(
            f"{path}: {tensor.name} is stored as {tensor.tensor_type.name}, which gguf cannot read"
        ) from None
    return Weight(shape, np.float32, fill)


def _unturned(weight: Weight, heads: int) -> Weight:
    """Rows of queries or keys in Hugging Face's order: GGUF puts the two elements that turn together side by side."""

    def fill(out: np.ndarray) -> None:
        pairs = np.asarray(weight).reshape(heads, -1, 2, *weight.shape[1:])
        out[...] = pairs.swapaxes(1, 2).reshape(weight.shape)

    return Weight(weight.shape, weight.dtype, fill)


def _tokenizer(path: Path, said: dict[str, Any]) -> FolderTokenizer:
    """The tokenizer: byte-pair encoding over bytes, or sentencepiece's over characters."""
    (tokenizers,) = packages("tokenizers")
    known = {name.removeprefix("tokenizer.ggml."): value for name, value in said.items()}
    words, kinds = known["tokens"], known["token_type"]
    if is_spm := known.get("model") == "llama":
        made = _by_scores(tokenizers, words, known["scores"], known.get("add_space_prefix", True))
    elif known.get("model") == "gpt2" and known.get("pre") in SPLITS:
        made = byte_pairs(words, [tuple(pair.split(" ")) for pair in known["merges"]], **SPLITS[known["pre"]])
    else:
        kind = f"{known.get('model')}, {known.get('pre')}"
        raise PretrainedError(f"{path}: a tokenizer of kind {kind}; expected llama, or gpt2 with {', '.join(SPLITS)}")
    for number, is_special in ((CONTROL, True), (USER_DEFINED, False)):
        made.add_tokens(
            [
                tokenizers.AddedToken(word, special=is_special, normalized=False)
                for word, each in zip(words, kinds)
                if each == number
            ]
        )
    special = {role: int(known[f"{name}_token_id"]) for role, name in ROLES.items() if f"{name}_token_id" in known}
    if known.get("add_bos_token", is_spm) and "bos_token" in special:
        begin = words[special["bos_token"]]
        made.post_processor = tokenizers.processors.TemplateProcessing(
            [begin, "$A"], special_tokens=[(begin, special["bos_token"])]
        )
    if special.get("pad_token") in [i for role, i in special.items() if role != "pad_token"]:
        del special["pad_token"]  # or it would hide what begins and ends texts
    return FolderTokenizer(made, special.get("pad_token", NONE), special, said.get("tokenizer.chat_template"))


def _by_scores(tokenizers: Any, words: list[str], scores: list[float], begins_with_space: bool) -> Any:
    """Sentencepiece's byte-pair encoding (Kudo and Richardson 2018): the pair of the best score is joined."""
    ids = {word: i for i, word in enumerate(words)}
    longest = max(map(len, sorted(words, key=len)[: len(words) - 1]), default=0)  # of a part: not the longest word
    cuts = ((word, i) for word in words for i in range(max(1, len(word) - longest), min(len(word), longest + 1)))
    pairs = [pair for word, i in cuts if (pair := (word[:i], word[i:]))[0] in ids and pair[1] in ids]
    pairs.sort(key=lambda pair: (-scores[ids["".join(pair)]], ids[pair[0]], ids[pair[1]]))
    unknown = words[0] if words[0] == "<unk>" else None
    made = tokenizers.Tokenizer(tokenizers.models.BPE(ids, pairs, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    change, read = tokenizers.normalizers, tokenizers.decoders
    space = [change.Prepend(SPACE)] if begins_with_space else []
    made.normalizer = change.Sequence([*space, change.Replace(" ", SPACE)])
    begin = [read.Strip(" ", 1, 0)] if begins_with_space else []
    made.decoder = read.Sequence([read.Replace(SPACE, " "), read.ByteFallback(), read.Fuse(), *begin])
    return made


SPACE = "▁"  # of sentencepiece

ROLES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}

WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

SPLITS: dict[str, dict[str, Any]] = {
    "gpt-2": {},
    "smollm": {"digits": True},
    "llama-bpe": {"words_at": WORDS % "{1,3}", "ignore_merges": True},
    "qwen2": {"words_at": WORDS % "", "composed": True},
}
"""How a text is cut before its bytes are joined, by the name that a file gives: the arguments of `byte_pairs`."""
