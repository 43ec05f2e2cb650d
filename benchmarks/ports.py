"""Programs written for PyTorch, run as they are by tinytensor.torch and by PyTorch: the same numbers?

    python benchmarks/ports.py

A line for each program of tests/torch_room/programs: its lines, how many of them were edited, and PASS or FAIL. Where
PyTorch is not installed, its numbers are those that are kept beside the programs; `--keep` writes them anew.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from command_line import Parser, require_torch

PROGRAMS = Path(__file__).resolve().parents[1] / "tests" / "torch_room" / "programs"
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")
TOLERANCE = 1e-5
HERE = ("-m", "tinytensor.torch")


def programs() -> list[Path]:
    return sorted(PROGRAMS.glob("*.py"))


def output(program: Path, *how: str) -> str:
    """A program's output, run with these words in front of its name; its errors too if it, or a fast way, fails."""
    done = subprocess.run([sys.executable, *how, program], capture_output=True, text=True, cwd=PROGRAMS.parents[2])
    failed = done.returncode or "please report" in done.stderr
    return done.stdout + done.stderr * bool(failed)


def difference(expected: str, got: str) -> str:
    """The first line in which two texts differ, numbers by more than the tolerance; "" if none does."""
    lines = expected.splitlines(), got.splitlines()
    for one, other in zip(*lines):
        pairs = zip(NUMBER.findall(one), NUMBER.findall(other))
        near = all(abs(float(x) - float(y)) <= TOLERANCE * (1 + abs(float(x))) for x, y in pairs)
        if NUMBER.sub("#", one) != NUMBER.sub("#", other) or not near:
            return f"PyTorch: {one}\nhere:    {other}"
    return (
        ""
        if len(lines[0]) == len(lines[1])
        else f"PyTorch: {len(lines[0])} lines\nhere:    {len(lines[1])}: {got[-500:]}"
    )


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--keep", action="store_true", help="write PyTorch's numbers beside the programs")
    keep = parser.parse_args().keep
    if keep:
        require_torch()
    has_torch = importlib.util.find_spec("torch") is not None
    failed = 0
    for program in programs():
        kept = program.with_suffix(".txt")
        expected = output(program) if has_torch else kept.read_text(encoding="utf-8")
        if keep:
            kept.write_text(expected, encoding="utf-8")
        told = difference(expected, output(program, *HERE))
        failed += bool(told)
        lines = len(program.read_text(encoding="utf-8").splitlines())
        print(f"{program.stem:14} {lines:4} lines, 0 edited: {'FAIL' if told else 'PASS'}")
        if told:
            print(told)
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
