"""Products by cuBLAS, called past CuPy: on a GPU the library itself, else one of that interface for the CPU."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

import tinytensor as tt


@pytest.fixture
def cublas():
    from tinytensor.backend import for_device

    for_device("gpu")
    from tinytensor.fast.cupy import cublas as found

    if found.library() is None:
        pytest.skip("no C++ compiler")
    return found


def array(values):
    return tt.asarray(values, device="gpu")._data


def numbers(shape, dtype):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


SHAPES = [
    ((2, 3), (3, 4)), ((1, 3), (3, 1)), ((1, 1), (1, 1)), ((5, 1), (1, 4)), ((1, 7), (7, 4)), ((40, 33), (33, 17)),
    ((2, 5, 3), (2, 3, 4)), ((2, 3, 5, 4), (2, 3, 4, 6)), ((5, 3), (2, 3, 4)), ((2, 5, 3), (3, 4)),
    ((2, 1, 5, 3), (4, 3, 2)), ((1, 5, 3), (6, 3, 4)),
]  # fmt: skip
LAYOUTS = {  # arrays on the GPU that hold the same numbers
    "plain": array,
    "turned": lambda x: turned(array(turned(x).copy())),
    "wide rows": lambda x: array(np.concatenate([x, x + 1], axis=-1))[..., : x.shape[-1]],
    "every second": lambda x: array(np.repeat(x, 2, axis=-1))[..., ::2],
    "some rows, turned": lambda x: turned(array(turned(np.concatenate([x, x + 1], axis=-2)).copy()))[
        ..., : x.shape[-2], :
    ],
    "backwards": lambda x: array(x[..., ::-1, :].copy())[..., ::-1, :],
}


def turned(x):
    return x.swapaxes(-1, -2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shapes", SHAPES)
def test_it_is_the_product(cublas, shapes, dtype):
    a, b = (numbers(shape, dtype) for shape in shapes)
    for first, second in itertools.product(LAYOUTS.values(), repeat=2):
        x, y = first(a), second(b)
        np.testing.assert_array_equal(x.get(), a)
        assert cublas.fits(x, y)
        found = cublas.matmul(x, y)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.get(), a @ b, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-5)


@pytest.fixture
def precision():
    yield tt.set_float32_matmul_precision
    tt.set_float32_matmul_precision("highest")


@pytest.mark.filterwarnings("ignore:set_float32_matmul_precision. products on the CPU")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_single_matrices_in_float32_are_rounded_to_tf32_when_asked(cublas, precision, batch, dtype):
    a, b = (np.full((*batch, *size), 1 + 2**-12, dtype) for size in ((128, 64), (64, 96)))  # TF32 has 10 bits behind 1
    ways = [
        lambda: cublas.matmul(array(a), array(b)).get(),
        lambda: tt.matmul(tt.asarray(a, device="gpu"), tt.asarray(b, device="gpu")).numpy(),
    ]
    for multiply in ways:
        exact = multiply()
        for asked in ("high", "medium"):
            precision(asked)
            found = multiply()
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, 64 if dtype == np.float32 and not batch else exact)
        precision("highest")
        np.testing.assert_array_equal(multiply(), exact)
    assert dtype == np.float16 or (exact != 64).all()


ASKED_FIRST = """
import tinytensor as tt
tt.set_float32_matmul_precision("high")
"""
ROUNDED = """
import tinytensor as tt
a = tt.full((128, 128), 1 + 2**-12, device="gpu")
assert (a @ a == 128).all()
from tinytensor.fast import cublas
assert (cublas.matmul(a._data, a._data).get() == 128).all()
"""


@pytest.mark.parametrize(("asked", "variable"), [(ASKED_FIRST, {}), ("", {"CUPY_TF32": "1"})])
def test_a_precision_asked_for_before_the_gpu_is_loaded(cublas, asked, variable):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | variable
    subprocess.run([sys.executable, "-c", asked + ROUNDED], env=environment, check=True, timeout=120)


@pytest.mark.parametrize("shapes", [((4, 3), (3, 5)), ((2, 4, 3), (2, 3, 5))])
def test_it_is_written_where_it_is_asked_for(cublas, shapes):
    a, b = (numbers(shape, np.float32) for shape in shapes)
    expected = a @ b
    out = array(np.zeros_like(expected))
    assert cublas.matmul(array(a), array(b), out) is out
    np.testing.assert_allclose(out.get(), expected, rtol=1e-5)
    wide = array(np.zeros((*expected.shape[:-1], 9), np.float32))
    assert cublas.matmul(array(a), array(b), wide[..., 2:7]).shape == expected.shape
    np.testing.assert_allclose(wide.get()[..., 2:7], expected, rtol=1e-5)
    assert not wide.get()[..., [0, 1, 7, 8]].any()


def test_what_it_does_not_take(cublas):
    x = array(np.ones((2, 2), np.float32))
    for a, b in ((x[0], x), (x, x[0]), (x, x.astype(np.float64)), (x.astype(np.int64),) * 2, (x[:0], x), (x, x[:, :0])):
        assert not cublas.fits(a, b)
