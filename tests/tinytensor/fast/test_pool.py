"""The pool that large results are written into: whose memory is whose, how much lies idle, that no number changes."""

import gc
import io
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tinytensor as tt
from tests.engine_room import room
from tinytensor.nn import functional as F

pool = room("fast.pool")
pytestmark = pytest.mark.skipif(pool is None, reason="tinytensor/fast is left out")

SHAPE = (300, 400)


@pytest.fixture(autouse=True)
def own_pool(monkeypatch):
    """A pool with nothing idle, of 64 MiB at most."""
    if pool is None:
        return
    gc.collect()
    pool.settle()
    monkeypatch.setattr(pool, "_idle", {})
    monkeypatch.setattr(pool, "_held", 0)
    monkeypatch.setattr(pool, "MOST", 64 << 20)


def address(x):
    return x.__array_interface__["data"][0]


def idle():
    pool.settle()
    return sum(memory.size for found in pool._idle.values() for memory in found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_])
def test_what_it_lends_is_an_array_like_any_other(dtype):
    x = pool.empty((500, 1000), dtype)
    assert type(x) is np.ndarray
    assert x.shape == (500, 1000)
    assert x.dtype == dtype
    assert x.flags.carray
    assert address(x) % 64 == 0
    assert pool.empty_like(x).shape == x.shape
    assert pool.empty(500_000, dtype).shape == (500_000,)


def test_memory_serves_the_next_array_when_the_last_view_is_gone():
    x = pool.empty(SHAPE, np.float32)
    where = address(x)
    row = x.T[3:]
    del x
    assert idle() == 0
    assert address(pool.empty(SHAPE, np.float32)) != where
    del row
    assert address(pool.empty(SHAPE, np.float32)) == where


def test_who_takes_hold_of_the_base_gives_nothing_back():
    x = pool.empty(SHAPE, np.float32)
    part, copied = x.base[8:], x.base.copy()
    del part, copied
    assert idle() == 0
    part = x.base[8:]
    del x
    assert idle() == 0
    del part
    assert idle() > 0


def test_alike_sizes_share_memory_and_waste_an_eighth_at_most():
    x = pool.empty(100_000, np.int8)
    where = address(x)
    del x
    assert address(pool.empty(99_000, np.int8)) == where
    for size in np.random.default_rng(0).integers(pool.LEAST, 1 << 24, 200).tolist():
        x = pool.empty(size, np.int8)
        assert size <= x.base.base.size <= size * 9 / 8


def test_small_arrays_and_what_may_never_lie_idle_are_not_lent():
    assert pool.empty(pool.LEAST - 1, np.int8).base is None
    assert pool.empty(pool.MOST + 1, np.int8).base is None
    assert pool.empty_like(np.empty(SHAPE).T).base is None


def test_its_memory_is_bounded_and_counted():
    pool.settle()
    elsewhere = pool._held - idle()  # results of other tests that modules keep
    for size in (5 << 20, 3 << 20, 7 << 20):
        kept = [pool.empty(size, np.int8) for _ in range(30)]
        lent = [x.base.base.size for x in kept if x.base is not None]
        assert idle() + elsewhere + sum(lent) == pool._held <= pool.MOST
        assert elsewhere + sum(lent) > pool.MOST - 2 * size  # and the rest are NumPy's own
        assert sum(x.base is None for x in kept) == 30 - (pool.MOST - elsewhere) // lent[0]
        del kept
        assert idle() + elsewhere == pool._held > 0


def test_a_lease_ends_without_a_line_of_python():
    """Else a Ctrl-C that comes then is printed and lost: an error in `__del__` reaches nobody."""
    x, called, before = pool.empty(SHAPE, np.float32), [], sys.gettrace()
    sys.settrace(lambda frame, event, value: called.append(frame.f_code.co_name))
    try:
        del x
    finally:
        sys.settrace(before)
    assert called == []
    assert len(pool._returned) == 1


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="nothing tells how much memory there is")
@pytest.mark.parametrize(("text", "most"), [("8000000\n", 1_000_000), ("max\n", None), (None, None)])
def test_a_container_has_less_memory_than_its_machine(text, most, monkeypatch):
    def limit(path, **options):
        if text is None:
            raise FileNotFoundError(path)
        return io.StringIO(text)

    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8
    monkeypatch.setattr(pool, "open", limit, raising=False)
    assert pool._most() == (most or machine)


def test_where_memory_runs_out_idle_memory_is_given_back_first(monkeypatch):
    pool.empty(1 << 20, np.uint8)
    assert idle()
    fetched, empty = [], np.empty

    def scarce(*arguments):
        fetched.append(arguments)
        if pool._idle:
            raise MemoryError
        return empty(*arguments)

    monkeypatch.setattr(pool.np, "empty", scarce)
    assert pool.empty(3 << 20, np.uint8).size == 3 << 20
    assert len(fetched) == 2


def test_threads_never_share_memory():
    wrong = []

    def work(number):
        for i in range(300):
            arrays = [pool.empty(SHAPE, np.float32) for _ in range(3)]
            for j, x in enumerate(arrays):
                x[...] = 1000 * number + j
            wrong.extend((number, i, j) for j, x in enumerate(arrays) if not (x == 1000 * number + j).all())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_a_graph_keeps_is_not_written_over():
    x = tt.random.randn(*SHAPE).requires_grad_()
    y = F.relu(x * 2.0)
    expected = np.where(x.numpy() > 0, 2.0, 0.0)
    for _ in range(20):
        F.relu(tt.random.randn(*SHAPE) + 1.0)
    tt.sum(y).backward()
    np.testing.assert_array_equal(x.grad.numpy(), expected.astype(np.float32))
    kept = x.grad.numpy().copy()
    for _ in range(20):
        F.relu(tt.random.randn(*SHAPE) + 1.0)
    np.testing.assert_array_equal(x.grad.numpy(), kept)


def test_a_recorded_change_in_place_takes_it_for_no_view():
    x = tt.random.randn(*SHAPE).requires_grad_()
    y = x + x
    y += 1.0
    y[0] = 0.0
    tt.sum(y * y).backward()
    expected = 4 * (2 * x.numpy() + 1)
    expected[0] = 0
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)


TRAIN = """
import hashlib, resource, sys
import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F
tt.set_num_threads({threads})
tt.manual_seed(0)
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 256, 0.1, batch_first=True), 2)
out = nn.Linear(64, 100)
optimizer = nn.optim.Adam([*model.parameters(), *out.parameters()], lr=1e-3)
def step(length):
    optimizer.zero_grad()
    x = tt.random.randn({batch}, length, 64)
    loss = F.cross_entropy(out(model(x)).reshape(-1, 100), tt.zeros({batch} * length, dtype=tt.int64))
    loss.backward()
    optimizer.step()
for i in range(6):
    step(20 + i)
before, peak = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for i in range({steps}):
    step(20 + i % 6)
now = resource.getrusage(resource.RUSAGE_SELF)
bits = hashlib.sha256(b"".join(p.numpy().tobytes() for p in model.parameters())).hexdigest()
print(bits, (now.ru_minflt - before) // {steps}, now.ru_maxrss - peak)
"""


def trained(setting, threads=1, steps=12, batch=32, **more):
    environment = os.environ | {"TINYTENSOR_POOL": setting, "OPENBLAS_NUM_THREADS": "1"} | more
    program = TRAIN.format(threads=threads, steps=steps, batch=batch)
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stderr == ""  # also when the process ends with arrays on loan
    bits, faults, growth = result.stdout.split()
    return bits, int(faults), int(growth)


@pytest.mark.slow
def test_training_has_the_same_bits_with_it_and_without_and_fetches_less_memory():
    off, without, _ = trained("0")
    on, faults, _ = trained("1")
    assert on == off
    assert faults < max(without / 2, 50)


@pytest.mark.slow
def test_the_process_that_compiles_the_loops_has_the_bits_of_those_that_find_them(tmp_path):
    first, second = (trained("1", NUMBA_CACHE_DIR=str(tmp_path))[0] for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_the_same_bits_with_threads():
    assert trained("1", 2)[0] == trained("0", 2)[0]


@pytest.mark.again
@pytest.mark.slow
def test_it_does_not_grow():
    """10,000 steps of six lengths: what the first of each fetched is enough."""
    growth = trained("1", steps=10_000, batch=8)[2]
    assert growth < 8 << 10  # KiB


def test_the_textbook_does_without():
    with tt.textbook():
        assert (tt.random.randn(*SHAPE) + 1.0)._data.base is None
