"""The time to continue prompts greedily, ours against `transformers`' generate, from one interleaved run.

    python benchmarks/generation.py [--kinds gpt2,llama] [--layers 6] [--size 384] [--prompts 8] [--device gpu]

`transformers` writes a model with random weights into a folder, which both sides read; each continues the same prompts,
64 ids long, by 128 ids, in float32, with its cache. Each side runs in a process of its own. The ids are compared:
rounding may decide a tie either way, so nearly all of them must agree. A ratio below 1: ours is faster.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import interleaved
from busy import Elsewhere, is_quiet
from checkout import Checkout
from command_line import Parser, count, refuse, require_torch, script, some_of, write_json
from gpu import torch_device
from interleaved import Side, print_blas, ratio

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("gpt2", "llama")
VOCABULARY, BEFORE, AFTER = 8000, 64, 128
AGREE = 0.9  # least share of equal ids
HEAD = 64  # the size of a head


def prompts(number: int):
    import numpy as np

    return np.random.default_rng(0).integers(3, VOCABULARY, (number, BEFORE))


def write(kind: str, layers: int, size: int, folder: str) -> None:
    """Write a model with random weights into a folder. Its texts never end: no id ends them."""
    import torch
    import transformers

    torch.manual_seed(0)
    common: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "bos_token_id": 1,
        "eos_token_id": None,
        "initializer_range": 0.1,
    }
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_embd=size, n_head=size // HEAD, n_layer=layers, n_positions=BEFORE + AFTER, **common
        )
        transformers.GPT2LMHeadModel(config).save_pretrained(folder)
        return
    config = transformers.LlamaConfig(
        hidden_size=size, intermediate_size=8 * size // 3, num_hidden_layers=layers, num_attention_heads=size // HEAD,
        max_position_embeddings=BEFORE + AFTER, **common,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def ours(root: Path, folder: str, number: int, device: str):
    checkout = Checkout(root)
    checkout.speed_up()
    model = checkout.models.LanguageModel.from_pretrained(folder).to(device)
    model.eos_id = -1  # nothing ends a text
    ids = prompts(number)
    return lambda: model.generate(ids, AFTER).tolist(), None


def theirs(folder: str, number: int, threads: int, where: str):
    import torch
    import transformers

    torch.set_num_threads(threads)
    device = torch_device(where)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).to(device).eval()
    ids = torch.tensor(prompts(number), device=device)

    @torch.inference_mode()
    def generate():
        mask = torch.ones_like(ids)
        out = model.generate(ids, attention_mask=mask, max_new_tokens=AFTER, do_sample=False, pad_token_id=0)
        return out[:, BEFORE:].tolist()

    return generate, None


def compare(kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Time one kind on both sides, print a line for each and return its figures."""
    with tempfile.TemporaryDirectory() as folder:
        write(kind, arguments.layers, arguments.size, folder)
        given, our = (folder, arguments.prompts, arguments.device), interleaved.ours(arguments.threads)
        sides = {"ours": Side(ours, our, ROOT, *given)}
        if arguments.against is not None:
            sides["other"] = Side(ours, our, arguments.against, *given)
        else:
            its = interleaved.torch(arguments.threads)
            sides["transformers"] = Side(theirs, its, folder, arguments.prompts, arguments.threads, arguments.device)
        found = [side.ask() for side in sides.values()]
    same = statistics.mean(a == b for rows in zip(*found) for a, b in zip(*rows))
    if same < AGREE:
        raise SystemExit(f"{script()}: {kind}: only {same:.1%} of the ids agree")
    elsewhere = Elsewhere(sides.values())
    interleaved.take_turns(sides, arguments.rounds, settled=0.0)
    used = elsewhere.cores()
    results: dict[str, Any] = {"ids_that_agree": same, "cores_used_by_others": used}
    results["blas"] = {name: side.blas for name, side in sides.items()}
    for side in sides.values():
        side.close()
    for name, side in sides.items() if is_quiet(kind, used, arguments.anyway) else ():
        rate = arguments.prompts * AFTER / statistics.median(side.seconds)
        of_it = ratio(sides["ours"].seconds, side.seconds)
        print(f"{kind:6} {name:13} {rate:12,.0f}   {of_it!s}", flush=True)
        results[name] = {"ids_per_second": rate, "ours_takes": of_it._asdict()}
    return results


def main() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    parser = Parser(__doc__)
    parser.add_argument("--kinds", type=some_of(*KINDS), default=["gpt2"], help="some of gpt2,llama (default gpt2)")
    parser.add_argument("--layers", type=count, default=6, help="default 6")
    parser.add_argument("--size", type=count, default=384, help="of a layer's output, a multiple of 64 (default 384)")
    parser.add_argument("--prompts", type=count, default=8, help="at the same time (default 8)")
    parser.add_argument("--rounds", type=count, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--threads", type=count, default=2, help="threads of each side (default 2)")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_against()
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    require_torch()
    if importlib.util.find_spec("transformers") is None:
        refuse("transformers is not installed; pip install transformers")
    if arguments.size % HEAD:
        refuse(f"--size {arguments.size} is no multiple of {HEAD}")
    print(f"{'':6} {'side':13} {'ids a second':>12}   ours takes, of it")
    results = {kind: compare(kind, arguments) for kind in arguments.kinds}
    print_blas(next(iter(results.values()))["blas"])
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
