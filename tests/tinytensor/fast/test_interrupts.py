"""Ctrl-C at random instants: a session that catches it goes on, and computes what the textbook computes.

For these alone: `pytest -m slow tests/tinytensor/fast/test_interrupts.py`.
"""

import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

INSTANTS = 100
COMPILING = 12  # of these have no loops on disk: each takes some ten times as long
LLVMLITE = (
    "Exception ignored on calling ctypes callback function: <function ExecutionEngine._raw_object_cache",
    "Exception ignored in: <function ObjectRef.__del__",
)
"""Messages of llvmlite, which goes on all the same. Where it calls Python from C++, and in a `__del__`, nothing can be
raised: a signal of that millisecond has to be sent again. An object that was half made lacks an attribute at its end.
"""

TOGETHER = 2  # processes

COMMON = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background has not
import numpy as np
import tinytensor as tt
from tinytensor import nn

x = tt.asarray(np.random.default_rng(0).standard_normal((32, 16, 64)).astype("f4"))

def made():
    tt.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    return model, nn.optim.Adam(model.parameters())

def step(model, optimizer):
    optimizer.zero_grad()
    loss = (model(x) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss.item()
"""

FIRST = """
def interrupt():
    time.sleep(float(sys.argv[1]))
    os.kill(os.getpid(), signal.SIGINT)

heard, sender = False, threading.Thread(target=interrupt)
end = time.monotonic() + float(sys.argv[1]) + 2
try:
    sender.start()
    tt.speed_up()
    pair = made()
    while time.monotonic() < end:
        step(*pair)
except KeyboardInterrupt:
    heard = True
tt.speed_up()  # which may not have come to its end
pair = made()
found = [step(*pair) for _ in range(3)]
with tt.textbook():
    pair = made()
    expected = [step(*pair) for _ in range(3)]
np.testing.assert_allclose(found, expected, rtol=1e-3)
assert tt.is_grad_enabled()
print("right" if heard else "right, not heard")
"""

UNTIL_THE_THIRD_STEP = """
begun = time.monotonic()
tt.speed_up()
pair = made()
for _ in range(3):
    step(*pair)
print(time.monotonic() - begun)
"""

LATER = """
COUNT = 400
tt.speed_up()
pair = made()
for _ in range(3):
    step(*pair)
heard, ready = 0, threading.Semaphore(0)

def interrupt():
    rng = np.random.default_rng(1)
    for _ in range(COUNT):
        if not ready.acquire(timeout=30):  # the one before was lost
            os._exit(3)
        time.sleep(rng.uniform(0.002, 0.02))
        os.kill(os.getpid(), signal.SIGINT)

sender = threading.Thread(target=interrupt)
sender.start()
while heard < COUNT:
    try:
        ready.release()  # the next one is sent only now: of two at a time, one would be heard
        while True:
            step(*pair)
    except KeyboardInterrupt:
        heard += 1
sender.join()
step(*pair)
assert tt.is_grad_enabled()
assert all(np.isfinite(p.detach().numpy()).all() for p in pair[0].parameters())
print("right")
"""


def session(program, *arguments, cache=None):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"} | ({"NUMBA_CACHE_DIR": str(cache)} if cache else {})
    command = [sys.executable, "-c", COMMON + program, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def seconds(cache=None):
    done = session(UNTIL_THE_THIRD_STEP, cache=cache)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def in_order(done):
    told = (done.returncode, done.stdout.strip())
    heard = told == (0, "right") and not done.stderr
    return heard or (told in ((0, "right"), (0, "right, not heard")) and is_of_llvmlite(done))


def is_of_llvmlite(done):
    return done.stderr.startswith(LLVMLITE) and done.stderr.count("Exception ignored") == 1


@pytest.mark.again
@pytest.mark.slow
def test_ctrl_c_in_the_first_steps_leaves_a_process_that_computes(tmp_path):
    begun, rng = time.monotonic(), random.Random(7)
    shares = [rng.uniform(0, 1.1) for _ in range(INSTANTS)]
    compiling = seconds(tmp_path / "measured")
    seconds()  # afterwards the usual loops are on disk, too
    usual = seconds()

    def one(i):
        cache = tmp_path / str(i) if i < COMPILING else None
        at = shares[i] * (compiling if cache else usual)
        return at, cache, session(FIRST, at, cache=cache)

    with ThreadPoolExecutor(TOGETHER) as pool:
        ends = list(pool.map(one, range(INSTANTS)))
    print(f"{INSTANTS} instants, {COMPILING} of them in {compiling:.1f} s, the others in {usual:.1f} s; "
          f"{time.monotonic() - begun:.0f} s in all")  # fmt: skip
    assert sum(is_of_llvmlite(done) for *_, done in ends) <= INSTANTS // 20
    wrong = [
        f"{at:.3f} s, {'compiling' if cache else 'usual'}: {done.stdout}{done.stderr[-1500:]}"
        for at, cache, done in ends
        if not in_order(done)
    ]
    assert not wrong, f"{len(wrong)} of {INSTANTS} sessions:\n" + "\n".join(wrong)


@pytest.mark.slow
def test_every_ctrl_c_in_later_steps_is_heard():
    """Python cannot raise it in a `__del__`: it prints "Exception ignored in", and the signal is lost."""
    done = session(LATER)
    assert in_order(done), f"{done.returncode} {done.stdout}{done.stderr[-3000:]}"
