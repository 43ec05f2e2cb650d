"""Language models: the next id from those before it, by a stack of self-attention layers (GPT, Llama).

    layer:  x = x + SelfAttention(norm(x))      p(ids) = ∏ p(id_t | id_1 ... id_{t-1})
            x = x + FeedForward(norm(x))

The decoder of the Transformer without an encoder to attend to (Liu et al. 2018; Radford et al. 2018, 2019). Arguments
give the variants of later models: `GPT2` and `LLAMA` below are two sets of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.nn import functional as F
from tinytensor.nn.decoder_cache import FIRST, DecoderCache, LayerCache
from tinytensor.nn.language_layer import Layer, through_layers
from tinytensor.nn.self_attention import Rotation

from .generation import Generates
from .generation_config import checked
from .huggingface import ReadsHuggingFace
from .ids import NONE, Ends, as_batch, ends, is_padding
from .pretrained import arguments_of

GPT2: dict[str, Any] = {"positions": "learned", "norm": "layer", "activation": "gelu_tanh", "bias": True}
"""The arguments of GPT-2 (Radford et al. 2019), all but its sizes."""

LLAMA: dict[str, Any] = {"positions": "rotary", "norm": "rms", "activation": "swiglu", "bias": False}
"""The arguments of Llama (Touvron et al. 2023): rotary positions, RMSNorm, SwiGLU, no biases."""

POSITIONS = ("learned", "rotary", "alibi", None)
NORMS = ("layer", "rms")
STD = 0.02  # of the initial weights (Radford et al. 2018, section 4.1)


class LanguageModel(ReadsHuggingFace, Generates, nn.Module):
    """Logits for the next id after each prefix of a sequence of ids.

    Args:
        vocabulary: the number of ids.
        d_model: the size of every layer's output.
        num_heads: attention heads per layer.
        num_layers: the number of layers.
        d_ff: inner size of the feed-forward networks; default 4 * d_model, or 8/3 * d_model for gated ones, which gives
            the same number of weights (Shazeer 2020).
        num_kv_heads: heads of keys and values that the query heads share (Ainslie et al. 2023); default num_heads.
        head_dim: the size of a head; default d_model / num_heads.
        dropout: after the embeddings, of each sub-layer's result, and of attention weights.
        max_length: the longest sequence.
        positions: "learned", vectors added to the embeddings; "rotary", which turn queries and keys (Su et al.
            2021); "alibi", slopes on the scores (Press et al. 2022); or None, since a causal mask shows order too.
        rotary_base: of rotary positions.
        rotary_stretch: for texts longer than those in training, the numbers of `F.RotaryStretch`.
        pairing: of rotary positions, see `F.rotate`.
        norm: "layer" or "rms" (Zhang and Sennrich 2019).
        norm_eps: its eps.
        activation: of the feed-forward networks, see `nn.FeedForward`.
        bias: whether linear maps and layer normalisations have biases.
        attention_bias: whether those of attention do; default: as `bias`.
        window: how many positions each one sees, itself included (Beltagy et al. 2020); default: all before it.
        qk_norm: whether each head's queries and keys are normalised (Henry et al. 2020).
        tie_weights: use the embedding as the final projection too (Press and Wolf 2017).
        pad_id, bos_id: the ids for padding, which comes last, and for the begin of a text; None if there is none.
            Without a pad_id, and beside it, -1 is padding.
        eos_id: the id for the end of a text; or several, each of which ends it; or None.
        generation_config: options of `generate` for calls that do not set them, as a folder's generation_config.json.

    Raises ValueError if the sizes do not fit.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        d_model: int = 384,
        num_heads: int = 6,
        num_layers: int = 6,
        d_ff: int | None = None,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        dropout: float = 0.0,
        max_length: int = 1024,
        positions: str | None = "learned",
        rotary_base: float = 10000.0,
        rotary_stretch: Sequence[Any] | None = None,
        pairing: str = "half",
        norm: str = "layer",
        norm_eps: float = 1e-5,
        activation: str = "gelu_tanh",
        bias: bool = True,
        attention_bias: bool | None = None,
        window: int | None = None,
        qk_norm: bool = False,
        tie_weights: bool = True,
        pad_id: int | None = 0,
        bos_id: int | None = 1,
        eos_id: Ends = 2,
        generation_config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.config = arguments_of(locals())
        self.generation_config = self.config["generation_config"] = checked(generation_config)
        for name, value, expected in (("positions", positions, POSITIONS), ("norm", norm, NORMS)):
            if value not in expected:
                raise ValueError(f"LanguageModel: unknown {name} {value!r}; expected {', '.join(map(repr, expected))}")
        for name, i in (("pad_id", pad_id), ("bos_id", bos_id), *(("eos_id", i) for i in ends(eos_id))):
            if i is not None and not 0 <= i < vocabulary:
                raise ValueError(f"{name} must be an id below {vocabulary}, got {i!r}")
        stretch = None if rotary_stretch is None else F.RotaryStretch(*rotary_stretch)
        numbers = {"max_length": max_length, "window": window, "rotary_base": rotary_base}
        for name, number in (numbers | (stretch._asdict() if stretch else {})).items():
            if (number is not None or name not in ("window", "length")) and not 0 < (number or 0) < math.inf:
                raise ValueError(f"LanguageModel: {name} must be above 0, got {number}")
        self.d_model, self.num_heads, self.max_length, self.window = d_model, num_heads, max_length, window
        self.kind_of_positions, self.rotary_base = positions, rotary_base
        self.rotary_stretch = stretch
        self.pad_id, self.bos_id, self.eos_id = pad_id, bos_id, eos_id

        def normalisation() -> nn.Module:
            return nn.LayerNorm(d_model, norm_eps, bias=bias) if norm == "layer" else nn.RMSNorm(d_model, norm_eps)

        inner = d_ff or (8 * d_model // 3 if activation in nn.feed_forward.GATES else 4 * d_model)

        def layer() -> Layer:
            attention = nn.SelfAttention(
                d_model, num_heads, num_kv_heads, head_dim=head_dim, dropout=dropout, pairing=pairing,
                bias=bias if attention_bias is None else attention_bias,
                qk_norm=norm_eps if qk_norm else None,
            )  # fmt: skip
            feed_forward = nn.FeedForward(d_model, inner, activation, bias=bias)
            return Layer(attention, feed_forward, [normalisation(), normalisation()], dropout)

        self.embedding = nn.Embedding(vocabulary, d_model)
        self.positions = nn.Embedding(max_length, d_model) if positions == "learned" else None
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList([layer() for _ in range(num_layers)])
        self.norm = normalisation()
        self.projection = nn.Linear(d_model, vocabulary, bias=False)
        if tie_weights:
            self.projection.weight = self.embedding.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, as GPT-2 does: the more layers there are, the less each adds to their sum."""
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                is_added = name.endswith(("out_proj.weight", "down.weight"))
                nn.init.normal_(parameter, std=STD / math.sqrt(2 * len(self.layers)) if is_added else STD)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    @classmethod
    def sizes_in(cls, weights: Mapping[str, Any]) -> dict[str, int]:
        """The arguments that the shapes of the weights show, as `Pretrained.sizes_in` says."""
        vocabulary, d_model = weights["embedding.weight"].shape
        layers = {path.split(".")[1] for path in weights if path.startswith("layers.")}
        width = weights["layers.0.self_attn.out_proj.weight"].shape[1]
        sizes = {"vocabulary": vocabulary, "d_model": d_model, "num_layers": len(layers), "num_heads * head_dim": width}
        for name, path in {"d_ff": "layers.0.feed_forward.up.weight", "max_length": "positions.weight"}.items():
            sizes |= {name: len(weights[path])} if path in weights else {}
        return sizes

    def forward(self, ids: Any) -> Tensor:
        """Logits (batch, length, vocabulary) of the id that follows each of ids (batch, length).

        Padding needs no mask: it comes at the end, where only padding sees it.
        """
        return self.projection(self.hidden_states(ids))

    def hidden_states(self, ids: Any) -> Tensor:
        """The states that `forward` turns into logits: (batch, length, d_model), normalised."""
        ids = self._ids(ids)
        places = self._places(ids.shape[1])
        return self._through(self.embed(ids, places), self._mask(places), self._rotation(places))

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """The embeddings of ids (batch, length), plus vectors of their positions if those are learned."""
        x = self.embedding(tt.where(ids == NONE, 0, ids))
        return self.dropout(x if self.positions is None else x + self.positions(positions))

    def _through(self, x: Tensor, mask: Tensor, rotation: Rotation | None, caches: Sequence[LayerCache] = ()) -> Tensor:
        return self.norm(through_layers(self.layers, x, mask, rotation, caches))

    def _places(self, length: int) -> Tensor:
        """0, 1, ...: the positions of a sequence. Raises ValueError if it is too long."""
        self._check_length(length)
        return tt.arange(length, device=self.embedding.weight.device)

    def _check_length(self, length: int) -> None:
        if length > self.max_length:
            is_learned, text = self.kind_of_positions == "learned", f"a sequence of {length} is longer than max_length "
            way = "" if is_learned else ", or, since its positions are computed, set max_length"
            text += f"{self.max_length}; keep its last ids, as models.writer.Writer does{way}"
            raise ValueError(f"LanguageModel: {text}")

    def _mask(self, places: Tensor) -> Tensor:
        """The mask between positions 0, 1, ..., True where hidden; with ALiBi, the numbers to add to their scores."""
        length, device = len(places), places.device
        if self.window is None:
            mask = F.causal_mask(length, device=device)
        else:
            mask = F.sliding_window_mask(length, self.window, device=device)
        return self._sloped(mask, places[:, None] - places)

    def _sloped(self, mask: Tensor, distances: Tensor) -> Tensor:
        """The mask itself; or, with ALiBi, slopes times distances (..., target, source), and -inf where it hides."""
        if self.kind_of_positions != "alibi":
            return mask
        return tt.masked_fill(F.alibi(distances, self.num_heads, dtype=self._dtype), mask, -math.inf)

    def _rotation(self, positions: Tensor) -> Rotation | None:
        """cos and sin for positions (..., length) if those are rotary, or None."""
        if self.kind_of_positions != "rotary":
            return None
        head_dim = self.layers[0].self_attn.head_dim
        return F.rotary_angles(positions, head_dim, self.rotary_base, stretch=self.rotary_stretch, dtype=self._dtype)

    @property
    def _dtype(self) -> Any:
        return self.embedding.weight.dtype

    def _ids(self, ids: Any) -> Tensor:
        return as_batch("LanguageModel", ids, self.embedding.weight.device)

    # ---- continuing a text: `Generates`

    continues = True

    def _asked(self, prompt: Any, padding: int | None) -> tuple[Tensor, int]:
        ids = self._ids(prompt)
        ids = ids if padding is None else tt.where(ids == padding, NONE, ids)
        self._check_length(ids.shape[1])
        return ids, self.max_length - ids.shape[1] + 1

    # ---- one position at a time: `decoding.Decodable`, with a prompt as the source

    def initial_state(self, prompt: Any) -> Generation:
        """The keys and values of prompts (batch, length) in each layer, and the logits of the ids that follow."""
        ids = self._ids(prompt)
        lengths, padding = self._lengths(ids)
        places = self._places(ids.shape[1])
        cache = DecoderCache(
            [
                LayerCache(tt.empty((len(ids), 0, layer.self_attn.kv_size), dtype=self._dtype, device=ids.device))
                for layer in self.layers
            ]
        )
        x = self._through(self.embed(ids, places), self._mask(places), self._rotation(places), cache.layers)
        cache.hidden, cache.length = tt.expand_dims(padding, axis=1), ids.shape[1]
        last = x[tt.arange(len(ids), device=ids.device), lengths - 1]
        return Generation(cache, tt.broadcast_to(places, ids.shape), lengths, self.projection(last)[:, None])

    def next_logits(self, ids: Any, state: Generation) -> tuple[Tensor, Generation]:
        """Logits (texts, branches, vocabulary) of the ids that follow `ids` (texts, branches), the last of each branch.

        The first call ignores `ids` and gives the logits after the prompt. Each later one adds a position to the state.
        """
        if state.logits is not None:
            logits, state.logits = state.logits, None
            return logits, state
        ids = self._ids(ids)
        self._slide(state)
        positions = tt.broadcast_to(state.next[:, None], ids.shape)
        state.places, state.next = tt.concat([state.places, positions], axis=1), state.next + 1
        distances = (positions[:, :, None] - state.places[:, None])[:, None]  # (texts, 1, branches, places)
        mask = state.cache.extend(ids.shape)
        self._check_length(state.cache.length)
        if self.window is not None:
            mask = mask | (distances >= self.window)
        if self.kind_of_positions == "alibi":
            mask = self._sloped(mask, distances[:, 0])
        rotation = self._rotation(positions[:, None])
        x = self._through(self.embed(ids, positions), mask, rotation, state.cache.layers)
        return self.projection(x), state

    def _slide(self, state: Generation) -> None:
        """Drop keys and values in front that are outside of the window, or no branch's, once there are many."""
        if self.window is None or state.places.shape[1] < self.window + (many := max(FIRST, self.window // 4)):
            return
        assert state.cache.hidden is not None
        seen = (state.next[:, None] - state.places < self.window) & ~tt.all(state.cache.hidden, axis=1)
        count = int(np.argmax(np.append(seen.numpy().any(axis=0), True)))
        if count >= many:
            state.cache.forget(count)
            state.places = state.places[:, count:]

    def reorder(self, state: Generation, sentences: Tensor, branches: Tensor) -> Generation:
        """The state of other branches, as `DecoderCache.reorder` says."""
        state.cache.reorder(sentences, branches)
        state.places, state.next = state.places[sentences], state.next[sentences]
        return state

    def _lengths(self, prompt: Tensor) -> tuple[Tensor, Tensor]:
        """The length of each prompt, (batch,), and where it is padding.

        Raises ValueError for an empty prompt, or ids after padding.
        """
        padding = is_padding(prompt, self.pad_id)
        lengths = tt.sum(~padding, axis=1)
        if not prompt.shape[1] or int(tt.min(lengths).item() if lengths.size else 1) < 1:
            raise ValueError("LanguageModel: a prompt needs one id at least; bos_id begins a text")
        if tt.any(padding[:, :-1] & ~padding[:, 1:]):
            raise ValueError("LanguageModel: a prompt is padded at its end; an id follows padding; lists need none")
        return lengths, padding

    # ---- the same without a cache: `decoding.Recomputed`

    def encode(self, prompt: Any) -> tuple[Tensor]:
        """The prompts unchanged, as `decode` takes them."""
        return (self._ids(prompt),)

    def decode(self, target: Any, prompt: Tensor) -> Tensor:
        """Logits (batch, target, vocabulary) after each prompt, which replaces target[:, 0], and each later id."""
        target, lengths = self._ids(target), self._lengths(prompt)[0].numpy()
        count = target.shape[1]
        ids = np.full((len(prompt), int(lengths.max()) + count - 1), self.pad_id or 0)
        for row, (before, after, length) in enumerate(zip(prompt.numpy(), target.numpy(), lengths)):
            ids[row, :length], ids[row, length : length + count - 1] = before[:length], after[1:]
        logits = self(ids)
        places = tt.asarray(lengths[:, None] - 1 + np.arange(count), device=logits.device)
        return logits[tt.arange(len(ids), device=logits.device)[:, None], places]


@dataclass
class Generation:
    """The state of texts being generated: all that their next position needs from those before it.

    Attributes:
        cache: keys and values of each layer, and the branch of each place.
        places: (texts, places), the position in its text of each place in the cache.
        next: (texts,), the position of the next id.
        logits: (texts, 1, vocabulary) of the first id after the prompt; None once `next_logits` has returned them.
    """

    cache: DecoderCache
    places: Tensor
    next: Tensor
    logits: Tensor | None
