"""examples/first_transformer.py: the first program that a student reads, in the README word for word."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .. import processes
from ..test_readme import snippets

SCRIPT = Path(__file__).parents[2] / "examples" / "first_transformer.py"


def test_the_first_program_of_the_readme_is_the_script():
    name, program = snippets("README.md")[1].split("\n", 1)
    assert name == "# examples/first_transformer.py"
    source = SCRIPT.read_text(encoding="utf-8")
    docstring = ast.parse(source).body[0]
    assert "".join(source.splitlines(keepends=True)[docstring.end_lineno :]).lstrip("\n") == program


def test_it_is_short_and_plain():
    source = SCRIPT.read_text(encoding="utf-8")
    assert source.count("\n") <= 60
    assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert "argparse" not in source


@pytest.mark.parametrize(("option", "code"), [("--help", 0), ("--steps", 2), ("100", 2)])
def test_help_and_mistakes_end_it_at_once(option, code, tmp_path):
    command = [sys.executable, "-W", "error", str(SCRIPT), option]
    result = processes.run(command, cwd=tmp_path, text=True, timeout=60)
    assert result.returncode == code
    mistake = f"first_transformer.py: unrecognized arguments: {option} (--help lists the arguments)\n"
    assert (result.stdout, result.stderr)[code // 2].startswith(mistake if code else "usage: first_transformer.py [-h]")
    assert "step" not in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_it_learns_translates_and_draws(tmp_path):
    """With fewer steps than it takes to learn the task: the loss falls, three words are tried, there is a picture."""
    source, count = re.subn(r"^STEPS = \d+$", "STEPS = 50", SCRIPT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert count == 1
    command = [sys.executable, "-W", "error", "-c", source]
    environment = processes.environment()
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss (.*)$", result.stdout, flags=re.MULTILINE)]
    assert len(losses) == 2
    assert losses[-1] < 0.8 * losses[0]
    words = re.findall(r"^([a-z]+) -> (.*)$", result.stdout, flags=re.MULTILINE)
    assert len({word for word, _ in words}) == 3
    assert re.search(r"^exact match: \d+\.\d%$", result.stdout, flags=re.MULTILINE)
    picture = (tmp_path / "runs" / "first-attention.svg").read_text(encoding="utf-8")
    assert "&lt;end&gt;" in picture
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["first-attention.svg"]
