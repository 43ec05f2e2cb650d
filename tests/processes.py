"""Scripts as processes of their own that need not begin from nothing.

A short run spends most of its time on imports. So what the scripts import is imported once, in a process in which
nothing else happens, and `start` forks that for each script. The child is what `python script.py` would be: it has its
own folder, arguments, files, signals and exit code, and ends as Python ends, but for what it does not take apart.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = (
    "graphviz", "pygraphviz", "safetensors.numpy", "sacrebleu", "scipy.special",
    "sentencepiece", "threadpoolctl", "tqdm",
)  # fmt: skip
PROGRAMS = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
FAST = ("tinytensor.fast.loops", "tinytensor.fast.sublayers")
SERVER = """
from tests.processes import leave, serve
try:
    exec(serve())
except SystemExit as end:
    leave(end)
leave(SystemExit())
"""
SCRIPT = """
import runpy, sys
runpy.run_path(sys.argv[0], run_name="__main__")
"""
HERE = """
import os, sys
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
"""


def environment(*places):
    """Variables with which scripts import what is here, and modules from other places."""
    path = os.pathsep.join(map(str, [ROOT, *places]))
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **one_thread, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}


def run(command, *, input=None, text=False, timeout=120, **options):
    """`subprocess.run` with captured output, of what `start` takes. Without Graphviz, a test that draws is skipped."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write((input.encode() if isinstance(input, str) else input) or b"")
        given.seek(0)
        process = start(command, stdin=given, stdout=out, stderr=err, **options)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        told = [file.read() for file in (out, err)]
    if re.search(rb"drawing( a PDF)? needs `pip", b"".join(told)) and (no_graphviz_here() or no_pdf_here()):
        skip_for_graphviz()
    return subprocess.CompletedProcess(command, code, *([each.decode() for each in told] if text else told))


@functools.cache
def no_graphviz_here():
    return no_pdf_here() and shutil.which("graphviz-pure", path=PROGRAMS) is None


@functools.cache
def no_pdf_here():
    try:
        import pygraphviz  # noqa: F401
    except ImportError:
        return shutil.which("dot", path=PROGRAMS) is None
    return False


def skip_for_graphviz(*_, **__):
    import pytest  # here, since scripts start in a process that imported this file

    pytest.skip("Graphviz is not installed: pip install -e '.[viz,pdf]'")


def start(command, *, cwd, env=None, prelude="", **options):
    """`subprocess.Popen` of a command that begins with this Python and options of its, then names a script.

    Without `env` it has that of `environment()`. `prelude` is Python that goes before the script, as no user would
    have it.
    """
    env = env or environment()
    command = list(map(str, command))
    script = next(i for i, word in enumerate(command) if word.endswith(".py"))
    if not sys.platform.startswith("linux"):
        if prelude:
            command[script:script] = ["-c", HERE + prelude + SCRIPT]
        return subprocess.Popen(command, cwd=cwd, env=env, **options)
    variables = {name: value for name, value in env.items() if name != "PYTEST_CURRENT_TEST"}
    server = _server(tuple(command[:script]), tuple(sorted(variables.items())))
    return Process(server, command[script:], str(cwd), prelude, **options)


class Process:
    """A script that runs, with what tests use of `subprocess.Popen`."""

    def __init__(
        self, server, argv, cwd, prelude, stdin=None, stdout=None, stderr=None, text=False, start_new_session=False
    ):
        theirs, ours = zip(_end(stdin, "w", text), _end(stdout, "r", text), _end(stderr, "r", text), strict=True)
        self.stdin, self.stdout, self.stderr = ours
        self.returncode = None
        self._told, report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"argv": argv, "cwd": cwd, "code": prelude + SCRIPT, "session": start_new_session}
        socket.send_fds(server, [json.dumps(request).encode()], [*theirs, report.fileno()])
        for file in (*theirs, report.detach()):
            os.close(file)
        self.pid = int(self._told.recv(100))

    def wait(self, timeout=None):
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = int(self._told.recv(100))
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired("the script", timeout) from None
            self._told.close()
        return self.returncode

    def poll(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        """Its output and its errors, where they go into pipes, as soon as it has ended."""
        with ThreadPoolExecutor(2) as pool:
            told = [file and pool.submit(file.read) for file in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            told = [each and each.result() for each in told]
        for file in filter(None, (self.stdin, self.stdout, self.stderr)):
            file.close()
        return tuple(told)


def _end(file, mode, text):
    """The descriptor that a process gets for this argument of `Popen`, and our end of it."""
    if file == subprocess.PIPE:
        read, write = os.pipe()
        theirs, ours = (write, read) if mode == "r" else (read, write)
        return theirs, open(ours, mode if text else mode + "b", encoding="utf-8" if text else None)
    if file is None or file == subprocess.DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    return os.dup(file if isinstance(file, int) else file.fileno()), None


@functools.cache
def _server(python, variables):
    """The socket of the process that is forked, started when it is first needed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [*python, "-c", SERVER, str(theirs.fileno())], cwd=ROOT, env=dict(variables), pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    theirs.close()

    @atexit.register
    def end():
        ours.close()
        process.wait()

    return ours


def serve():
    """Fork for each request, until the other end of the socket is closed; what the child then executes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing remains of a process between
    client = socket.socket(fileno=int(sys.argv[1]))
    _import_all()
    while True:
        request, files, _, _ = socket.recv_fds(client, 1 << 20, 4)
        if not request:
            sys.exit()
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
    client.close()
    asked, report = json.loads(request), socket.socket(fileno=files.pop())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if child := os.fork():  # this process between waits for it, so that others may begin meanwhile
        report.send(str(child).encode())
        for file in files:
            os.close(file)
        report.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
        os._exit(0)
    report.close()
    for place, (name, file) in enumerate(zip(("stdin", "stdout", "stderr"), files, strict=True)):
        os.dup2(file, place)
        os.close(file)
        _reopen(name, place)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked["session"]:
        os.setsid()
    os.chdir(asked["cwd"])
    sys.argv = asked["argv"]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    return asked["code"]


def leave(end):
    """End as `sys.exit` would, but leave modules as they are: to take them apart takes most of a short run's time."""
    code = 0 if end.code is None else end.code
    if isinstance(code, int):
        threading._shutdown()
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):  # no such stream, or nobody reads it: Python has a code for that
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code & 0xFF)
    raise end


def _reopen(name, place):
    """As Python opens it, which looks at what is behind it: a terminal, a file, a pipe."""
    former = getattr(sys, name)
    by_line = name == "stderr" or (name == "stdout" and os.isatty(place))
    mode = "r" if name == "stdin" else "w"
    as_before = {"encoding": former.encoding, "errors": former.errors, "closefd": False}
    stream = open(place, mode, 1 if by_line else -1, **as_before)  # noqa: SIM115  (open as long as the process is)
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def modules_of_the_library():
    """The names of all modules but those of the room of PyTorch's names, which gives Tensors more names for good."""
    import tinytensor

    for top in pkgutil.iter_modules(tinytensor.__path__, "tinytensor."):
        if top.name != "tinytensor.torch":
            yield top.name
            if top.ispkg:
                inside = importlib.import_module(top.name).__path__
                yield from (module.name for module in pkgutil.walk_packages(inside, f"{top.name}."))


def _import_all():
    import tinytensor.models

    inside = pkgutil.walk_packages(tinytensor.models.__path__, "tinytensor.models.", onerror=lambda name: None)
    fast = FAST if "tinytensor.fast" in sys.modules else ()
    for name in (*(module.name for module in inside), *EXTRAS, *fast):
        if not name.endswith("__main__"):
            with contextlib.suppress(Exception):  # what is not installed
                importlib.import_module(name)
    if "numba" in sys.modules:
        sys.modules["numba"].njit(lambda: 0)()  # by which it comes to know its types
    gc.collect()
    gc.freeze()
