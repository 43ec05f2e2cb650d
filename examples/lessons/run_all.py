"""Run all lessons, one after the other, and print how long each took, its numbers and its pictures.

    python examples/lessons/run_all.py [--only 05,19] [--out FOLDER]

Lessons that train a model keep it in runs/lessons/trained, so the second time is shorter.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tinytensor.models.scripts import command_line

HERE = Path(__file__).parent
LONGEST = 600  # seconds


def main() -> int:
    p = command_line.Parser(trains=False, prog="run_all.py", description="Run the lessons and print what they show.")
    p.add_argument("--only", metavar="NN,NN", help="the numbers of some lessons")
    p.add_argument("--out", type=Path, default=Path("runs") / "lessons", help="where their pictures go")
    arguments = p.parse_args()
    lessons = {path.stem[:2]: path for path in sorted(HERE.glob("[0-9]*.py"))}
    chosen = lessons if arguments.only is None else [number.zfill(2) for number in arguments.only.split(",")]
    if unknown := [number for number in chosen if number not in lessons]:
        p.error(f"argument --only: there is no lesson {', '.join(unknown)}; there are {', '.join(lessons)}")
    failed = []
    begin = time.perf_counter()
    for number in chosen:
        path = lessons[number]
        folder = arguments.out / path.stem
        start = time.perf_counter()
        command = [sys.executable, str(path), "--out", str(folder)]
        result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=LONGEST)
        seconds = time.perf_counter() - start
        if result.returncode:
            failed.append(path.stem)
            print(f"{path.stem}  FAILED after {seconds:.1f} s\n{result.stderr}")
            continue
        report = json.loads((folder / "lesson.json").read_text(encoding="utf-8"))
        print(f"{path.stem}  {seconds:.1f} s, pictures: {', '.join(report['pictures'].values())}")
        for what, value in report["numbers"].items():
            print(f"    {what:70} {value:.6g}", flush=True)
    print(f"{len(chosen)} lessons in {time.perf_counter() - begin:.0f} s")
    if failed:
        print(f"run_all.py: {', '.join(failed)} failed", file=sys.stderr)
    return 1 if failed else command_line.EXIT_OK


if __name__ == "__main__":
    command_line.run(main)
