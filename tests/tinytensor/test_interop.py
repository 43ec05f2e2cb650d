"""Other libraries: what they compute with Tensors is differentiated, or refused, and never silently cut off."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import tinytensor as tt
from tinytensor.functions import creation


def leaf(*shape):
    return tt.tensor(np.random.default_rng(0).normal(size=shape), requires_grad=True)


# ---- NumPy


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "@", "**", "//", "%", "<", "<=", ">", ">=", "==", "!="])
def test_an_array_on_the_left_defers_to_the_tensor(symbol):
    array, x = np.array([1.0, 2.0]), tt.tensor([3.0, 4.0], dtype=tt.float64, requires_grad=True)
    found = eval(f"array {symbol} x", {"array": array, "x": x})
    assert isinstance(found, tt.Tensor)
    np.testing.assert_array_equal(found.numpy(), eval(f"array {symbol} x", {"array": array, "x": x.detach().numpy()}))
    assert found.requires_grad == (symbol not in ("<", "<=", ">", ">=", "==", "!="))


def test_a_numpy_scalar_on_the_left():
    x = tt.tensor([3.0, 4.0], requires_grad=True)
    found = np.float64(2) * x
    assert isinstance(found, tt.Tensor)
    assert found.dtype == tt.float32
    assert found.requires_grad


@pytest.mark.parametrize(
    "function", [np.exp, np.sum, np.mean, np.asarray, np.array, np.stack, np.linalg.norm, np.matmul]
)
def test_numpy_functions_do_not_lose_a_gradient(function):
    x = leaf(2, 2)
    with pytest.raises((RuntimeError, TypeError)):
        function(x, x) if function is np.matmul else function(x)


def test_the_refusal_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"gradient would be lost; use \.detach\(\)\.numpy\(\)"):
        np.asarray(leaf(2))


def test_conversion_where_nothing_is_lost():
    x = leaf(2, 3)
    np.testing.assert_array_equal(np.asarray(x.detach()), x.detach().numpy())
    with tt.no_grad():
        assert np.asarray(x).shape == (2, 3)
    assert np.asarray(x.detach(), dtype=np.float32).dtype == np.float32
    assert np.asarray(tt.arange(3)).tolist() == [0, 1, 2]


def test_conversion_never_happens_for_the_gpu():
    if "gpu" not in tt.__array_namespace_info__().devices():
        pytest.skip("no GPU and no stand-in")
    x = tt.ones(3, device="gpu")
    with pytest.raises(TypeError, match=r"on the GPU; copy it with \.cpu\(\) or \.numpy\(\)"):
        np.asarray(x)
    assert x.numpy().tolist() == [1, 1, 1]


# ---- einops, opt_einsum's habits, SciPy


@pytest.mark.parametrize(
    ("name", "pattern", "lengths"),
    [
        ("rearrange", "batch (head d) -> head batch d", {"head": 2}),
        ("rearrange", "b t -> b t 1", {}),
        ("reduce", "b (t two) -> b t", {"two": 2}),
        ("repeat", "b t -> b t k", {"k": 3}),
    ],
)
def test_einops(name, pattern, lengths):
    import einops
    import einops.array_api

    x = leaf(3, 4)
    options = ["sum"] if name == "reduce" else []
    found = getattr(einops.array_api, name)(x, pattern, *options, **lengths)
    expected = getattr(einops, name)(x.detach().numpy(), pattern, *options, **lengths)
    np.testing.assert_allclose(found.numpy(), expected)
    assert tt.gradcheck(lambda x: getattr(einops.array_api, name)(x, pattern, *options, **lengths), x)


SPECIAL = {  # inputs
    "digamma": [[0.3, 1.0, 2.5, 30.0]],
    "erfc": [[-2.0, -0.5, 0.0, 3.0]],
    "erfinv": [[-0.99, -0.5, 0.0, 0.9]],
    "gammaln": [[0.3, 1.0, 2.5, 30.0]],
    "erf": [[-2.0, -0.5, 0.0, 3.0]],
    "expit": [[-800.0, -2.0, 0.0, 3.0]],
    "log_expit": [[-800.0, -2.0, 0.0, 3.0]],
    "logit": [[1e-9, 0.25, 0.5, 0.99]],
    "logsumexp": [[-2.0, 800.0, 801.0, 3.0]],
    "softplus": [[-30.0, -2.0, 0.0, 800.0]],
    "xlogy": [[0.5, 2.0, -1.0, 3.0], [0.5, 1.0, 2.0, 1e-9]],
}


@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_functions_are_scipys(name):
    inputs = [tt.tensor(x, dtype=tt.float64, requires_grad=True) for x in SPECIAL[name]]
    function = getattr(tt.special, name)
    expected = getattr(scipy.special, name)(*SPECIAL[name])
    np.testing.assert_allclose(function(*inputs).detach().numpy(), expected, rtol=1e-13)
    bounds = {"logit": (0.1, 0.9), "erfinv": (-0.9, 0.9)}.get(name, (-5, 5))
    near = [x.detach().clip(*bounds) for x in inputs]
    near = [tt.tensor(x.clip(0.1) if name == "xlogy" and i else x, requires_grad=True) for i, x in enumerate(near)]
    assert tt.gradcheck(function, near)
    assert tt.gradgradcheck(function, near)
    assert sorted(tt.special.__all__) == sorted([*SPECIAL, "polygamma"])


def test_xlogy_of_nothing():
    with np.errstate(divide="ignore"):  # the logarithm of 0, where it counts
        found = tt.special.xlogy(np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.0, 2.0, np.nan, 0.0]))
    np.testing.assert_array_equal(found.numpy(), [0, 0, np.nan, -np.inf])
    x, y = tt.tensor([0.0, 0.0], requires_grad=True), tt.tensor([0.0, 2.0], requires_grad=True)
    g_x, g_y = tt.grad(tt.special.xlogy(x, y), [x, y], tt.ones(2))
    np.testing.assert_allclose(g_x.tolist(), [0, np.log(2)], rtol=1e-6)
    assert g_y.tolist() == [0, 0]


def test_scipy_is_differentiated():
    """SciPy reads its switch when it is imported, so this takes a process of its own."""
    code = (
        "import numpy as np, scipy.special, tinytensor as tt\n"
        "x = tt.tensor(np.random.default_rng(0).normal(size=(3, 4)), requires_grad=True)\n"
        "found = scipy.special.softmax(x, axis=1)\n"
        "np.testing.assert_allclose(found.numpy(), scipy.special.softmax(x.detach().numpy(), axis=1))\n"
        "assert tt.gradcheck(lambda x: scipy.special.softmax(x, axis=1), x)\n"
        "for function in (scipy.special.expit, scipy.special.erf, lambda x: scipy.special.xlogy(x, x * x)):\n"
        "    assert tt.gradcheck(function, x)\n"
        "print('differentiated')"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.stdout.strip() == "differentiated", result.stderr


def test_array_api_functions_in_the_wild():
    def standardise(x):
        xp = x.__array_namespace__()
        mean, std = xp.mean(x, axis=0, keepdims=True), xp.std(x, axis=0, keepdims=True)
        return xp.where(std > 0, (x - mean) / std, xp.zeros_like(x))

    assert tt.gradcheck(standardise, leaf(4, 3))
    assert hash(tt) == hash(leaf(1).__array_namespace__())
    assert leaf(1).__array_namespace__().__name__ == "tinytensor"


# ---- DLPack


def test_dlpack_out():
    x = tt.tensor([1.0, 2.0])
    array = np.from_dlpack(x)
    assert array.tolist() == [1, 2]
    assert not np.shares_memory(array, x.data)
    with pytest.raises(RuntimeError, match="detach"):
        np.from_dlpack(x.requires_grad_())


def test_dlpack_takes_what_the_standard_says():
    x = tt.tensor([1.0, 2.0])
    assert "versioned" in repr(x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=True))
    assert "versioned" not in repr(x.__dlpack__())
    with pytest.raises(TypeError, match="unexpected keyword argument 'device'"):
        x.__dlpack__(device="cpu")


def test_dlpack_in():
    array = np.arange(3.0)
    x = tt.from_dlpack(array)
    array[0] = 9
    assert x.tolist() == [0, 1, 2]
    shared = tt.from_dlpack(np.arange(3.0), copy=False)
    assert shared.tolist() == [0, 1, 2]
    assert tt.from_dlpack(x) is x


def test_torch_through_dlpack():
    torch = pytest.importorskip("torch")
    x = tt.asarray(torch.arange(3, dtype=torch.float32))
    assert (x.dtype, x.tolist()) == (tt.float32, [0, 1, 2])
    assert torch.from_dlpack(tt.tensor([1.0, 2.0])).tolist() == [1, 2]


class Bfloat16:
    """An array of a library that has bfloat16, by the names of PyTorch or of JAX and ml_dtypes."""

    dtype = "bfloat16"
    __dlpack__ = None

    def __init__(self, values, name):
        self.values = np.asarray(values, np.float32)
        setattr(self, name, lambda *dtype: self.values)


@pytest.mark.parametrize("name", ["float", "astype"])
def test_bfloat16_becomes_float32(name):
    x = Bfloat16([1.5, -2.25], name)
    for found in (tt.asarray(x), tt.tensor(x), tt.asarray([x, x])[0], tt.asarray(x, dtype=tt.float32)):
        assert (found.dtype, found.tolist()) == (tt.float32, [1.5, -2.25])
    assert tt.asarray(x, dtype=tt.float64).dtype == tt.float64
    assert creation._numbers_at_last("asarray", x, x, None).dtype == np.float32  # an array of NumPy's by ml_dtypes


def test_bfloat16_of_pytorch():
    torch = pytest.importorskip("torch")
    x = (torch.arange(12).reshape(3, 4) / 7).bfloat16()
    for made in (tt.asarray, tt.tensor, tt.from_dlpack, lambda x: tt.stack([tt.asarray(x)])[0]):
        for part in (x, x[::2, 1:].T, x[0, 0], x[:0]):
            np.testing.assert_array_equal(made(part).numpy(), part.float().numpy())
            assert made(part).dtype == tt.float32
    for made in (tt.asarray, tt.from_dlpack):
        with pytest.raises(TypeError, match=r"NumPy cannot take this Tensor of torch.bfloat16 .*x\.detach\(\)\.cpu"):
            made(x, copy=False)
        for other in (x.to(torch.float8_e4m3fn), x.requires_grad_(), x.detach().float().to_sparse()):
            with pytest.raises(TypeError, match=r"NumPy cannot take this Tensor of torch.* such as x\.detach\(\)\.cpu"):
                made(other)


# ---- NumPy's functions


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: np.exp(x), r"np.exp: .*; write tt.exp, or convert first with x\.detach\(\)\.numpy\(\)"),
        (lambda x: np.exp(x.detach()), "np.exp: NumPy's element-wise functions take no Tensors; write tt.exp"),
        (lambda x: np.sum(x), "np.sum: a Tensor here requires a gradient, which would be lost; write tt.sum"),
        (lambda x: np.where(x > 2, x, 0), "np.where: .*; write tt.where"),
        (lambda x: np.stack([x, x]), "np.stack: .*; write tt.stack"),
        (lambda x: np.concatenate([x, x]), "np.concatenate: .*; tinytensor names it concat"),
        (lambda x: np.arctan2(x, x), "np.arctan2: .*; tinytensor names it atan2"),
        (lambda x: np.add.reduce(x), "np.add: .*; write tt.add"),
        (lambda x: np.fft.fft(x), r"np.fft: .*convert first|np.fft: .*not in tinytensor"),
        (lambda x: np.add(np.ones(3), 1.0, out=x), "np.add: "),
        (lambda x: np.multiply(np.ones((2, 2)), x, where=False), "np.multiply: "),
    ],
)
def test_a_numpy_function_names_ours(call, message):
    with pytest.raises(TypeError, match=message):
        call(leaf(2, 2))


def test_a_numpy_function_of_a_tensor_without_a_gradient_gives_an_array():
    x = leaf(2, 2).detach()
    values = x.numpy()
    for call in (
        lambda np, x: np.where(x > 0, x, 0), lambda np, x: np.sum(x, axis=1), lambda np, x: np.stack([x, x]),
        lambda np, x: np.linalg.norm(x), lambda np, x: np.median(x), lambda np, x: np.allclose(x, x),
    ):  # fmt: skip
        np.testing.assert_array_equal(call(np, x), call(np, values))
    assert isinstance(np.where(x > 0, x, 0), np.ndarray)
    with tt.no_grad():
        assert isinstance(np.mean(leaf(2, 2)), float)


def test_what_an_array_is_may_be_asked_of_every_tensor():
    assert (np.shape(leaf(2, 3)), np.ndim(leaf(2)), np.result_type(leaf(1), np.float32)) == ((2, 3), 1, np.float64)


def test_an_array_is_not_changed_in_place_by_a_tensor():
    array, x = np.ones(2), tt.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match="np.add"):
        array += x
    assert array.tolist() == [1, 1]
