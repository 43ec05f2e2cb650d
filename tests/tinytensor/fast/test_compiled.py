"""Loops compiled for the processor: their exponential function, what they take, and that they are switched on and off.

That they compute what the formulas do is tested in `tests/nn` and `tests/models`, where everything also runs with them.
"""

import inspect
import os
import runpy
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.fast import numpy as backend
from tinytensor.models import Transformer
from tinytensor.models.decoding import beam_search
from tinytensor.nn.fast import attention_blocks


@pytest.fixture
def exp(loops):
    compiled = loops._exp

    @loops.loop
    def over(x, out):
        for i in range(x.size):
            out[i] = compiled(x[i])

    def exp(x):
        out = np.empty_like(x)
        over(x, out)
        return out

    return exp


def test_exp_is_right_to_the_last_place(exp):
    x = np.concatenate([np.linspace(-87.3, 88, 400_001), [-0.0, 1e-30, 1.0]]).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert (np.abs(exp(x) - exact) <= 1.01 * np.spacing(exact.astype(np.float32))).all()
    np.testing.assert_allclose(exp(x.astype(np.float64)), exact, rtol=1e-15)


def test_exp_of_the_lowest_is_zero_and_of_nan_is_nan(exp):
    found = exp(np.array([-np.inf, -1e4, -90.0, np.nan, 0.0], np.float32))
    np.testing.assert_array_equal(found, np.array([0, 0, 0, np.nan, 1], np.float32))


def test_what_they_take(loops):
    square = np.ones((4, 4), np.float32)
    assert loops.fits(square, None, square.copy())
    assert loops.fits(square.astype(np.float64))
    assert not loops.fits(square.astype(np.float16))
    assert not loops.fits(square.T[:2])
    assert not loops.fits(np.ones((0, 4), np.float32))
    assert not loops.fits(square, square.astype(np.float64))
    frozen = square.copy()
    frozen.flags.writeable = False
    assert not loops.fits(frozen)


def test_every_loop_is_called(loops, monkeypatch):
    """A training step, long attention and a beam search call each public function, as the other suites do."""
    names = {n for n, f in vars(loops).items() if inspect.isfunction(f) and f.__module__ == loops.__name__}
    names -= {n for n in names if n.startswith("_")} | {"fits", "loop"}
    called = set()
    for name in names:

        def watched(*args, _name=name, _function=getattr(loops, name), **kwargs):
            called.add(_name)
            return _function(*args, **kwargs)

        monkeypatch.setattr(loops, name, watched)
    model = nn.Sequential(
        nn.Embedding(7, 8), nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.5), nn.LayerNorm(8), nn.RMSNorm(8)
    )
    loss = F.cross_entropy(model(tt.asarray([1, 2, 3])), tt.asarray([0, 1, 2]))
    loss.backward()
    nn.optim.Adam(model.parameters()).step()
    monkeypatch.setitem(attention_blocks.LONG, "cpu", 1)
    x = tt.random.randn(1, 3, 8).requires_grad_()
    F.scaled_dot_product_attention(x, x, x).sum().backward()
    F.max_pool2d(x[None], 2).sum().backward()
    for beam in (1, 5):
        beam_search(Transformer(9, d_model=8, num_heads=2, num_layers=1, d_ff=8), [[3, 4]], beam=beam, max_length=3)
    assert called == names


def test_small_arrays_have_them_only_where_they_were_asked_for():
    assert backend.loops is None
    assert backend.kernel("layer_norm", np.ones((2, 2))) is None


UNASKED = """
import sys
import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F
small, large = tt.random.randn(3, 64), tt.random.randn({rows}, 64)
before = F.cross_entropy(small, tt.arange(3)).numpy().tobytes()
print("numba" in sys.modules)
y = F.cross_entropy(large, tt.arange({rows}) % 64)
print("numba" in sys.modules)
print(F.cross_entropy(small, tt.arange(3)).numpy().tobytes() == before)  # whatever was computed meanwhile
"""


def said(program, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TINYTENSOR_")}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=True).stdout.split()


def unasked(rows, **environment):
    return said(UNASKED.format(rows=rows), **environment)


def test_large_arrays_have_them_unasked():
    rows = -(-backend.LARGE // 64)
    assert unasked(rows) == ["False", "True", "True"]
    assert unasked(rows - 1) == ["False", "False", "True"]
    assert unasked(rows, TINYTENSOR_COMPILE_LOOPS="0") == ["False", "False", "True"]


def test_a_numba_that_cannot_be_loaded_is_done_without(monkeypatch):
    monkeypatch.undo()  # what all tests do without
    monkeypatch.setitem(sys.modules, "tinytensor.fast.loops", None)
    monkeypatch.delattr(sys.modules["tinytensor.fast"], "loops", raising=False)
    cached = backend.loops_unasked, backend.load
    for function in cached:
        function.cache_clear()
    try:
        assert backend.loops_unasked() is None
    finally:
        for function in cached:
            function.cache_clear()


def test_one_thread_loads_while_others_wait(monkeypatch):
    """Numba hands its types out once; a second thread that asks meanwhile gets a generator that is at work."""
    within, most = [], []

    def slowly(name):
        within.append(name)
        most.append(len(within))
        time.sleep(0.05)
        within.remove(name)
        return SimpleNamespace(load_types=lambda: None)

    monkeypatch.setattr(backend, "import_module", slowly)
    threads = [threading.Thread(target=backend.load.__wrapped__, args=(f"loops of {n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 6


INTERRUPTED = """
import builtins, signal
import tinytensor as tt
from tinytensor.nn import functional as F
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background has not
load = builtins.__import__
def interrupting(name, *others):
    if name.startswith("numba.core.types"):
        builtins.__import__ = load
        signal.raise_signal(signal.SIGINT)
    return load(name, *others)
x = tt.ones((512, 64), dtype=tt.float32)
builtins.__import__ = interrupting
try:
    F.linear(x, x)
except KeyboardInterrupt:
    print("interrupted")
print(F.linear(x, x).shape)
"""


def test_ctrl_c_while_numba_is_loaded_leaves_it_whole(loops):
    """Of a Numba that is half loaded, every later use fails."""
    assert said(INTERRUPTED) == ["interrupted", "(512,", "512)"]


def test_switched_off_by_the_environment(monkeypatch):
    monkeypatch.setenv("TINYTENSOR_COMPILE_LOOPS", "0")
    assert not tt.compile_loops()
    assert backend.loops is None


def test_without_numba(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not tt.compile_loops()


def test_without_a_folder_to_keep_them_in(loops, monkeypatch):
    def njit(function, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(function, **options)

    real = loops.numba.njit
    monkeypatch.setattr(loops.numba, "njit", njit)

    @loops.loop
    def double(x):
        for i in range(x.size):
            x[i] *= 2

    x = np.ones(3)
    double(x)
    assert x.tolist() == [2, 2, 2]


def train(threads, steps=3):
    former = tt.get_num_threads()
    tt.set_num_threads(threads)
    try:
        tt.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.LayerNorm(512), nn.Dropout(0.1), nn.Linear(512, 1000))
        optimizer = nn.optim.AdamW(model.parameters())
        x, target = tt.random.randn(2000, 64), tt.random.integers(0, 1000, (2000,))
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), target, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return np.array([*losses, *(float(p.sum().item()) for p in model.parameters())])
    finally:
        tt.set_num_threads(former)


def test_numbers_repeat_on_any_number_of_threads(loops):
    first, second, single = train(2), train(2), train(1)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, single)


def test_long_sums_keep_their_digits(loops):
    """The gradients of a layer norm's weight and bias add up over all rows; NumPy alone would be off by percents."""
    rows = 2_000_000
    weight, bias = (tt.ones(2).requires_grad_() for _ in range(2))
    x = tt.asarray(np.tile(np.array([0, 1], np.float32), (rows, 1)))
    y = F.layer_norm(x, 2, weight, bias)
    y.backward(tt.full((rows, 2), 0.1))
    np.testing.assert_allclose(bias.grad.numpy(), rows * 0.1, rtol=1e-6)
    np.testing.assert_allclose(np.abs(weight.grad.numpy()), rows * 0.1, rtol=1e-4)


# ---- what is kept for the next process


@pytest.fixture
def twice(tmp_path):
    """What gives a loop as a process that begins has it, and what tells the files that are kept of it."""
    compiling = pytest.importorskip("tinytensor.fast.compiling")
    path = tmp_path / "some_loops.py"
    path.write_text("def twice(x, out):\n    for i in range(x.size):\n        out[i] = 2 * x[i]\n")
    return lambda: compiling.loop(runpy.run_path(str(path))["twice"]), lambda: sorted(tmp_path.rglob("*.nbc"))


def hits(compiled, dtype=np.float64):
    """How often the loop was found on disk, after a call for a dtype."""
    x = np.arange(3, dtype=dtype)
    out = np.empty_like(x)
    compiled(x, out)
    np.testing.assert_array_equal(out, 2 * x)
    return sum(compiled.stats.cache_hits.values())


def test_what_is_kept_is_forgotten_when_any_file_of_loops_changes(twice, monkeypatch):
    new, files = twice
    assert [hits(new()), hits(new())] == [0, 1]
    monkeypatch.setattr("tinytensor.fast.compiling._sources", lambda: "another")
    assert [hits(new()), hits(new())] == [0, 1]
    names = {file.name.split(".")[-3] for file in files()}
    assert names == {"another"}  # nothing of before is left


def test_processes_that_compile_for_two_dtypes_do_not_disturb_each_other(twice):
    """With Numba's own files both might call theirs number 1, and one of them finds the other's code."""
    new, files = twice
    one, other = new(), new()
    assert [hits(one, np.float32), hits(other, np.float64)] == [0, 0]
    assert len(files()) == 2
    assert [hits(new(), np.float32), hits(new(), np.float64)] == [1, 1]
    first, second = files()
    second.write_bytes(first.read_bytes())
    for dtype in (np.float32, np.float64):
        hits(new(), dtype)


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b[:-9], lambda b: b[: len(b) // 2], lambda b: bytes(len(b))]
)
def test_damaged_files_are_compiled_anew(twice, damage):
    new, files = twice
    assert hits(new()) == 0
    (file,) = files()
    file.write_bytes(damage(file.read_bytes()))
    assert [hits(new()), hits(new())] == [0, 1]


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_as_good_as_none_at_once(twice, put):
    """To read a pipe to which nobody writes would wait for ever."""
    new, files = twice
    assert hits(new()) == 0
    (file,) = files()
    file.unlink()
    put(file)
    found = []
    reader = threading.Thread(target=lambda: found.append(hits(new())), daemon=True)
    reader.start()
    reader.join(30)
    if reader.is_alive():
        os.close(os.open(file, os.O_WRONLY))  # or all that is compiled later would wait for it
    assert found == [0]


def test_what_cannot_be_kept_is_used_all_the_same(twice, monkeypatch):
    new, files = twice

    def full(path, content):
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr("tinytensor.fast.compiling.atomic_write", full)
    assert hits(new()) == 0
    assert files() == []


def test_threads_share_the_addresses_that_they_ask_for_at_the_same_time():
    """Loops read an array at its address: a thread's own, dropped for another thread's, would be overwritten."""
    compiling = pytest.importorskip("tinytensor.fast.compiling")
    both = threading.Barrier(2, timeout=10)

    def function(dtype):
        both.wait()
        return SimpleNamespace(address=7)

    found = []
    threads = [threading.Thread(target=lambda: found.append(compiling.addresses("f4", function))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1]
    assert found[0].tolist() == [7]


def test_the_hash_of_the_files_is_of_all_of_them(monkeypatch, tmp_path):
    compiling = pytest.importorskip("tinytensor.fast.compiling")
    sources = compiling._sources.__wrapped__
    for name, text in (("compiling.py", "a"), ("products.py", "b")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "compiling.py"))
    before = sources()
    assert sources() == before
    (tmp_path / ".#products.py").symlink_to("nowhere")  # of an editor
    assert sources() == before
    (tmp_path / "products.py").write_text("c")
    assert sources() != before
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "archive.zip" / "compiling.py"))
    with pytest.raises(FileNotFoundError, match="no files"):
        sources()
