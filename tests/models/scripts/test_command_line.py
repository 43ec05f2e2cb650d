"""What is the same for every script: types of arguments, one line for a mistake, exit codes."""

import argparse
import os
import subprocess
import sys

import pytest

from tinytensor.graph import DrawingError
from tinytensor.models.scripts import command_line
from tinytensor.models.scripts.command_line import UsageError

IMPORT = "from tinytensor.models.scripts import command_line"


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (command_line.positive_int, {"1": 1, "1500": 1500}, ["0", "-1", "1.5", "ten", "", "nan", "1e3", "9" * 18]),
        (command_line.non_negative_int, {"0": 0, "7": 7}, ["-1", "0.5", "x", ""]),
        (command_line.positive_float, {"1e-3": 1e-3, "2": 2.0}, ["0", "-1", "nan", "inf", "-inf", "x", ""]),
        (command_line.fraction, {"0": 0.0, "1": 1.0, "0.999": 0.999}, ["-0.1", "1.1", "nan", "inf", "x", ""]),
    ],
)
def test_types_of_arguments(kind, good, bad):
    for text, value in good.items():
        assert kind(text) == value
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match="must be") as caught:
            kind(text)
        assert "\n" not in str(caught.value)


def test_a_wrong_argument_is_one_line_and_exit_code_2(capsys):
    parser = command_line.Parser(prog="script.py")
    parser.add_argument("--size", type=command_line.positive_int, default=3, help="how large")
    for arguments in (["--size", "-3"], ["--size"], ["--siz", "4"], ["extra"]):
        with pytest.raises(SystemExit) as caught:
            parser.parse_args(arguments)
        assert caught.value.code == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("script.py: ")
        assert err.count("\n") == 1


def test_help_shows_defaults_that_say_something(capsys):
    parser = command_line.Parser(prog="script.py")
    parser.add_argument("--size", type=int, default=3, help="how large")
    parser.add_argument("--name", help="what it is called")
    parser.add_argument("--fast", action="store_true", help="hurry")
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "how large (default: 3)" in text
    assert "default: None" not in text
    assert "default: False" not in text
    assert "130 interrupted" in " ".join(text.split())


def ends(main, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["some/where/script.py"])
    with pytest.raises(SystemExit) as caught:
        command_line.run(main)
    return caught.value.code, capsys.readouterr()


def raising(error):
    def main():
        raise error

    return main


def test_exit_codes(capsys, monkeypatch):
    assert ends(lambda: 4, capsys, monkeypatch) == (4, ("", ""))
    assert ends(raising(UsageError("no such thing")), capsys, monkeypatch) == (2, ("", "script.py: no such thing\n"))
    assert ends(raising(KeyboardInterrupt()), capsys, monkeypatch) == (130, ("", "script.py: interrupted\n"))
    assert ends(raising(DrawingError("no Graphviz")), capsys, monkeypatch) == (2, ("", "script.py: no Graphviz\n"))
    code, (_, err) = ends(raising(MemoryError("745 GiB")), capsys, monkeypatch)
    assert code == 2
    assert err == "script.py: not enough memory (745 GiB); smaller sizes need less\n"


def test_errors_that_are_the_users_to_mend():
    with (
        pytest.raises(UsageError, match=r"^--resume: two lines, one sentence$"),
        command_line.told(FileNotFoundError, KeyError, prefix="--resume: "),
    ):
        raise FileNotFoundError("two lines,\n    one sentence")
    with pytest.raises(ZeroDivisionError), command_line.told(FileNotFoundError, KeyError):
        raise ZeroDivisionError


def test_what_the_output_cannot_show_ends_nothing():
    code = f"{IMPORT}; command_line.run(lambda: print('na\u00efve') or 0)"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "na\\xefve\n", "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_outputs(closed):
    code = f"{IMPORT}; command_line.run(lambda: print('x', flush=True) or 3)"
    command = f'"{sys.executable}" -c "{code}" {closed}'
    result = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (3, "")
    assert result.stdout == ("" if closed.startswith(">") else "x\n")


FULL = "-c: cannot write output: No space left on device\n"


@pytest.mark.parametrize(
    ("buffered", "main", "output", "code", "errors"),
    [
        (True, "lambda: print('x') or 0", "> /dev/full", 2, FULL),
        (True, "lambda: print('x') or 3", "> /dev/full", 3, ""),  # which has told its own fault
        (False, "lambda: print('x') or 3", "> /dev/full", 2, FULL),  # which had no chance to
        (True, "lambda: print('x') or 0", "| true", 141, ""),
        (False, "lambda: print('x') or 0", "| true", 141, ""),
        (True, "lambda: command_line.Parser().parse_args(['--help'])", "| true", 141, ""),
    ],
)
def test_output_that_cannot_be_written(buffered, main, output, code, errors):
    program = f"import time; time.sleep(0.2); {IMPORT}; command_line.run({main})"
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    command = ["bash", "-c", f'"{sys.executable}" -c "{program}" {output}; exit ${{PIPESTATUS[0]}}']
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (code, errors)


def test_numbers_within_bounds():
    number = command_line.within(-10, 10)
    assert number("-2.5") == -2.5
    for text in ("11", "nan", "inf", "-10.5"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"must be from -10 to 10, got {text}"):
            number(text)


def test_a_bug_is_not_hidden(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["script.py"])
    with pytest.raises(ZeroDivisionError):
        command_line.run(raising(ZeroDivisionError()))
