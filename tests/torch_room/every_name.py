"""Every public name of the room, compared with PyTorch's on drawn arguments: `python every_name.py SHARE SEED`.

A call counts if PyTorch takes it. The room gives the same values, dtype and shape, or raises; what else it gives is
printed, unless `OTHERWISE` has the reason. The last line says how many calls were compared.
"""

import inspect
import random
import sys
import warnings

import numpy as np
import torch as theirs

import tinytensor as tt
import tinytensor.torch as room

warnings.filterwarnings("ignore")
np.seterr(all="ignore")
share, draw = float(sys.argv[1]), random.Random(int(sys.argv[2]))
rng = np.random.default_rng(0)


def floats(*shape):
    return rng.standard_normal(shape).astype("f")


ARRAYS = {
    "x": floats(3, 4), "y": floats(3, 4), "v": floats(4), "w": floats(3), "square": floats(3, 3), "b": floats(2, 3, 4),
    "number": np.float32(1.5).reshape(()), "count": np.int64(2).reshape(()), "i": rng.integers(-5, 5, (3, 4)),
    "j": rng.integers(0, 3, (3, 4)), "k": np.array([2, 0, 1]), "mask": rng.random((3, 4)) < 0.5,
    "positive": np.abs(floats(3, 4)) + 0.1, "unit": rng.random((3, 4)).astype("f"), "empty": np.zeros((0, 3), "f"),
    "special": np.array([[1.0, np.nan, np.inf, -np.inf], [0.0, -0.0, 2.0, 2.0]], "f"),
    "half": floats(3, 4).astype("f2"), "double": floats(3, 4).astype("f8"), "i32": rng.integers(-5, 5, (3, 4), "i4"),
    "u8": rng.integers(0, 9, (3, 4), "u1"),
}  # fmt: skip
ALONE = ("x", "i", "mask", "b", "special", "v", "number", "double", "half", "u8", "positive", "square", "empty", "unit",
         "count", "j")  # fmt: skip
CALLS = """
1 | 0 | -1 | 2 | 3 | 0.5 | 2.5 | True | dim=1 | dim=0 | dim=(0, 1) | dim=1, keepdim=True | 1, True | 0, 1 | 1, 0
| (0, 1) | (1, 0) | [1, 2] | (12,) | (3, 4) | 3, 4 | (4, 3) | 2, 1 | 1, 2 | 3, 0 | (1, 1) | 1, 1, 2
| (1, 2, 1, 0) | 0, 3, 4 | 0, 0, 2 | 1, 0, 1 | y | v | number | i | j | count | k | mask | w | square | double
| half | u8 | i32 | x.T | y, 0.5 | 0.5, y | mask, 0.0 | mask, y | 1, j | 0, j | 0, k | 1, k | 0, j, y
| 1, j, 2.0 | 0, k, y | 0, k, 1.5 | y, alpha=2 | 1.0, 2.0 | -1, 1 | dtype=T.float64 | T.float64 | T.int64
| descending=True | 1, descending=True | 2, largest=False | [1, 2], 1 | 2, 1, False | square, x | x, y
| y, positive | unbiased=False | 1, unbiased=False | correction=0 | dim=1, correction=0 | 0.5, 1
| T.tensor([0.2, 0.7]) | min=0.0 | 0.0, 1.0 | max=number | 0, 2 | decimals=2 | rounding_mode='floor'
| y, rounding_mode='trunc' | i, rounding_mode='floor' | p=1 | p=2, dim=1 | as_tuple=True | return_counts=True
| return_inverse=True | unit | min=count | number, number | (x, y) ; | [x, y] ; | [x, y], 1 ; | [x, y], dim=1 ;
| 'ij,ij->i', x, y ;
"""
NOT_COMPARED = """
    alpha_dropout bernoulli bernoulli_ cauchy_ device dropout dropout1d dropout2d dropout3d dropout_ empty empty_like
    exponential_ feature_alpha_dropout feature_dropout geometric_ get_rng_state gumbel_softmax initial_seed load
    log_normal_ manual_seed multinomial new new_empty normal normal_ poisson rand rand_like randint randint_like randn
    randn_like random_ randperm rrelu save seed set_default_dtype set_grad_enabled set_printoptions set_rng_state
    share_memory_ tolist uniform_
""".split()  # noqa: SIM905
"""Random, without a value, or tested elsewhere."""
OTHERWISE = {
    "a number below 0 wraps in uint8 there": "fmod fmod_ ge greater greater_equal gt le less less_equal lt",
    "of equal elements, there, any": "kthvalue mode topk",
    "the mean of infinities is NaN there": "std_mean var_mean",
    "of eps above a half the lower bound wins there": "logit",
    "a parameter that is a Tensor is a number there": (
        "celu elu hardtanh leaky_relu normalize pairwise_distance softplus softshrink threshold"
    ),
    "losses of two dtypes": "binary_cross_entropy_with_logits huber_loss kl_div",
    "NaN of infinity there": "gelu",
    "booleans are int8 here, and so are their powers": "pow square",
    "True is a dtype there": "to",
}
KNOWN = {name for names in OTHERWISE.values() for name in names.split()}


def plain(value):
    """A value that can be compared: dtype, shape and numbers of arrays."""
    if isinstance(value, tt.Tensor):
        return np.asarray(value._data)
    if isinstance(value, theirs.Tensor):
        return value.detach().resolve_conj().resolve_neg().numpy()
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    return value if isinstance(value, (np.ndarray, bool, int, float, complex, str, type(None))) else ...


def agree(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(agree, a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        bound = 2e-2 if a.dtype == np.float16 else 2e-4
        return (a.dtype, a.shape) == (b.dtype, b.shape) and np.allclose(a, b, rtol=bound, atol=bound, equal_nan=True)
    if ... in (
        a if not isinstance(a, (np.ndarray, list)) else None,
        b if not isinstance(b, (np.ndarray, list)) else None,
    ):
        return True  # such as a dtype
    return (type(a) is bool) == (type(b) is bool) and (a == b or a != a or (isinstance(a, float) and abs(a - b) < 1e-4))


def called(module, where, name, alone, call):
    """The result of a call, and what it left in its first argument."""
    values = {key: module.tensor(array) for key, array in ARRAYS.items()} | {"T": module, "F": module.nn.functional}
    if where == "Tensor":
        text = f"{alone}.{name}" + (f"({call})" if callable(getattr(theirs.Tensor, name)) else "")
    else:
        text = f"{where}.{name}({call[:-1] if call.endswith(';') else ', '.join(filter(None, (alone, call)))})"
    result = eval(text, values)
    return text, plain(result), plain(values[alone]) if name.endswith("_") else None


compared = refused = 0
for where, home in (("Tensor", theirs.Tensor), ("T", theirs), ("F", theirs.nn.functional)):
    ours = {"Tensor": room.ones(1), "T": room, "F": room.nn.functional}[where]
    for name in dir(home):
        found = getattr(home, name)
        if name.startswith("_") or name in NOT_COMPARED or inspect.isclass(found) or not hasattr(ours, name):
            continue
        if where != "Tensor" and not callable(found):
            continue
        for alone in ALONE:
            for call in CALLS.replace("\n", " ").split("|"):
                if draw.random() > share:
                    continue
                try:
                    text, *expected = called(theirs, where, name, alone, call.strip())
                except Exception:  # PyTorch does not take it
                    continue
                compared += 1
                try:
                    _, *given = called(room, where, name, alone, call.strip())
                except Exception:  # loud
                    refused += 1
                    continue
                if name not in KNOWN and not all(map(agree, given, expected)):
                    print(f"{text}: {given[0]!r}; PyTorch: {expected[0]!r}")
print(f"compared {compared} calls, of which the room refuses {refused}")
