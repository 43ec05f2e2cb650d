"""The cores of this machine: quotas are kept to, and a core counts as free only while nobody else uses it."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from tinytensor import cores


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, float("inf")),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "max 100000\n"}, float("inf")),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ({"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/cpu.max": "300000 100000\n"}, 3),
        (
            {
                "/proc/self/cgroup": "2:cpuacct,cpu:/docker/x\n0::/\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (
            {
                "/proc/self/cgroup": "1:cpu:/\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            float("inf"),
        ),
    ],
)
def test_quota(monkeypatch, files, quota):
    monkeypatch.setattr(cores, "_read", lambda path: files.get(path, ""))
    monkeypatch.setattr(cores, "_allowed", lambda: set(range(8)))
    assert cores.quota() == quota
    assert cores.count() == min(8, int(min(quota, 8)))


def test_one_core_is_left_by_any_quota(monkeypatch):
    monkeypatch.setattr(cores, "quota", lambda: 0.5)
    assert cores.count() == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")
def test_cores_that_this_process_may_not_use_do_not_count():
    one = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{one}}}); from tinytensor import cores; print(cores.count())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "1\n"


def test_idle_seconds(monkeypatch):
    text = "cpu  9 9 9 900 900 9\ncpu0 1 0 1 100 20 1\ncpu1 1 0 1 300 0 1\ncpu3 1 0 1 500 0 1\nintr 5 cpu4\n"
    monkeypatch.setattr(cores, "_read", lambda path: {"/proc/stat": text}.get(path, ""))
    assert cores.idle_seconds({0, 1}) == 420 / os.sysconf("SC_CLK_TCK")
    assert cores.idle_seconds({5}) == 0


@pytest.mark.parametrize(("stat", "quota"), [("", 8), ("cpu 0\ncpu0 0 0 0 0 0\n", 8), ("cpu 0\ncpu0 0 0 0 9 0\n", 0.5)])
def test_where_it_cannot_be_told(monkeypatch, stat, quota):
    monkeypatch.setattr(cores, "_read", lambda path: {"/proc/stat": stat}.get(path, ""))
    monkeypatch.setattr(cores, "_allowed", lambda: {0})
    monkeypatch.setattr(cores, "quota", lambda: quota)
    assert not cores.can_tell()
    assert cores.used_by_others(0.0) is None


class Machine:
    """A machine of so many cores, of which others use some and this process uses some, in a time of its own."""

    def __init__(self, monkeypatch, size):
        self.now = self.idle = self.own = 0.0
        self.size = size
        clock = SimpleNamespace(monotonic=lambda: self.now, process_time=lambda: self.own, sleep=lambda _: None)
        monkeypatch.setattr(cores, "time", clock)
        monkeypatch.setattr(cores, "_allowed", lambda: set(range(size)))
        monkeypatch.setattr(cores, "idle_seconds", lambda _: 100 + self.idle)

    def go_on(self, seconds, others, own):
        """Both want so many cores; who gets them is shared out where there are too few."""
        share = min(1.0, self.size / max(others + own, 0.1))
        self.now += seconds
        self.own += own * share * seconds
        self.idle += (self.size - (others + own) * share) * seconds


def work(machine, idle, others, seconds):
    """Steps of 20 ms on the cores that are free, one after another; returns on how many each was done."""
    counts = []
    for _ in range(round(seconds / 0.02)):
        counts.append(idle.begin())
        machine.go_on(0.02, others, counts[-1])
        idle.end()
    return counts


@pytest.mark.parametrize("others", [0, 0.1])
def test_cores_are_free_after_a_second_of_calm(monkeypatch, others):
    machine = Machine(monkeypatch, 2)
    idle = cores.IdleCores()
    calm = cores.CALM * cores.WINDOW
    assert set(work(machine, idle, others, calm - 0.1)) == {1}
    assert set(work(machine, idle, others, 0.3)) == {1, 2}
    assert set(work(machine, idle, others, 5)) == {2}


@pytest.mark.parametrize(
    ("size", "others", "left"), [(2, 1, 1), (2, 2, 1), (2, 0.5, 1), (2, 9, 1), (16, 1, 15), (16, 12, 4)]
)
def test_what_others_use_is_left_to_them(monkeypatch, size, others, left):
    machine = Machine(monkeypatch, size)
    idle = cores.IdleCores()
    assert set(work(machine, idle, others, 5)) <= set(range(1, left + 1))
    work(machine, idle, 0, 5)
    assert idle.begin() == size
    counts = work(machine, idle, others, 5)
    assert counts[round(2.2 * cores.WINDOW / 0.02)] < size  # one window may have been half calm
    assert counts[-1] == left
    work(machine, idle, 0, 5)
    assert idle.begin() == size


def test_a_pause_is_not_measured(monkeypatch):
    machine = Machine(monkeypatch, 2)
    idle = cores.IdleCores()
    for _ in range(20):
        work(machine, idle, 0, 0.3)
        machine.go_on(0.5, 2, 0)
    assert idle.begin() == 2
    machine.go_on(60, 0, 0)  # and this one does not hide what comes after it
    assert work(machine, idle, 2, 0.5)[-1] == 1


def test_work_may_take_long(monkeypatch):
    machine = Machine(monkeypatch, 2)
    idle = cores.IdleCores()
    for _ in range(10):  # without an end
        machine.go_on(0.4, 0, idle.begin())
    assert idle.begin() == 2
    machine.go_on(0.4, 2, 2)
    assert idle.begin() == 1


@pytest.mark.skipif(not cores.can_tell(), reason="how long the cores were idle cannot be measured here")
def test_a_busy_core_is_seen():
    """A process that counts, on the cores of this one: at least a good part of a core, whatever else runs."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        assert cores.used_by_others(0.5) > 0.5
    finally:
        other.kill()
        other.wait()
