"""Products over long sums: einsum in all of its notation, and the accuracy of matrix products, vecdot and einsum."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinytensor as tt

# ---- einsum: NumPy's notation

NOTATION = {
    "ij->ji": [(2, 3)],
    "ij->i": [(2, 3)],
    "ji": [(2, 3)],
    "ii": [(3, 3)],
    "iij->ji": [(3, 3, 2)],
    "iijj->": [(2, 2, 3, 3)],
    "ij,ij->ij": [(2, 3), (2, 3)],
    "ij,ji->": [(2, 3), (3, 2)],
    "ij,k->": [(2, 3), (4,)],
    "i,j": [(2,), (3,)],
    "ii,ij->j": [(2, 2), (2, 3)],
    "...ij,...jk->...ik": [(5, 2, 3), (5, 3, 4)],
    "...ij,jk": [(5, 2, 3), (3, 4)],
    "...,...->...": [(3, 1), (2, 1, 4)],
    "bqhd,bkhd->bhqk": [(2, 3, 2, 4), (2, 5, 2, 4)],
    "bhqk,bkhd->bqhd": [(2, 2, 3, 5), (2, 5, 2, 4)],
    "ab,bc,cd->ad": [(2, 3), (3, 4), (4, 5)],
    "a,b,c->cab": [(2,), (3,), (4,)],
    "ab,ab,ab->b": [(2, 3), (2, 3), (2, 3)],
    "i,ij,j,->": [(2,), (2, 3), (3,), ()],
    ",->": [(), ()],
    "->": [()],
    "ij,jk->ik": [(2, 0), (0, 3)],
    "ij,jk->": [(0, 2), (2, 3)],
    "ij->j": [(0, 3)],
    "ij,jk->ki": [(2, 1), (3, 4)],
}


@pytest.mark.parametrize("subscripts", NOTATION)
def test_einsum_notation(subscripts, device):
    rng = np.random.default_rng(0)
    values = [rng.normal(size=shape) for shape in NOTATION[subscripts]]
    xs = [tt.tensor(v, device=device, requires_grad=True) for v in values]
    out = tt.einsum(subscripts, *xs)
    expected = np.einsum(subscripts, *values)
    assert out.shape == expected.shape
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12, atol=1e-12)
    assert tt.gradcheck(lambda *xs: tt.einsum(subscripts, *xs), xs)
    assert tt.gradgradcheck(lambda *xs: tt.einsum(subscripts, *xs), xs)


@pytest.mark.parametrize(
    ("shapes", "lists"),
    [
        ([(2, 3), (3, 4)], ([0, 1], [1, 2], [0, 2])),
        ([(2, 3), (3, 4)], ([5, 40], (40, 2))),
        ([(3, 3)], ([7, 7],)),
        ([(5, 2, 3), (3, 4)], ([..., 0, 1], [1, 2], [..., 0, 2])),
        ([(2, 3)], ([0, 1], [])),
    ],
)
def test_einsum_of_axis_numbers(shapes, lists):
    values = [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes)]
    given = [part for pair in zip(values, lists) for part in pair] + list(lists[len(values) :])
    np.testing.assert_allclose(tt.einsum(*given).numpy(), np.einsum(*given), rtol=1e-12)


@pytest.mark.parametrize("axes", [[0, 52], [0, -1], [0.0, 1], 3, "ij", [True, 1]])
def test_einsum_refuses_other_axis_numbers(axes):
    with pytest.raises(TypeError, match="einsum: expected a list of axis numbers from 0 to 51 after each"):
        tt.einsum(tt.ones((2, 2)), axes, [0])


@st.composite
def einsums(draw):
    """Subscripts over the letters a to d, and the shapes that fit them."""
    lengths = draw(st.fixed_dictionaries({c: st.integers(0, 4) for c in "abcd"}))
    terms = draw(st.lists(st.text("abcd", max_size=4), min_size=1, max_size=4))
    used = sorted(set("".join(terms)))
    output = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
    return ",".join(terms) + "->" + "".join(output), [tuple(lengths[c] for c in term) for term in terms]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(einsums())
def test_any_einsum_is_numpys(case):
    subscripts, shapes = case
    rng = np.random.default_rng(0)
    values = [rng.normal(size=shape) for shape in shapes]
    xs = [tt.tensor(v, requires_grad=True) for v in values]
    out = tt.einsum(subscripts, *xs)
    expected = np.einsum(subscripts, *values)
    assert out.shape == expected.shape
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-11, atol=1e-11)
    if out.size:
        weights = rng.normal(size=out.shape)
        direction = [rng.normal(size=shape) for shape in shapes]
        found = tt.grad(out, xs, tt.asarray(weights))
        along = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction))
        # Linear in each operand: the derivative along a direction is the sum with one operand replaced by it.
        exact = sum(
            float((np.einsum(subscripts, *values[:i], d, *values[i + 1 :]) * weights).sum())
            for i, d in enumerate(direction)
        )
        assert math.isclose(along, exact, rel_tol=1e-9, abs_tol=1e-9)


def test_dimensions_behind_an_ellipsis_that_the_result_lacks_are_summed_over():
    x = tt.asarray(np.random.default_rng(0).normal(size=(2, 3, 4)))
    assert tt.einsum("b...,b...->b", x, x).tolist() == tt.einsum("bij,bij->b", x, x).tolist()


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.uint8, np.float16, np.complex64])
@pytest.mark.parametrize("subscripts", ["ij->j", "ij->ji", "ij,kj->ik", "ij,ij->ij", "ij,kl->"])
def test_einsum_keeps_the_dtype(dtype, subscripts):
    values = np.random.default_rng(0).integers(0, 3, (3, 3)).astype(dtype)
    operands = [values] * (subscripts.count(",") + 1)
    found = tt.einsum(subscripts, *map(tt.asarray, operands))
    expected = np.einsum(subscripts, *operands)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("subscripts", ["ij->ij", "ij->ji"])
def test_einsum_gives_memory_of_its_own(subscripts, device):
    x = tt.ones((2, 2), device=device)
    out = tt.einsum(subscripts, x)
    out += 1
    assert x.tolist() == [[1, 1], [1, 1]]


def test_einsum_takes_the_operands_in_a_cheap_order():
    """From left to right, the product of the first two would have 10^12 elements."""
    x, y = tt.ones(1_000_000), tt.ones(1_000_000)
    assert tt.einsum("i,j,i,j->", x, y, x, y).item() == np.float32(1e12)


# ---- accuracy

ROWS = 2_000_000


def near(found, exact, dtype, units):
    np.testing.assert_allclose(found.numpy().astype(np.float64), exact, rtol=units * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float16])
@pytest.mark.parametrize(
    "subscripts", ["ni->i", "ni,i->", "ni,i->i", "ni,j->ij", "ni,ni->", "ni,ni->i", "ni,nj->ij", "in,jn->ij"]
)
def test_einsum_is_accurate(subscripts, dtype):
    """NumPy's einsum is off by up to 1.5 % in float32, and float16 stops growing."""
    value = 0.1 if dtype == tt.float32 else 2.0**-7
    lengths = {"n": ROWS, "i": 2, "j": 2}
    terms = subscripts.split("->")[0].split(",")
    operands = [tt.full([lengths[c] for c in term], value, dtype=dtype) for term in terms]
    value = float(np.dtype(dtype).type(value))
    count = math.prod(lengths[c] for c in set("".join(terms)) - set(subscripts.split("->")[1]))
    exact = value ** len(terms) * count
    near(tt.einsum(subscripts, *operands), exact, dtype, 8)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float16])
def test_gradients_of_einsum_are_accurate(dtype):
    value = 2.0**-7 if dtype == tt.float16 else 0.1
    x = tt.full((ROWS, 2), value, dtype=dtype)
    exact = float(x[0, 0].item())
    scale = tt.ones((2,), dtype=dtype).requires_grad_()
    weight = tt.ones((2, 3), dtype=dtype).requires_grad_()
    g = tt.full((ROWS, 2), value, dtype=dtype)
    near(tt.grad(tt.einsum("ni,i->ni", x, scale), scale, g), exact**2 * ROWS, dtype, 8)
    g = tt.full((ROWS, 3), value, dtype=dtype)
    near(tt.grad(tt.einsum("ni,ij->nj", x, weight), weight, g), exact**2 * ROWS, dtype, 8)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float16])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 2), (2, 1), (2, 2), (7, 3)])
@pytest.mark.parametrize("length", [500_000, 8193])
def test_matrix_products_over_long_sums_are_accurate(dtype, rows, columns, length):
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0, 0.1, shape).astype(dtype) for shape in ((rows, length), (length, columns)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for x in (a, np.asfortranarray(a)):
        for y in (b, np.asfortranarray(b)):
            near(tt.matmul(tt.asarray(x), tt.asarray(y)), exact, dtype, 8)
            near(tt.tensordot(tt.asarray(x), tt.asarray(y), axes=1), exact, dtype, 8)
    near(tt.vecdot(tt.asarray(a), tt.asarray(b.T[:1])), exact[:, 0], dtype, 8)


def test_batches_of_matrix_products_over_long_sums():
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 1, 2, 20_000), dtype=np.float32), rng.random((2, 20_000, 40), dtype=np.float32)
    near(tt.asarray(a) @ tt.asarray(b), a.astype(np.float64) @ b.astype(np.float64), np.float32, 8)
    with pytest.raises(ValueError, match=r"matmul: .*\(2, 20000\).*\(19999, 2\)"):
        tt.ones((2, 20_000)) @ tt.ones((19_999, 2))


def test_long_sums_into_an_array_made_before():
    xp = tt.backend.for_device("cpu")
    for dtype in (np.float16, np.float32, np.float64):
        x = np.full((2, 10_000), 0.5, dtype)
        out = np.empty((2, 2), dtype)
        assert xp.matmul(x, x.T, out=out) is out
        np.testing.assert_array_equal(out, 2500)


@pytest.mark.parametrize("length", [3, 10, 20_000])
def test_float16_products_do_not_lose_their_terms(length):
    """Each product of 2^-13 and 2^-13 is below float16's smallest number."""
    x = tt.full((2, length), 2.0**-13, dtype=tt.float16)
    expected = np.float16(length * 2.0**-26)
    assert tt.vecdot(x, x).tolist() == [expected] * 2
    assert (x @ x.mT).tolist() == [[expected] * 2] * 2
    assert tt.einsum("ij,ij->i", x, x).tolist() == [expected] * 2


@pytest.mark.parametrize("undefined", [math.inf, math.nan])
def test_a_single_zero_times_what_is_not_finite(undefined):
    zero, row = tt.zeros((1, 1)), tt.tensor([[undefined, 1.0]])
    with np.errstate(invalid="ignore"):
        for product in (zero @ row, tt.matrix_transpose(tt.matrix_transpose(row) @ zero)):
            np.testing.assert_array_equal(product.numpy(), [[math.nan, 0.0]])
