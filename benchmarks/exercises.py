"""The checks of the lessons' exercises, tried: wrong answers refused, right ones accepted, and what refusals say.

    python benchmarks/exercises.py [--only 03,06] [--seeds 5] [--apart]

The answers are those of tests/examples/lessons: wrong ones in `wrong`, right ones in `solutions`, several spellings of
each. A refusal in words names the mistake, or is an error that the answer raises; the rest is two numbers and nothing
else.
"""

from __future__ import annotations

import runpy
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from command_line import Parser, count, refuse, write_json

from tinytensor.models.scripts import exercises, judging

ROOT = Path(__file__).resolve().parents[1]
ANSWERS = ROOT / "tests" / "examples" / "lessons"
LESSONS = sorted(path.stem for path in (ROOT / "examples" / "lessons" / "exercises").glob("[0-9]*.py"))


def answers(folder: str, lesson: str) -> dict[str, tuple[str, Callable[..., Any]]]:
    """The answers in a file: by their names, the exercise and the function."""
    path = ANSWERS / folder / f"{lesson}.py"
    asked = {each.name for each in questions(lesson)}
    found = runpy.run_path(str(path)) if path.exists() else {}
    parts = {name: name.partition("__")[0] for name, value in found.items() if callable(value)}
    return {name: (part, found[name]) for name, part in parts.items() if part in asked}


def questions(lesson: str) -> list[exercises.Exercise]:
    return exercises.read(ROOT / "examples" / "lessons" / "exercises" / f"{lesson}.py")


def here(lesson: str, seeds: int) -> Callable[[str, str], Iterator[exercises.Verdict]]:
    """How verdicts are found in this process: the same answer on the numbers of several seeds."""
    asked = {each.name: each for each in questions(lesson)}

    def verdicts(folder: str, name: str) -> Iterator[exercises.Verdict]:
        part, function = answers(folder, lesson)[name]
        for seed in range(seeds):
            yield asked[part].verdict({part: function}, str(ANSWERS / folder / f"{lesson}.py"), seed=seed)

    return verdicts


def in_processes(lesson: str, seeds: int) -> Callable[[str, str], Iterator[exercises.Verdict]]:
    """How they are found as `--check` does it: each answer in a process of its own, on numbers of the system's."""
    asked = questions(lesson)

    def verdicts(folder: str, name: str) -> Iterator[exercises.Verdict]:
        part = name.partition("__")[0]
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "mine.py"
            path = str(ANSWERS / folder / f"{lesson}.py")
            file.write_text(f"import runpy\n{part} = runpy.run_path({path!r})[{name!r}]\n", encoding="utf-8")
            for _ in range(seeds):
                found, _ = judging.judge(ROOT / "examples" / "lessons" / "exercises" / f"{lesson}.py", file)
                yield found[[each.name for each in asked].index(part)]

    return verdicts


def measure(lesson: str, seeds: int, apart: bool) -> dict[str, Any]:
    """How many answers of a lesson there are, and what the checks say of them; and those that they are wrong about."""
    verdicts = (in_processes if apart else here)(lesson, seeds)
    row: dict[str, Any] = dict.fromkeys(("wrong", "refused", "named", "errors", "right", "accepted"), 0)
    row["failed"] = []
    for name in answers("wrong", lesson):
        found = list(verdicts("wrong", name))
        row["wrong"] += 1
        row["refused"] += not any(each.right for each in found)
        row["named"] += all(each.kind == "mistake" for each in found)
        row["errors"] += all(each.kind in ("error", "stopped") for each in found)
        doubtful = [each for each in found if each.right or each.kind == "numbers"]
        row["failed"] += [f"{each.text} [{name}]" for each in doubtful][:1]
    for name in answers("solutions", lesson):
        found = list(verdicts("solutions", name))
        row["right"] += 1
        row["accepted"] += all(each.right for each in found)
        row["failed"] += [f"{each.text} [{name}]" for each in found if not each.right][:1]
    return row


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--only", default="", metavar="LESSONS", help="beginnings of their names, with commas")
    parser.add_argument("--seeds", type=count, default=5, help="how many times each answer is tried; default: 5")
    parser.add_argument("--apart", action="store_true", help="each time in a process of its own: minutes")
    parser.add_json()
    arguments = parser.parse_args()
    chosen = [name for name in LESSONS if name.startswith(tuple(arguments.only.split(",")))]
    if not chosen:
        refuse(f"expected the beginning of one of {', '.join(LESSONS)}, got {arguments.only}")
    rows = {}
    line = "{:28} {:>13} {:>16} {:>10} {:>15}".format
    print(line("", "wrong refused", "mistake named", "it raised", "right accepted"))
    for name in chosen:
        rows[name] = row = measure(name, arguments.seeds, arguments.apart)
        print(told(name, row, line), flush=True)
    total = {key: sum(row[key] for row in rows.values()) for key in next(iter(rows.values())) if key != "failed"}
    print(told("all", total, line))
    words = (total["named"] + total["errors"]) / max(1, total["refused"])
    print(f"refusals in words: {words:.1%}; that name the mistake: {total['named'] / max(1, total['refused']):.1%}")
    for name, row in rows.items():
        for text in row["failed"]:
            print(f"{name}: {text}")
    write_json(arguments.json, {**rows, "all": total})


def told(name: str, row: dict[str, Any], line: Callable[..., str]) -> str:
    of = f"/{row['wrong']}"
    cells = (
        f"{row['refused']}{of}",
        f"{row['named']}{of}",
        f"{row['errors']}{of}",
        f"{row['accepted']}/{row['right']}",
    )
    return line(name, *cells)


if __name__ == "__main__":
    main()
