"""Make a page in which a trained model answers while one types: one file that needs no network.

    python examples/live_page.py
    python examples/live_page.py runs/translation --text "the cat eats the fresh bread." --out runs/translator.html

FOLDER is what train_copy_task.py, train_translation.py or train_language_model.py wrote. Without one, a model learns to
write words backwards first, which takes ten seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tinytensor import models
from tinytensor.models.data.sequences import LETTERS, SequenceTask
from tinytensor.models.data.units import Characters
from tinytensor.models.pretrained import CONFIG, PretrainedError
from tinytensor.models.scripts import command_line, copy_task
from tinytensor.nn import visualize


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="live_page.py", description="Make a page with a model that answers.", trains=False)
    p.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="of a run; default: train one now")
    p.add_argument("--text", help="what is typed at first")
    p.add_argument("--out", type=Path, default=Path("runs/live.html"), help="the page")
    p.add_argument("--steps", type=command_line.size, default=300, help="of training, where there is no run")
    return p


def main() -> int:
    arguments = parser().parse_args()
    model, tokenizer, text = trained(arguments.steps) if arguments.folder is None else loaded(arguments.folder)
    with command_line.told(TypeError, ValueError):
        page = visualize.live(model, tokenizer, text=arguments.text or text, title="A model at work")
    with command_line.told(OSError, ValueError, prefix=f"cannot write {arguments.out}: "):
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        page.save(arguments.out)
    print(f"wrote {arguments.out}: open it in a browser, and type")
    return command_line.EXIT_OK


def trained(steps: int) -> tuple[Any, Any, str]:
    """A model that has learned to write backwards, its tokenizer, and a text for it."""
    model, _ = copy_task.build({**copy_task.BACKWARDS, "seed": 0, "device": "cpu"})
    copy_task.learn_backwards(model, steps)
    return model, Characters(LETTERS), "transformer"


def loaded(folder: Path) -> tuple[Any, Any, str]:
    """The model of a run, its tokenizer, and a text for it."""
    if not (folder / CONFIG).exists():
        model, task = copy_task.load(folder)
        return model, Characters(LETTERS), SequenceTask.to_text(max(task.test_sequences(20), key=len))
    with command_line.told(PretrainedError):
        model = models.load(folder)
    return model, model.tokenizer, "the " if model.continues else "the black cat eats the fresh bread."


if __name__ == "__main__":
    command_line.run(main)
