"""The threads that share the work of ops: work inside of work, and many users at once."""

import threading

from tinytensor.fast import threads as parallel


def test_work_inside_gets_a_share_of_the_threads(monkeypatch):
    monkeypatch.setattr(parallel, "_threads", 4)
    monkeypatch.setattr(parallel, "GRAIN", 1)
    seen = []

    def task():
        parallel.in_parts(lambda rows: seen.append((threading.get_ident(), rows)), 100, 1000)

    parallel.concurrently([task, task])
    assert sorted(rows.start for _, rows in seen) == [0, 0, 50, 50]
    seen.clear()
    task()
    assert len(seen) == 4


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
