"""`tt.fft` beside `torch.fft`, in 64 bits: values, first and second order."""

import numpy as np
import pytest

import tinytensor as tt

torch = pytest.importorskip("torch")

from .test_complex_parity import check, complexes  # noqa: E402  (it needs PyTorch)

REAL = {"rfft", "rfftn", "ihfft"}


def squared(x):
    return x * abs(x)  # not linear, so that there are second derivatives


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_axis(name, norm):
    x = np.real(complexes(3, 4)) if name in REAL else complexes(3, 4)
    for n in (None, 3, 7):
        check(
            lambda x, n=n: squared(getattr(tt.fft, name)(x, n=n, norm=norm)),
            lambda x, n=n: squared(getattr(torch.fft, name)(x, n=n, norm=norm)),
            [x],
        )


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_axes(name):
    x = np.real(complexes(2, 3, 4)) if name in REAL else complexes(2, 3, 4)
    for s, axes in ((None, None), ((3, 5), (0, 2))):
        check(
            lambda x, s=s, axes=axes: squared(getattr(tt.fft, name)(x, s=s, axes=axes)),
            lambda x, s=s, axes=axes: squared(getattr(torch.fft, name)(x, s=s, dim=axes)),
            [x],
        )
