"""A lesson: a file of cells that is a script, a notebook and a page; it shows pictures and prints numbers.

    lesson = Lesson("05_scaling")
    lesson.number("variance of q·k at d_k = 512", scores.var(correction=0))
    lesson.show("variance", visualize.curves({"variance": (sizes, variances)}))

As a script it also takes `--exercises`, `--hint NAME` and `--check mine.py` (see `exercises.py` and `judging.py`).
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import sys
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import tinytensor
from tinytensor import nn
from tinytensor.machine.files import atomic_write
from tinytensor.recording.errors import in_notebook

from . import command_line, exercises, judging


class Lesson:
    """The numbers and pictures of a lesson.

    Args:
        name: the name of the lesson's file, without its ending. In a script, this also reads the command line.

    Attributes:
        numbers: the printed numbers, by their descriptions.
        pictures: the picture files, by the names of the pictures.
        folder: the folder of the pictures: `runs/lessons/<name>`, or that of `--out`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.numbers: dict[str, float] = {}
        self.pictures: dict[str, Path] = {}
        self.folder = Path("runs") / "lessons" / name
        script = Path(sys.argv[0])
        self.is_script = script.stem == name
        around = [Path.cwd(), *Path.cwd().parents, Path(tinytensor.__file__).parents[1]]  # a notebook lies anywhere
        anywhere = [place for folder in around for place in (folder, folder / "examples" / "lessons")]
        places = [script.parent] if self.is_script else anywhere
        self._exercises = [place / "exercises" / f"{name}.py" for place in places]
        if self.is_script:
            command_line.take_any_text()
            self._follow(_parser(name).parse_args())

    def number(self, what: str, value: Any, form: str = ".4g") -> None:
        """Print and store a number, or a Tensor of one element; `form` is its format."""
        self.numbers[what] = number = float(value)
        print(f"{what}: {number:{form}}", flush=True)
        self._report()

    def show(self, name: str, picture: Any, save: Callable[..., None] | None = None, **options: Any) -> None:
        """Save a picture; in a notebook also show it, wherever in a cell the call stands.

        The file is `name`.svg, or `name` itself if it has an ending: .html for a page.

        Args:
            name: the name of the file.
            picture: the picture.
            save: called with the path and the options; default: the picture's own `save`.
        """
        path = self.folder / (name if Path(name).suffix else f"{name}.svg")
        self.folder.mkdir(parents=True, exist_ok=True)
        (save or picture.save)(path, **options)
        self.pictures[name] = path
        if self.is_script:
            print(f"picture: {path}", flush=True)
        elif in_notebook():
            from IPython.display import display

            display(Shown(path))
        self._report()

    def trained(self, model: Any, train: Callable[[Any], Any], name: str | None = None) -> Any:
        """The model after `train(model)`: trained the first time, read from a file afterwards.

        The file is in `runs/lessons/trained`, under a name made from the text of `train`, the model and its weights
        before training, so that a change in any of them, or in the seed, trains anew. It begins with the lesson's name,
        or with `name`, for a model that several lessons share.
        """
        content = hashlib.sha256(f"{inspect.getsource(train)}{model!r}".encode())
        for weights in model.state_dict().values():
            content.update(weights.numpy().tobytes())
        path = Path("runs") / "lessons" / "trained" / f"{name or self.name}-{content.hexdigest()[:12]}.safetensors"
        if not path.exists():
            train(model)
            path.parent.mkdir(parents=True, exist_ok=True)
            nn.save(model.state_dict(), path)
        model.load_state_dict(nn.load(path))
        return model.eval()

    def letters_backwards(self) -> tuple[Any, Any]:
        """A Transformer that writes words backwards, and its tokenizer; the first lesson to ask trains it."""
        from ..data.sequences import LETTERS  # not every lesson has a model
        from ..data.units import Characters
        from .copy_task import BACKWARDS, build, learn_backwards

        model, _ = build({**BACKWARDS, "seed": 0, "device": "cpu"})
        return self.trained(model, learn_backwards, "letters_backwards"), Characters(LETTERS)

    def check(self, *functions: Callable[..., Any]) -> None:
        """Print whether answers to this lesson's exercises, by their names, are right: for notebooks."""
        answers = {function.__name__: function for function in functions}
        asked = [e for e in self._all_exercises() if e.name in answers]
        if unknown := answers.keys() - {e.name for e in asked}:
            known = ", ".join(e.name for e in self._all_exercises())
            raise ValueError(f"check: {', '.join(sorted(unknown))} is no exercise of {self.name}; there are {known}")
        for each in asked:
            print(each.verdict(answers)[1])

    def _all_exercises(self) -> list[exercises.Exercise]:
        return exercises.read(self._exercise_file())

    def _exercise_file(self) -> Path:
        for path in self._exercises:
            if path.exists():
                return path
        places = f"not in {self._exercises[0].parent}, and in no examples/lessons/exercises that is found from there"
        raise FileNotFoundError(f"the exercises of {self.name} are {places}: start within a copy of the repository")

    def _follow(self, arguments: argparse.Namespace) -> None:
        if arguments.out is not None:
            self.folder = arguments.out
        if arguments.exercises:
            command_line.run(lambda: exercises.list_holes(self.name, self._all_exercises(), Path(sys.argv[0])))
        if arguments.hint is not None:
            command_line.run(lambda: exercises.give_hint(self._all_exercises(), *arguments.hint))
        if arguments.check is not None:
            command_line.run(lambda: judging.check_file(self._exercise_file(), arguments.check))

    def _report(self) -> None:
        if self.is_script:
            self.folder.mkdir(parents=True, exist_ok=True)
            content = {"numbers": self.numbers, "pictures": {n: p.name for n, p in self.pictures.items()}}
            atomic_write(self.folder / "lesson.json", json.dumps(content, indent=1).encode())


class Shown:
    """A saved picture, as notebooks display it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        text = self.path.read_text(encoding="utf-8")
        if self.path.suffix == ".html":
            frame = f'<iframe srcdoc="{escape(text)}" title="{self.path.stem}" width="100%" height="640"></iframe>'
            return {"text/html": frame}
        return {"image/svg+xml": text}

    def __repr__(self) -> str:
        return f"<picture {self.path}>"


def _parser(name: str) -> command_line.Parser:
    p = command_line.Parser(trains=False, prog=f"{name}.py", description="Run a lesson, or check an answer to it.")
    p.add_argument("--out", type=Path, metavar="FOLDER", help=f"where pictures go; default: runs/lessons/{name}")
    p.add_argument("--exercises", action="store_true", help="print the exercises, as a file with holes to fill")
    p.add_argument("--hint", nargs="+", metavar=("NAME", "N"), help="a hint for an exercise: the first, or the Nth")
    p.add_argument("--check", type=Path, metavar="FILE", help="say what is right and wrong in a file with answers")
    return p
