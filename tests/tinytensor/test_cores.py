"""The cores of this machine: quotas are kept to, and a core counts as free only while nobody else uses it."""

import os
import subprocess
import sys
import time

import pytest

from tinytensor.machine import cores


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
    code = f"import os; os.sched_setaffinity(0, {{{one}}}); from tinytensor.machine import cores; print(cores.count())"
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
