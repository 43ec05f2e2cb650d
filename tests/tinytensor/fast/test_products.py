"""Products of any matrices inside compiled loops, and the linear maps made of them."""

import subprocess
import sys

import numpy as np
import pytest

from tests.marks import slow_after

pytest.importorskip("numba")
from tinytensor.fast import linear, threads
from tinytensor.fast.products import multiply_arrays

SHAPES = [
    (1, 1, 1), (5, 3, 2), (20, 20, 16), (13, 33, 17), (20, 150, 20), (70, 301, 40), (300, 65, 530),
    (530, 70, 257), (64, 100, 1100),
]  # fmt: skip


def normal(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize(("rows", "columns", "inner"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
def test_they_are_products_and_write_nothing_else(rows, columns, inner, dtype, turn_a, turn_b):
    a, b = normal(rows, inner, dtype=dtype), normal(inner, columns, seed=1, dtype=dtype)
    lying_a, lying_b = (np.ascontiguousarray(x.T) if turn else x for x, turn in ((a, turn_a), (b, turn_b)))
    whole = normal(rows, columns + 5, seed=2, dtype=dtype)  # rows of the result lie apart
    before = whole.copy()
    tolerance = 2e-4 if dtype == np.float32 else 1e-11
    for keep in (False, True):
        kept = whole[:, :columns].copy() if keep else 0
        multiply_arrays(lying_a, turn_a, lying_b, turn_b, whole[:, :columns], keep)
        np.testing.assert_allclose(whole[:, :columns], a @ b + kept, rtol=0, atol=tolerance)
    assert (whole[:, columns:] == before[:, columns:]).all()


AT_THE_END = """
import ctypes, mmap, sys
import numpy as np
from tinytensor.fast.products import multiply_arrays

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)

def at_the_end(x):
    pages = -(-x.nbytes // PAGE)
    memory = mmap.mmap(-1, (pages + 1) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert libc.mprotect(ctypes.c_void_p(start + pages * PAGE), PAGE, 0) == 0  # whoever reads there is ended
    copy = np.frombuffer(memory, x.dtype, x.size, pages * PAGE - x.nbytes).reshape(x.shape)
    copy[...] = x
    return copy

rows, columns, inner = map(int, sys.argv[1:])
for dtype in (np.float32, np.float64):
    for turn_a in (False, True):
        for turn_b in (False, True):
            a = np.ones((inner, rows) if turn_a else (rows, inner))
            b = np.ones((columns, inner) if turn_b else (inner, columns))
            out = at_the_end(np.zeros((rows, columns), dtype))
            multiply_arrays(at_the_end(a.astype(dtype)), turn_a, at_the_end(b.astype(dtype)), turn_b, out)
            assert (out == inner).all()
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a page is made unreadable as Linux does it")
@pytest.mark.parametrize(
    ("rows", "columns", "inner"), slow_after(2, [(5, 3, 2), (13, 33, 17), (70, 301, 40), (60, 70, 257)])
)
def test_they_read_nothing_behind_their_matrices(rows, columns, inner):
    command = [sys.executable, "-c", AT_THE_END, str(rows), str(columns), str(inner)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_long_sums_stay_accurate():
    ones, tenths = np.ones((2, 2_000_000), np.float32), np.full((2_000_000, 2), 0.1, np.float32)
    out = np.empty((2, 2), np.float32)
    multiply_arrays(ones, False, tenths, False, out)
    np.testing.assert_allclose(out, 2e5, rtol=1e-4)


@pytest.mark.parametrize(("count", "columns", "features"), [(300, 70, 90), (90, 300, 170), (17, 33, 1000)])
@pytest.mark.parametrize("biased", [False, True])
def test_linear_maps_and_their_gradients_have_the_same_bits_on_any_number_of_threads(
    count, columns, features, biased, monkeypatch
):
    monkeypatch.setattr(linear, "SHARE", 1000)  # so that there is enough to do for many
    x, weight, bias, g = normal(count, columns), normal(features, columns), normal(features), normal(count, features)
    found = []
    for number in (1, 2, 3):
        monkeypatch.setattr(threads, "_chosen", number)
        out, *gradients = (np.full_like(a, np.nan) for a in (g, x, weight, bias))
        linear.apply(x, weight, bias if biased else None, out)
        linear.differentiate(g, x, weight, *gradients[:2], gradients[2] if biased else None)
        found.append([a.tobytes() for a in (out, *gradients)])
        wanted = x @ weight.T + (bias if biased else 0), g @ weight, g.T @ x
        for a, b in zip((out, *gradients), wanted):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)
        if biased:
            np.testing.assert_allclose(gradients[2], g.sum(axis=0), rtol=0, atol=1e-11)
    assert found[0] == found[1] == found[2]
