"""Training on several ranks of this machine, against one process, and over links of stated bandwidth.

    python benchmarks/data_parallel.py [--workloads toy,m30k,base] [--dropout 0.1]
    python benchmarks/data_parallel.py --bandwidth 125e6 --latency 50e-6    # another link

Tables for each workload, of `Trainer`'s steps on the batch of `train_step.py`:

    speed     tokens a second of 2 ranks with one thread each, relative to 1 process with two threads; interleaved
    bytes     bytes that each rank sends in a step, counted by the kernel with TCP, relative to the least possible
    overlap   the share of the time of sending that is hidden behind the backward pass: (after - during) / (after -
              never), from steps that send after the backward pass, during it, and not at all; without a slower link,
              and over one
    model     the time of a step over a link, measured, and predicted from a step that sends nothing
    plan      the same prediction for more machines and faster links: the share of the machines' time without waiting,
              with one batch for each machine in a step, and with eight

A link is a sleep: an all-reduce takes the bytes / bandwidth and latency of a ring, on top of this machine's own time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from busy import Elsewhere, is_quiet
from command_line import Parser, count, probability, refuse, script, some_of, write_json
from interleaved import environment_of, ratio
from link import bytes_sent, seconds_of_step
from train_step import WORKLOADS

PARTS = ("speed", "bytes", "overlap", "model", "plan")
GIGABITS, MACHINES, ADDED_UP = (1, 10, 100), (2, 8, 64), (1, 8)  # for the plan; the last: batches in a step
LOOPBACK = Path("/sys/class/net/lo/statistics/tx_bytes")
BY_TCP = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
"""Settings of MPICH that keep ranks on one machine from sharing memory."""
AS_RANK = "--as-rank"  # makes this script one of the ranks that it asks
UNTIMED = 3  # steps before the timed ones


class Ranks:
    """A number of ranks of `rank.py`, asked in turn with others."""

    def __init__(self, size: int, threads: int, workload: str, dropout: float, **settings: str) -> None:
        launcher = [mpiexec(), "-n", str(size)] if size > 1 else []
        ours = {"TINYTENSOR_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"}
        self.size = size
        self._process = subprocess.Popen(
            [*launcher, sys.executable, __file__, AS_RANK, workload, str(dropout)],
            env=environment_of(ours | settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        greeting = self._receive()
        self.processes, self.tokens, self.parameters = (greeting[n] for n in ("processes", "tokens", "parameters"))
        self.seconds: list[float] = []
        self.steps(UNTIMED)
        self.seconds.clear()

    def steps(
        self, number: int, *, when: str = "during", bandwidth: float | None = None, latency: float = 0.0
    ) -> list[dict[str, Any]]:
        """Train; returns rank 0's answer for each step."""
        command = {"steps": number, "when": when, "bandwidth": bandwidth, "latency": latency}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = self._receive()
        self.seconds.append(answer["seconds"])
        return answer["steps"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{script()}: a side ended early; its own message is above")
        return json.loads(line)


class Process:
    """A process that uses cores for the measurement."""

    def __init__(self, process_id: int) -> None:
        self.process_id = process_id


def mpiexec() -> str:
    """The launcher beside this Python, or the system's."""
    beside = Path(sys.executable).with_name("mpiexec")
    launcher = str(beside) if beside.exists() else shutil.which("mpiexec")
    return launcher or refuse("there is no mpiexec; pip install -e '.[distributed]'")


def elsewhere(*sides: Ranks) -> Elsewhere:
    return Elsewhere([Process(number) for side in sides for number in side.processes])


def show(name: str, part: str, text: str) -> None:
    print(f"{name:6} {part:8} {text}", flush=True)


# ---- the tables


def speed(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    one, two = Ranks(1, 2, name, arguments.dropout), Ranks(2, 1, name, arguments.dropout)
    others = elsewhere(one, two)
    for _ in range(arguments.rounds):
        one.steps(WORKLOADS[name].steps)
        two.steps(WORKLOADS[name].steps)
    used = others.cores()
    one.close()
    two.close()
    if not is_quiet(name, used, arguments.anyway):
        return {"cores_used_by_others": used}
    of_one = ratio(one.seconds, two.seconds)
    rates = [side.tokens * WORKLOADS[name].steps / statistics.median(side.seconds) for side in (one, two)]
    show(name, "speed", f"1 process {rates[0]:,.0f} tokens/s, 2 ranks {rates[1]:,.0f}: {of_one} of it")
    return {"tokens_a_second": rates, "of_one_process": of_one._asdict(), "cores_used_by_others": used}


def sent(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    if not LOOPBACK.exists():
        show(name, "bytes", "this system does not count them")
        return {}
    found = {}
    for size in (2, 4):
        side = Ranks(size, 1, name, arguments.dropout, **BY_TCP)
        steps = WORKLOADS[name].steps
        before = int(LOOPBACK.read_text())
        side.steps(steps)
        each = (int(LOOPBACK.read_text()) - before) / steps / size
        side.close()
        least = bytes_sent(4 * side.parameters, size)
        show(name, "bytes", f"{size} ranks send {each:,.0f} each in a step, {each / least:.3f} of the least")
        found[size] = {"bytes": each, "least": least}
    return found


def overlap(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    found = {}
    slow = {"bandwidth": arguments.bandwidth, "latency": arguments.latency}
    for text, link in (("no link", {}), (f"{arguments.bandwidth * 8e-9:g} Gbit/s", slow)):
        side = Ranks(2, 1, name, arguments.dropout)
        others = elsewhere(side)
        times: dict[str, list[float]] = {"never": [], "after": [], "during": []}
        for _ in range(arguments.rounds):
            for when, seconds in times.items():
                seconds.append(seconds_of(side, name, when=when, **link))
        used = others.cores()
        side.close()
        if is_quiet(name, used, arguments.anyway):
            never, after, during = (statistics.median(seconds) for seconds in times.values())
            hidden = (after - during) / (after - never) if after > never else float("nan")
            shown = f"never {1e3 * never:.1f} ms, after {1e3 * after:.1f}, during {1e3 * during:.1f}"
            show(name, "overlap", f"{text}: {hidden:.0%} hidden ({shown})")
            found[text] = {"hidden": hidden, "never": never, "after": after, "during": during}
    return found


def model(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    found = {}
    link = {"bandwidth": arguments.bandwidth, "latency": arguments.latency}
    for size in (2, 4):
        side = Ranks(size, 1, name, arguments.dropout)
        others = elsewhere(side)
        predicted, measured = [], []
        for _ in range(arguments.rounds):
            for step in side.steps(WORKLOADS[name].steps, when="never"):
                predicted.append(seconds_of_step(step["seconds"], step["awaited"], step["begun"], size, **link))
            measured.append(seconds_of(side, name, **link))
        used = others.cores()
        side.close()
        if is_quiet(name, used, arguments.anyway):
            said, seen = statistics.median(predicted), statistics.median(measured)
            times = f"predicted {1e3 * said:.1f} ms, measured {1e3 * seen:.1f}, {seen / said:.2f} of it"
            show(name, "model", f"{size} ranks, {arguments.bandwidth * 8e-9:g} Gbit/s: {times}")
            found[size] = {"predicted": said, "measured": seen}
    return found


def plan(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    side = Ranks(2, 1, name, arguments.dropout)
    steps = [step for _ in range(arguments.rounds) for step in side.steps(WORKLOADS[name].steps, when="never")]
    side.close()
    step = sorted(steps, key=lambda step: step["seconds"])[len(steps) // 2]
    alone, parameters = step["seconds"], side.parameters
    show(name, "plan", f"alone {1e3 * alone:.0f} ms for {side.tokens // 2} tokens; {4e-6 * parameters:.0f} MB to send")
    found = {}
    for gigabits in GIGABITS:
        for machines in MACHINES:
            link = {"bandwidth": gigabits * 125e6, "latency": arguments.latency}
            seconds = seconds_of_step(alone, step["awaited"], step["begun"], machines, **link)
            efficiency = {k: alone * k / (alone * (k - 1) + seconds) for k in ADDED_UP}
            shown = ", ".join(f"{share:.2f} with {k}" for k, share in efficiency.items())
            where = f"{machines:2} machines, {gigabits:3} Gbit/s"
            show(name, "plan", f"{where}: {1e3 * seconds:6.0f} ms; efficiency {shown}")
            found[f"{machines} at {gigabits}"] = {"seconds": seconds, "efficiency": efficiency}
    return found


def seconds_of(side: Ranks, name: str, **link: Any) -> float:
    """The seconds of a step, as the median of a round."""
    return statistics.median(step["seconds"] for step in side.steps(WORKLOADS[name].steps, **link))


TABLES = {"speed": speed, "bytes": sent, "overlap": overlap, "model": model, "plan": plan}


def main() -> None:
    if sys.argv[1:2] == [AS_RANK]:
        from rank import serve

        return serve(*sys.argv[2:])
    parser = Parser(__doc__)
    parser.add_argument(
        "--workloads", type=some_of(*WORKLOADS), default=["toy"], help=f"some of {','.join(WORKLOADS)} (toy)"
    )
    parser.add_argument("--parts", type=some_of(*PARTS), default=list(PARTS), help=f"some of {','.join(PARTS)} (all)")
    parser.add_argument("--rounds", type=count, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--dropout", type=probability, default=0.0, help="in all the paper's places (default 0)")
    parser.add_argument("--bandwidth", type=float, default=125e6, help="of the link, bytes a second (125e6: 1 Gbit/s)")
    parser.add_argument("--latency", type=float, default=50e-6, help="of a message, seconds (50e-6)")
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    mpiexec()
    os.environ.pop("TINYTENSOR_NUM_THREADS", None)
    results = {name: {part: TABLES[part](name, arguments) for part in arguments.parts} for name in arguments.workloads}
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
