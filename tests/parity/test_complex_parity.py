"""Gradients through complex numbers beside PyTorch's, in complex128: values, first and second order."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import functional as F

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)


def complexes(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


SAME_NAME = """
    abs acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 reciprocal sin sinh sqrt square
    tan tanh
"""
PAIRS = {  # ours, PyTorch's, the inputs
    **{name: (getattr(tt, name), getattr(torch, name), [complexes(2, 3)]) for name in SAME_NAME.split()},
    "sign": (tt.sign, torch.sgn, [complexes(3)]),
    "angle": (lambda x: tt.atan2(tt.imag(x), tt.real(x)), torch.angle, [complexes(3)]),
    "real": (lambda x: tt.real(x) ** 2, lambda x: x.real**2, [complexes(3)]),
    "imag": (lambda x: tt.imag(x) ** 2, lambda x: x.imag**2, [complexes(3)]),
    "multiply": (lambda x, y: x * y, lambda x, y: x * y, [complexes(2, 3), RNG.normal(size=3)]),
    "divide": (lambda x, y: x / y, lambda x, y: x / y, [complexes(2, 3), complexes(3)]),
    "pow": (lambda x, y: x**y, lambda x, y: x**y, [complexes(3), complexes(3)]),
    "pow of a real": (lambda x, y: x**y, lambda x, y: x**y, [RNG.uniform(1, 2, 3), complexes(3)]),
    "matmul": (lambda x, y: x @ y, lambda x, y: x @ y, [complexes(2, 3, 4), complexes(4, 2)]),
    "prod": (lambda x: tt.prod(x, axis=1), lambda x: x.prod(1), [complexes(2, 3)]),
    "vecdot": (tt.vecdot, torch.linalg.vecdot, [complexes(2, 3), complexes(2, 3)]),
    "norm": (
        lambda x: tt.linalg.vector_norm(x, axis=-1),
        lambda x: torch.linalg.vector_norm(x, dim=-1),
        [complexes(2, 3)],
    ),
    "rsqrt": (tt.rsqrt, torch.rsqrt, [complexes(3)]),
    "exp2": (tt.exp2, torch.exp2, [complexes(3)]),
    "sinc": (tt.sinc, torch.sinc, [complexes(3)]),
    "logsumexp": (lambda x: tt.logsumexp(5 * x, axis=1), lambda x: (5 * x).logsumexp(1), [complexes(2, 4)]),
    "linear": (F.linear, torch.nn.functional.linear, [complexes(2, 3), complexes(4, 3), complexes(4)]),
    "conv1d": (F.conv1d, torch.nn.functional.conv1d, [complexes(2, 3, 5), complexes(2, 3, 2), complexes(2)]),
    "rms_norm": (
        lambda x, w: F.rms_norm(x, (3,), w, 1e-5),
        lambda x, w: torch.nn.functional.rms_norm(x, (3,), w, 1e-5),
        [complexes(2, 3), complexes(3)],
    ),
    "inv": (tt.linalg.inv, torch.linalg.inv, [complexes(2, 3, 3)]),
    "det": (tt.linalg.det, torch.linalg.det, [complexes(2, 4, 4)]),
    "solve": (tt.linalg.solve, torch.linalg.solve, [complexes(3, 3), complexes(3, 2)]),
}


def check(ours, theirs, values):
    """Results, gradients, and gradients of the gradients' squared length, of both."""
    xs = [tt.tensor(v, requires_grad=True) for v in values]
    ts = [torch.tensor(v, requires_grad=True) for v in values]
    y, t = ours(*xs), theirs(*ts)
    close(y, t)
    weights = np.asarray(RNG.normal(size=y.shape) + (1j * RNG.normal(size=y.shape) if y.dtype.kind == "c" else 0))
    first = tt.grad(y, xs, tt.asarray(weights), create_graph=True)
    expected = torch.autograd.grad(t, ts, torch.tensor(weights), create_graph=True)
    for a, b in zip(first, expected):
        close(a, b)
    length = sum(tt.sum(tt.square(tt.abs(a))) for a in first)
    found = tt.grad(length, xs, allow_unused=True)
    for a, b in zip(found, torch.autograd.grad(sum(b.abs().square().sum() for b in expected), ts, allow_unused=True)):
        assert (a is None) == (b is None)
        if a is not None:
            close(a, b)


def close(found, expected):
    assert str(found.dtype) == str(expected.dtype).removeprefix("torch.")
    np.testing.assert_allclose(found.numpy(), expected.detach().resolve_conj().numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", PAIRS)
def test_complex_parity(name):
    check(*PAIRS[name])
