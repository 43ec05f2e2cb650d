"""What `tt.compile` must not take for good, nor do twice: settings of all kinds, caches, counters, other generators."""

import collections
import contextlib
import cProfile
import dataclasses
import datetime
import functools
import itertools
import json
import logging
import os
import random
import secrets
import sys
import threading
import time
import uuid
import weakref
from pathlib import Path

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


class Printing(nn.Module):
    """One that prints where a call does not come by."""

    def __init__(self):
        super().__init__()
        self.input, self.debug = nn.Linear(3, 3), False
        print("parameters:", len(list(self.parameters())))

    def forward(self, x):
        x = self.input(x)
        if self.debug:
            print("x:", x.shape)
        return x

    def generate(self):
        self.eval()
        print("generated")


def test_only_what_is_called_has_to_be_silent(capsys):
    model = Printing()
    compiled = tt.compile(model)
    np.testing.assert_allclose(compiled(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-6)
    assert compiled.why_not is None
    model.debug = True
    compiled(x), compiled(x)
    assert "it calls print()" in compiled.why_not
    assert __file__ in compiled.why_not
    assert capsys.readouterr().out.count("x:") == 2


def say(text, how=print):
    how(text)


def log(x):
    logging.getLogger("of this test").warning("said")


def write(x):
    with open(1, "a", closefd=False) as file:
        file.write("said\n")


REPEATED = {
    "write": lambda x: sys.stdout.write("said\n"),
    "an argument": lambda x: say("said"),
    "a log": log,
    "a file": write,
    "a descriptor": lambda x: os.write(1, b"said\n"),
    "json": lambda x: json.dump("said", sys.stdout),
    "a summary": lambda x: print(nn.summary(nn.Sequential(collections.OrderedDict(said=nn.Linear(3, 3))), x)),
}


@pytest.mark.parametrize("effect", REPEATED.values(), ids=REPEATED)
def test_what_acts_acts_in_each_call(effect, capfd):
    compiled = tt.compile(lambda x: (effect(x), x * 2)[1])
    for _ in range(3):
        assert compiled(x).tolist() == [2, 2, 2]
    assert "".join(capfd.readouterr()).count("said") == 3
    assert compiled.why_not


def test_what_the_library_writes_is_written_in_each_call(tmp_path):
    path = tmp_path / "weights.npz"

    def function(x):
        nn.save({"a": tt.zeros(2)}, path)
        return x * 2

    compiled = tt.compile(function)
    for _ in range(3):
        assert compiled(x).tolist() == [2, 2, 2]
        path.unlink()


FROM_OUTSIDE = {
    "time": lambda: time.perf_counter(),
    "a date": lambda: datetime.datetime.now().microsecond,
    "the environment": lambda: float(os.environ["OF_THIS_TEST"]),
    "getenv": lambda: float(os.getenv("OF_THIS_TEST")),
    "random": lambda: random.random(),
    "shuffle": lambda: random.sample(range(1000), 1)[0],
    "the system's": lambda: secrets.randbelow(1 << 20),
    "uuid": lambda: uuid.uuid4().int % (1 << 20),
    "a file": lambda: float(len(Path(__file__).read_text())),
    "id": lambda: id(object()) % 1000,
    "eval": lambda: eval("1 + 1"),
}


@pytest.mark.parametrize("read", FROM_OUTSIDE.values(), ids=FROM_OUTSIDE)
def test_what_comes_from_outside_is_read_in_each_call(read, monkeypatch):
    monkeypatch.setenv("OF_THIS_TEST", "3")
    compiled = tt.compile(lambda x: x * read())
    compiled(x)
    assert compiled.why_not
    assert __file__ in compiled.why_not
    monkeypatch.setenv("OF_THIS_TEST", "4")
    if read in (FROM_OUTSIDE["the environment"], FROM_OUTSIDE["getenv"]):
        assert compiled(x).tolist() == [4, 4, 4]


def test_a_profiler_goes_on_behind_a_recording():
    def after(x):
        return x + 1

    seen, compiled = [], tt.compile(lambda x: x * 2)
    profiler = cProfile.Profile()
    with profiler:
        compiled(x)
        after(x)
    assert any("after" in str(entry.code) for entry in profiler.getstats())
    sys.setprofile(lambda frame, event, of: seen.append(frame.f_code.co_name))
    try:
        tt.compile(lambda x: x * 3)(x)
        after(x)
    finally:
        sys.setprofile(None)
    assert "after" in seen


def test_objects_of_others_are_not_asked_what_they_are():
    class Gone:
        pass

    class Odd:
        @property
        def __class__(self):
            raise RuntimeError("asked")

    gone, odd = Gone(), Odd()
    proxy = weakref.proxy(gone)
    del gone
    compiled = tt.compile(lambda x: x * 2)
    assert compiled(x).tolist() == [2, 2, 2]
    assert compiled.why_not is None
    for thing in (proxy, odd):
        compiled = tt.compile(lambda x: (thing, x * 2)[1])
        assert compiled(x).tolist() == [2, 2, 2]
        assert "cannot be looked at" in compiled.why_not


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


def test_counters_of_every_kind_count_once_if_it_cannot_be_recorded():
    numbers, things, slots = np.zeros(3), set(range(20)), Slots(0)

    class Counter:
        pass

    def function(x):
        numbers[0] += 1
        things.pop()
        slots.k += 1
        Counter.n = getattr(Counter, "n", 0) + 1
        function.calls = getattr(function, "calls", 0) + 1
        return x * 2

    compiled = tt.compile(function)
    for _ in range(5):
        compiled(x)
    assert (numbers[0], len(things), slots.k, Counter.n, function.calls) == (5, 15, 5, 5, 5)


def test_attributes_of_functions_are_settings():
    def function(x):
        return x * function.scale

    compiled = tt.compile(function)
    for scale in (1.0, 2.0, 3.0):
        function.scale = scale
        assert compiled(x).tolist() == [scale] * 3


def test_a_type_is_that_of_the_lines():
    compiled = tt.compile(lambda x: x * 2 if type(x) is tt.Tensor else x * 3)
    assert compiled(x).tolist() == [2, 2, 2]
    assert "asks for a type" in compiled.why_not


def test_a_seed_within_it_holds_in_each_call():
    dropout = nn.Dropout(0.5)

    @tt.compile
    def function(x):
        tt.manual_seed(3)
        return dropout(x)

    assert function(tt.ones(20)).tolist() == function(tt.ones(20)).tolist()
    assert "draws random numbers" in function.why_not


def test_what_is_in_a_finally_happens_once_in_each_call(capfd, tmp_path):
    path = tmp_path / "log.txt"

    def function(x):
        with contextlib.suppress(ValueError):
            try:
                print("said")
            finally:
                with path.open("a") as file:
                    file.write("x")
        return x * 2

    compiled = tt.compile(function)
    for _ in range(3):
        compiled(x)
    assert path.read_text() == "xxx"
    assert capfd.readouterr().out == "said\n" * 3
    assert sys.gettrace() is None


def test_integers_stay_integers():
    a = tt.asarray([[1], [2]])
    found = tt.compile(lambda a, b: a @ b)(a, a.T)
    assert (found.dtype, found.tolist()) == (tt.int64, [[1, 2], [2, 4]])


def test_other_threads_make_tuples_meanwhile():
    errors, done = [], threading.Event()

    def load():
        while not done.is_set():
            try:
                tuple(i for i in range(60))
            except SystemError as error:
                errors.append(error)

    thread, former = threading.Thread(target=load), sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    thread.start()
    try:
        for _ in range(10):
            layer = nn.Linear(3, 3)
            tt.compile(lambda x: layer(x))(x)
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(former)
    assert not errors


def test_a_log_that_is_switched_on_later_is_written(caplog):
    logger = logging.getLogger("of this test, later")
    logger.setLevel(logging.ERROR)

    def function(x):
        logging.getLogger("of this test, later").info("said")
        return x * 2

    compiled = tt.compile(function)
    compiled(x)
    assert compiled.why_not.endswith("it logs")


def test_why_not_is_told_where_none_of_many_calls_had_a_program():
    compiled = tt.compile(lambda x, k: x * k)
    for k in range(30):
        assert compiled(x, float(k)).tolist() == [k] * 3
    assert "had a program" in compiled.why_not


def test_a_lock_is_free_behind_the_recording():
    lock = threading.Lock()

    def function(x):
        with lock:
            return x * 2

    compiled = tt.compile(function)
    for _ in range(3):
        assert compiled(x).tolist() == [2, 2, 2]
    assert not lock.locked()
    assert compiled.why_not is not None
