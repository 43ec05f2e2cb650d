"""Programs of somebody else's: how they end, what is kept of them, and what they are not given."""

import os
import sys
import time

import pytest

from tests.marks import slow_after
from tinytensor.models.scripts import apart
from tinytensor.models.scripts.apart import run_apart

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a limit that only Linux holds")


def run(code, folder, **options):
    options = {"seconds": 30, **options}
    return run_apart([sys.executable, "-c", code], folder=folder, **options)


@pytest.mark.parametrize(
    ("code", "options", "ended", "exit_code"),
    [
        ("print(1)", {}, apart.FINISHED, 0),
        ("raise SystemExit(3)", {}, apart.FINISHED, 3),
        ("1 / 0", {}, apart.FINISHED, 1),
        ("while True: pass", {"seconds": 0.5}, apart.OUT_OF_TIME, None),
        ("raise MemoryError", {}, apart.OUT_OF_MEMORY, 1),
        pytest.param("bytearray(1 << 30)", {"megabytes": 500}, apart.OUT_OF_MEMORY, 1, marks=linux),
        pytest.param("import os; os.kill(os.getpid(), 15)", {}, apart.KILLED, None, marks=linux),
        pytest.param("import os; os.kill(os.getpid(), 19)", {"seconds": 0.5}, apart.OUT_OF_TIME, None, marks=linux),
    ],
)
def test_an_outcome_says_why_a_program_ended(code, options, ended, exit_code, tmp_path):
    outcome = run(code, tmp_path, **options)
    assert (outcome.ended, outcome.code) == (ended, exit_code)
    assert outcome.seconds < 25


@pytest.mark.parametrize(
    ("code", "ended"), [("import os; os._exit(0)", apart.EXITED_EARLY), ("open('all', 'w')", "finished")]
)
def test_a_whole_run_leaves_its_file(code, ended, tmp_path):
    outcome = run(code, tmp_path, leaves=tmp_path / "all")
    assert (outcome.ended, outcome.code) == (ended, 0)


def test_of_what_is_printed_the_beginning_is_kept(tmp_path):
    outcome = run("import sys; print('a' * 10**7); print('\\u2248', file=sys.stderr)", tmp_path, characters=50)
    assert outcome.out == "a" * 50 + f"\n... and {10**7 + len(os.linesep) - 50} bytes more"
    assert outcome.errors == "\u2248\n"


def test_a_program_reads_nothing_and_gets_no_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("A_TOKEN", "secret")
    code = "import os, sys, tempfile; print(repr(sys.stdin.read()), 'A_TOKEN' in os.environ, os.environ['MORE'])"
    code += "; print(os.getcwd(), os.path.expanduser('~'), tempfile.gettempdir(), sep='\\n')"
    outcome = run(code, tmp_path, environment={"MORE": "1"})
    first, *places = outcome.out.splitlines()
    assert first == "'' False 1"
    assert {os.path.realpath(place) for place in places} == {str(tmp_path.resolve())}


@pytest.mark.skipif(os.name != "posix", reason="processes are looked for as POSIX has them")
@pytest.mark.parametrize("end", slow_after(1, ["", "time.sleep(60)"]))
def test_what_a_program_started_ends_with_it(end, tmp_path):
    sleeper = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    )
    outcome = run(f"{sleeper}; print(p.pid, flush=True); {end}", tmp_path, seconds=3 if end else 30)
    assert outcome.seconds < 25
    for _ in range(100):
        try:
            os.kill(int(outcome.out), 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    with open(f"/proc/{int(outcome.out)}/stat") as file:  # dead, and nobody has waited for it
        assert file.read().split()[2] == "Z"


def test_a_program_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OSError):
        run_apart([str(tmp_path / "missing")], seconds=1, folder=tmp_path)
