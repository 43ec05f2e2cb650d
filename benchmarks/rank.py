"""One rank of `data_parallel.py`: trains on command, and reports its time, and when its gradients came.

Rank 0 reads commands, a JSON object a line: the number of steps, and the link for the gradients.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import train_step
from checkout import enter
from link import seconds_of_all_reduce

enter(Path(__file__).resolve().parents[1])

import tinytensor as tt  # noqa: E402
from tinytensor import models  # noqa: E402
from tinytensor.models.data.batch import Batch  # noqa: E402
from tinytensor.models.training.ranks import distribute  # noqa: E402
from tinytensor.models.training.schedules import adam  # noqa: E402
from tinytensor.models.training.trainer import Trainer  # noqa: E402
from tinytensor.nn import distributed  # noqa: E402

CONTROL = 16  # elements: a shorter array is not a gradient


class Link(distributed.Communicator):
    """A communicator whose all-reduces of gradients take as long as on a link with this bandwidth and latency.

    A link is not a processor: the time of an all-reduce runs from its begin, or from the end of the one before, and
    the waiting code sleeps that long. The real work of the ranks on one machine comes on top.

    Attributes:
        bandwidth, latency: bytes a second and seconds; a bandwidth of None: no slower than it is.
        when: send gradients "during" the backward pass, "after" it, or "never".
        begun: for each all-reduce, when it began, and its bytes.
        awaited: when the first wait for one began, which is when the backward pass is done.
    """

    def __init__(self, group: distributed.Communicator) -> None:
        self.group, self.rank, self.size = group, group.rank, group.size
        self.bandwidth: float | None = None
        self.latency, self.when, self.is_free = 0.0, "during", 0.0
        self.begun: list[tuple[float, int]] = []
        self.awaited = 0.0
        self.broadcast, self.broadcast_object = group.broadcast, group.broadcast_object  # type: ignore[method-assign]
        self.gather_objects, self.barrier, self.poke = group.gather_objects, group.barrier, group.poke  # type: ignore[method-assign]

    def all_reduce(self, array: Any) -> Any:
        if array.size < CONTROL:
            return self.group.all_reduce(array)
        return OnLink(self, array)


class OnLink:
    """An all-reduce on a link."""

    def __init__(self, link: Link, array: Any) -> None:
        self.link, self.array, self.pending = link, array, None
        link.begun.append((time.perf_counter(), array.nbytes))
        if link.when == "during":
            self.begin()

    def begin(self) -> None:
        link = self.link
        self.pending = link.group.all_reduce(self.array)
        seconds = 0.0
        if link.bandwidth is not None:
            seconds = seconds_of_all_reduce(self.array.nbytes, link.size, link.bandwidth, link.latency)
        self.due = link.is_free = max(time.perf_counter(), link.is_free) + seconds

    def wait(self) -> None:
        self.link.awaited = self.link.awaited or time.perf_counter()
        if self.link.when == "never":
            return
        if self.pending is None:
            self.begin()
        self.pending.wait()
        time.sleep(max(0.0, self.due - time.perf_counter()))


class OneBatch:
    """A task with a single batch."""

    def __init__(self, arrays: Any) -> None:
        self.batch = Batch(*arrays)

    def training_batch(self, step: int, size: int) -> Batch:
        return self.batch


def serve(workload: str, dropout: str) -> None:
    """Train on command; rank 0 prints a greeting, and an answer to each command."""
    w = train_step.WORKLOADS[workload]
    tt.speed_up()
    group = distributed.init_process_group()
    link = Link(group)
    tt.manual_seed(0)
    model = models.Transformer(
        w.vocabulary, d_model=w.d_model, num_heads=w.num_heads, num_layers=w.num_layers, d_ff=w.d_ff,
        dropout=float(dropout), max_length=w.length,
    )  # fmt: skip
    optimizer, schedule = adam(model, "cosine", 1e-4, 100, 10**6)
    task = OneBatch(train_step.batch(w))
    trainer = Trainer(model, optimizer, schedule, task, batch_size=w.batch)
    if group.size > 1:
        distribute(trainer, link)  # type: ignore[arg-type]
    own = [trainer.task.training_batch(0, w.batch)]

    def step() -> dict[str, Any]:
        link.begun, link.awaited = [], 0.0
        start = time.perf_counter()
        trainer.train_step(own)
        told = {"seconds": time.perf_counter() - start, "begun": [(at - start, size) for at, size in link.begun]}
        return told | {"awaited": link.awaited - start}

    processes = group.gather_objects(os.getpid())
    say(
        group,
        {"processes": processes, "tokens": task.batch.tokens, "parameters": sum(p.size for p in model.parameters())},
    )
    while True:
        command = group.broadcast_object(json.loads(sys.stdin.readline() or "null") if group.rank == 0 else None)
        if command is None:
            return
        link.bandwidth, link.latency, link.when = command["bandwidth"], command["latency"], command["when"]
        group.barrier()
        start = time.perf_counter()
        steps = [step() for _ in range(command["steps"])]
        group.barrier()
        say(group, {"seconds": time.perf_counter() - start, "steps": steps})


def say(group: distributed.Communicator, answer: Any) -> None:
    if group.rank == 0:
        print(json.dumps(answer), flush=True)
