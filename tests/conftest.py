"""Options and fixtures of all tests: which repetitions run, and on which device.

A test with the `device` fixture can run on the CPU, as `"gpu"` on the stand-in for CuPy in `tests/standin`, and, in
`tests/nn` and `tests/models`, on the CPU with compiled loops. By default it runs on the CPU; files that name a GPU and
the first sample of each op run on all of these devices. `pytest --all` repeats every test on every device, and adds the
tests marked `again`: further sizes and seeds. With a GPU, `pytest --device gpu` runs them on the real CuPy.
"""

import functools
import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .engine_room import room
from .marks import is_repetition, is_slow
from .processes import no_graphviz_here, no_pdf_here, skip_for_graphviz

ROOT = Path(__file__).parents[1]
STANDIN = ROOT / "tests" / "standin"


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        choices=["cpu", "loops", "standin", "gpu"],
        help="run on this device only: the CPU, the CPU with compiled loops, the stand-in for CuPy, or the GPU",
    )
    parser.addoption(
        "--all", action="store_true", help="repeat tests on every device but the GPU, and with all sizes and seeds"
    )
    parser.addoption("--note-passed", metavar="FILE", help="append the ids of tests that pass to a file")
    parser.addoption("--leave-out", metavar="FILE", help="skip tests whose ids are in a file")
    parser.addoption(
        "--skip-missing",
        action="store_true",
        help="skip what needs a library that is not installed, in place of failing (benchmarks/on_gpu.py)",
    )


def pytest_configure(config):
    if config.getoption("--device") != "gpu":
        sys.path.insert(0, str(STANDIN))
    path = config.getoption("--note-passed")
    if path and not hasattr(config, "workerinput"):  # the workers of pytest-xdist send their results to this process
        config.pluginmanager.register(NotePassed(path))


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """With pytest-xdist, a process that has nothing left takes tests of another."""
    if getattr(config.option, "numprocesses", None) and config.option.dist in ("no", "load"):
        config.option.dist = "worksteal"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    return (yield from skipping_what_is_missing(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    return (yield from skipping_what_is_missing(item))


def skipping_what_is_missing(item):
    try:
        return (yield)
    except Exception as error:
        cause = error
        while cause is not None and item.config.getoption("--skip-missing"):
            if isinstance(cause, ModuleNotFoundError) and not cause.name.startswith("tinytensor"):
                pytest.skip(f"{cause.name} is not installed")
            cause = cause.__cause__ or cause.__context__
        raise


def pytest_collection_modifyitems(config, items):
    path, repeat = config.getoption("--leave-out"), config.getoption("--all")
    passed = set(Path(path).read_text(encoding="utf-8").splitlines()) if path else set()
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
    left = [
        item
        for item in items
        if item.nodeid in passed or (not repeat and (item.get_closest_marker("again") or is_repetition(item.nodeid)))
    ]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]


class NotePassed:
    """Append the id of each test that passes to a file."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115  (open as long as the session)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            print(report.nodeid, file=self.file)


def pytest_sessionstart(session):
    """Compile loops for all workers of pytest-xdist while they collect, if they are not on disk."""
    if getattr(session.config.option, "numprocesses", None) and room("fast.numpy"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        commands = [[sys.executable, "-m", "tests.compile_loops", dtype] for dtype in ("float32", "float64")]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        compiling = [subprocess.Popen(command, cwd=ROOT, env=environment, **quiet) for command in commands]
        os.environ[COMPILING] = " ".join(str(process.pid) for process in compiling)
        session.config.stash[PROCESSES] = compiling


PROCESSES = pytest.StashKey[list]()
COMPILING = "TESTS_COMPILING"
"""The variable from which workers read the ids of the processes that compile."""


def pytest_collection_finish():
    """The collected tests stay, so no garbage collection need look at their million objects: that takes 0.4 s."""
    gc.collect()
    gc.freeze()
    for process in os.environ.pop(COMPILING, "").split():
        while Path("/proc", process, "exe").exists():
            time.sleep(0.1)


def pytest_sessionfinish():
    gc.unfreeze()


def pytest_generate_tests(metafunc):
    if "device" not in metafunc.fixturenames:
        return
    path, chosen = metafunc.definition.path, metafunc.config.getoption("--device")
    devices = [chosen] if chosen else devices_of(path.parent)
    few = devices if metafunc.config.getoption("--all") or names_a_gpu(path) else devices[:1]
    marker = metafunc.definition.get_closest_marker("samples")
    if marker is None:
        metafunc.parametrize("device", few, indirect=True)
        return
    name, cases = marker.args
    pairs = [
        pytest.param(device, *case.values, id=f"{device}-{case.id}", marks=case.marks)
        for case in cases
        for device in (devices if case.id.endswith("-0") else few)
    ]
    metafunc.parametrize(("device", name), pairs, indirect=["device"])


@functools.cache
def devices_of(folder):
    """The devices of the tests in a folder, the CPU first."""
    above = folder.relative_to(Path(__file__).parent).parts[:1]
    return ["cpu", "loops", "standin"] if above in [("nn",), ("models",)] else ["cpu", "standin"]


@functools.cache
def names_a_gpu(path):
    return '"gpu"' in path.read_text(encoding="utf-8")


@pytest.fixture
def device(request):
    """The device's name in tinytensor: "cpu" or "gpu"."""
    if request.param == "loops":
        request.getfixturevalue("loops")
    return "gpu" if request.param in ("standin", "gpu") else "cpu"


@pytest.fixture
def loops():
    """The compiled loops, switched on."""
    import tinytensor as tt

    if not tt.compile_loops():
        pytest.skip("Numba is not installed, or tinytensor/fast is left out")
    return room("fast.numpy").loops


@pytest.fixture
def graphviz_here():
    """Skip a test without Graphviz if a process that it starts draws. Tests that draw in this process: see below."""
    if no_graphviz_here():
        skip_for_graphviz()


@pytest.fixture
def pdf_here():
    """Skip a test without an engine that writes PDF."""
    if no_pdf_here():
        skip_for_graphviz()


@pytest.fixture
def no_graphviz(monkeypatch):
    """Hide all engines that lay out pictures."""
    from tinytensor.graph import svg

    monkeypatch.setattr(svg, "find_program", lambda name: None)
    monkeypatch.setitem(sys.modules, "pygraphviz", None)


@pytest.fixture(autouse=True)
def skip_layouts_without_graphviz(request, monkeypatch):
    """Without Graphviz, skip a test as soon as it draws, except tests of the error."""
    if no_graphviz_here() and "no_graphviz" not in request.fixturenames:
        from tinytensor.graph import svg

        monkeypatch.setattr(svg, "find_program", skip_for_graphviz)


@pytest.fixture(autouse=True)
def every_picture_is_checked(monkeypatch):
    """Whatever a test draws of a recording is read back and run, with the options that the test draws it with."""
    graph = sys.modules.get("tinytensor.graph.graph")
    if graph is None:
        return
    draw = graph.Graph.picture

    @functools.wraps(draw)
    def picture(self, **options):
        drawn = draw(self, **options)
        if self._failed is None and all(node.traced for node in self._nodes):
            self.check(**options)
        return drawn

    monkeypatch.setattr(graph.Graph, "picture", picture)


@pytest.fixture
def no_pool(monkeypatch):
    """Memory is counted by what is fetched and freed, so none may be kept for the next array."""
    if pool := room("fast.pool"):
        monkeypatch.setattr(pool, "MOST", 0)


@pytest.fixture(autouse=True)
def no_loops_left(monkeypatch):
    """A script that a test calls switches the loops on; not for the next test. Nor are they used unasked."""
    if numpy := room("fast.numpy"):
        monkeypatch.setattr(numpy, "loops", None)
        monkeypatch.setattr(numpy, "loops_unasked", lambda: None)
