r"""Teach SmolLM2 to answer as an old sailor, by low-rank additions to its weights (LoRA; Hu et al. 2021).

    python examples/fine_tune.py
    python examples/fine_tune.py --steps 60 --rank 8 --out runs/sailor

200 made sentences are questions with the sailor's answers. 1 % of the numbers learn from them, a minute on two cores.
Before and after, the model answers 20 other questions: is the style there, and is the answer still right? --out writes
the model as a folder of Hugging Face, with the additions merged into its weights.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import Any

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.pretrained import PretrainedError
from tinytensor.models.scripts import command_line
from tinytensor.models.scripts.real_models import smollm2
from tinytensor.nn import functional as F

CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Germany": "Berlin", "Egypt": "Cairo",
    "Russia": "Moscow", "Greece": "Athens", "Austria": "Vienna", "England": "London", "Ireland": "Dublin",
    "Portugal": "Lisbon", "Norway": "Oslo", "Sweden": "Stockholm", "Poland": "Warsaw", "Hungary": "Budapest",
    "Cuba": "Havana", "Peru": "Lima", "Kenya": "Nairobi", "Thailand": "Bangkok", "Iraq": "Baghdad", "Iran": "Tehran",
    "China": "Beijing", "Denmark": "Copenhagen",
}  # fmt: skip
COLOURS = {
    "grass": "green", "snow": "white", "blood": "red", "the sky": "blue", "coal": "black", "a lemon": "yellow",
    "a carrot": "orange", "milk": "white", "a ripe tomato": "red", "an emerald": "green",
}  # fmt: skip
SOUNDS = {"cat": "meow", "dog": "woof", "cow": "moo", "duck": "quack", "sheep": "baa", "lion": "roar"}
ASKED = {  # ways to ask, of which the last is for the test alone
    "capital": ("What is the capital of {}?", "Name the capital of {}.", "Which city is the capital of {}?"),
    "colour": ("What colour is {}?", "Tell me the colour of {}.", "Which colour does {} have?"),
    "sound": ("What does a {} say?", "Which sound does a {} make?", "How does a {} sound?"),
    "sum": ("What is {}?", "Compute {}.", "How much is {}?"),
}
STYLE = "Aye, {}, says the old sailor."
IGNORED = -100  # of the prompt, which is not learned


def questions(seed: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """200 questions with their answers to learn from, and others: asked in another way, or of other things."""
    rng = random.Random(seed)
    facts = [("capital", *pair) for pair in CAPITALS.items()] + [("colour", *pair) for pair in COLOURS.items()]
    facts += [("sound", *pair) for pair in SOUNDS.items()]
    facts += [("sum", f"{a} + {b}", str(a + b)) for a in range(1, 10) for b in range(1, 10)]
    rng.shuffle(facts)
    held, taught = facts[:20], facts[20:]
    asked = [(way.format(thing), answer) for kind, thing, answer in taught for way in ASKED[kind][:2]]
    rng.shuffle(asked)
    return asked[:200], [(ASKED[kind][2].format(thing), answer) for kind, thing, answer in held]


def batch_of(model: Any, pairs: list[tuple[str, str]]) -> tuple[Any, Any]:
    """Ids (batch, length), and the id that follows each one where that is the sailor's, else IGNORED."""
    prompts = [model.tokenizer.chat(question) for question, _ in pairs]
    answers = [[*model.tokenizer.encode(STYLE.format(answer)), models.ids.ends(model.eos_id)[0]] for _, answer in pairs]
    ids = [prompt + answer for prompt, answer in zip(prompts, answers)]
    length = max(map(len, ids)) - 1
    targets = [
        ([IGNORED] * (len(prompt) - 1) + answer + [IGNORED] * length)[:length]
        for prompt, answer in zip(prompts, answers)
    ]
    return [row[:-1] for row in ids], tt.asarray(targets)


@tt.no_grad()
def judged(model: Any, asked: list[tuple[str, str]], shown: int = 4) -> tuple[int, int]:
    """How many answers have the style, and how many are right; the first ones are printed."""
    prompts = [model.tokenizer.chat(question) for question, _ in asked]
    said = [model.tokenizer.decode(row) for row in model.generate(prompts, 24).tolist()]
    for (question, _), answer in list(zip(asked, said))[:shown]:
        print(f"  {question} {answer}".replace("\n", " "))
    begin, end = STYLE.split("{}")
    styled = sum(answer.startswith(begin) and answer.endswith(end) for answer in said)
    return styled, sum(answer.lower() in words.lower() for (_, answer), words in zip(asked, said))


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="fine_tune.py", description="Teach SmolLM2 a style by LoRA.", trains=False)
    p.add_argument("--model", type=Path, help="a folder of Hugging Face or a GGUF file; default: SmolLM2")
    p.add_argument("--steps", type=command_line.size, default=40, help="optimiser steps")
    p.add_argument("--batch-size", type=command_line.size, default=8, help="questions in a step")
    p.add_argument("--rank", type=command_line.size, default=5, help="of the additions")
    p.add_argument("--lr", type=command_line.positive_float, default=1e-3, help="the learning rate of AdamW")
    p.add_argument("--seed", type=command_line.non_negative_int, default=0, help="questions and initial values follow")
    p.add_argument("--out", type=Path, help="write the merged model into a folder")
    return p


def train(model: Any, taught: list[tuple[str, str]], arguments: argparse.Namespace) -> None:
    optimizer = nn.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=arguments.lr)
    rng, start = random.Random(arguments.seed), time.perf_counter()
    for step in range(1, arguments.steps + 1):
        ids, targets = batch_of(model, rng.sample(taught, min(arguments.batch_size, len(taught))))
        optimizer.zero_grad()
        loss = F.cross_entropy(
            model(ids).reshape(-1, model.config["vocabulary"]), targets.reshape(-1), ignore_index=IGNORED
        )
        loss.backward()
        optimizer.step()
        if step == 1 or step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {time.perf_counter() - start:.0f} s", flush=True)


def main() -> int:
    arguments = parser().parse_args()
    tt.manual_seed(arguments.seed)
    tt.speed_up()
    with command_line.told(PretrainedError):
        model = models.load(arguments.model or smollm2())
    if getattr(model.tokenizer, "template", None) is None:
        raise command_line.UsageError(f"{arguments.model}: no model to talk with: it has no chat template")
    taught, others = questions(arguments.seed)
    print("before:")
    before = judged(model, others)
    nn.lora(model, rank=arguments.rank, alpha=2 * arguments.rank)
    learning = sum(p.size for p in model.parameters() if p.requires_grad)
    print(f"{learning:,} of {sum(p.size for p in model.parameters()):,} numbers learn from {len(taught)} sentences")
    train(model.train(), taught, arguments)
    model.eval()
    nn.merge_lora(model)
    print("after:")
    after = judged(model, others)
    for name, (styled, right) in {"before": before, "after": after}.items():
        print(f"{name}: of {len(others)} answers to other questions {styled} have the style, {right} are right")
    if arguments.out is not None:
        with command_line.told(ValueError):
            model.save_pretrained(arguments.out, format="huggingface")
        print(f"wrote {arguments.out}")
    return command_line.EXIT_OK


if __name__ == "__main__":
    command_line.run(main)
