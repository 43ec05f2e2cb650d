"""`generate` and `stream`, of language models and of models that translate: the options of all ways to decode.

`decoding.py` has these ways; here are the names that people know them by, which are those of `transformers`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.nn.functional.settings import settings
from tinytensor.nn.module import evaluating
from tinytensor.nn.recording import recorders

from . import decoding
from .decoding import Recomputed, Rules
from .ids import Ends, ends

F = TypeVar("F", bound=Callable[..., Any])

NARROWING = "do_sample", "temperature", "top_k", "top_p", "min_p"
ITERATOR = object()  # the streamer for which `generate` gives the ids as they come


def _with_own_options(generate: F) -> F:
    """`generate`, with the model's `generation_config` for what a call does not set."""

    @functools.wraps(generate)
    def call(self: Any, *args: Any, **given: Any) -> Any:
        given = {name: value for name, value in given.items() if value is not None}
        draws = given.get("do_sample", given.get("temperature", self.generation_config.get("do_sample")))
        others = {"max_length", "min_length"} if draws else {"max_length", "min_length", *NARROWING}
        others |= {"max_new_tokens"} if len(args) > 1 or "max_length" in given else set()
        own = {name: value for name, value in self.generation_config.items() if name not in others}
        if "stop_strings" in own:
            own["stop"] = own.pop("stop_strings")
        return generate(self, *args, **own | given)

    return call  # type: ignore[return-value]


class Generates:
    """A `Decodable` module that generates.

    Attributes:
        continues: True if it continues the prompt, False if it answers a source.
        generation_config: options of `generate` for calls that do not set them, by their names in `transformers`.
    """

    continues = False
    pad_id: int | None
    eos_id: Ends
    generation_config: Mapping[str, Any] = MappingProxyType({})

    def _asked(self, prompt: Any, padding: int | None) -> tuple[Tensor, int]:
        """Ids (batch, length) on the model's device, where `padding` is padding, too, and the most ids to generate."""
        raise NotImplementedError

    @tt.no_grad()
    @_with_own_options
    @settings
    def generate(
        self,
        prompt: Any,
        max_length: int | None = None,
        *,
        max_new_tokens: int | None = None,
        do_sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        num_beams: int = 1,
        num_return_sequences: int = 1,
        early_stopping: bool | str = False,
        length_penalty: float = 1.0,
        repetition_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        min_new_tokens: int = 0,
        sequence_bias: Any = (),
        bad_words_ids: Sequence[Sequence[int]] = (),
        suppress_tokens: Sequence[int] = (),
        begin_suppress_tokens: Sequence[int] = (),
        forced_eos_token_id: int | Sequence[int] | None = None,
        renormalize_logits: bool = False,
        eos_token_id: int | Sequence[int] | None = None,
        pad_token_id: int | None = None,
        stop: Any = None,
        tokenizer: Any = None,
        streamer: Any = None,
        generator: tt.random.Generator | None = None,
    ) -> Tensor:
        """Continue each prompt, or answer each source, until eos: greedily, by beam search, or by drawing at random.

        The names are those of `transformers`, whose `generate` gives the same ids, the prompt in front of them.

        Args:
            prompt: ids (batch, length), padded at the end. For a language model also lists of any lengths; bos
                alone for a text from nothing.
            max_length, max_new_tokens: one thing, the most ids after the prompt (in `transformers`, max_length counts
                the prompt too); by default, and at most, until the model's positions are used up.
            do_sample: draw ids, as `decoding.sample` says, with temperature (default 1), top_k, top_p, min_p and
                generator; default: if there is a temperature above 0.
            num_beams: above 1, the number of hypotheses for `decoding.beam_search`, with early_stopping, as in
                `transformers`, and length_penalty.
            num_return_sequences: the continuations of each prompt, row after row: the best n of a beam, or n draws.
            repetition_penalty, no_repeat_ngram_size, min_new_tokens, sequence_bias, begin_suppress_tokens,
                forced_eos_token_id, renormalize_logits: see `decoding.Rules`; a language model has said its prompt.
            bad_words_ids, suppress_tokens: runs of ids, and ids, that do not come; a word that ends a text may.
            eos_token_id: the id or ids that end a text, instead of the model's.
            pad_token_id: fills rows behind their end; in prompts it is padding, too, unless it ends a text.
            stop: a text, or a list of texts and of lists of ids, after which a continuation ends; or a function that is
                True for the ids of one that ends there.
            tokenizer: has `decode(ids)`, for texts in stop; default: `model.tokenizer`, if any.
            streamer: gets the ids of one prompt as they come: an object with `put` and `end`, as `transformers` has
                them, gets the prompt first; a function gets ids alone. `stream` is an iterator.

        Returns ids (batch * num_return_sequences, length) without the prompts, padded after eos (with the first eos if
        there is no padding). Dropout is off meanwhile.

        Raises ValueError for options that do not go together, and for a prompt longer than the model's positions.
        """
        if isinstance(prompt, str):
            raise TypeError("generate: expected ids, got a text; write tokenizer(text), or stream(text)")
        if max_length is not None and max_new_tokens is not None:
            raise ValueError(
                "generate: max_length and max_new_tokens are both the most ids after the prompt; give "
                f"max_new_tokens alone, got {max_length} and {max_new_tokens}"
            )
        narrowing: dict[str, Any] = {"top_k": top_k or None, "top_p": top_p, "min_p": min_p}
        narrowed = any(value is not None for value in narrowing.values())
        draws = (temperature or 0.0) != 0 if do_sample is None else bool(do_sample)
        fits = num_beams == 1 and (temperature is None or temperature > 0) if draws else not (temperature or narrowed)
        if not fits or num_beams < 1:
            raise ValueError(
                "generate: do_sample=True or a temperature above 0 draws ids, of the top_k, top_p or min_p likeliest, "
                "and num_beams, from 1 on, is for what is not drawn; got "
                f"do_sample {do_sample}, temperature {temperature}, top_k {top_k}, top_p {top_p}, min_p {min_p}, "
                f"num_beams {num_beams}"
            )
        if not 1 <= num_return_sequences <= (math.inf if draws else num_beams):
            raise ValueError(
                "generate: num_return_sequences is at least 1, and at most num_beams unless ids are "
                f"drawn; got {num_return_sequences} with num_beams {num_beams}; do_sample=True draws several"
            )
        ended = ends(self.eos_id if eos_token_id is None else eos_token_id)
        tokenizer = getattr(self, "tokenizer", None) if tokenizer is None else tokenizer
        is_over = decoding.stop_at(stop, tokenizer)
        prompt, room = self._asked(prompt, None if pad_token_id in ended else pad_token_id)
        own, begun = self.generation_config, prompt.shape[1] if self.continues else 1
        if max_length is None and max_new_tokens is None and "max_length" in own:
            max_length = max(1, own["max_length"] - begun)  # which counts what there is before
        limit = min(most for most in (max_length, max_new_tokens, room) if most is not None)
        barred = [[i] for i in suppress_tokens] + [
            [*run] for run in bad_words_ids if [*run] not in [[i] for i in ended]
        ]
        rules = Rules(
            repetition_penalty, no_repeat_ngram_size, ended, is_over, self.continues,
            [*sequence_bias, *((run, -math.inf) for run in barred)], min_new_tokens or own.get("min_length", 0) - begun,
            begin_suppress_tokens, forced_eos_token_id, renormalize_logits,
        )  # fmt: skip
        if draws:
            prompt = tt.repeat(prompt, num_return_sequences, axis=0)
            narrowing |= {"temperature": 1.0 if temperature is None else temperature, "generator": generator}
        # A recording needs whole sequences, which single decoding steps never see.
        model: Any = Recomputed(self) if recorders() else self
        if streamer is not None:
            if len(prompt) != 1 or num_beams > 1:
                raise ValueError(
                    "generate: ids come one by one for one prompt that is not searched with beams, got "
                    f"{len(prompt)} prompts, num_beams {num_beams}"
                )
            choose = decoding.drawing(model, 1, **narrowing) if draws else decoding.choosing(model)
            lazily = self._one_by_one(decoding.steps(model, prompt, limit, choose, rules))
            if streamer is ITERATOR:
                return lazily  # type: ignore[return-value]
            found = [told(streamer, prompt, lazily)]
        elif draws:
            found = [one.ids for one in decoding.sample(model, prompt, max_length=limit, rules=rules, **narrowing)]
        elif num_beams > 1:
            how: dict[str, Any] = {"early_stopping": early_stopping, "length_penalty": length_penalty, "rules": rules}
            searched = decoding.beam_search(model, prompt, beam=num_beams, max_length=limit, **how)
            none = [decoding.Hypothesis([], 0.0, [])] * num_return_sequences  # where no more were possible
            found = [one.ids for several in searched for one in [*several, *none][:num_return_sequences]]
        else:
            found = [one.ids for one in decoding.greedy(model, prompt, max_length=limit, rules=rules)]
        paddings = (pad_token_id, self.pad_id, *ended, 0)  # without an end all are as long
        padding = next(i for i in paddings if i is not None)
        length = max(map(len, found), default=0)
        rows = [ids + [padding] * (length - len(ids)) for ids in found]
        return tt.reshape(tt.asarray(rows, dtype=tt.int64, device=prompt.device), (len(found), length))

    def stream(self, prompt: Any, max_length: int | None = None, **options: Any) -> Iterator[Any]:
        """Yield what continues one prompt as it comes: ids after ids (1, length), text after a text or messages.

        A text, and messages as `FolderTokenizer.chat` takes them, need `model.tokenizer` or tokenizer=.... Options are
        those of `generate`, without beams. Between two ids the model is as it was, so it may be trained or asked.
        """
        is_chat = isinstance(prompt, (list, tuple)) and all(isinstance(each, Mapping) for each in prompt)
        if not isinstance(prompt, str) and not is_chat:
            return self.generate(prompt, max_length, **options, streamer=ITERATOR)  # type: ignore[return-value]
        tokenizer = options.get("tokenizer", getattr(self, "tokenizer", None))
        if tokenizer is None:
            raise ValueError("stream: a text needs a tokenizer; write tokenizer=..., or give ids")
        ids = tokenizer.chat(prompt) if is_chat else getattr(tokenizer, "prompt", tokenizer.encode)(prompt)
        return _pieces(self.generate([ids], max_length, **options, streamer=ITERATOR), tokenizer)

    def _one_by_one(self, steps: Iterator[list[tuple[int, int, float]]]) -> Iterator[int]:
        while True:
            with tt.no_grad(), evaluating(self):
                step = next(steps, None)
            if step is None:
                return
            yield step[0][1]


def _pieces(ids: Iterable[Any], tokenizer: Any) -> Iterator[str]:
    """The text of ids, as it grows."""
    before: list[int] = []
    shown, is_byte = "", getattr(tokenizer, "is_byte", lambda i: False)
    for i in ids:
        before.append(i)
        text = tokenizer.decode(before)
        if len(text) > len(shown) and not text.endswith("\ufffd") and not is_byte(i):  # which may be half a letter
            yield text[len(shown) :]
            shown = text
    if rest := tokenizer.decode(before)[len(shown) :]:
        yield rest


def told(streamer: Any, prompt: Tensor, ids: Iterable[int]) -> list[int]:
    """Yield the ids, and pass each to a streamer as it comes."""
    has_put, said = hasattr(streamer, "put"), []
    if not has_put and not callable(streamer):
        raise TypeError(f"generate: a streamer is a function, or has put and end, got {streamer!r}")
    if has_put:
        streamer.put(prompt)
    for i in ids:
        said.append(i)
        streamer.put(tt.asarray([i])) if has_put else streamer(i)
    if has_put:
        streamer.end()
    return said
