"""Kernels for the GPU: NVIDIA's own compiler takes them, and compiled for the CPU they compute what they should.

The suites that run on the stand-in for CuPy go through them as well, on the CPU, with one thread in a block. Here
blocks have one thread, and as many as they have on a GPU.
"""

import ctypes
import functools
import importlib.util
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn

STANDIN = Path(__file__).parents[2] / "standin"
ON_GPU = importlib.util.find_spec("cuda_on_cpu") is None  # with --device gpu the stand-in is not found


@pytest.fixture(params=["whole blocks"] if ON_GPU else ["one thread", "whole blocks"])
def kernels(request, monkeypatch):
    """The module, over the stand-in where there is no CuPy."""
    from tinytensor.backend import for_device

    for_device("gpu")
    from tinytensor.fast.cupy import kernels as found

    if not found.available():
        pytest.skip("no C++ compiler")
    if emulation := sys.modules.get("cuda_on_cpu"):
        if request.param == "whole blocks" and sys.platform != "linux":
            pytest.skip("threads that take turns need Linux's <ucontext.h>")
        monkeypatch.setattr(emulation, "whole_blocks", request.param == "whole blocks")
        for cached in ("_kernel", "_module"):  # none compiled before
            monkeypatch.setattr(found, cached, functools.cache(getattr(found, cached).__wrapped__))
    return found


def nvrtc():
    """NVIDIA's run-time compiler from its wheel, or None."""
    found = importlib.util.find_spec("nvidia.cuda_nvrtc") if importlib.util.find_spec("nvidia") else None
    if found is None or found.submodule_search_locations is None:
        return None
    for folder in found.submodule_search_locations:
        for library in sorted(Path(folder).glob("lib/libnvrtc.so.*")):
            return ctypes.CDLL(str(library))
    return None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("architecture", ["compute_75", "compute_90"])
def test_nvrtc_compiles_them(kernels, dtype, architecture):
    compiler = nvrtc()
    if compiler is None:
        if os.environ.get("REQUIRE_NVRTC"):
            pytest.fail("pip install nvidia-cuda-nvrtc-cu12")
        pytest.skip("NVRTC is not installed; CI installs it")
    program = ctypes.c_void_p()
    source = kernels.code(dtype).encode()
    assert compiler.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None) == 0
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    result = compiler.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    compiler.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    compiler.nvrtcGetProgramLog(program, log)
    assert result == 0, log.value.decode()
    compiler.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    compiler.nvrtcGetPTX(program, ptx)
    of_each = dict(re.findall(r"\.entry (\w+)(.*?)^}", ptx.value.decode(), re.M | re.S))
    wide = {name for name, body in of_each.items() if ".f64" in body}
    in_float64 = {"sum_of_squares", "sums_of_some_rows", "sum_of_sums"}
    assert dtype == "float64" or wide == in_float64  # elsewhere a constant or function of doubles would be slow
    assert set(of_each) == set(re.findall(r"__global__ void (\w+)", kernels.SOURCE))


def test_every_kernel_has_its_function(kernels):
    for name in re.findall(r"__global__ void (\w+)", kernels.SOURCE):
        assert callable(getattr(kernels, "sum_of_rows" if name in ("sums_of_some_rows", "sum_of_sums") else name))


def array(values):
    return tt.asarray(values, device="gpu")._data


def test_bernoulli_is_philox(kernels):
    """The known answers of Philox 4x32-10 (Salmon et al. 2011): counter 0 and key 0 give 6627e8d5 e169c58d bc57ac4c
    9b00dbd8."""
    words = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    for word in words:
        for p, expected in ((word / 2**32, False), ((word + 1) / 2**32, True)):
            found = kernels.bernoulli(p, (4,), 0).get()
            assert found[words.index(word)] == expected


def test_a_seed_may_lie_on_the_gpu(kernels):
    for seed in (1, 2**63 - 1):
        found = kernels.bernoulli(0.3, (1001,), array(np.array([seed], np.uint64))).get()
        assert (found == kernels.bernoulli(0.3, (1001,), seed).get()).all()


def test_bernoulli_is_even_and_depends_on_seed_and_place(kernels):
    first, second = (kernels.bernoulli(0.3, (40_001,), seed).get() for seed in (1, 2))
    for mask in (first, second):
        assert abs(mask.mean() - 0.3) < 5 * np.sqrt(0.21 / mask.size)
    assert abs((first == second).mean() - 0.58) < 0.02
    assert abs((first[1:] == first[:-1]).mean() - 0.58) < 0.02
    assert (kernels.bernoulli(0.3, (100,), 1).get() == first[:100]).all()
    assert not kernels.bernoulli(0.0, (1000,), 1).get().any()
    assert kernels.bernoulli(1.0, (1000,), 1).get().all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adam_over_parameters_of_every_size(kernels, dtype):
    rng = np.random.default_rng(0)
    given = [[rng.random(n).astype(dtype) + 0.1 for _ in range(4)] for n in (1, 5, 1000, 3)]
    alpha, beta1, beta2, eps, shrink, penalty, sign = (0.01, 0.9, 0.99, 1e-3, 0.98, 0.1, -1.0)
    on_gpu = [tuple(array(x) for x in arrays) for arrays in given]
    kernels.adam(on_gpu, (alpha, beta1, 1 - beta1, beta2, 1 - beta2, eps, shrink, penalty, sign))
    for (theta, g, m, v), found in zip(given, on_gpu):
        h = sign * g + penalty * theta
        m, v = beta1 * m + (1 - beta1) * h, beta2 * v + (1 - beta2) * h * h
        expected = (shrink * theta - alpha * m / (np.sqrt(v) + eps), g, m, v)
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a.get(), b, rtol=1e-4 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squares_of_arrays_of_every_size_are_added_up_in_float64(kernels, dtype):
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(n).astype(dtype) for n in (1, 5, 1000, 3, 700)]
    found = kernels.sum_of_squares([array(x) for x in given])
    assert (found.shape, found.dtype) == ((), np.float64)
    np.testing.assert_allclose(found.get(), sum(np.square(x, dtype=np.float64).sum() for x in given), rtol=1e-13)
    assert np.isnan(kernels.sum_of_squares([array(given[0]), array(np.array([np.nan], dtype))]).get())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_every_size_are_scaled(kernels, dtype):
    given = [np.arange(n, dtype=dtype) for n in (1, 5, 1000, 3)]
    for factor in (0.3, array(np.asarray(0.3, dtype))):
        found = [array(x) for x in given]
        kernels.scale_all(found, factor)
        for x, y in zip(given, found):
            np.testing.assert_array_equal(y.get(), x * dtype(0.3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (2, 3), (10, 3), (99, 40), (1000, 1)])
def test_rows_are_added_up_in_float64(kernels, shape, dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    found = kernels.sum_of_rows(array(x)).get()
    assert found.dtype == dtype
    np.testing.assert_allclose(found, x.sum(axis=0, dtype=np.float64), rtol=1e-6 if dtype == np.float32 else 1e-12)
    of_products = kernels.sum_of_rows(array(x), array(y)).get()
    np.testing.assert_allclose(of_products, (x * y).sum(axis=0, dtype=np.float64).astype(dtype), rtol=1e-5)


# ---- over rows: what the threads of a block do together


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def normal(x, eps=1e-5):
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


def close(found, expected, dtype):
    np.testing.assert_allclose(found.get(), expected, **({"rtol": 2e-4, "atol": 2e-5} if dtype == np.float32 else {}))


ROWS = 3
WIDTHS = [1, 2, 31, 32, 33, 64, 100, 255, 256, 257, 700]  # a part of a warp, all of it, several; more than threads
each_width = pytest.mark.parametrize("columns", WIDTHS)
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def draw(columns, count, dtype):
    return np.random.default_rng(columns).normal(size=(count, ROWS, columns)).astype(dtype)


@each_width
@each_dtype
def test_softmax_of_rows(kernels, columns, dtype):
    x, g = draw(columns, 2, dtype)
    x[1, : columns // 2] = -np.inf
    x[2] += 100
    out = array(x)
    kernels.softmax(out)
    expected = softmax(x.astype(np.float64))
    close(out, expected, dtype)
    on_gpu = array(g)
    kernels.softmax_gradient(on_gpu, out)
    close(on_gpu, expected * (g - (g * expected).sum(axis=-1, keepdims=True)), dtype)


def test_softmax_of_nothing_but_minus_infinity(kernels):
    x = array(np.full((2, 70), -np.inf))
    kernels.softmax(x)
    assert not x.get().any()


@each_width
@each_dtype
def test_layer_norm_of_rows(kernels, columns, dtype):
    x, g, (weight, bias, _) = draw(columns, 3, dtype)
    x = 10 + 3 * x
    out, rows, scale = kernels.layer_norm(array(x), array(weight), array(bias), 1e-5)
    wide = x.astype(np.float64)
    expected = normal(wide)
    close(rows, expected, dtype)
    close(out, expected * weight + bias, dtype)
    close(scale, 1 / np.sqrt(wide.var(axis=-1, keepdims=True) + 1e-5), dtype)
    g_x, g_weight, g_bias = kernels.layer_norm_gradient(array(g), array(expected.astype(dtype)), scale, array(weight))
    h = g * weight.astype(np.float64)
    along = (h * expected).mean(axis=-1, keepdims=True)
    factor = 1 / np.sqrt(wide.var(axis=-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(
        g_x.get() / factor, h - h.mean(axis=-1, keepdims=True) - expected * along, rtol=1e-3, atol=1e-4
    )
    close(g_weight, (g * expected).sum(axis=0), dtype)
    close(g_bias, g.sum(axis=0), dtype)


@each_width
@each_dtype
def test_cross_entropy_of_rows(kernels, columns, dtype):
    logits, (weight, scalars, _) = draw(columns, 2, dtype)
    target = np.array([0, columns - 1, columns // 2])
    on_gpu = [array(logits), array(target), array(weight)]
    shift, total, picked, spread_over = kernels.cross_entropy(*on_gpu, True)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    np.testing.assert_array_equal(shift.get(), logits.max(axis=-1))
    close(total, np.exp(shifted).sum(axis=-1), dtype)
    close(picked, shifted[np.arange(ROWS), target], dtype)
    close(spread_over, (shifted * weight.astype(np.float64)).sum(axis=-1), dtype)
    factor, spread, hit = (np.resize(scalars[i:], ROWS) for i in range(3))
    gradient = kernels.cross_entropy_gradient(*on_gpu, shift, *(array(x) for x in (factor, spread, hit)))
    expected = np.exp(shifted) * factor[:, None] - spread[:, None] * weight
    expected[np.arange(ROWS), target] -= hit
    close(gradient, expected, dtype)


BARRIER = "__syncthreads();"
HALF = "if (threadIdx.x < 64) __syncthreads();"


@pytest.mark.skipif(ON_GPU, reason="is about the emulation")
@pytest.mark.parametrize("kernels", ["whole blocks"], indirect=True)
@pytest.mark.parametrize("barriers", [("", BARRIER), (BARRIER, ""), (BARRIER, HALF), (BARRIER, BARRIER)])
def test_the_emulation_notices_what_barriers_do(kernels, monkeypatch, barriers):
    """Without the first or the second a warp reads what another has not written yet, or has written anew."""
    before, between, after = kernels.SOURCE.split(BARRIER)
    monkeypatch.setattr(kernels, "SOURCE", before + barriers[0] + between + barriers[1] + after)
    x = draw(100, 1, np.float64)[0]
    if HALF in barriers:
        with pytest.raises(AssertionError, match="layer_norm: threads wait for others that do not come"):
            kernels.layer_norm(array(x), None, None, 1e-5)
        return
    out, _, _ = kernels.layer_norm(array(x), None, None, 1e-5)
    assert np.allclose(out.get(), normal(x)) == ("" not in barriers)


def test_what_does_not_fit_goes_another_way(kernels):
    assert kernels.fits(array(np.ones((2, 3), np.float32)), None)
    assert not kernels.fits(array(np.ones((2, 3), np.float16)))
    assert not kernels.fits(array(np.ones((2, 3), np.float32)).T)
    assert not kernels.fits(array(np.ones((0, 3), np.float32)))
    assert not kernels.fits(array(np.ones(3, np.float32)), array(np.ones(3, np.float64)))


@pytest.mark.skipif(ON_GPU, reason="a GPU has what it needs")
def test_without_a_compiler_everything_goes_another_way(kernels, monkeypatch):
    import cupy

    monkeypatch.delattr(cupy, "RawModule")
    assert not kernels.available()
    assert not kernels.fits(array(np.ones((2, 3), np.float32)))
    from tinytensor.nn import functional as F

    x = tt.tensor(np.random.default_rng(0).normal(size=(4, 5)), device="gpu", requires_grad=True)
    F.cross_entropy(F.layer_norm(F.dropout(x, 0.5), 5), tt.asarray([0, 1, 2, 3], device="gpu")).backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_bounds_are_looked_at_without_waiting(kernels, monkeypatch):
    """Nothing is read until a number is; then all that was out of range by then is known."""
    from tinytensor.fast import cupy as backend

    ids, weight = tt.asarray([0, 9, 2], device="gpu"), tt.ones((4, 2), device="gpu")
    with monkeypatch.context() as patch:
        patch.setattr(backend.cupy, "asnumpy", lambda x: pytest.fail("read"))
        rows = F.embedding(ids, weight)
        F.embedding(ids[:1], weight)
        total = rows.sum()
    with pytest.raises(IndexError, match="embedding: ids must be from 0 to 3, got 9"):
        total.item()
    assert F.embedding(ids[:1], weight).sum().item() == 2


def test_more_bounds_than_there_are_slots_are_looked_at_at_once(kernels, monkeypatch):
    from tinytensor.fast import cupy as backend

    monkeypatch.setattr(backend, "SLOTS", len(backend._slots))
    with pytest.raises(IndexError, match="embedding: ids must be from 0 to 122, got 123"):
        F.embedding(tt.asarray([123], device="gpu"), tt.ones((123, 1), device="gpu"))


def test_no_step_of_training_waits(kernels, monkeypatch):
    from tinytensor.fast import cupy as backend

    model = nn.Sequential(nn.Embedding(7, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 7))
    model.to("gpu")
    optimizer = nn.optim.Adam(model.parameters())
    ids = tt.asarray([[1, 2, 3], [4, 5, 6]], device="gpu")
    for name in ("get", "item", "tolist", "__bool__", "__int__", "__float__", "__index__"):
        waits = lambda *a, _name=name: pytest.fail(f"{_name} waits for the GPU")  # noqa: E731
        monkeypatch.setattr(backend.cupy.ndarray, name, waits, raising=False)
    monkeypatch.setattr(backend.cupy, "asnumpy", lambda x: pytest.fail("asnumpy waits for the GPU"))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(ids).reshape(-1, 7), ids.reshape(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
