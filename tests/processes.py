"""Scripts as processes of their own that need not begin from nothing.

A short run spends most of its time on imports. So what the scripts import is imported once, in a process in which
nothing else happens, and `run` forks that for each script. The child is what `python script.py` would be: it has its
own folder, arguments, files, signals and exit code, and ends as Python ends.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = (
    "graphviz", "pygraphviz", "safetensors.numpy", "sacrebleu", "scipy.special",
    "sentencepiece", "threadpoolctl", "tqdm",
)  # fmt: skip
FAST = ("tinytensor.fast.loops", "tinytensor.fast.sublayers")
SERVER = """
import runpy, sys
from tests.processes import serve
serve()
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(command, *, cwd, env, input=None, text=False, timeout=120):
    """`subprocess.run` with captured output, of a command that begins with this Python and options of its."""
    if not sys.platform.startswith("linux"):
        return subprocess.run(command, cwd=cwd, env=env, input=input, capture_output=True, text=text, timeout=timeout)
    command = list(map(str, command))
    script = next(i for i, word in enumerate(command) if word.endswith(".py"))
    variables = {name: value for name, value in env.items() if name != "PYTEST_CURRENT_TEST"}
    server = _server(tuple(command[:script]), tuple(sorted(variables.items())))
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write((input.encode() if isinstance(input, str) else input) or b"")
        given.seek(0)
        request = json.dumps({"argv": command[script:], "cwd": str(cwd)}).encode()
        socket.send_fds(server, [request], [given.fileno(), out.fileno(), err.fileno()])
        child = int(server.recv(100))
        server.settimeout(timeout)
        try:
            code = int(server.recv(100))
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            server.settimeout(None)
            server.recv(100)  # that it has ended
            raise subprocess.TimeoutExpired(command, timeout) from None
        server.settimeout(None)
        out.seek(0)
        err.seek(0)
        told = [file.read() for file in (out, err)]
    return subprocess.CompletedProcess(command, code, *([each.decode() for each in told] if text else told))


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
    """Fork for each request, until the other end of the socket is closed; returns in the child, as what was asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    client = socket.socket(fileno=int(sys.argv[1]))
    _import_all()
    while True:
        request, files, _, _ = socket.recv_fds(client, 1 << 20, 3)
        if not request:
            sys.exit()
        child = os.fork()
        if child == 0:
            break
        for file in files:
            os.close(file)
        client.send(str(child).encode())
        client.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    client.close()
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = json.loads(request)
    os.chdir(asked["cwd"])
    sys.argv = asked["argv"]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)


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
