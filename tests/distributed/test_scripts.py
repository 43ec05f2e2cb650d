"""examples/train_copy_task.py under `mpiexec`: one voice, one run, and one end for all ranks."""

import json
import re
import shutil
import time

import numpy as np
import pytest

from tinytensor import nn

from .conftest import ROOT

SCRIPT = ROOT / "examples" / "train_copy_task.py"
TINY = ["--d-model", "8", "--num-heads", "2", "--num-layers", "1", "--batch-size", "8", "--max-length", "3"]
TINY += ["--dropout", "0.1", "--checkpoint-every", "4"]


def on_one_rank(prelude, rank=1, script=SCRIPT):
    """A script, after some lines of Python on one of the ranks; None: on all."""
    return [
        "-c",
        f"import os, runpy, sys\nsys.argv[0] = {str(script)!r}\nif {rank} in (None, int(os.environ['PMI_RANK'])):\n"
        + "".join(f"    {line}\n" for line in prelude.strip().splitlines())
        + "runpy.run_path(sys.argv[0], run_name='__main__')",
    ]


def at_step(step, what, task="sequences.SequenceTask"):
    """Lines after which the training batch of a step brings something about."""
    module, name = task.rsplit(".", 1)
    return f"""
import signal, time
from tinytensor.models.data.{module} import {name}
make = {name}.training_batch
def training_batch(self, step, size):
    if step == {step}:
        {what}
    return make(self, step, size)
{name}.training_batch = training_batch
"""


def checkpoint(folder):
    return nn.load(folder / "checkpoint.safetensors")


def weights(folder):
    return {name: value.numpy() for name, value in checkpoint(folder)["model"].items()}


def log(folder):
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in entry.items() if name != "tokens_per_second"} for entry in entries]


@pytest.fixture(scope="module")
def finished(mpiexec, tmp_path_factory):
    """A folder with a finished run of two ranks in `run`, and what they said."""
    cwd = tmp_path_factory.mktemp("finished")
    result = mpiexec(2, SCRIPT, *TINY, "--steps", "12", "--out", "run", cwd=cwd)
    assert result.returncode == 0, result.stderr
    return cwd / "run", result


def test_rank_0_alone_writes_and_speaks(finished):
    folder, result = finished
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"a new run in run: 12 steps, [\d,]+ parameters", lines[0])
    for line in set(lines):
        assert lines.count(line) == 1 or not line, line
    assert lines[-1] == "wrote run/run.html"
    assert not {"rank_timeout", "shard_optimizer"} & set(log(folder)[0]["arguments"])


def test_it_goes_on_at_any_size_with_the_same_bits_at_the_same(mpiexec, finished, tmp_path):
    folder, _ = finished
    begun = mpiexec(2, SCRIPT, *TINY, "--steps", "12", "--out", "begun", "--time-limit", "1e-9", cwd=tmp_path)
    assert begun.returncode == 0, begun.stderr
    assert checkpoint(tmp_path / "begun")["step"] == 1
    for size, out in ((2, "same"), (4, "more"), (1, "alone")):
        shutil.copytree(tmp_path / "begun", tmp_path / out)
        result = mpiexec(size, SCRIPT, "--resume", "--out", out, "--time-limit", "9", "--shard-optimizer", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert checkpoint(tmp_path / out)["step"] == 12
    same, wanted = weights(tmp_path / "same"), weights(folder)
    assert {name: value.tobytes() for name, value in same.items()} == {n: v.tobytes() for n, v in wanted.items()}
    states = [checkpoint(f)["optimizer"]["state"] for f in (folder, tmp_path / "more", tmp_path / "alone")]
    assert states[0].keys() == states[1].keys() == states[2].keys()


def test_two_ranks_and_one_log_the_same_losses(mpiexec, tmp_path):
    for size in (1, 2):
        result = mpiexec(size, SCRIPT, *TINY, "--dropout", "0", "--steps", "12", "--out", str(size), cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    alone, two = ([e for e in log(tmp_path / str(size)) if e["event"] == "step"] for size in (1, 2))
    for a, b in zip(alone, two, strict=True):
        assert a["step"] == b["step"]
        np.testing.assert_allclose(b["loss"], a["loss"], rtol=1e-5)
        for layer, norm in a["gradient_norms"].items():
            np.testing.assert_allclose(b["gradient_norms"][layer], norm, rtol=1e-2)


def assert_ended(result, code, line, folder, step):
    """One line on stderr, the exit code, and a checkpoint that can be read."""
    assert result.returncode == code, result.stderr
    assert re.fullmatch(line + "\n", result.stderr), result.stderr
    assert checkpoint(folder)["step"] == step


def test_a_killed_rank_ends_all(mpiexec, tmp_path):
    start = time.monotonic()
    command = on_one_rank(at_step(9, "os.kill(os.getpid(), signal.SIGKILL)"))
    result = mpiexec(4, *command, *TINY, "--out", "run", cwd=tmp_path)
    assert_ended(result, 137, r"train_copy_task.py: rank 1 of 4 was killed by SIGKILL; all end", tmp_path / "run", 8)
    assert time.monotonic() - start < 200  # takes some ten seconds


@pytest.mark.parametrize(("rank", "what"), [(0, "os.kill(os.getpid(), signal.SIGSTOP)"), (1, "time.sleep(600)")])
def test_a_rank_that_hangs_is_named_and_ends_all(mpiexec, finished, tmp_path, what, rank):
    """Within the timeout, the time to answer, which is not longer, and what rank 0 has to speak first.

    The loops are compiled by then, for which a rank is silent for longer.
    """
    start = time.monotonic()
    command = on_one_rank(at_step(9, what), rank)
    result = mpiexec(2, *command, *TINY, "--out", "run", "--rank-timeout", "2", cwd=tmp_path)
    first = "" if rank else "rank 1 of 2: "
    line = rf"{first}train_copy_task.py: rank {rank} does not answer; rank \d has waited for 2 seconds; all end"
    assert_ended(result, 5, line, tmp_path / "run", 8)
    assert time.monotonic() - start < 200  # takes some ten seconds


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from tinytensor.models.training.callbacks import Checkpoints
save = Checkpoints.save
def full(self, trainer):
    if trainer.step == 8:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    save(self, trainer)
Checkpoints.save = full
"""


def test_a_full_disk_on_rank_0_ends_all(mpiexec, tmp_path):
    result = mpiexec(2, *on_one_rank(FULL, rank=0), *TINY, "--out", "run", cwd=tmp_path)
    assert_ended(result, 2, r"train_copy_task.py: cannot write .*: File too large", tmp_path / "run", 4)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_to_one_rank_ends_all_after_the_same_step(mpiexec, tmp_path, rank):
    command = on_one_rank(at_step(6, "os.kill(os.getpid(), signal.SIGTERM)"), rank)
    result = mpiexec(2, *command, *TINY, "--out", "run", cwd=tmp_path)
    assert result.returncode == 143, result.stderr
    assert result.stderr == ""
    assert re.fullmatch(
        r"saved and ended by SIGTERM after step 7; go on with: mpiexec -n 2 python \S+ --resume --out run",
        result.stdout.splitlines()[-1],
    )
    assert checkpoint(tmp_path / "run")["step"] == 7


def test_an_error_on_one_rank_is_told_with_its_name(mpiexec, tmp_path):
    command = on_one_rank(at_step(9, "raise ValueError('no more data')"))
    result = mpiexec(2, *command, *TINY, "--out", "run", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("rank 1 of 2: Traceback")
    assert result.stderr.endswith("ValueError: no more data\n")


def test_a_loss_that_is_not_finite_ends_all(mpiexec, tmp_path):
    result = mpiexec(2, SCRIPT, *TINY, "--learning-rate", "1e30", "--steps", "50", "--out", "run", cwd=tmp_path)
    assert result.returncode == 3
    assert re.fullmatch(r"train_copy_task.py: .* at step \d+: .*\n", result.stderr), result.stderr


def test_a_mistake_is_told_once(mpiexec, tmp_path):
    result = mpiexec(4, SCRIPT, "--d-model", "9", "--num-heads", "2", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "train_copy_task.py: --num-heads 2 does not divide --d-model 9\n"
    result = mpiexec(4, SCRIPT, "--steps", "none", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1


def test_a_rank_with_other_arguments_is_named(mpiexec, tmp_path):
    result = mpiexec(2, *on_one_rank("sys.argv += ['--seed', '1']"), *TINY, "--out", "run", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == "train_copy_task.py: rank 1 has other arguments or other data than rank 0\n"
    assert not (tmp_path / "run" / "log.jsonl").exists()


def test_help_is_told_once(mpiexec, tmp_path):
    result = mpiexec(2, SCRIPT, "--help", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count("usage:") == 1


def test_without_mpi4py_it_says_what_to_install(mpiexec, tmp_path):
    missing = "sys.modules['mpi4py'] = None"
    result = mpiexec(2, *on_one_rank(missing, rank=0), *TINY, "--out", "run", cwd=tmp_path)
    assert result.returncode == 2
    assert re.fullmatch(r"train_copy_task.py: MPI cannot be loaded \(.*\); run: pip install .*\n", result.stderr)


def test_started_alone_it_loads_no_mpi(mpiexec, tmp_path):
    code = (
        f"import sys, runpy, atexit\nsys.argv[0] = {str(SCRIPT)!r}\n"
        "atexit.register(lambda: print('mpi4py' in sys.modules))\nrunpy.run_path(sys.argv[0], run_name='__main__')"
    )
    result = mpiexec(1, "-c", code, *TINY, "--steps", "1", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(("zero", "one"), [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_ranks_agree_on_what_medium_is(zero, one, mpiexec, tmp_path):
    """Each has measured both dtypes; where one of them has float32, all take it, and the checkpoint has it."""
    command = on_one_rank(f"os.environ['TINYTENSOR_MEDIUM'] = {one!r}")
    options = ["--steps", 6, "--matmul-precision", "medium", "--out", "run"]
    result = mpiexec(2, *command, *TINY, *options, cwd=tmp_path, TINYTENSOR_MEDIUM=zero)
    assert (result.returncode, result.stderr.count("Error")) == (0, 0)
    assert checkpoint(tmp_path / "run")["medium"] == "float32"
