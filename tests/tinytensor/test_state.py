"""What is promised about state that changes under the graph: right, or an error, never a silent wrong number."""

import copy
import gc
import pickle
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import tinytensor as tt


def leaf(values):
    return tt.tensor(values, dtype=tt.float64, requires_grad=True)


# ---- writes between forward and backward


def write_item(x):
    x[0] = 100.0


def write_fill(x):
    x.fill_(100.0)


def write_copy(x):
    x.copy_(tt.full(3, 100.0, device=x.device))


def write_add(x):
    x += 100


def write_data(x):
    x.data = x.data + 100


def write_data_in_place(x):
    x.data -= 100


@pytest.mark.parametrize(
    "write", [write_item, write_fill, write_copy, write_add, write_data, write_data_in_place], ids=lambda f: f.__name__
)
def test_a_write_to_a_kept_array_raises_or_is_harmless(write, device):
    """The product keeps `weight`, which is then changed under no_grad, as an optimiser does."""
    x = tt.tensor([1.0, 2.0, 3.0], dtype=tt.float64, device=device, requires_grad=True)
    weight = tt.tensor([4.0, 5.0, 6.0], dtype=tt.float64, device=device, requires_grad=True)
    y = (x * weight).sum()
    with tt.no_grad():
        write(weight)
    try:
        y.backward()
    except RuntimeError as error:
        assert "multiply" in str(error)  # noqa: PT017
        assert "changed in place" in str(error)  # noqa: PT017
    else:
        assert x.grad.tolist() == [4, 5, 6]


@pytest.mark.parametrize("write", [write_item, write_add, write_fill, write_data_in_place], ids=lambda f: f.__name__)
def test_an_in_place_write_of_a_leaf_is_noticed(write, device):
    x = tt.tensor([1.0, 2.0, 3.0], dtype=tt.float64, device=device, requires_grad=True)
    y = (x * x).sum()
    with tt.no_grad():
        write(x)
    with pytest.raises(RuntimeError, match=r"\(3,\) float64 that multiply.*changed in place"):
        y.backward()


def test_a_write_through_a_view_is_noticed():
    base = tt.zeros((2, 3))
    row = base[0]
    x = tt.ones(3).requires_grad_()
    y = (x * row).sum()
    base[0, 0] = 5.0
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()


def test_a_write_after_backward_is_fine():
    x, weight = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    for _ in range(3):
        x.grad = None
        (x * weight).sum().backward()
        expected = weight.tolist()
        with tt.no_grad():
            weight -= weight.grad
        assert x.grad.tolist() == expected


def test_a_write_to_what_is_not_kept_is_fine():
    x, y = leaf([1.0, 2.0]), tt.tensor([3.0, 4.0], dtype=tt.float64)
    z = (x + y).sum()
    y[0] = 7.0
    z.backward()
    assert x.grad.tolist() == [1, 1]


def test_memory_that_is_used_again_is_not_mistaken_for_written():
    """A write is remembered by a number of the memory; later arrays in the same memory are not stale."""
    for _ in range(200):
        scratch = tt.zeros(64)
        scratch[0] = 1.0
        del scratch
        x = tt.ones(64).requires_grad_()
        (x * tt.ones(64)).sum().backward()
        assert x.grad.sum().item() == 64


def test_the_error_names_the_line_in_anomaly_mode():
    x = leaf([1.0, 2.0])
    with tt.detect_anomaly():
        y = (x * x).sum()
    with tt.no_grad():
        x += 1
    with pytest.raises(RuntimeError, match=r"called at test_state\.py:\d+ in test_the_error_names"):
        y.backward()


def test_in_place_changes_inside_a_graph_are_right():
    x = leaf([1.0, 2.0, 3.0])
    y = x * x
    z = tt.exp(y * 0) * y  # keeps y
    y += 10
    y *= x
    y[1] = 0.0
    (y.sum() + z.sum()).backward()
    # y = (x^2 + 10) x apart from element 1: gradient 3 x^2 + 10; z = x^2: gradient 2 x
    assert x.grad.tolist() == [13 + 2, 4, 37 + 6]


def test_assigning_a_tensor_that_requires_a_gradient():
    buffer, x = tt.zeros((2, 2), dtype=tt.float64), leaf([1.0, 2.0])
    buffer[0] = x * x
    assert buffer.requires_grad
    buffer.sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_data_that_numpy_still_holds_is_copied():
    values = np.array([1.0, 2.0])
    for make in (tt.asarray, tt.tensor, tt.Tensor, tt.from_dlpack):
        x = make(values)
        values[0] += 10
        assert x.tolist()[0] == values[0] - 10
    x = leaf([1.0, 2.0])
    y = (x * values).sum()
    before = values.tolist()
    values[:] = 0
    y.backward()
    assert x.grad.tolist() == before


def test_shared_memory_is_frozen():
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    x = tt.asarray(values[0], copy=False)
    with pytest.raises(ValueError, match="read-only"):
        values[0, 0] = 5.0
    assert np.shares_memory(x.data, values)
    x[0] = 7.0  # the Tensor moves to memory of its own
    assert (x.tolist(), values[0, 0]) == ([7, 2], 1)


def test_a_number_that_was_broadcast_is_one_number():
    x = tt.tensor(2.0, requires_grad=True)
    y = tt.broadcast_to(x, (2, 3))
    assert np.shares_memory(x.data, y.data)
    with pytest.raises(RuntimeError, match="view of this Tensor"):
        y.data[0, 0] = 3.0
    z = y * y
    x.data -= 1.0  # under what z needs
    with pytest.raises(RuntimeError, match="changed in place"):
        z.sum().backward()
    assert tt.broadcast_to(x, (0, 3)).shape == (0, 3)


def test_numpy_gives_a_read_only_view():
    x = tt.tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 3.0
    assert np.shares_memory(x.numpy(), x.data)


def test_an_index_that_changes_later():
    x, index = leaf([1.0, 2.0, 3.0]), np.array([0, 1])
    by_array, by_tensor = x[index].sum(), None
    positions = tt.asarray(index)
    by_tensor = x[positions].sum()
    index[:] = 2
    positions[0] = 2
    (by_array + by_tensor).backward()
    assert x.grad.tolist() == [2, 2, 0]


def test_a_leaf_cannot_be_changed_in_place():
    x = leaf([1.0, 2.0])
    for change in (write_item, write_add, write_fill, lambda x: x.__imul__(2), lambda x: x.zero_()):
        with pytest.raises(RuntimeError, match=r"leaf Tensor that requires a gradient.*no_grad"):
            change(x)
    assert x.tolist() == [1, 2]


def test_an_in_place_result_must_fit():
    x = tt.ones(3)
    with pytest.raises(ValueError, match=r"\+=: the result \(2, 3\) float32 does not fit"):
        x += tt.ones((2, 3))
    counts = tt.arange(3)
    with pytest.raises(ValueError, match=r"/=: the result \(3,\) float32"):
        counts /= 2


def test_views_see_writes_as_in_numpy():
    x = tt.zeros((2, 3))
    row = x[0]
    row += 1
    x[1, 2] = 5.0
    assert x.tolist() == [[1, 1, 1], [0, 0, 5]]
    detached = x.detach()
    x.zero_()
    assert detached.sum().item() == 0


def test_data_keeps_shape_and_dtype_of_what_requires_a_gradient():
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match="keeps its shape"):
        x.data = np.zeros(3)
    with pytest.raises(ValueError, match="float64"):
        x.data = np.zeros(2, dtype=np.float32)


def test_grad_is_checked_when_assigned():
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match=r"expected \(2,\) float64 on cpu, got \(2,\) float32"):
        x.grad = tt.zeros(2)
    with pytest.raises(TypeError, match="expected a Tensor"):
        x.grad = np.zeros(2)


# ---- modes


def test_no_grad_records_nothing():
    x = leaf([1.0])
    with tt.no_grad():
        assert not (x * 2).requires_grad
        with tt.enable_grad():
            assert (x * 2).requires_grad
        assert not tt.is_grad_enabled()
    assert (x * 2).requires_grad


def test_modes_return_after_an_exception():
    with pytest.raises(ZeroDivisionError), tt.no_grad():
        1 / 0  # noqa: B018
    assert tt.is_grad_enabled()
    with pytest.raises(ZeroDivisionError), tt.detect_anomaly():
        1 / 0  # noqa: B018
    assert not tt.is_anomaly_enabled()


def test_one_instance_may_be_entered_again():
    mode = tt.no_grad()
    with mode:
        with mode:
            assert not tt.is_grad_enabled()
        assert not tt.is_grad_enabled()
    assert tt.is_grad_enabled()


def test_modes_as_decorators():
    @tt.no_grad()
    def off(depth):
        """Docstring."""
        return tt.is_grad_enabled() or (depth > 0 and off(depth - 1))

    @tt.set_grad_enabled(False)
    def chosen():
        return tt.is_grad_enabled()

    assert not off(3)
    assert not chosen()
    assert off.__doc__ == "Docstring."
    assert tt.is_grad_enabled()


def test_modes_on_generators_hold_inside_only():
    seen = []

    @tt.no_grad()
    def numbers():
        for i in range(3):
            seen.append(tt.is_grad_enabled())
            received = yield i
            seen.append(received)
        return "end"

    generator = numbers()
    assert next(generator) == 0
    assert tt.is_grad_enabled()
    assert generator.send("a") == 1
    with tt.no_grad():
        assert next(generator) == 2
    assert tt.is_grad_enabled()
    with pytest.raises(StopIteration, match="end"):
        generator.send("b")
    assert seen == [False, "a", False, None, False, "b"]


def test_generators_are_closed_and_thrown_into():
    log = []

    @tt.no_grad()
    def careful():
        try:
            yield 1
        except KeyError:
            log.append(tt.is_grad_enabled())
            yield 2
        finally:
            log.append("closed")

    generator = careful()
    next(generator)
    assert generator.throw(KeyError()) == 2
    generator.close()
    assert log == [False, "closed"]


def test_grad_mode_is_per_thread():
    seen = {}

    def other():
        seen["fresh"] = tt.is_grad_enabled()
        with tt.no_grad():
            inside.set()
            leave.wait(5)
        seen["after"] = tt.is_grad_enabled()

    inside, leave = threading.Event(), threading.Event()
    with tt.no_grad():
        thread = threading.Thread(target=other)
        thread.start()
    assert inside.wait(5)
    assert tt.is_grad_enabled()
    leave.set()
    thread.join()
    assert seen == {"fresh": True, "after": True}


def test_a_mode_that_is_left_in_another_thread_is_told():
    def steps():
        with tt.no_grad():
            yield 1

    begun, told = steps(), []

    def close():
        try:
            begun.close()
        except RuntimeError as error:
            told.append(str(error))

    with tt.enable_grad():  # which the generator would leave off
        next(begun)
        thread = threading.Thread(target=close)
        thread.start()
        thread.join()
    assert told == ["a mode, such as no_grad, was left in another thread than it was entered in, and stays on there"]
    assert tt.is_grad_enabled()


def test_four_threads_with_graphs_of_their_own():
    def work(i):
        rng = np.random.default_rng(i)
        weight = tt.tensor(rng.normal(size=(8, 8)), requires_grad=True)
        for _ in range(100):
            h = tt.tensor(np.full((4, 8), 0.1 * (i + 1)))
            with tt.no_grad():
                tt.exp(h)
            loss = tt.tanh(tt.tanh(h @ weight) @ weight).sum()
            weight.grad = None
            loss.backward()
            with tt.no_grad():
                weight -= 0.01 * weight.grad
        results[i] = weight.numpy().copy()

    results: dict[int, np.ndarray] = {}
    for i in range(4):
        work(i)
    expected, results = results, {}
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 1, 2, 3]
    for i in range(4):
        np.testing.assert_array_equal(results[i], expected[i])


# ---- memory


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_the_graph_holds_no_reference_cycle():
    x = leaf([1.0, 2.0])
    y = tt.exp(x) * x
    z = y.sum()
    nodes = [weakref.ref(t._node) for t in (y, z)]
    tensors = [weakref.ref(y), weakref.ref(z)]
    del y, z
    assert [r() for r in nodes + tensors] == [None] * 4


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("create_graph", [False, True])
def test_backward_leaves_no_reference_cycle(create_graph):
    x = leaf([1.0, 2.0])
    y = tt.tanh(x * x)[tt.tensor([0, 0, 1])].sum()
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    g = tt.grad(y, x, create_graph=create_graph)
    alive = [weakref.ref(y), weakref.ref(y._node), weakref.ref(g)]
    del y, g
    assert [r() for r in alive] == [None] * 3


@pytest.mark.usefixtures("no_collector")
def test_kept_arrays_die_with_backward():
    x = leaf(np.ones(1000))
    y = tt.exp(x)
    kept = weakref.ref(y._data)
    z = (y * 2).sum()
    del y
    assert kept() is not None
    z.backward()
    assert kept() is None


@pytest.mark.usefixtures("no_collector")
def test_memory_of_a_training_loop_is_flat():
    rng = np.random.default_rng(0)
    weight = tt.tensor(rng.normal(size=(16, 16)), requires_grad=True)
    x = tt.tensor(rng.normal(size=(8, 16)))

    def step():
        weight.grad = None
        tt.logsumexp(tt.tanh(x @ weight), axis=1).mean().backward()
        with tt.no_grad():
            weight.data -= 0.01 * weight.grad.data

    tracemalloc.start()
    try:
        for _ in range(100):
            step()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            step()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 200 * weight.nbytes / 2  # the interpreter's free lists grow a little; a leaked array would be double


# ---- copies


def test_deepcopy_and_pickle():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    twin = copy.deepcopy(x)
    assert twin.requires_grad
    assert twin.grad.tolist() == [2, 4]
    assert not np.shares_memory(twin.data, x.data)
    again = pickle.loads(pickle.dumps(x))
    assert again.requires_grad
    assert again.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="detach"):
        copy.deepcopy(x * 2)
    with pytest.raises(RuntimeError, match="detach"):
        pickle.dumps(x * 2)


def test_shallow_copies_and_clones_do_not_share():
    for x in (tt.ones(3), tt.ones(3, dtype=bool), tt.arange(3)):
        for twin in (copy.copy(x), x.clone(), tt.asarray(x, copy=True), tt.tensor(x)):
            assert twin.dtype == x.dtype
            assert not np.shares_memory(twin.data, x.data)


# ---- arrays that others hold


def test_numpy_cannot_write_behind_the_graph():
    t = tt.tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(t)[0] = 99
    assert np.array(t).flags.writeable


def test_data_takes_a_copy_of_an_array():
    array = np.array([1.0, 2.0])
    x, w = tt.tensor([0.0, 0.0], dtype=tt.float64), leaf([1.0, 1.0])
    x.data = array
    y = (w * x).sum()
    array[0] = 99
    y.backward()
    assert w.grad.tolist() == [1.0, 2.0]


def test_data_that_is_changed_in_place_stays_where_it_is():
    x, y = tt.zeros(2), tt.ones(2)
    array = x._data
    x.data += 1
    assert x._data is array
    x.data = y  # a Tensor's memory is shared, as in PyTorch
    assert x._data is y._data


@pytest.mark.parametrize("bound", [lambda: tt.tensor(1), lambda: np.array(1)])
def test_a_slice_bound_that_changes_later(bound):
    x, n = leaf([1.0, 2.0, 3.0]), bound()
    y = x[:n]
    n += 1
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 0.0]


def test_a_recorded_change_of_a_view_raises():
    y = leaf([1.0, 2.0]) * 2
    view = y[:1]
    with pytest.raises(RuntimeError, match="is a view of another one"):
        view += 10
    buffer = tt.zeros((2, 2), dtype=tt.float64)
    row = buffer[0]
    with pytest.raises(RuntimeError, match="is a view of another one"):
        row[:] = leaf([1.0, 2.0])
    del row
    buffer[0] = leaf([1.0, 2.0])
    assert buffer.tolist() == [[1, 2], [0, 0]]


def test_an_array_that_an_op_made_for_itself_is_no_view():
    y = tt.roll(leaf([1.0, 2.0]), 1)  # NumPy's roll gives a reshaped array
    y += 10
    assert y.tolist() == [12, 11]


def test_a_hook_cannot_write_into_a_shared_gradient():
    a, b, g = leaf([1.0, 1.0]), leaf([1.0, 1.0]), tt.ones(2, dtype=tt.float64)

    def double(gradient):
        gradient *= 2

    a.register_hook(double)
    (a + b).backward(g)
    assert (g.tolist(), b.grad.tolist()) == ([1, 1], [1, 1])


# ---- modes across coroutines


def test_modes_of_coroutines_do_not_leak():
    import asyncio

    @tt.no_grad()
    async def evaluate(seconds):
        await asyncio.sleep(seconds)
        return tt.is_grad_enabled()

    @tt.no_grad()
    async def numbers():
        for i in range(2):
            await asyncio.sleep(0)
            yield i, tt.is_grad_enabled()

    async def train():
        await asyncio.sleep(0.005)
        return tt.is_grad_enabled()

    async def everything():
        results = await asyncio.gather(evaluate(0.01), evaluate(0.015), train())
        return results, [(item, tt.is_grad_enabled()) async for item in numbers()]

    results, items = asyncio.run(everything())
    assert results == [False, False, True]
    assert items == [((0, False), True), ((1, False), True)]
    assert tt.is_grad_enabled()
