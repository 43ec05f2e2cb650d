"""The methods of a Tensor give what PyTorch's give: every one that bears the name of one of PyTorch's."""

import inspect

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.tensors.methods import Methods

torch = pytest.importorskip("torch")

ONE, TWO, VECTOR, INDICES = "one", "two", "vector", "indices"
TRUTH = "mask"
OPERANDS = {
    ONE: np.random.default_rng(0).uniform(0.1, 0.9, (3, 3)),
    TWO: np.random.default_rng(1).uniform(0.1, 0.9, (3, 3)),
    VECTOR: np.array([1.0, 2.0, 3.0]),
    INDICES: np.array([2, 0]),
    TRUTH: np.array([True, False, True]),
}
BITS = {f"bitwise_{name}" for name in ("and", "or", "xor", "left_shift", "right_shift")}
CALLS = {
    "amax": [(), (1,), (1, True)], "amin": [(), (0,)], "broadcast_to": [((2, 3, 3),)],
    "clamp": [(0.2, 0.5), (None, 0.5)], "count_nonzero": [(), (1,)], "cumprod": [(1,)], "cumsum": [(0,)],
    "diag": [(), (1,)], "diff": [(), (2,), (1, 0, TWO, TWO)], "div": [(TWO,)], "logcumsumexp": [(0,), (1,)],
    "nan_to_num": [(), (1.0, 2.0)], "nanmean": [(), (1,)], "nansum": [(), (1, True)],
    "quantile": [(0.3,), (0.3, 1), (0.7, 0, True)], "expand": [(2, 3, 3), (-1, 3)], "flip": [(0,), (0, 1)],
    "index_select": [(1, INDICES)], "moveaxis": [(0, 1)], "movedim": [(0, 1)], "logit": [(), (0.2,)],
    "norm": [(), (1,), ("nuc",), (3, 1, True)], "roll": [(1, 0), (2,)], "swapaxes": [(0, 1)], "swapdims": [(0, 1)],
    "tile": [(2, 1), (2,)], "topk": [(2,), (1, 0), (2, 1, False)], "tril": [(), (1,)], "triu": [(), (-1,)],
    "unbind": [(), (1,)], "view": [(9,), (-1, 1)], "where": [(TRUTH, TWO)],
}  # fmt: skip
FIRST = {"acosh": VECTOR, "dot": VECTOR, "outer": VECTOR, **dict.fromkeys(BITS, INDICES)}  # where it is not ONE
SECOND = {"mv": VECTOR, "dot": VECTOR, "outer": VECTOR, **dict.fromkeys(BITS, INDICES)}


def calls():
    """Each method, with the arguments of its calls: from CALLS, or one Tensor, or none."""
    for name, method in vars(Methods).items():
        if inspect.isfunction(method) and not name.startswith("_") and name != "bmm":
            takes_other = "other" in inspect.signature(method).parameters
            for arguments in CALLS.get(name, [(SECOND.get(name, TWO),)] if takes_other else [()]):
                yield pytest.param(name, arguments, id=f"{name}{arguments}")


def values(result):
    if isinstance(result, (tuple, list)):
        return [values(part) for part in result]
    return result.tolist() if hasattr(result, "tolist") else result


def both(name, on, arguments):
    """The results of our method and of PyTorch's."""
    for make in (tt.asarray, torch.as_tensor):
        given = [make(OPERANDS[a]) if isinstance(a, str) and a in OPERANDS else a for a in arguments]
        yield getattr(make(OPERANDS[on]), name)(*given)


@pytest.mark.parametrize(("name", "arguments"), [*calls()])
def test_a_method_gives_what_pytorchs_gives(name, arguments):
    ours, theirs = both(name, FIRST.get(name, ONE), arguments)
    flat_ours, flat_theirs = (np.hstack([np.ravel(part) for part in np.atleast_1d(values(r))]) for r in (ours, theirs))
    np.testing.assert_allclose(flat_ours, flat_theirs, rtol=1e-6)
    if isinstance(ours, tt.Tensor):
        assert ours.shape == tuple(theirs.shape)
        assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")


def test_products_of_batches():
    ours, theirs = ((make(OPERANDS[ONE])[None], make(OPERANDS[TWO])[None]) for make in (tt.asarray, torch.as_tensor))
    np.testing.assert_allclose(ours[0].bmm(ours[1]).numpy(), theirs[0].bmm(theirs[1]).numpy())


OPTIONS = {  # what takes more than its operands: as functions of two Tensors
    "add": lambda x, y: x.add(y, alpha=2.5),
    "sub": lambda x, y: x.sub(y, alpha=-2),
    "div, floor": lambda x, y: x.div(y - 0.5, rounding_mode="floor"),
    "div, trunc": lambda x, y: x.div(y - 0.5, rounding_mode="trunc"),
    "round": lambda x, y: x.round(decimals=2),
    "round to hundreds": lambda x, y: (1000 * x).round(decimals=-2),
    "flatten": lambda x, y: x.flatten(),
    "flatten the last two": lambda x, y: x[None].flatten(1),
    "flatten the first two": lambda x, y: x[None].flatten(end_dim=1),
    "flatten a number": lambda x, y: x[0, 0].flatten(),
    "quantile": lambda x, y: x.quantile(0.3, 1, interpolation="higher"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name):
    ours, theirs = (OPTIONS[name](make(OPERANDS[ONE]), make(OPERANDS[TWO])) for make in (tt.asarray, torch.as_tensor))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)
    assert ours.shape == tuple(theirs.shape)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumsum", "cumprod"])
def test_the_dtype_of_sums_and_products(name):
    arguments = (0,) if name.startswith("cum") else ()
    ours = getattr(tt.asarray([1, 2, 4]), name)(*arguments, dtype=tt.float32)
    theirs = getattr(torch.tensor([1, 2, 4]), name)(*arguments, dtype=torch.float32)
    assert (ours.tolist(), str(ours.dtype)) == (theirs.tolist(), "float32")


def test_a_quotient_of_integers_stays_one():
    for mode in ("floor", "trunc"):
        ours, theirs = (make(np.array([7, -7])).div(2, rounding_mode=mode) for make in (tt.asarray, torch.as_tensor))
        assert (ours.tolist(), str(ours.dtype)) == (theirs.tolist(), "int64")


def test_to_makes_a_copy_where_it_is_asked_to():
    x = tt.ones(2)
    assert x.to(tt.float32, non_blocking=True) is x
    assert x.to(tt.float32, copy=True) is not x
    with pytest.raises(TypeError, match="to: got True; name it: non_blocking=True, or copy=True"):
        x.to("cpu", True)
