"""The public namespace against the array API standard (2025.12), as array-api-strict has it: names and signatures.

What the functions compute is held against it in `test_standard.py`.
"""

import builtins
import inspect
import operator
import types

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import models, nn

strict = pytest.importorskip("array_api_strict")
TOOLS = {"set_array_api_strict_flags", "get_array_api_strict_flags", "reset_array_api_strict_flags", "Device"}
TOOLS |= {"ArrayAPIStrictFlags", "ModuleType"}
NAMES = sorted(set(strict.__all__) - TOOLS)
PLACES = {"": (strict, tt), "linalg.": (strict.linalg, tt.linalg), "fft.": (strict.fft, tt.fft)}
FUNCTIONS = [
    place + name
    for place, (theirs, _) in PLACES.items()
    for name in (theirs.__all__ if place else NAMES)
    if inspect.isfunction(getattr(theirs, name))
]


def test_the_lists_are_those_of_2025():
    assert strict.get_array_api_strict_flags()["api_version"] == "2025.12"
    assert len(FUNCTIONS) > 150


@pytest.mark.parametrize("name", NAMES)
def test_name_exists(name):
    assert hasattr(tt, name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature_is_compatible(name):
    """Whatever call the standard allows binds: as many positional inputs, and every keyword with its default."""
    standard = inspect.signature(operator.attrgetter(name)(strict)).parameters
    ours = inspect.signature(operator.attrgetter(name)(tt)).parameters
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in ours.values())
    if not variadic:
        assert sum(p.kind in positional for p in ours.values()) >= sum(p.kind in positional for p in standard.values())
    for parameter in standard.values():
        if parameter.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            assert parameter.name in ours, f"{name} lacks the argument {parameter.name!r}"
            wanted, found = parameter.default, ours[parameter.name].default
            if wanted is None or isinstance(wanted, (bool, int, float, str)):
                assert found == wanted, f"{name}({parameter.name}={found!r}), the standard says {wanted!r}"
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and not variadic:
            assert list(ours).index(parameter.name) == list(standard).index(parameter.name)


@pytest.mark.parametrize("package", [tt, nn, models], ids=lambda package: package.__name__)
def test_all_is_what_the_package_defines(package):
    """`__all__` is written out, so that type checkers see it; it says what there is, and all of it."""
    assert len(package.__all__) == len(set(package.__all__))
    for name in package.__all__:
        getattr(package, name)  # some are loaded when first asked for
    values = {name: value for name, value in vars(package).items() if not name.startswith("_")}
    foreign = {"looks_through"} if package is not tt else {"Any", "TYPE_CHECKING", "import_module"}  # not defined there
    public = {name for name, value in values.items() if not isinstance(value, types.ModuleType)} - foreign
    stated = {name for name in package.__all__ if not name.startswith("__")}
    modules = {name for name in stated if isinstance(values[name], types.ModuleType)}
    assert stated - modules == public
    assert all(values[name].__name__ == f"{package.__name__}.{name}" for name in modules)


def test_all_holds_the_names_of_the_standard():
    assert set(NAMES) <= set(tt.__all__)


def test_names_that_shadow_builtins_do_not_reach_the_modules():
    for module in (tt.engine, tt.tensor.__globals__["tt"].primitive, tt.random):
        for name in ("abs", "all", "any", "max", "min", "pow", "round", "sum", "bool"):
            assert getattr(module, name, getattr(builtins, name)) is getattr(builtins, name)


# ---- dtypes


def test_isdtype():
    kinds = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]
    for dtype in ("bool", "int8", "uint16", "int64", "float32", "float64", "complex64"):
        for kind in kinds:
            ours = tt.isdtype(getattr(tt, dtype), kind)
            assert ours == strict.isdtype(getattr(strict, dtype), kind)
    assert tt.isdtype(tt.float32, ("integral", tt.float32))
    with pytest.raises(ValueError, match="unknown kind 'floating'"):
        tt.isdtype(tt.float32, "floating")


def test_limits_and_casts():
    assert tt.finfo(tt.float32).eps == np.finfo(np.float32).eps
    for dtype in (tt.float16, tt.float32, tt.complex128):
        limits = tt.finfo(dtype)
        assert {type(n) for n in (limits.eps, limits.max, limits.min, limits.smallest_normal)} == {float}
    assert (tt.finfo(tt.complex64).bits, tt.finfo(tt.complex64).dtype) == (32, tt.float32)
    assert tt.finfo(tt.ones(1)).bits == 32
    assert tt.iinfo("int16").max == 32767
    assert tt.can_cast(tt.int8, tt.int16)
    assert not tt.can_cast(tt.float64, tt.float32)
    assert tt.result_type(tt.float32, tt.int64) == tt.float32
    assert tt.result_type(tt.float32, tt.float64, 1) == tt.float64
    assert tt.result_type(tt.int8, 1.5) == tt.float32


def test_inspection():
    info = tt.__array_namespace_info__()
    assert info.devices() in (("cpu", "gpu"), ("cpu",))
    assert info.default_device() == "cpu"
    assert info.default_dtypes()["real floating"] == tt.float32
    assert set(info.dtypes(kind="real floating")) == {"float16", "float32", "float64"}
    assert info.capabilities()["boolean indexing"]


def test_constants():
    assert (tt.pi, tt.e, tt.inf, tt.newaxis) == (np.pi, np.e, np.inf, None)
    assert np.isnan(tt.nan)


def test_namespace_of_a_tensor():
    assert tt.ones(1).__array_namespace__() is tt
    for version in ("2024.12", "2025.12", tt.__array_api_version__):
        assert tt.ones(1).__array_namespace__(api_version=version) is tt
    with pytest.raises(ValueError, match=r"2019\.01.*have 2025\.12"):
        tt.ones(1).__array_namespace__(api_version="2019.01")


# ---- what the standard has since 2025.12


def test_its_version_and_results_of_several_arrays():
    assert tt.__array_api_version__ == "2025.12"
    assert type(tt.broadcast_arrays(tt.ones(2), 1.0)) is tuple
    assert type(tt.meshgrid(tt.ones(2), tt.ones(3))) is tuple
    assert type(tt.__array_namespace_info__().devices()) is tuple
    assert tt.__array_namespace_info__().devices()[0] == "cpu"


def test_isin(device):
    x = tt.asarray([[1, 2], [3, 1]], device=device)
    assert tt.isin(x, tt.asarray([1, 3], device=device)).tolist() == [[True, False], [True, True]]
    assert tt.isin(x, 1, invert=True).tolist() == [[False, True], [True, False]]
    assert tt.isin(2, x).item() is True


def test_several_new_dimensions(device):
    x = tt.tensor(np.ones((2, 3)), device=device, requires_grad=True)
    assert tt.expand_dims(x, axis=(0, -1)).shape == (1, 2, 3, 1)
    assert tt.expand_dims(x, axis=(2, 0)).shape == (1, 2, 1, 3)
    assert tt.permute_dims(x, (-1, 0)).shape == (3, 2)
    tt.sum(tt.expand_dims(x, axis=(0, 1)) ** 2).backward()
    assert x.grad.tolist() == [[2, 2, 2], [2, 2, 2]]
    with pytest.raises(ValueError, match=r"expand_dims: axis \(0, -4\) names a dimension twice"):
        tt.expand_dims(x, axis=(0, -4))


def test_searching_a_number(device):
    x = tt.asarray([0.1, 0.2, 0.3], dtype=tt.float64, device=device)
    assert tt.searchsorted(x, 0.2).item() == 1
    assert tt.searchsorted(x, 0.2, side="right").item() == 2


# ---- functions without an op of their own


CASES = {
    "var": ((3, 4), lambda xp, x: xp.var(x, axis=1, correction=1)),
    "var keepdims": ((3, 4, 2), lambda xp, x: xp.var(x, axis=(0, 2), keepdims=True)),
    "diff": ((5, 2), lambda xp, x: xp.diff(x, axis=0, n=2)),
    "diff with ends": ((2, 3), lambda xp, x: xp.diff(x, prepend=x, append=x)),
    "moveaxis": ((2, 3, 4, 5), lambda xp, x: xp.moveaxis(x, (0, -1), (-1, 1))),
    "stack": ((2, 3), lambda xp, x: xp.stack([x, x], axis=-1)),
    "unstack": ((2, 3), lambda xp, x: xp.stack(xp.unstack(x, axis=1)[::-1])),
    "repeat": ((2, 3), lambda xp, x: xp.repeat(x, 3, axis=1)),
    "repeat each": ((2, 3), lambda xp, x: xp.repeat(x, xp.asarray([0, 2, 1]), axis=1)),
    "repeat flat": ((2, 3), lambda xp, x: xp.repeat(x, 2)),
    "sort": ((5, 2), lambda xp, x: xp.sort(x, axis=0)),
    "tensordot": ((2, 3, 4), lambda xp, x: xp.tensordot(x, x, axes=((0, 2), (0, 2)))),
    "tensordot 1": ((3, 3), lambda xp, x: xp.tensordot(x, x, axes=1)),
    "tensordot 0": ((2, 3), lambda xp, x: xp.tensordot(x, x, axes=0)),
    "vecdot": ((3, 4), lambda xp, x: xp.vecdot(x, x[0])),
    "vecdot 0": ((3, 4), lambda xp, x: xp.vecdot(x, x, axis=0)),
    "meshgrid": ((3,), lambda xp, x: xp.meshgrid(x, x[:2])[0] * 1),
    "meshgrid ij": ((3,), lambda xp, x: xp.meshgrid(x, x[:2], indexing="ij")[1]),
    "broadcast_arrays": ((2, 3), lambda xp, x: xp.broadcast_arrays(x, x[:, :1])[1]),
    "take": ((2, 3), lambda xp, x: xp.take(x, [2, 0], axis=1)),
    "einsum implicit": ((3, 3), lambda xp, x: xp.einsum("ba,bc", x, x)),
    "einsum diagonal": ((3, 3, 2), lambda xp, x: xp.einsum("iij->j", x)),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case, device):
    shape, function = CASES[case]
    values = np.random.default_rng(0).normal(size=shape)
    x = tt.tensor(values, device=device, requires_grad=True)
    np.testing.assert_allclose(function(tt, x).numpy(), function(np, values), rtol=1e-12)
    assert tt.gradcheck(lambda x: function(tt, x), x)
    assert tt.gradgradcheck(lambda x: function(tt, x), x)


def test_parts_and_the_largest(device):
    x = tt.asarray([[3.0, 1.0, 2.0, 4.0]], device=device)
    assert [p.tolist() for p in tt.split(x, [1, 3], axis=1)] == [[[3]], [[1, 2, 4]]]
    assert [p.tolist() for p in tt.split(x, 2, axis=-1)] == [[[3, 1]], [[2, 4]]]
    values, places = tt.topk(x, 2)
    assert (values.tolist(), places.tolist()) == ([[4, 3]], [[3, 0]])
    assert tt.sort(x, descending=True).tolist() == [[4, 3, 2, 1]]


def test_sets_and_searches(device):
    values = np.array([3, 1, 3, 2, 1])
    x = tt.asarray(values, device=device)
    found = tt.unique_all(x)
    assert found.values.tolist() == [1, 2, 3]
    assert found.indices.tolist() == [1, 3, 0]
    assert found.inverse_indices.tolist() == [2, 0, 2, 1, 0]
    assert found.counts.tolist() == [2, 1, 2]
    assert tt.unique_values(x).tolist() == [1, 2, 3]
    assert tt.unique_counts(x).counts.tolist() == [2, 1, 2]
    assert tt.unique_inverse(x.reshape(1, 5)).inverse_indices.shape == (1, 5)
    assert [i.tolist() for i in tt.nonzero(x == 3)] == [[0, 2]]
    assert tt.searchsorted(tt.sort(x), tt.asarray([2, 9], device=device), side="right").tolist() == [3, 5]
    assert tt.one_hot(tt.asarray([2, 0], device=device), 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert tt.count_nonzero(x > 1).item() == 3
    assert tt.broadcast_shapes((2, 1), (3,), ()) == (2, 3)


def test_descending_sort_is_stable(device):
    x = tt.asarray([1, 2, 1, 2], device=device)
    assert tt.argsort(x, descending=True).tolist() == [1, 3, 0, 2]
    assert tt.argsort(x).tolist() == [0, 2, 1, 3]


@pytest.mark.parametrize(
    "name",
    ["sum", "mean", "prod", "all", "any", "count_nonzero", "argmax", "argmin", "argsort", "flip", "concat", "stack"],
)
def test_the_axis_by_position_is_numpys(name):
    x = np.array([[3.0, 0.0, 2.0], [1.0, 5.0, 4.0]])
    given = (x, x) if name in ("concat", "stack") else x
    np.testing.assert_array_equal(getattr(tt, name)(given, 1).numpy(), getattr(np, name)(given, 1))
    with pytest.raises(TypeError, match=f"^{name}: axis must be an integer"):
        getattr(tt, name)(given, x)


def test_the_axis_of_roll_and_logsumexp_by_position():
    x = np.array([[3.0, 0.0, 2.0], [1.0, 5.0, 4.0]])
    np.testing.assert_array_equal(tt.roll(x, 1, 1).numpy(), np.roll(x, 1, 1))
    np.testing.assert_allclose(tt.logsumexp(x, 1).numpy(), np.log(np.exp(x).sum(1)))


@pytest.mark.parametrize("name", ["max", "min", "sort", "std", "var"])
def test_where_numpy_and_pytorch_differ_the_axis_is_given_by_name(name):
    with pytest.raises(TypeError, match="positional"):
        getattr(tt, name)(tt.ones((2, 3)), 1)
