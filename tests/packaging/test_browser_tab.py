"""In a tab of a browser (Pyodide): no threads, no processes, no ctypes, no compiled extras. All else works.

The platform is imitated, since Pyodide's NumPy comes from a place that tests do not ask.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TAB = """
import os, subprocess, sys, threading

import graphviz, numpy, safetensors.numpy, scipy.special  # Pyodide has builds of its own of these

sys.platform = "emscripten"
MISSING = {"_ctypes", "_multiprocessing", "ctypes", "cupy", "llvmlite", "multiprocessing", "numba", "pygraphviz",
           "threadpoolctl", "tqdm"}


class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *rest):
        return None if name.partition(".")[0] in MISSING else self.finder.find_spec(name, *rest)


def refuse(*_, **__):
    raise OSError(138, "emscripten does not support processes.")


def no_thread(*_, **__):
    raise RuntimeError("can't start new thread")


sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
for name in [name for name in sys.modules if name.partition(".")[0] in MISSING]:
    del sys.modules[name]
subprocess.Popen.__init__ = refuse
os.fork = os.posix_spawn = refuse
threading.Thread.start = no_thread
os.cpu_count = lambda: 1
os.__dict__.pop("sched_getaffinity", None)
"""

PROGRAM = """
import contextlib, io, warnings
from pathlib import Path

import tinytensor as tt
from tinytensor import nn
from tinytensor.graph import DrawingError, lay_out_with
from tinytensor.models import Transformer
from tinytensor.nn import visualize
from tinytensor.testing import report

print(str(tt.speed_up()).count("\\n") + 1, "lines of speed_up")

program = Path(FIRST).read_text(encoding="utf-8").replace("STEPS = 500", "STEPS = 30")
with contextlib.redirect_stdout(io.StringIO()) as said:
    exec(compile(program, "first_transformer.py", "exec"), scope := {})
assert scope["loss"].item() < 3.0, said.getvalue()
assert Path("runs/first-attention.svg").read_text(encoding="utf-8").startswith("<svg")
print("trained")

x = tt.tensor(tt.random.randn(3, 3), requires_grad=True)
with tt.record() as graph:
    loss = nn.functional.softmax(x @ x, dim=-1).max()
loss.backward()
for ending in ("dot", "mmd", "txt", "json"):
    graph.save(f"graph.{ending}")
try:
    graph.save("graph.svg")
except DrawingError as error:
    print(error)
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    assert set(graph._repr_mimebundle_()) == {'text/plain'} and len(warned) == 1
lay_out_with(lambda dot, kind: f'<svg width="1"><g><title>G</title></g></svg><!-- {kind} {len(dot) > 100} -->')
graph.save("graph.svg")
assert "<!-- svg True -->" in Path("graph.svg").read_text(encoding="utf-8")
lay_out_with(None)
print("drawn")

model = Transformer(10, d_model=8, num_heads=2, num_layers=1)
model.save_pretrained("model")
Transformer.from_pretrained("model")
nn.save({"model": model.state_dict(), "step": 3}, "last.safetensors")
assert nn.load("last.safetensors")["step"] == 3
print("saved and loaded")
print(report(tt.tanh).verdict)
"""


@pytest.mark.slow
def test_all_but_threads_processes_and_extras_works_in_a_tab_of_a_browser(tmp_path):
    code = f"{TAB}\nFIRST = {str(ROOT / 'examples' / 'first_transformer.py')!r}\nsys.path.insert(0, {str(ROOT)!r})\n"
    command, one_thread = [sys.executable, "-c", code + PROGRAM], os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(
        command, cwd=tmp_path, env=one_thread, capture_output=True, text=True, encoding="utf-8", timeout=300
    )
    assert result.returncode == 0, result.stderr[-2000:]
    speed, trained, refusal, drawn, saved, verdict = result.stdout.splitlines()
    assert (trained, drawn, saved) == ("trained", "drawn", "saved and loaded")
    assert speed.endswith(" lines of speed_up")
    assert "no programs" in refusal
    assert "lay_out_with" in refusal
    assert verdict.startswith("tanh: ")
    assert " 0 failed" in verdict
