"""The threads that share the work of ops: work inside of work, and many users at once."""

import signal
import threading
import time
from queue import SimpleQueue

import numpy as np
import pytest

from tinytensor.fast import threads as parallel
from tinytensor.fast import workers


def test_work_inside_gets_a_share_of_the_threads(monkeypatch):
    monkeypatch.setattr(parallel, "_threads", 4)
    monkeypatch.setattr(parallel, "_chosen", 4)  # after a plain import, tasks run one by one
    monkeypatch.setattr(parallel, "GRAIN", 1)
    divide, counts = parallel._divide, []
    monkeypatch.setattr(parallel, "_divide", lambda *given: counts.append(given[2]) or divide(*given))

    def task():
        parallel.in_parts(lambda rows: None, 100, 1000)

    parallel.concurrently([task, task])
    assert counts == [2, 2, 2]
    counts.clear()
    task()
    assert counts == [4]


@pytest.fixture
def blas(monkeypatch):
    """A library whose threads can be counted, in the place of BLAS."""

    class Library:
        count, asked = 4, []

        def get_num_threads(self):
            return self.count

        def set_num_threads(self, count):
            self.count = count
            self.asked.append(count)

    monkeypatch.setattr(parallel, "_blas_is_single", False)
    monkeypatch.setattr(parallel, "alone", parallel.Alone())
    monkeypatch.setattr(parallel, "GRAIN", 1)
    monkeypatch.setattr(parallel, "_threads", 2)
    parallel.alone.libraries = [library := Library()]
    return library


def test_blas_has_one_thread_within_a_product_and_its_own_again_afterwards(blas):
    seen = []

    def multiply(part):
        seen.append(blas.count)
        if len(seen) == 1:
            parallel.in_parts(lambda inner: seen.append(blas.count), 2, 2, product=True)

    parallel.in_parts(multiply, 2, 2, product=True)
    assert set(seen) == {1}
    assert blas.asked == [1, 4]
    parallel.in_parts(lambda part: seen.append(blas.count), 2, 2)
    assert blas.asked == [1, 4]
    with pytest.raises(ZeroDivisionError):
        parallel.in_parts(lambda part: 1 / 0, 2, 2, product=True)
    assert blas.count == 4


def test_a_process_that_is_forked_within_a_product_has_blas_with_its_threads(blas):
    with parallel.alone:
        parallel.alone.after_fork()
        assert blas.count == 4
        with parallel.alone:
            assert blas.count == 1
        assert blas.count == 4
        parallel.alone.__enter__()  # for the block that is left now


def test_every_thread_has_blas_with_one_thread_and_the_last_gives_the_others_back(monkeypatch):
    """The real BLAS; two threads are within at a time, and the one that was first leaves first."""
    control = pytest.importorskip("threadpoolctl").ThreadpoolController().select(user_api="blas").lib_controllers
    if not control:
        pytest.skip("threadpoolctl does not recognise NumPy's BLAS")
    before, alone, seen = [library.num_threads for library in control], parallel.Alone(), []
    steps = [threading.Event() for _ in range(3)]

    def first():
        with alone:
            steps[0].set()
            steps[1].wait(60)
        steps[2].set()

    def second():
        steps[0].wait(60)
        with alone:
            seen.append([library.num_threads for library in control])
            steps[1].set()
            steps[2].wait(60)
            seen.append([library.num_threads for library in control])

    if not alone.libraries:
        pytest.skip("OPENBLAS_NUM_THREADS has a number")
    threads = [threading.Thread(target=function) for function in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [[1] * len(control)] * 2
    assert [library.num_threads for library in control] == before


SHAPES = [
    ((300, 200), (200, 100)),
    ((7, 300, 20), (7, 20, 30)),
    ((3, 4, 64, 32), (3, 4, 32, 64)),
    ((4, 64, 32), (3, 4, 32, 8)),
    ((1, 4, 64, 32), (3, 1, 32, 8)),
    ((64, 32), (5, 32, 8)),
    ((5, 64, 32), (32, 8)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_a_large_product_is_shared(shapes, dtype, monkeypatch):
    from tinytensor.fast.numpy import large_matmul

    monkeypatch.setattr(parallel, "GRAIN", 1)
    a, b = (np.random.default_rng(i).normal(size=shape).astype(dtype) for i, shape in enumerate(shapes))
    turned = np.ascontiguousarray(np.swapaxes(a, -1, -2)).swapaxes(-1, -2), np.asfortranarray(b)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(parallel, "_threads", threads)
        found += [large_matmul(a, b), large_matmul(*turned)]
    for product in found:
        assert product.dtype == dtype
        np.testing.assert_allclose(product, np.matmul(a, b), rtol=1e-4, atol=1e-4)
    assert len({product.tobytes() for product in found[::2]}) == 1


def test_a_large_product_of_shapes_that_do_not_fit_is_numpys_error():
    from tinytensor.fast.numpy import large_matmul

    with pytest.raises(ValueError, match="mismatch"):
        large_matmul(np.ones((200, 100)), np.ones((200, 100)))
    assert large_matmul(np.ones((0, 100)), np.ones((100, 20))).shape == (0, 20)
    assert large_matmul(np.ones((300, 0)), np.ones((0, 200))).sum() == 0


def test_the_slices_follow_from_the_sizes_alone(monkeypatch):
    monkeypatch.setattr(parallel, "GRAIN", 100)
    found = []
    for threads in (1, 2, 3, 4):
        monkeypatch.setattr(parallel, "_threads", threads)
        seen = []
        parallel.in_parts(lambda rows: seen.append((rows.start, rows.stop)), 30, 1000)
        found.append(sorted(seen))
    assert found == 4 * [[(0, 3), (3, 7), (7, 11), (11, 15), (15, 18), (18, 22), (22, 26), (26, 30)]]
    seen.clear()
    parallel.in_parts(lambda rows: seen.append((rows.start, rows.stop)), 30, 1000, most=1)
    assert seen == [(0, 30)]


@pytest.fixture
def ctrl_c():
    """It is heard as in the foreground, wherever the tests run."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def test_ctrl_c_is_heard_when_no_thread_writes_any_more(ctrl_c):
    begun, written, former = threading.Event(), [], signal.getsignal(signal.SIGINT)

    def part(i):
        if i.start == 0:
            begun.wait()  # on this thread, or it would take on the other part as well
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
        else:
            begun.set()
            time.sleep(0.2)
            written.append(i)

    with pytest.raises(KeyboardInterrupt):
        parallel._divide(part, 2, 2)
    assert len(written) == 1
    assert signal.getsignal(signal.SIGINT) is former


def test_a_handler_of_ones_own_hears_ctrl_c_too():
    heard = []
    former = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        parallel._divide(lambda i: i.start or signal.raise_signal(signal.SIGINT), 2, 2)
    finally:
        signal.signal(signal.SIGINT, former)
    assert heard == [signal.SIGINT]


def test_threads_of_ones_own_split_their_work_without_signals():
    """Only the main thread may set what a signal does."""
    done = []
    user = threading.Thread(target=lambda: parallel._divide(done.append, 2, 2))
    user.start()
    user.join()
    assert len(done) == 2


def test_where_no_thread_can_be_started_this_one_does_all(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(workers, "_workers", [])
    monkeypatch.setattr(workers, "_tasks", SimpleQueue())  # for which those that are there do not wait
    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = []
    parallel._divide(done.append, 4, 4)
    assert sorted(i.start for i in done) == [0, 1, 2, 3]


def test_threads_that_split_their_work_at_the_same_time(monkeypatch):
    """Every worker may be busy with a part that waits for parts of its own: somebody must do these."""
    monkeypatch.setattr(parallel, "_threads", 4)
    monkeypatch.setattr(parallel, "GRAIN", 1)
    done = []

    def task():
        for _ in range(20):
            parallel.in_parts(lambda rows: sum(range(1000)), 100, 1000)
        done.append(True)

    users = [threading.Thread(target=parallel.concurrently, args=([task, task],), daemon=True) for _ in range(6)]
    for user in users:
        user.start()
    for user in users:
        user.join(timeout=60)
    assert len(done) == 12


@pytest.mark.parametrize(
    ("ours", "others", "expected"),
    [("3", "2", 3), (" 3 ", "", 3), ("", "2", 2), ("", "4,2", None), ("", "0", None), (None, None, None)],
)
def test_a_number_of_threads_in_the_environment(ours, others, expected, monkeypatch):
    for name, value in (("TINYTENSOR_NUM_THREADS", ours), ("OMP_NUM_THREADS", others)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert parallel._from_environment() == expected


@pytest.mark.parametrize("text", ["abc", "many", "-1", "0", "1.5", "²", "9" * 5000])
def test_what_is_no_number_of_threads_is_told(text, monkeypatch):
    monkeypatch.setenv("TINYTENSOR_NUM_THREADS", text)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with pytest.warns(
        UserWarning, match=rf"TINYTENSOR_NUM_THREADS={text}: ignored; expected a whole number of threads"
    ):
        assert parallel._from_environment() is None
