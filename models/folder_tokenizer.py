"""Text as the ids of Hugging Face's folders: a vocabulary, and what other files say of its special tokens."""

from __future__ import annotations

import importlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import numpy as np

from tinytensor.machine.extras import how_to_install
from tinytensor.machine.files import atomic_write, read_json, read_text

from .ids import NONE
from .weights import CONFIG, GENERATION, PretrainedError, entries, reading

TEMPLATE, SENTENCES, STEPS = "chat_template.jinja", "sentence_bert_config.json", "modules.json"
USUAL_SENTENCES = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
    "unpad_inputs": True,  # which changes no vector
}
"""The only values that entries of sentence_bert_config.json may have, except max_seq_length."""
IDS = "bos_token_id", "eos_token_id"
WHOLE, WORDS, PAIRS = "tokenizer.json", "vocab.txt", ("vocab.json", "merges.txt")
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# The names of BERT and GPT-2, for vocabularies that have them and files that say nothing else.
USUAL = {role: f"[{role[:-6].upper()}]" for role in ROLES[2:]} | dict.fromkeys(ROLES[:2], "<|endoftext|>")


class FolderTokenizer:
    """The subwords of a folder: WordPiece (Wu et al. 2016) or byte-pair encoding, by `tokenizers`.

    Args:
        tokenizer: of the package `tokenizers`.
        pad_id: the id that fills short rows; by default -1, which every model here takes for padding.
        special: ids by what they are for, such as "eos_token".
        template: of a chat, in Jinja; None if the model only continues texts.
    """

    def __init__(
        self,
        tokenizer: Any,
        pad_id: int = NONE,
        special: dict[str, int] | None = None,
        template: str | None = None,
    ) -> None:
        self.tokenizer, self.pad_id, self.special, self.template = tokenizer, pad_id, special or {}, template

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> FolderTokenizer:
        """Load a folder's tokenizer.json, or vocab.txt of WordPiece, or vocab.json and merges.txt of BPE.

        Special tokens are those of tokenizer_config.json, special_tokens_map.json and added_tokens.json. Without a
        padding token, or where it is a word or begins or ends texts as well, -1 fills short rows. Texts are cut to
        the length that the files of a sentence transformer set.

        Raises PretrainedError, with the file's name, if it is missing or damaged.
        """
        (tokenizers,) = packages("tokenizers")
        path = Path(folder)
        said = _said(path)
        try:
            made = _made(tokenizers, path, said)
            made.no_padding()  # which a folder may have for training, and by more than memory holds
            made.no_truncation()
            special = _add_tokens(tokenizers, path, made, said)
            made.decode(made.encode("a ☃").ids)  # fails where a word that is not known has no id
        except BaseException as error:  # panics of the package do not derive from Exception
            if isinstance(error, (PretrainedError, KeyboardInterrupt, SystemExit)):
                raise
            raise PretrainedError(f"{path}: no tokenizer that can be read ({str(error)[:200]})") from None
        if longest := _longest(path, said):
            made.enable_truncation(longest)
        if special.get("pad_token") in _ends(path) | {i for role, i in special.items() if role != "pad_token"}:
            del special["pad_token"]
        return FolderTokenizer(made, special.get("pad_token", NONE), special, _template(path, said))

    @staticmethod
    def is_in(folder: Path) -> bool:
        """True if a folder has a file that `load` makes a tokenizer of."""
        return any((folder / name).exists() for name in (WHOLE, WORDS, PAIRS[1]))

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and tokenizer_config.json, which `load` and `transformers` read."""
        words: dict[str, Any] = {role: self.tokenizer.id_to_token(i) for role, i in self.special.items()}
        words |= {"tokenizer_class": "PreTrainedTokenizerFast"}
        words |= {} if self.template is None else {"chat_template": self.template}
        atomic_write(folder / WHOLE, self.tokenizer.to_str().encode())
        atomic_write(folder / "tokenizer_config.json", json.dumps(words, indent=2, ensure_ascii=False).encode())

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def __call__(self, *texts: str) -> np.ndarray:
        """The ids of some texts with special tokens around them, such as [CLS] and [SEP]: (texts, longest), padded."""
        rows = [self.tokenizer.encode(text).ids for text in texts]
        longest = max(map(len, rows), default=0)
        return np.array([row + [self.pad_id] * (longest - len(row)) for row in rows], dtype=np.int64)

    def encode(self, text: str) -> list[int]:
        """The ids of a text alone."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def prompt(self, text: str) -> list[int]:
        """The ids of a text to continue: with the token that begins texts, if the model has one."""
        return self.tokenizer.encode(text).ids

    def is_byte(self, i: int) -> bool:
        """True if an id is one byte of a character: the text of such ids may change with those that follow."""
        return BYTE.fullmatch(self.tokenizer.id_to_token(int(i)) or "") is not None

    def chat(self, messages: str | Sequence[Mapping[str, str]], *, answer: bool = True, **variables: Any) -> list[int]:
        """The ids of a conversation, by the model's own template.

        Args:
            messages: one after the other, each with a "role" ("system", "user" or "assistant") and its "content"; a
                text alone is one message of the user.
            answer: end with the start of an answer, which `generate` continues.
            variables: further variables of the template, such as `tools`, `documents` or `enable_thinking`.

        Raises ValueError for a model that has no template, or messages that its template does not take.
        """
        if self.template is None:
            raise ValueError(
                "chat: this model has no template for it, as it was trained to continue texts; write "
                "model.generate(model.tokenizer(text))"
            )
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        words = {role: self.tokenizer.id_to_token(i) for role, i in self.special.items()}
        given = {"tools": None, "documents": None, **words, "messages": messages, "add_generation_prompt": answer}
        return self.encode(_rendered(self.template, given | variables))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, without special tokens. Raises ValueError for an id that no token has."""
        return self.tokenizer.decode([i for i in self._known(ids) if i != NONE])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The token of each id, for pictures; bytes that show nothing alone are numbers, as <0xE6>.

        Raises ValueError for an id that no token has.
        """
        added = {i: token.content for i, token in self.tokenizer.get_added_tokens_decoder().items()}
        parts = (self.tokenizer.decoder, self.tokenizer.pre_tokenizer)
        has_bytes = any(b'"ByteLevel"' in part.__getstate__() for part in parts if part is not None)
        found = []
        for i in self._known(ids):
            token = "" if i == NONE else added.get(i) or self.tokenizer.id_to_token(i)
            is_written = not has_bytes or i in added or not BYTES.keys() >= set(token)
            found.append(token if is_written else _characters(bytes(BYTES[letter] for letter in token)))
        return found

    def _known(self, ids: Iterable[int]) -> list[int]:
        known = [int(i) for i in ids]
        for i in known:
            if i != NONE and (not 0 <= i < 2**32 or self.tokenizer.id_to_token(i) is None):
                raise ValueError(f"FolderTokenizer: no token has the id {i}; expected ids below {len(self)}")
        return known


# ---- how a conversation becomes a text


def _rendered(template: str, variables: dict[str, Any]) -> str:
    """A template with its variables, in a sandbox: it comes from a file, and reads nothing but these."""
    jinja2, sandbox = packages("jinja2", "jinja2.sandbox")

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    def as_json(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, **how: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, **how)

    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = as_json
    environment.globals |= {"raise_exception": refuse, "strftime_now": lambda form: time.strftime(form)}
    left = [MOST]

    def bounded(*ends: int) -> range:
        """A range, of all loops together at most MOST iterations: loops within loops end."""
        found = sandbox.safe_range(*ends)
        left[0] -= len(found)
        if left[0] < 0:
            refuse(f"its ranges have more than {MOST:,} elements in all")
        return found

    environment.globals["range"] = bounded
    try:
        return environment.from_string(template).render(variables)
    except Exception as error:  # a template from a file can fail in any way
        why = str(error) or type(error).__name__
        raise ValueError(f"chat: the model's template does not take these messages: {why}") from None


MOST = 1_000_000


# ---- what a byte-level vocabulary calls its pieces


SEEN = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
BYTES = {chr(i): i for i in SEEN} | {chr(256 + place): i for place, i in enumerate(sorted({*range(256)} - {*SEEN}))}
"""The byte of each letter in a byte-level vocabulary (Radford et al. 2019): one that shows nothing has another."""

BYTE = re.compile(r"<0x[0-9A-F]{2}>")

MARKS = {" ": "▁", "\n": "↵", "\t": "⇥"}


def _characters(piece: bytes) -> str:
    """Bytes as text; those of half a character, or of one that shows nothing or looks like a mark, as numbers."""
    found = []
    for character in piece.decode(errors="surrogateescape"):
        numbers = "".join(f"<0x{byte:02X}>" for byte in character.encode(errors="surrogateescape"))
        is_seen = character.isprintable() and character not in MARKS.values()
        found.append(MARKS.get(character) or (character if is_seen else numbers))
    return "".join(found)


# ---- files


def packages(*names: str) -> tuple[Any, ...]:
    """Packages that reading models needs. Raises PretrainedError that says how to install one that is missing."""
    try:
        return tuple([importlib.import_module(name) for name in names])
    except ImportError as error:
        extra = "real-models" if error.name == "gguf" else "pretrained"
        raise PretrainedError(f"{error.name} is not installed; run: {how_to_install(extra)}") from None


def _said(folder: Path) -> dict[str, Any]:
    """The words of the files, with all "added" tokens by id; two older files count if the newer one has no table."""
    said = entries(folder / "tokenizer_config.json", optional=True)
    if isinstance(table := said.get("added_tokens_decoder"), dict):
        pairs = list(table.items())
    else:
        said |= entries(folder / "special_tokens_map.json", optional=True)
        names = {_content(folder, role, said[role]) for role in ROLES if said.get(role) is not None}
        table = entries(folder / "added_tokens.json", optional=True)
        pairs = [(i, {"content": text, "special": text in names}) for text, i in table.items()]
    try:
        return said | {"added": {int(i): token | {"content": token["content"]} for i, token in pairs}}
    except (TypeError, ValueError, LookupError, OverflowError):
        raise PretrainedError(f"{folder}: added tokens {shown(table)}; expected an id and a token of each") from None


def _content(folder: Path, role: str, value: Any) -> str:
    """The text of a token, which a file gives alone or with its properties."""
    text = value.get("content") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text:
        raise PretrainedError(f"{folder}: the tokenizer's {role} is {shown(value)}; expected a text or null")
    return text


def _made(tokenizers: Any, folder: Path, said: dict[str, Any]) -> Any:
    """A tokenizer by the folder's vocabulary."""
    if (folder / WHOLE).exists():
        return tokenizers.Tokenizer.from_str(reading(read_text, folder / WHOLE))
    if (folder / WORDS).exists():
        words = {word.rstrip(): i for i, word in enumerate(reading(read_text, folder / WORDS).rstrip("\n").split("\n"))}
        options: dict[str, Any] = {role: _content(folder, role, said[role]) for role in ROLES[2:] if said.get(role)}
        options["lowercase"] = said.get("do_lower_case") is not False
        options["handle_chinese_chars"] = said.get("tokenize_chinese_chars") is not False
        made = tokenizers.BertWordPieceTokenizer(words, strip_accents=said.get("strip_accents"), **options)
    elif (folder / PAIRS[1]).exists():
        lines = reading(read_text, folder / PAIRS[1]).split("\n")
        pairs = [tuple(line.split()) for line in lines if line and not line.startswith("#version")]
        spaced = said.get("add_prefix_space") is True
        made = tokenizers.ByteLevelBPETokenizer(reading(read_json, folder / PAIRS[0]), pairs, add_prefix_space=spaced)
    else:
        raise PretrainedError(f"{folder}: expected {WHOLE}, {WORDS}, or {PAIRS[0]} and {PAIRS[1]}")
    return tokenizers.Tokenizer.from_str(made.to_str())


def byte_pairs(
    words: Sequence[str],
    merges: list[tuple[str, str]],
    *,
    words_at: str | None = None,
    digits: bool = False,
    composed: bool = False,
    ignore_merges: bool = False,
) -> Any:
    """Byte-pair encoding over bytes (Radford et al. 2019).

    Args:
        words: the vocabulary in the order of its ids.
        merges: the pairs that are joined, the first ones first.
        words_at: a regular expression whose matches are encoded alone; default: that of GPT-2.
        digits: each digit is encoded alone.
        composed: letters and their accents become one character first (Unicode's NFC).
        ignore_merges: a word that is in the vocabulary is one token, whatever the pairs.
    """
    tokenizers, cut = packages("tokenizers", "tokenizers.pre_tokenizers")
    model = tokenizers.models.BPE({word: i for i, word in enumerate(words)}, merges, ignore_merges=ignore_merges)
    made = tokenizers.Tokenizer(model)
    parts = [cut.Digits(individual_digits=True)] if digits else []
    if words_at is not None:
        parts.append(cut.Split(tokenizers.Regex(words_at), "isolated"))
    made.pre_tokenizer = cut.Sequence([*parts, cut.ByteLevel(add_prefix_space=False, use_regex=words_at is None)])
    made.decoder = tokenizers.decoders.ByteLevel()
    if composed:
        made.normalizer = tokenizers.normalizers.NFC()
    return made


def _template(folder: Path, said: dict[str, Any]) -> str | None:
    """Return the template of a chat: from a separate file, or from the tokenizer's config."""
    if (folder / TEMPLATE).exists():
        return reading(read_text, folder / TEMPLATE)
    found = said.get("chat_template")
    if isinstance(found, list):
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _longest(folder: Path, words: dict[str, Any]) -> int | None:
    """The number of ids after which a sentence transformer cuts its texts, special tokens included."""
    if not any((folder / name).exists() for name in (SENTENCES, STEPS)):
        return None
    said = entries(folder / SENTENCES, optional=True)
    longest = said.pop("max_seq_length", None)
    for name, value in said.items():
        if value and value != USUAL_SENTENCES.get(name):
            expected = USUAL_SENTENCES.get(name, "no such entry")
            raise PretrainedError(f"{folder / SENTENCES}: {name} is {shown(value)}; expected {expected}")
    known = [words.get("model_max_length"), entries(folder / CONFIG).get("max_position_embeddings")]
    longest = min((n for n in known if type(n) is int), default=None) if longest is None else longest
    if longest is not None and (type(longest) is not int or longest < 1):
        raise PretrainedError(f"{folder}: max_seq_length is {shown(longest)}; expected a whole number above 0")
    return longest


def _add_tokens(tokenizers: Any, folder: Path, made: Any, said: dict[str, Any]) -> dict[str, int]:
    """Add the tokens that the files name. Returns ids by what they are for."""
    named = [(role, said[role]) for role in ROLES if said.get(role) is not None]
    for more in (said.get("additional_special_tokens") or [], said.get("extra_special_tokens") or []):
        named += [("special token", value) for value in (more.values() if isinstance(more, dict) else more)]
    given = {token["content"]: token for _, token in sorted(said["added"].items())}
    texts = {}
    for role, value in named:
        text = texts[role] = _content(folder, role, value)
        given[text] = {
            **(value if isinstance(value, dict) else {"content": text}),
            **given.get(text, {}),
            "special": True,
        }
    known = {token.content for token in made.get_added_tokens_decoder().values()}
    pad = texts.get("pad_token", "")
    if pad not in known and made.encode(pad, add_special_tokens=False).ids == [made.token_to_id(pad)]:
        del texts["pad_token"]  # it is a word
    new = [{name: value for name, value in token.items() if name != "__type"} for token in given.values()]
    made.add_tokens([tokenizers.AddedToken(**token) for token in new if token["content"] not in known])
    for i, token in said["added"].items():
        if (own := made.token_to_id(token["content"])) != i:
            what = f"{shown(token['content'])} has id {i} in one file and {own} by the vocabulary"
            raise PretrainedError(f"{folder}: {what}; expected the files of one tokenizer")
    is_whole = (folder / WHOLE).exists()
    special = [token.content for token in made.get_added_tokens_decoder().values() if token.special]
    for role, text in USUAL.items():
        if role not in said and (text in special if is_whole else made.token_to_id(text) is not None):
            made.add_special_tokens([text])
            texts[role] = text
    begin, end = ([texts[role]] if said.get(f"add_{role}") is True and role in texts else [] for role in ROLES[:2])
    if begin + end and not is_whole:  # which says itself what is around a text
        pairs = [(text, made.token_to_id(text)) for text in {*begin, *end}]
        made.post_processor = tokenizers.processors.TemplateProcessing([*begin, "$A", *end], special_tokens=pairs)
    return {role: made.token_to_id(text) for role, text in texts.items() if role in ROLES}


def _ends(folder: Path) -> set[Any]:
    """The ids that begin and end texts, as the model's files say."""
    said = [entries(folder / file, optional=True).get(name) for file in (CONFIG, GENERATION) for name in IDS]
    return {i for ids in said for i in (ids if isinstance(ids, list) else [ids]) if isinstance(i, int)}
