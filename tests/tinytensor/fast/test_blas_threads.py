"""`tt.use_blas_threads`: for a task alone, BLAS has the cores that are idle; it has one while work is split."""

import os
import subprocess
import sys

import pytest

from tinytensor import cores
from tinytensor.fast import threads as parallel

PROGRAM = """
from threadpoolctl import threadpool_info
import tinytensor as tt
from tinytensor import cores
from tinytensor.fast import workers
from tinytensor.fast.threads import AWAKE, GRAIN, concurrently, in_parts

def threads():
    return {info["num_threads"] for info in threadpool_info() if info["internal_api"] == "openblas"}.pop()

seen = []
def look(*_):
    seen.append(threads())
def told():
    found = sorted(set(seen))
    seen.clear()
    return found

free = 8
cores.IdleCores.begin = lambda self: free
print(tt.use_blas_threads(), threads())
concurrently([look])
print("alone", told(), threads())
concurrently([lambda: in_parts(lambda i: in_parts(look, 2, 2 * AWAKE), 2, 2 * AWAKE)])
print("split", told(), threads())
concurrently([look] * 2)
in_parts(look, 2, 2 * GRAIN)
print("together", told(), threads())
divided, run = [], workers.run
workers.run = lambda function, slices, others: divided.append(len(slices)) or run(function, slices, others)
concurrently([lambda: in_parts(look, 2, 2 * GRAIN)])
print("ours", divided, told())
def fails(*_):
    raise ValueError("no")
for task in (fails, lambda: in_parts(fails, 2, 2 * AWAKE)):
    try:
        concurrently([task])
    except ValueError:
        look()
print("failed", told())
free = 1
concurrently([look])
print("busy", told())
free = 2
concurrently([look])
print("idle again", told(), threads())
tt.set_num_threads(1)
concurrently([look])
print("one", told())
"""

SHARES = (
    PROGRAM[: PROGRAM.index("free = 8")]
    + """
cores.IdleCores.begin = lambda self: 8
from tinytensor.fast.threads import multiply_in_parts
tt.use_blas_threads()
concurrently([lambda: multiply_in_parts(look, 2)])
print("in shares", told())
for _ in range(2):
    concurrently([look])
    print("then", told())
concurrently([lambda: multiply_in_parts(look, 1)])
print("in one share", told())
"""
)

INTERRUPTED = """
import signal, threading, time
from tinytensor.fast import threads as parallel

def part(i):
    if threading.current_thread() is threading.main_thread():
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        time.sleep(0.1)  # so that the other thread has its part
    else:
        time.sleep(0.6)

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
try:
    parallel.in_parts(part, 2, 2 * parallel.AWAKE)
except KeyboardInterrupt:
    print("interrupted", parallel._splits)
"""

FORKED = """
import os
from tinytensor.fast import threads as parallel

child = None
def part(i):
    global child
    if i.start == 0:
        child = os.fork()
        if child == 0:
            os._exit(parallel._splits)

parallel.in_parts(part, 2, 2 * parallel.AWAKE)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), parallel._splits)
"""

BITS = """
import hashlib
import sys
import tinytensor as tt
from tinytensor import cores, nn
from tinytensor.models import Transformer

counts = [1, 2, 2, 1, 2] if sys.argv[1] == "changing" else [1]
cores.IdleCores.begin = lambda self: counts.append(counts.pop(0)) or counts[0]
tt.speed_up()
tt.manual_seed(0)
model = Transformer(29, d_model=64, num_heads=4, num_layers=1, dropout=0.1, max_length=13)
optimizer = nn.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(4):
    ids = tt.random.integers(3, 29, shape=(64, 13))
    optimizer.zero_grad()
    nn.parallel.backward_of_sum([lambda: tt.mean(model(ids, ids) ** 2)], model.parameters())
    optimizer.step()
print(hashlib.sha256(b"".join(x.numpy().tobytes() for x in model.state_dict().values())).hexdigest())
"""

TWO = {"OPENBLAS_NUM_THREADS": "1", "TINYTENSOR_NUM_THREADS": "2"}


def output(program, *arguments, **environment):
    names = (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "TINYTENSOR_NUM_THREADS",
        "TINYTENSOR_BLAS_THREADS",
        "TINYTENSOR_TEXTBOOK",
    )
    kept = {name: value for name, value in os.environ.items() if name not in names}
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=kept | environment, capture_output=True, text=True, check=True
    )
    return result.stdout.splitlines()


@pytest.fixture(scope="module", autouse=True)
def openblas():
    found = pytest.importorskip("threadpoolctl").threadpool_info()
    if not cores.can_tell():
        pytest.skip("how long the cores were idle cannot be measured here")
    if not any(info["internal_api"] == "openblas" for info in found):
        pytest.skip("NumPy's BLAS is another")
    if output("import tinytensor as tt; tt.speed_up(); print(tt.use_blas_threads())", **TWO) != ["True"]:
        pytest.skip("several threads of this BLAS round differently from one")


def test_on_all_threads_for_a_task_alone():
    rest = ["split [1] 1", "together [1] 1", "ours [] [2]", "failed [1]", "busy [1]", "idle again [2] 1", "one [1]"]
    assert output(PROGRAM, **TWO) == ["True 1", "alone [2] 1", *rest]


def test_a_task_that_goes_in_shares_leaves_the_next_of_its_kind_to_our_threads():
    assert output(SHARES, **TWO) == ["in shares [1]", "then [1]", "then [2]", "in one share [1]"]


def test_not_where_it_is_switched_off():
    rest = ["split [1] 1", "together [1] 1", "ours [2] [1]", "failed [1]", "busy [1]", "idle again [1] 1", "one [1]"]
    assert output(PROGRAM, **TWO, TINYTENSOR_BLAS_THREADS="0") == ["False 1", "alone [1] 1", *rest]


def test_not_where_blas_has_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(parallel, "_blas_is_single", False)
    assert not parallel.lend_to_blas().in_force


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals and processes as Unix has them")
@pytest.mark.parametrize(("program", "told"), [(INTERRUPTED, "interrupted 0"), (FORKED, "0 0")])
def test_the_end_of_a_split_is_not_missed(program, told):
    assert output(program, **TWO) == [told]


def test_how_busy_the_machine_is_changes_no_bit_of_an_even_batch():
    one, changing = (output(BITS, which, **TWO, TINYTENSOR_COMPILE_LOOPS="0") for which in ("one", "changing"))
    assert one == changing
