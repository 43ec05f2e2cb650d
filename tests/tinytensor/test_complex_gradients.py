"""Gradients through complex numbers, against differences in their real and imaginary parts."""

import numpy as np
import pytest

import tinytensor as tt

RNG = np.random.default_rng(0)


def draw(*shape):
    """Complex numbers away from 0, and from the cuts that functions have along the axes."""
    return RNG.uniform(0.3, 1.2, shape) * np.exp(1j * RNG.uniform(0.2, 1.3, shape))


ELEMENTWISE = """
    abs acos acosh asin asinh atan atanh conj cos cosh exp expm1 imag log log10 log1p log2 negative positive real
    reciprocal sign sin sinh sqrt square tan tanh
"""
CASES = {
    **{name: (getattr(tt, name), [(3,)]) for name in ELEMENTWISE.split()},
    "add": (tt.add, [(2, 3), (3,)]),
    "subtract": (tt.subtract, [(3,), (2, 1)]),
    "multiply": (tt.multiply, [(2, 3), (3,)]),
    "divide": (tt.divide, [(2, 3), (3,)]),
    "pow": (tt.pow, [(3,), (3,)]),
    "pow of a number": (lambda x: x**3 + x**0.5 + 2.0**x, [(3,)]),
    "angle": (lambda x: tt.atan2(tt.imag(x), tt.real(x)), [(3,)]),
    "sum": (lambda x: tt.sum(x, axis=0), [(2, 3)]),
    "mean": (lambda x: tt.mean(x, axis=0), [(2, 3)]),
    "prod": (lambda x: tt.prod(x, axis=1), [(2, 3)]),
    "cumulative_sum": (lambda x: tt.cumulative_sum(x, axis=1), [(2, 3)]),
    "cumulative_prod": (lambda x: tt.cumulative_prod(x, axis=1), [(2, 3)]),
    "vecdot": (tt.vecdot, [(2, 3), (2, 3)]),
    "matmul": (tt.matmul, [(2, 2, 3), (3, 2)]),
    "einsum": (lambda x, y: tt.einsum("ij,kj->ik", x, tt.conj(y)), [(2, 3), (2, 3)]),
    "shapes": (lambda x: tt.flip(tt.concat([x.reshape(3, 2).T, x]))[[0, 0, 2], 1:], [(2, 3)]),
    "where": (lambda x, y: tt.where(tt.asarray([True, False, True], device=x.device), x, y), [(3,), (3,)]),
    "vector_norm": (lambda x: tt.linalg.vector_norm(x, axis=-1), [(2, 3)]),
    "det": (tt.linalg.det, [(2, 2, 2)]),
    "det of a large matrix": (tt.linalg.det, [(4, 4)]),
    "inv": (tt.linalg.inv, [(2, 2)]),
    "solve": (tt.linalg.solve, [(2, 2), (2, 1)]),
    "log of det": (lambda x: tt.linalg.slogdet(x)[1], [(2, 2)]),
}


def of_parts(function, count):
    """The function of real and imaginary parts, that gives real and imaginary parts."""

    def whole(*parts):
        results = function(*[a + 1j * b for a, b in zip(parts[:count], parts[count:])])
        for out in results if isinstance(results, tuple) else [results]:
            yield tt.real(out)
            if out.dtype.kind == "c":
                yield tt.imag(out)

    return lambda *parts: list(whole(*parts))


@pytest.mark.parametrize("case", CASES)
def test_first_and_second_order(case, device):
    function, shapes = CASES[case]
    values = [draw(*shape) for shape in shapes]
    parts = [
        tt.tensor(p, device=device, requires_grad=True) for p in [v.real for v in values] + [v.imag for v in values]
    ]
    assert tt.gradcheck(of_parts(function, len(values)), parts)
    assert tt.gradgradcheck(of_parts(function, len(values)), parts)


def test_a_step_against_the_gradient_descends(device):
    z = tt.tensor(draw(4), device=device, requires_grad=True)
    loss = tt.sum(tt.abs(tt.exp(z) - 1j) ** 2)
    loss.backward()
    assert z.grad.dtype == tt.complex128
    with tt.no_grad():
        assert tt.sum(tt.abs(tt.exp(z - 1e-3 * z.grad) - 1j) ** 2).item() < loss.item()


def test_a_real_input_takes_the_real_part(device):
    x = tt.tensor([1.0, 2.0], device=device, requires_grad=True)
    z = tt.tensor([1j, 2 + 1j], dtype=tt.complex64, device=device, requires_grad=True)
    tt.real(tt.sum(x * z)).backward()
    assert (x.grad.dtype, x.grad.tolist()) == (tt.float32, [0, 2])
    assert (z.grad.dtype, z.grad.tolist()) == (tt.complex64, [1, 2])


def test_a_real_input_under_a_second_derivative(device):
    x = tt.tensor([1.0, 2.0], dtype=tt.float64, device=device, requires_grad=True)
    assert tt.gradgradcheck(lambda x: tt.abs(tt.exp(1j * x) + x) ** 2, x)


def test_an_op_without_a_complex_rule_names_itself():
    x = tt.tensor([1.0 + 1j, 2.0], requires_grad=True)
    y = tt.max(x)  # by the order of NumPy's, which has no derivative
    with pytest.raises(NotImplementedError, match=r"the gradient of max .*max has no gradient for complex numbers"):
        tt.real(y).backward()


def test_an_op_of_ones_own_says_that_its_rule_holds():
    @tt.op(x=lambda xp, g, x: 3 * x * x * g)
    def cube(xp, x):
        return x * x * x

    z = tt.tensor([1.0 + 2j], requires_grad=True)
    try:
        with pytest.raises(NotImplementedError, match=r"HOLOMORPHIC.add\('cube'\)"):
            tt.real(cube(z)).sum().backward()
        tt.complex_gradients.HOLOMORPHIC.add("cube")
        tt.real(cube(z)).sum().backward()
        assert z.grad.tolist() == [3 * (1 - 2j) ** 2]
    finally:
        tt.complex_gradients.HOLOMORPHIC.discard("cube")
        tt.ops.pop("cube")


def test_a_complex_result_needs_a_gradient_to_begin_with():
    z = tt.tensor(1.0 + 2j, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"complex64; without a gradient only a real one of one element"):
        (z * z).backward()
    (z * z).backward(1j)
    assert z.grad.item() == pytest.approx((2 * (1 - 2j)) * 1j)


def test_every_named_op_exists():
    known = {*tt.complex_gradients.HOLOMORPHIC, *tt.complex_gradients.NOT_HOLOMORPHIC}
    tt.linalg.eigh, tt.fft.fft  # noqa: B018  (loaded when first asked for)
    assert known <= set(tt.ops)


def test_a_printed_program_has_the_conjugates():
    z, x = tt.tensor(draw(2), requires_grad=True), tt.tensor([1.0, 2.0], dtype=tt.float64, requires_grad=True)
    with tt.record():
        loss = tt.sum(tt.abs(tt.exp(z) * x + tt.conj(z)) ** 2)
    space = {}
    exec(str(tt.backward_program(loss, names={"z": z, "x": x})), space)
    found, gradients = space["forward_and_backward"](z.numpy(), x.numpy())
    loss.backward()
    assert found == pytest.approx(loss.item())
    for name, leaf in (("z", z), ("x", x)):
        np.testing.assert_allclose(gradients[name], leaf.grad.numpy(), rtol=1e-12)
