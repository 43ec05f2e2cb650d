"""Fourier transforms, against NumPy, with gradients of first and second order."""

import numpy as np
import pytest

import tinytensor as tt

from .test_complex_gradients import of_parts

RNG = np.random.default_rng(0)
NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
REAL = {"rfft", "rfftn", "ihfft"}  # of real numbers


def values(name, *shape):
    return RNG.normal(size=shape) + (0 if name in REAL else 1j * RNG.normal(size=shape))


CASES = [(name, (5,), {}) for name in NAMES]
CASES += [
    (name, (3, 4), {"n": n, "axis": 0, "norm": norm}) for name in NAMES for n, norm in ((2, "ortho"), (5, "forward"))
]
CASES += [(name, (2, 3, 4), {}) for name in ("fftn", "ifftn", "rfftn", "irfftn")]
CASES += [
    ("fftn", (2, 3), {"axes": (1, 0), "norm": "ortho"}),
    ("ifftn", (2, 3), {"s": (4,), "axes": (-1,)}),
    ("rfftn", (2, 3), {"s": (3, 4), "axes": (0, 1)}),
    ("irfftn", (3, 3), {"s": (3, 5), "axes": (0, 1), "norm": "forward"}),
    ("fftshift", (4, 3), {}),
    ("fftshift", (4, 3), {"axes": 1}),
    ("ifftshift", (5,), {}),
]


@pytest.mark.parametrize(("name", "shape", "params"), CASES, ids=str)
def test_values_and_gradients(name, shape, params, device):
    x = values(name, *shape)
    function = getattr(tt.fft, name)
    found = function(tt.asarray(x, device=device), **params)
    expected = getattr(np.fft, name)(x, **params)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)
    parts = [
        tt.tensor(part, device=device, requires_grad=True) for part in (x.real, x.imag)[: 1 + (x.dtype.kind == "c")]
    ]
    whole = of_parts(lambda x: function(x, **params), 1) if len(parts) == 2 else None
    whole = whole or (lambda x: [tt.real(function(x, **params)), tt.imag(function(x, **params) + 0j)])
    assert tt.gradcheck(whole, parts)
    assert tt.gradgradcheck(lambda *parts: [part * part for part in whole(*parts)], parts)


@pytest.mark.parametrize("name", NAMES)
def test_float32_stays_float32(name, device):
    x = tt.asarray(values(name, 4), device=device)
    narrow = tt.astype(x, tt.complex64 if x.dtype.kind == "c" else tt.float32)
    wide = getattr(tt.fft, name)(x)
    assert getattr(tt.fft, name)(narrow).dtype.itemsize * 2 == wide.dtype.itemsize


def test_one_of_several_axes():
    x = tt.asarray(RNG.normal(size=(2, 3)))
    np.testing.assert_allclose(tt.fft.fftn(x, axes=0).numpy(), np.fft.fft(x.numpy(), axis=0), atol=1e-12)
    np.testing.assert_allclose(tt.fft.fftn(x, s=(4,)).numpy(), np.fft.fft(x.numpy(), n=4), atol=1e-12)


def test_a_transform_and_its_inverse(device):
    x = tt.asarray(RNG.normal(size=(2, 7)), device=device)
    for there, back in (("fft", "ifft"), ("rfft", "irfft"), ("ihfft", "hfft")):
        whole = getattr(tt.fft, back)(getattr(tt.fft, there)(x), n=7)
        np.testing.assert_allclose(tt.real(whole).numpy(), x.numpy(), atol=1e-12)


@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies(n):
    np.testing.assert_allclose(tt.fft.fftfreq(n, d=0.5, dtype=tt.float64).numpy(), np.fft.fftfreq(n, d=0.5))
    np.testing.assert_allclose(tt.fft.rfftfreq(n, d=0.5, dtype=tt.float64).numpy(), np.fft.rfftfreq(n, d=0.5))
    assert tt.fft.fftfreq(n).dtype == tt.float32


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: tt.fft.fft(tt.ones(3), norm="none"), ValueError, "fft: norm must be 'backward', 'ortho' or 'forward'"),
        (lambda: tt.fft.fft(tt.ones((2, 0))), ValueError, r"length 1 or more, got 0 along axis 1 of shape \(2, 0\)"),
        (lambda: tt.fft.fft(tt.ones(3), axis=1), IndexError, "fft: axis 1 is out of range"),
        (lambda: tt.fft.rfft(tt.asarray([1j])), TypeError, "rfft: expected real numbers, got complex64; use fft"),
        (lambda: tt.fft.fftn(tt.ones((2, 2)), s=(2,), axes=(0, 1)), ValueError, "fftn: got 1 lengths for 2 axes"),
        (lambda: tt.fft.fftfreq(3, dtype=tt.int64), TypeError, "fftfreq: frequencies are real, got dtype int64"),
    ],
)
def test_errors(call, kind, says):
    with pytest.raises(kind, match=says):
        call()
