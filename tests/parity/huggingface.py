"""Random models of `transformers` beside ours, which reads the folder that theirs is written into: how far apart.

The tests hold these differences below a bound, and `benchmarks/parity.py` prints them. PyTorch and `transformers` are
loaded when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import tinytensor as tt
from tinytensor.models import Encoder, LanguageModel, load
from tinytensor.models.decoding import beam_search

SIZES = {"vocab_size": 50, "initializer_range": 0.3}
LLAMA = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, **SIZES}
ENDS = {"bos_token_id": 1, "eos_token_id": 2}
IDS = np.random.default_rng(0).integers(3, 50, (3, 12))
NEW = 10  # ids that are generated behind each prompt


def llama(kind: str = "Llama", **options: Any) -> Any:
    import transformers

    config = getattr(transformers, f"{kind}Config")(**{**LLAMA, **ENDS, "max_position_embeddings": 40, **options})
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def gpt2(**options: Any) -> Any:
    import transformers

    sizes = {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 40}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**sizes, **SIZES, **ENDS, **options}))


def gpt2_alone() -> Any:
    import transformers

    return transformers.GPT2Model(gpt2().config)


def bert(kind: str = "BertForPreTraining", **options: Any) -> Any:
    import transformers

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = transformers.BertConfig(**{**sizes, **SIZES, "max_position_embeddings": 40, **options})
    return getattr(transformers, kind)(config)


def encoder(kind: str, **options: Any) -> Any:
    """RoBERTa and those after it; DistilBERT has names of its own for its sizes."""
    import transformers

    family = kind.split("For")[0].removesuffix("Model")
    sizes: dict[str, Any] = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
    if family != "DistilBert":
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
        sizes |= {"pad_token_id": 1}
    config = getattr(transformers, f"{family}Config")(**{**sizes, **SIZES, "max_position_embeddings": 40, **options})
    return getattr(transformers, kind)(config)


def marian(**options: Any) -> Any:
    import torch
    import transformers

    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "init_std": 0.3, "vocab_size": 50}
    sizes |= dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)
    sizes |= dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 48)
    ends = {"pad_token_id": 49, "decoder_start_token_id": 49, "eos_token_id": 0, "forced_eos_token_id": None}
    others = {"max_position_embeddings": 40, "scale_embedding": True, "activation_function": "swish"}
    model = transformers.MarianMTModel(transformers.MarianConfig(**{**sizes, **ends, **others, **options}))
    torch.nn.init.normal_(model.final_logits_bias)
    for stack in (model.model.encoder, model.model.decoder):  # theirs are rounded to 32 bits
        size = model.config.d_model
        angles = torch.arange(40)[:, None] / 10000 ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
        stack.embed_positions.weight.data = torch.cat([angles.sin(), angles.cos()], dim=1)
    return model


STRETCHED = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "original_max_position_embeddings": 12,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
}  # fmt: skip
LANGUAGE_MODELS = {
    "gpt2": gpt2,
    "gpt2, exact gelu": lambda: gpt2(activation_function="gelu", n_inner=40, layer_norm_epsilon=1e-3),
    "gpt2, alone": gpt2_alone,
    "llama": llama,
    "gpt2, a head of its own": lambda: gpt2(tie_word_embeddings=False, activation_function="relu"),
    "llama, shared keys": lambda: llama(num_key_value_heads=2, tie_word_embeddings=True),
    "llama, one head of keys": lambda: llama(num_key_value_heads=1, head_dim=16, rms_norm_eps=1e-3),
    "llama, biases": lambda: llama(attention_bias=True, mlp_bias=True),
    "llama, other angles": lambda: llama(rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "llama, slower angles": lambda: llama(rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}),
    "llama 3.1": lambda: llama(head_dim=16, rope_parameters=STRETCHED),
    "mistral": lambda: llama("Mistral", num_key_value_heads=2, sliding_window=5),
    "qwen2": lambda: llama("Qwen2", num_key_value_heads=2),
    "qwen2, tied": lambda: llama("Qwen2", num_key_value_heads=1, tie_word_embeddings=True, rms_norm_eps=1e-3),
    "qwen3": lambda: llama("Qwen3", num_key_value_heads=2, head_dim=12),
    "qwen3, biases": lambda: llama("Qwen3", num_key_value_heads=4, head_dim=16, attention_bias=True),
}
ENCODERS = {
    "roberta": lambda: encoder("RobertaForMaskedLM"),
    "roberta, one segment": lambda: encoder("RobertaModel", type_vocab_size=1, layer_norm_eps=1e-3),
    "xlm-roberta": lambda: encoder("XLMRobertaForMaskedLM", type_vocab_size=1),
    "camembert": lambda: encoder("CamembertModel"),
    "distilbert": lambda: encoder("DistilBertForMaskedLM"),
    "distilbert, sinusoids": lambda: encoder("DistilBertModel", sinusoidal_pos_embds=True),
}
FAMILIES = (
    LANGUAGE_MODELS
    | ENCODERS
    | {
        "bert": lambda: bert("BertForMaskedLM"),
        "bert, alone": lambda: bert("BertModel"),
        "marian": marian,
    }
)


def made(make: Callable[[], Any], dtype: str, folder: Path) -> Any:
    """A model of theirs with weights that matter, written into a folder."""
    import torch

    torch.manual_seed(0)
    model = make().to(getattr(torch, dtype)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return model


@contextmanager
def in_the_dtype_of_the_model() -> Iterator[None]:
    """Theirs takes angles and mean squares in float32 whatever the model; within this in float64 where the model is."""
    import torch
    from transformers.models.llama import modeling_llama
    from transformers.models.mistral import modeling_mistral
    from transformers.models.qwen2 import modeling_qwen2
    from transformers.models.qwen3 import modeling_qwen3

    def normalized(self, x):
        root = torch.rsqrt((x * x).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * (x * root)

    def turns(self, x, position_ids, layer_type=None):
        size, rope = 2 * len(self.inv_freq), self.config.rope_parameters
        frequencies = rope["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        if rope["rope_type"] != "default":
            kept = torch.zeros_like(frequencies)  # of each, how much is not slowed
            if rope["rope_type"] == "llama3":
                low, high = rope["low_freq_factor"], rope["high_freq_factor"]
                turns = rope["original_max_position_embeddings"] * frequencies / (2 * torch.pi)
                kept = torch.where(turns > high, 1.0, torch.where(turns < low, 0.0, (turns - low) / (high - low)))
            frequencies = frequencies * (kept + (1 - kept) / rope["factor"])
        torch.testing.assert_close(self.inv_freq.double(), frequencies, rtol=1e-6, atol=0.0)
        angles = position_ids[..., None].double() * torch.cat([frequencies, frequencies])
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    modules = {"Llama": modeling_llama, "Mistral": modeling_mistral, "Qwen2": modeling_qwen2, "Qwen3": modeling_qwen3}
    with ExitStack() as patches:
        for name, module in modules.items():
            patches.enter_context(mock.patch.object(getattr(module, f"{name}RMSNorm"), "forward", normalized))
            patches.enter_context(mock.patch.object(getattr(module, f"{name}RotaryEmbedding"), "forward", turns))
        yield


def apart(ours: tt.Tensor, theirs: Any, where: Any = ...) -> float:
    """The largest difference, as a share of the largest value; `where` says which positions count."""
    theirs = np.asarray(theirs.detach())
    return float(abs(ours.detach().numpy() - theirs)[where].max() / abs(theirs).max())


@tt.no_grad()
def of_language_model(make: Callable[[], Any], dtype: str, folder: Path) -> tuple[dict[str, float], list[bool]]:
    """Differences of hidden states and logits, and for each prompt whether both go on with the same ids.

    A model without a head has neither logits nor ids.
    """
    import torch

    theirs = made(make, dtype, folder)
    ours = LanguageModel.from_pretrained(folder)
    assert ours.embedding.weight.dtype == getattr(tt, dtype)
    with torch.no_grad():
        found = theirs(torch.tensor(IDS), output_hidden_states=True)
    differences = {"hidden states": apart(ours.hidden_states(IDS), found.hidden_states[-1])}
    if not hasattr(found, "logits"):
        return differences, []
    differences["logits"] = apart(ours(IDS), found.logits)
    return differences, same_ids(ours, theirs)


@tt.no_grad()
def of_marian(make: Callable[[], Any], dtype: str, folder: Path) -> tuple[float, list[bool]]:
    """The difference of logits, and for beams of 1 and 4 whether both give the same translations.

    Sources are of different lengths; what both make of padding is nobody's affair.
    """
    import torch

    theirs = made(make, dtype, folder)
    ours = load(folder)
    source, target = IDS.copy(), np.concatenate([np.full((3, 1), 49), IDS[:, ::-1][:, :8]], axis=1)
    source[:, -1], source[1, 7], source[1, 8:] = 0, 0, 49
    given = {"input_ids": torch.tensor(source), "attention_mask": torch.tensor(source != 49).long()}
    with torch.no_grad():
        difference = apart(ours(source, target), theirs(**given, decoder_input_ids=torch.tensor(target)).logits)
    same = []
    for beam in (1, 4):
        options = {"num_beams": beam, "max_new_tokens": NEW, "do_sample": False, "early_stopping": beam > 1}
        with torch.no_grad():
            said = theirs.generate(**given, **options)[:, 1:].tolist()
        found = [best[0].ids for best in beam_search(ours, source, beam=beam, max_length=NEW)]
        same += [row[: len(ids)] == ids and {*row[len(ids) :]} <= {49} for row, ids in zip(said, found, strict=True)]
    return difference, same


def same_ids(ours: LanguageModel, theirs: Any, beam: int = 1) -> list[bool]:
    """For each prompt whether both go on with the same ids."""
    import torch

    options = {"max_new_tokens": NEW, "pad_token_id": 0, "do_sample": False, "num_beams": beam}
    if beam > 1:
        options |= {"length_penalty": 1.0, "early_stopping": True}
    with torch.no_grad():
        said = theirs.generate(torch.tensor(IDS), attention_mask=torch.ones(IDS.shape, dtype=torch.int64), **options)
    own = ours.generate(IDS, **options)
    pairs = zip(_until_end(own.tolist()), _until_end(said[:, IDS.shape[1] :].tolist()), strict=True)
    return [first == second for first, second in pairs]


def _until_end(ids: list[list[int]]) -> list[list[int]]:
    """Rows up to the end of the text, which pad otherwise behind it."""
    return [row[: row.index(2)] if 2 in row else row for row in ids]


@tt.no_grad()
def of_encoder(make: Callable[[], Any], dtype: str, folder: Path) -> tuple[dict[str, float], Encoder]:
    """Differences of hidden states, of pooled vectors, and of logits where theirs has a head; and our model.

    Texts are of different lengths, and have two segments where the model tells them apart. What both make of padding is
    nobody's affair.
    """
    import torch

    theirs = made(make, dtype, folder)
    ours = Encoder.from_pretrained(folder)
    ids, pad = IDS.copy(), theirs.config.pad_token_id
    ids[1, 9:], ids[2, 4:] = pad, pad
    shown, segments = ids != pad, None
    given = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(shown).long()}
    if getattr(theirs.config, "type_vocab_size", 1) > 1:
        segments = (np.arange(12) >= 7) * np.ones((3, 1), dtype=int)
        given["token_type_ids"] = torch.tensor(segments)
    with torch.no_grad():
        found = theirs(**given, output_hidden_states=True)
        states = found.hidden_states[-1]
        pooler = getattr(theirs.base_model, "pooler", None)
        pooler = None if pooler is None else pooler(states)
    mean = (states * given["attention_mask"][..., None]).sum(dim=1) / given["attention_mask"].sum(dim=1)[:, None]
    differences = {
        "hidden states": apart(ours.hidden_states(ids, segments), states, shown),
        "pooled, mean": apart(ours.pooled(ids, "mean", segments), mean),
    }
    if pooler is not None:
        differences["pooled, pooler"] = apart(ours.pooled(ids, "pooler", segments), pooler)
    logits = getattr(found, "logits", getattr(found, "prediction_logits", None))
    if logits is not None:
        differences["logits"] = apart(ours(ids, segments), logits, shown)
    return differences, ours
