r"""Teach SmolLM2 to answer as an old sailor, by low-rank additions to its weights (LoRA; Hu et al. 2021).

    python examples/fine_tune.py
    python examples/fine_tune.py --steps 60 --rank 8 --out runs/sailor
    python examples/fine_tune.py --resume

200 made sentences are questions with the sailor's answers. 1 % of the numbers learn from them, in one or two minutes on
two cores. Before and after, the model answers 20 other questions: is the style there, and is the answer still right? It
writes into --out: checkpoint.safetensors (the additions, and all else to resume), log.jsonl, run.html (the figures of
the run) and the model with the additions merged into its weights, as a folder of Hugging Face.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.data.batch import TextBatch, padded
from tinytensor.models.ids import NONE
from tinytensor.models.pretrained import PretrainedError
from tinytensor.models.scripts import command_line
from tinytensor.models.scripts.real_models import smollm2
from tinytensor.models.scripts.run import Run, add_arguments, plain
from tinytensor.models.training.callbacks import Checkpoints, Log, TimeLimit
from tinytensor.models.training.page import RunPage
from tinytensor.models.training.trainer import Trainer

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


def main() -> int:
    """Parse, load, train, report."""
    run = Run(parser(), {"tqdm": "examples"})
    arguments = run.arguments
    folder = run.open_folder()
    tt.manual_seed(arguments.seed)
    with command_line.told(PretrainedError):
        model = models.load(arguments.model or smollm2(), arguments.device)
    if getattr(model.tokenizer, "template", None) is None:
        raise command_line.UsageError(f"{arguments.model}: no model to talk with: it has no chat template")
    taught, others = questions(arguments.seed)
    nn.lora(model, rank=arguments.rank, alpha=2 * arguments.rank)
    learning = [p for p in model.parameters() if p.requires_grad]

    optimizer = nn.optim.AdamW(learning, lr=arguments.learning_rate)
    schedule = nn.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    checkpoints = Checkpoints(folder, plain(arguments), every=arguments.checkpoint_every)
    callbacks = [Log(folder), TimeLimit(arguments.time_limit), RunPage(folder), checkpoints]
    task, size = Lessons(model, taught, arguments.seed), arguments.batch_size
    trainer = Trainer(Additions(model), optimizer, schedule, task, callbacks, batch_size=size, show_every=10)

    with run.begun(trainer, checkpoints):
        print(f"{sum(p.size for p in learning):,} numbers learn from {len(taught)} sentences")
        if trainer.step == 0:
            print("before:")
            folder.log(event="before", **judged(model, others))
        trainer.run(arguments.steps)
        model.eval()
        nn.merge_lora(model)
        print("after:")
        after = judged(model, others)
        folder.log(event="result", step=trainer.step, **after)
        for name, found in {"before": folder.entries("before")[-1], "after": after}.items():
            styled, right = found["styled"], found["right"]
            print(f"{name}: of {len(others)} answers to other questions {styled} have the style, {right} are right")
        model.save_pretrained(folder.path, format="huggingface")
        print(f"wrote {folder.path}")
    return run.exit_code(after["right"] / len(others), "the share of right answers")


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="fine_tune.py", description="Teach SmolLM2 a style by LoRA.")
    add_arguments(p, out="runs/fine-tune", steps=40, batch_size=8, learning_rate=1e-3, checkpoint_every=10)
    p.add_argument("--model", type=Path, help="a folder of Hugging Face or a GGUF file; default: SmolLM2")
    p.add_argument("--rank", type=command_line.size, default=5, help="of the additions")
    return p


class Additions(nn.Module):
    """A model whose checkpoints hold its low-rank additions alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any) -> Any:
        return self.model(ids)

    def state_dict(self, **options: Any) -> Any:
        return nn.lora_state_dict(self.model)

    def load_state_dict(self, state_dict: Any, strict: bool = True) -> Any:
        return self.model.load_state_dict(state_dict, strict=False)


class Answers(TextBatch):
    """Questions and answers, of which the answers alone are to be predicted."""

    ignored = NONE


class Lessons:
    """The batches of a run, by the step's number: some questions with their answers."""

    def __init__(self, model: Any, taught: list[tuple[str, str]], seed: int) -> None:
        self.model, self.taught, self.seed = model, taught, seed

    def training_batch(self, step: int, size: int) -> Answers:
        rng = random.Random(f"{self.seed} {step}")
        return batch_of(self.model, rng.sample(self.taught, min(size, len(self.taught))))


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


def batch_of(model: Any, pairs: list[tuple[str, str]]) -> Answers:
    """Prompts with their answers, and the id that follows each one where that is the sailor's."""
    prompts = [model.tokenizer.chat(question) for question, _ in pairs]
    answers = [[*model.tokenizer.encode(STYLE.format(answer)), models.ids.ends(model.eos_id)[0]] for _, answer in pairs]
    ids = padded([prompt + answer for prompt, answer in zip(prompts, answers)], NONE)
    targets = padded([[NONE] * len(prompt) + answer for prompt, answer in zip(prompts, answers)], NONE)
    return Answers(ids[:, :-1], targets[:, 1:])


@tt.no_grad()
def judged(model: Any, asked: list[tuple[str, str]], shown: int = 4) -> dict[str, int]:
    """How many answers have the style, and how many are right; the first ones are printed."""
    prompts = [model.tokenizer.chat(question) for question, _ in asked]
    said = [model.tokenizer.decode(row) for row in model.generate(prompts, 24).tolist()]
    for (question, _), answer in list(zip(asked, said))[:shown]:
        print(f"  {question} {answer}".replace("\n", " "))
    begin, end = STYLE.split("{}")
    styled = sum(answer.startswith(begin) and answer.endswith(end) for answer in said)
    right = sum(answer.lower() in words.lower() for (_, answer), words in zip(asked, said))
    return {"styled": styled, "right": right}


if __name__ == "__main__":
    command_line.run(main)
