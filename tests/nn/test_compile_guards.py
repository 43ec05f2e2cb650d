"""What `tt.compile` must not take for good, nor do twice: settings of all kinds, caches, counters, other generators."""

import collections
import contextlib
import dataclasses
import functools
import itertools
import random

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import amp
from tinytensor.nn import functional as F

pytest.importorskip("llvmlite")

x = tt.ones(3)
count = 0


@dataclasses.dataclass(slots=True)
class Slots:
    k: float = 2.0


class Both:
    __slots__ = ("__dict__", "k")

    def __init__(self):
        self.k = 2.0

    @property
    def twice(self):
        return 2 * self.k


class Table(dict):
    k = 2.0


def with_slots():
    s = Slots()
    return lambda x: x * s.k, lambda: setattr(s, "k", 5.0)


def with_property():
    s = Both()
    return lambda x: x * s.twice, lambda: setattr(s, "k", 5.0)


def with_set():
    s = {"a"}
    return lambda x: x * (2.0 if "b" in s else 3.0), lambda: s.add("b")


def with_array():
    a = np.array([2.0])
    return lambda x: x * float(a[0]), lambda: a.fill(5.0)


def with_dictionary_of_a_class():
    t = Table()
    return lambda x: x * t.k, lambda: setattr(t, "k", 5.0)


def with_class_attribute():
    t = Table()
    return lambda x: x * t.k, lambda: setattr(Table, "k", Table.k + 1)


def with_scaler():
    s = amp.GradScaler(init_scale=4.0)
    return lambda x: s.scale(tt.sum(x)), lambda: setattr(s, "_scale", 16.0)


def with_optimizer():
    p = nn.Parameter(tt.ones(3))
    o = nn.optim.SGD([p], lr=0.5)
    return lambda x: x * o.param_groups[0]["lr"], lambda: o.param_groups[0].update(lr=0.25)


def with_method_of_a_dictionary():
    d = {"k": 2.0}
    get = d.get
    return lambda x: x * get("k"), lambda: d.update(k=5.0)


def with_partial():
    f = functools.partial(lambda x, k: x * k, k=2.0)
    return f, lambda: f.keywords.update(k=5.0)


def with_deque():
    d = collections.deque([2.0])
    return lambda x: x * d[0], lambda: d.__setitem__(0, 5.0)


SETTINGS = {name.removeprefix("with_"): make for name, make in list(globals().items()) if name.startswith("with_")}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_never_stale(name):
    function, change = SETTINGS[name]()
    compiled = tt.compile(function)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(x).numpy(), function(x).numpy())
        change()
    np.testing.assert_array_equal(compiled(x).numpy(), function(x).numpy())


def test_containers_that_are_arguments_are_changed_in_each_call():
    def extend(x, past, table):
        past.append(x * 2)
        table["k"] = x + 1
        return past[-1] + len(past)

    compiled = tt.compile(extend)
    for _ in range(3):
        past, table = [], {}
        assert compiled(x, past, table).tolist() == [3, 3, 3]
        assert past[0].tolist() == table["k"].tolist() == [2, 2, 2]


def test_a_cache_keeps_tensors_that_can_be_used():
    @functools.lru_cache
    def table(n):
        return tt.arange(n, dtype=tt.float32) * 2

    kept = collections.deque()

    def function(x):
        y = x * table(3)
        kept.append(y)
        return y

    compiled = tt.compile(function)
    for n in (1, 2, 3):
        assert compiled(x).tolist() == [0, 2, 4]
        assert all(isinstance(y._data, np.ndarray) for y in kept)
        assert len(kept) >= n
    assert function(x).tolist() == [0, 2, 4]


def test_an_error_that_it_catches_is_no_branch_that_is_kept():
    def function(x):
        try:
            s = tt.sum(x).item()
        except Exception:
            s = 1.0
        with contextlib.suppress(RuntimeError):
            s += x.tolist()[0]
        return x * s

    compiled = tt.compile(function)
    np.testing.assert_array_equal(compiled(x).numpy(), function(x).numpy())
    table = nn.Embedding(3, 2)

    def look_up(i):
        try:
            return F.embedding(i, table.weight) * 1.0
        except IndexError:
            return tt.zeros((1, 2))

    compiled = tt.compile(look_up)
    for i in (1, 9):
        ids = tt.asarray([i])
        np.testing.assert_array_equal(compiled(ids).detach().numpy(), look_up(ids).detach().numpy())


def test_memory_that_it_changes_and_another_tensor_shares():
    def function(x, y):
        x += 1
        return y * 2

    compiled = tt.compile(function)
    for _ in range(2):
        a = tt.zeros(3)
        assert compiled(a, a.detach()).tolist() == [2, 2, 2]


def test_a_gradient_has_the_values_before_the_change():
    w = tt.ones(2).requires_grad_()

    def function(buffer):
        y = tt.sum(buffer[:2].clone() * w)
        buffer *= 10.0
        return y

    tt.compile(function)(tt.ones(4)).backward()
    assert w.grad.tolist() == [1, 1]


def test_other_generators_draw_in_each_call():
    draws = {
        "random": lambda x: x * random.random(),
        "NumPy": lambda x: x * float(np.random.rand()),  # noqa: NPY002
        "a generator": lambda x, rng=np.random.default_rng(0): x * float(rng.random()),
        "ours": lambda x, g=tt.random.Generator(0): x + tt.random.normal((3,), generator=g),
        "a counter": lambda x, numbers=itertools.count(): x * next(numbers),
    }
    for name, function in draws.items():
        compiled = tt.compile(function)
        found = [compiled(x).tolist() for _ in range(3)]
        assert found[0] != found[1] != found[2], name


def test_draws_before_and_after_are_those_of_the_lines():
    def function(x):
        F.dropout(x, 0.5)
        return F.dropout(x, 0.5)

    many, found = tt.ones(50), []
    for f in (tt.compile(function), function):
        tt.manual_seed(0)
        found.append([f(many).tolist(), tt.random.uniform((3,)).tolist()])
    assert found[0] == found[1]


def test_counters_count_once():
    class Counting(nn.Module):
        calls = 0

        def forward(self, x):
            global count
            count += 1
            Counting.calls += 1
            return x * 2

    compiled, before = tt.compile(Counting()), count
    for n in (1, 2, 3):
        compiled(x)
        assert (count - before, Counting.calls) == (n, n)


def test_a_further_result_does_not_take_later_settings():
    k = 2.0
    y = tt.ones(3).requires_grad_()
    compiled = tt.compile(lambda x: (tt.sum(x), tt.sum(x * k)))
    _, second = compiled(y)
    second.backward()
    assert y.grad.tolist() == [2, 2, 2]
    _, second = compiled(y)
    k = 7.0
    with pytest.raises(RuntimeError, match="has changed since"):
        second.backward()


def test_gradients_that_it_switches_on():
    w = tt.ones(3).requires_grad_()

    def function(x):
        with tt.enable_grad():
            return tt.sum(x * w)

    compiled = tt.compile(function)
    with tt.no_grad():
        assert compiled(x).requires_grad


@dataclasses.dataclass
class Scale:
    factor: float

    @tt.compile
    def scale(self, x):
        return x * self.factor

    act = tt.compile(functools.partial(F.leaky_relu, negative_slope=0.1))


def test_methods_of_objects_that_are_equal_or_without_hash():
    objects = [Scale(2.0), Scale(3.0), Scale(2.0)]
    for thing in objects * 2:
        assert thing.scale(x).tolist() == [thing.factor] * 3
    objects[0].factor = 9.0
    assert objects[0].scale(x).tolist() == [9, 9, 9]
    assert Scale(4.0).scale(x).tolist() == [4, 4, 4]
    assert objects[0].act(-x).tolist() == pytest.approx([-0.1] * 3)


def test_an_attribute_of_the_compiled_module_is_the_module_s():
    class Scaled(nn.Module):
        k = 2.0

        def forward(self, x):
            return x * self.k

    model = Scaled()
    fast = tt.compile(model)
    fast.k = 5.0
    assert (model.k, fast(x).tolist()) == (5.0, [5, 5, 5])


def test_dictionaries_of_every_kind():
    def function(x):
        found = collections.defaultdict(list)
        found["a"] = x * 2
        return found, collections.OrderedDict(b=x)

    first, second = tt.compile(function)(x)
    assert (first["a"].tolist(), first["c"], second["b"].tolist()) == ([2, 2, 2], [], [1, 1, 1])


def test_the_first_batch_is_not_kept():
    import gc
    import weakref

    compiled, batch = tt.compile(lambda x: tt.tanh(x)), tt.ones(5) * 2
    compiled(batch)
    gone = weakref.ref(batch)
    del batch
    gc.collect()
    assert gone() is None
