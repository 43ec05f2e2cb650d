"""How far models are from those of `transformers` with the same weights, and layers from the same in PyTorch.

    python benchmarks/parity.py [--models bert,gpt2,llama] [--shapes small,full] [--dtypes float32,float64]

`transformers` makes models with random weights and writes them into a folder, and ours read them: small ones with 2
layers of 32, and the shape of BERT-base and the first GPT-2, 12 layers of 768. A difference is the largest one, as a
share of the largest value. Hidden states are those after the last layer; "pooled" is the worse of the mean and of
BERT's pooler; "ids" is the number of prompts that both continue, greedily, with the same ids. For layers it is
"result", and the worst of all gradients.

`transformers` always computes the rotary angles and mean squares of Llama in float32; in float64 this comparison
computes them in float64. It ends with exit code 1 if a difference is larger than 1e-5 (float32) or 1e-12 (float64).
`tests/parity` tests the same differences for more models, and says what is compared.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from checkout import enter
from command_line import Parser, refuse, require_torch, script, some_of, write_json

ROOT = Path(__file__).resolve().parents[1]
BOUNDS = {"float32": 1e-5, "float64": 1e-12}
COLUMNS = ("hidden states", "logits", "pooled")
BATCH, LENGTH, D_MODEL, HEADS = 2, 64, 256, 8
HEAD = D_MODEL // HEADS
BASE = 10000.0  # the base of rotary positions
FULL: dict[str, dict[str, Any]] = {
    "bert": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "gpt2": {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024},
    "llama": {
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4,
        "intermediate_size": 2048,
    },
}  # fmt: skip
VOCABULARY = {"bert": 30522, "gpt2": 50257, "llama": 32000}
STD = 0.02  # of the weights of the full shape; small models have larger weights, so that layers matter


def model(kind: str, shape: str, dtype: str) -> dict[str, Any]:
    """The differences of one model."""
    from tests.parity import huggingface as peer

    options = {} if shape == "small" else {**FULL[kind], "vocab_size": VOCABULARY[kind], "initializer_range": STD}
    in_one_dtype = peer.in_the_dtype_of_the_model() if dtype == "float64" else contextlib.nullcontext()
    with tempfile.TemporaryDirectory() as folder, in_one_dtype:
        if kind == "bert":
            found, _ = peer.of_encoder(lambda: peer.bert(**options), dtype, Path(folder))
            pooled = max(found.pop("pooled, mean"), found.pop("pooled, pooler"))
            return {**found, "pooled": pooled}
        make = {"gpt2": peer.gpt2, "llama": peer.llama}[kind]
        differences, same = peer.of_language_model(lambda: make(**options), dtype, Path(folder))
        return {**differences, "ids": same}


def layers(dtype: str) -> Iterator[tuple[str, dict[str, float]]]:
    """The differences of each layer from after 2017 to PyTorch's functions."""
    import torch

    import tinytensor as tt
    from tests.parity import torch_layers as peer
    from tinytensor import nn
    from tinytensor.nn import functional as F

    ours_dtype, place = getattr(tt, dtype), torch.arange(LENGTH)
    distance = place[:, None] - place
    shape = BATCH, LENGTH, D_MODEL

    def compare(ours: Callable[..., Any], theirs: Callable[..., Any], module: Any, shape: tuple[int, ...]) -> Any:
        array = np.random.default_rng(0).normal(size=shape).astype(dtype)
        x, its = tt.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
        out, (expected, weights) = ours(x), theirs(its)
        g = np.random.default_rng(1).normal(size=out.shape).astype(dtype)
        out.backward(tt.asarray(g))
        expected.backward(torch.tensor(g))
        pairs = [(x.grad, its.grad)]
        pairs += [(p.grad, weights[name].grad) for name, p in module.named_parameters()] if module is not None else []
        return {"result": apart(out, expected), "gradients": max(apart(*pair) for pair in pairs)}

    def rotary(pairing: str) -> Any:
        angles = F.rotary_angles(tt.arange(LENGTH), HEAD, BASE, dtype=ours_dtype)
        heads = BATCH, HEADS, LENGTH, HEAD
        return compare(
            lambda x: F.rotate(x, *angles, pairing), lambda x: (peer.turned(x, pairing, BASE), {}), None, heads
        )

    def attention(kv: int = HEADS, turn: bool = False, kind: str = "causal", **options: Any) -> Any:
        module = nn.SelfAttention(D_MODEL, HEADS, kv, bias=False, dtype=ours_dtype, **options)
        hidden, mask, added = distance < 0, F.causal_mask(LENGTH), torch.zeros((), dtype=getattr(torch, dtype))
        if kind == "window":
            hidden, mask = hidden | (distance >= 8), F.sliding_window_mask(LENGTH, 8)
        elif kind == "alibi":
            slopes = 2.0 ** -torch.arange(1, HEADS + 1, dtype=added.dtype)
            added = -slopes[:, None, None] * distance
            mask = tt.masked_fill(F.alibi(tt.asarray(distance.numpy()), HEADS, dtype=ours_dtype), mask, -tt.inf)
        added = torch.zeros(hidden.shape, dtype=added.dtype).masked_fill(hidden, -torch.inf) + added
        angles = F.rotary_angles(tt.arange(LENGTH), HEAD, BASE, dtype=ours_dtype) if turn else None
        base = BASE if turn else None
        return compare(
            lambda x: module(x, mask, angles), lambda x: peer.self_attention(module, x, added, base), module, shape
        )

    tt.manual_seed(0)
    norm = nn.RMSNorm(D_MODEL, dtype=ours_dtype)
    yield "RMSNorm", compare(norm, lambda x: peer.rms_norm(norm, x), norm, shape)
    gated = nn.FeedForward(D_MODEL, 680, "swiglu", bias=False, dtype=ours_dtype)
    yield "SwiGLU", compare(gated, lambda x: peer.swiglu(gated, x), gated, shape)
    yield "rotary, interleaved", rotary("interleaved")
    yield "rotary, half", rotary("half")
    yield "attention", attention()
    yield "2 heads of keys", attention(kv=2)
    yield "1 head of keys", attention(kv=1)
    yield "2 heads, rotary", attention(kv=2, turn=True)
    yield "window of 8", attention(kind="window")
    yield "ALiBi", attention(kind="alibi")
    yield "QK-norm", attention(qk_norm=1e-6)


def apart(ours: Any, theirs: Any) -> float:
    from tests.parity.huggingface import apart

    return apart(ours, theirs)


def line(name: str, dtype: str, cells: list[str]) -> None:
    print((f"{name:14}{dtype:8}" + "".join(f"{cell:>15}" for cell in cells)).rstrip(), flush=True)


def main() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    parser = Parser(__doc__)
    parser.add_argument("--models", type=some_of(*FULL), default=list(FULL), help="default: all three")
    parser.add_argument("--shapes", type=some_of("small", "full"), default=["small", "full"], help="default: both")
    parser.add_argument("--dtypes", type=some_of(*BOUNDS), default=list(BOUNDS), help="default: both")
    parser.add_json()
    arguments = parser.parse_args()
    require_torch()
    if importlib.util.find_spec("transformers") is None:
        refuse("transformers is not installed; pip install transformers")
    enter(ROOT)
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}: largest difference / largest value\n")
    results: dict[str, dict[str, Any]] = {}
    too_far: list[str] = []

    def keep(name: str, dtype: str, found: dict[str, Any]) -> None:
        results[f"{name}, {dtype}"] = found
        numbers = [value for what, value in found.items() if what != "ids"]
        if not max(numbers) < BOUNDS[dtype] or not all(found.get("ids", [])):
            too_far.append(f"{name}, {dtype}")

    line("model", "", [*COLUMNS, "ids"])
    for shape in arguments.shapes:
        for kind in arguments.models:
            for dtype in arguments.dtypes:
                found = model(kind, shape, dtype)
                keep(f"{kind}, {shape}", dtype, found)
                cells = [f"{found[name]:.1e}" if name in found else "" for name in COLUMNS]
                ids = f"{sum(found['ids'])} of {len(found['ids'])} equal" if "ids" in found else ""
                line(f"{kind}, {shape}", dtype, [*cells, ids])
    print()
    print(f"{'layer':20}" + "".join(f"{dtype + ': result':>20}{'gradients':>12}" for dtype in arguments.dtypes))
    for rows in zip(*(list(layers(dtype)) for dtype in arguments.dtypes)):
        cells = ""
        for dtype, (name, found) in zip(arguments.dtypes, rows):
            keep(name, dtype, found)
            cells += f"{found['result']:20.1e}{found['gradients']:12.1e}"
        print(f"{rows[0][0]:20}{cells}")
    write_json(arguments.json, results)
    if too_far:
        raise SystemExit(f"{script()}: further apart than they may be: {'; '.join(too_far)}")


if __name__ == "__main__":
    main()
