"""Options and fixtures of all tests: on which device they run.

By default what uses the `device` fixture runs twice: on the CPU, and as `"gpu"` on the stand-in for CuPy in
`tests/standin`. With a GPU, `pytest --device gpu` runs it on the real CuPy.
"""

import sys
from pathlib import Path

import pytest

STANDIN = Path(__file__).parent / "standin"


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        choices=["cpu", "standin", "gpu"],
        help="run on this device only: the CPU, the stand-in for CuPy, or the GPU (default: cpu and standin)",
    )


def pytest_configure(config):
    if config.getoption("--device") != "gpu":
        sys.path.insert(0, str(STANDIN))


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--device")
        metafunc.parametrize("device", [chosen] if chosen else ["cpu", "standin"], indirect=True)


@pytest.fixture
def device(request):
    """The device's name in tinytensor: "cpu" or "gpu"."""
    return "cpu" if request.param == "cpu" else "gpu"
