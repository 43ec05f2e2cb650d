"""The threads that share the work of ops: work inside of work, and many users at once."""

import threading

from tinytensor.fast import threads as parallel


def test_work_inside_gets_a_share_of_the_threads(monkeypatch):
    monkeypatch.setattr(parallel, "_threads", 4)
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
