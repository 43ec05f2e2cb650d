"""The reading budget: how much one steps through in a debugger, in textbook mode. It fails where code grows.

`python benchmarks/reading.py --functions` lists what is entered. When a budget is exceeded, the code is to change.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COUNT = """
import json, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/benchmarks"]
import reading
from checkout import Checkout
from pathlib import Path

root = Path(sys.argv[1])
rows = {name: found[:4] for name, found in reading.readings(Checkout(root)).items()}
print(json.dumps({"rows": rows, "core": sum(reading.core(root).values())}))
"""

BUDGET = {  # functions, files, lines and statements of their bodies
    "tanh forward": (4, 3, 56, 42),
    "tanh backward": (24, 6, 232, 174),
    "attention forward": (42, 16, 276, 202),
    "attention backward": (39, 11, 292, 224),
    "one training step": (248, 42, 1614, 1179),
}
CORE = 1197  # lines of tensor, primitive, engine, node, modes and what they import


@pytest.fixture(scope="module", params=["1", "0"], ids=["environment", "context manager"])
def counted(request):
    environment = {**os.environ, "TINYTENSOR_TEXTBOOK": request.param}
    command = [sys.executable, "-c", COUNT, str(ROOT)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("row", BUDGET)
def test_what_one_call_makes_a_reader_step_through(counted, row):
    for number, most, what in zip(counted["rows"][row], BUDGET[row], ("functions", "files", "lines", "statements")):
        assert number <= most, f"{row}: {number} {what}; the budget is {most}"


def test_the_core_before_the_first_rule(counted):
    assert counted["core"] <= CORE


STOP = re.compile(r"^\| \d+ \| \[(?P<file>[^\]]+)\]\((?P<link>[^)]+)\).*? \| (?P<lines>\d+) \| \d+ \| .*\? \|$", re.M)


def test_the_stops_of_the_tour_are_as_long_as_it_says():
    """Within a tenth; of a stop that is a part of a file, no longer than the file."""
    text = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
    stops = list(STOP.finditer(text))
    assert len(stops) == text.count("](../", 0, text.index("Then [the engine room]")) == 19
    for stop in stops:
        assert (ROOT / "docs" / stop["link"]).resolve() == ROOT / stop["file"]
        lines = len((ROOT / stop["file"]).read_text(encoding="utf-8").splitlines())
        stated = int(stop["lines"])
        assert stated <= lines * 1.1 if f"{stop['link']}), " in text else abs(stated - lines) <= lines / 10, stop[
            "file"
        ]
