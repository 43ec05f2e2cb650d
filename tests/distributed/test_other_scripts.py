"""train_translation.py and train_language_model.py under `mpiexec`: what `test_scripts.py` holds of the copy task."""

import shutil
from typing import NamedTuple

import numpy as np
import pytest

from .conftest import ROOT
from .test_scripts import FULL, assert_ended, at_step, checkpoint, log, on_one_rank, weights

EVERYWHERE = "import tinytensor.models.scripts.toy as toy; toy.TEST_PAIRS = 10"


class Job(NamedTuple):
    script: str
    task: str
    arguments: list[str]

    def command(self, prelude=EVERYWHERE, rank=None):
        """The script, after some lines of Python on one rank, or on all."""
        return on_one_rank(prelude, rank, ROOT / "examples" / self.script)

    def tiny(self, out, *more, steps=8):
        ends = ["--batch-size", "8", "--checkpoint-every", "4", "--steps", str(steps), "--out", out]
        return [*self.command(), *self.arguments, *ends, *more]


JOBS = [
    Job("train_translation.py", "languages.task.TranslationTask", ["--accumulate", "1", "--dropout", "0.1"]),
    *(
        Job(
            "train_language_model.py", "stretches.StretchTask",
            ["--preset", preset, "--length", "16", "--lines", "200", "--dropout", "0.1"],
        )
        for preset in ("llama-tiny", "gpt2-tiny")  # without biases, and with them
    ),
]  # fmt: skip


@pytest.fixture(
    scope="module", params=JOBS, ids=lambda job: job.arguments[1] if "--preset" in job.arguments else job.script
)
def job(request):
    return request.param


@pytest.fixture(scope="module")
def begun(job, mpiexec, tmp_path_factory):
    """A folder with a run of two ranks that ended at step 8, `run`, and one that the time limit ended before."""
    cwd = tmp_path_factory.mktemp("begun")
    for out, more in (("run", []), ("begun", ["--time-limit", "1e-9"])):
        result = mpiexec(2, *job.tiny(out, *more), cwd=cwd)
        assert (result.returncode, result.stderr) == (0, "")
    assert (checkpoint(cwd / "run")["step"], checkpoint(cwd / "begun")["step"]) == (8, 1)
    return cwd


@pytest.mark.parametrize("size", [1, 2, 4])
def test_it_goes_on_at_any_size_with_the_same_bits_at_the_same(job, mpiexec, begun, tmp_path, size):
    shutil.copytree(begun / "begun", tmp_path / "run")
    result = mpiexec(size, *job.command(), "--resume", "--out", "run", "--time-limit", "9", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    same, wanted = weights(tmp_path / "run"), weights(begun / "run")
    assert same.keys() == wanted.keys()
    if size == 2:  # dropout, too, is repeated
        assert {name: value.tobytes() for name, value in same.items()} == {n: v.tobytes() for n, v in wanted.items()}
    else:
        assert any((same[name] != wanted[name]).any() for name in same)  # dropout is another one


def test_four_ranks_train_what_one_process_trains(job, mpiexec, tmp_path):
    for size in (1, 4):
        result = mpiexec(size, *job.tiny(str(size), "--dropout", "0"), cwd=tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
    four, alone = ([e["loss"] for e in log(tmp_path / str(n)) if e["event"] == "step"] for n in (4, 1))
    np.testing.assert_allclose(four, alone, rtol=1e-5)
    found = weights(tmp_path / "4")
    for name, value in weights(tmp_path / "1").items():
        kept = np.ones(len(value), bool)
        if name.endswith(("in_proj_bias", "in_proj.bias")):
            # Those of keys: see `programs.with_adam_too_but_for_the_biases_of_keys`.
            kept[len(value) // 3 : 2 * len(value) // 3] = False
        np.testing.assert_allclose(found[name][kept], value[kept], rtol=0, atol=2e-6, err_msg=name)


def test_a_killed_rank_ends_all(job, mpiexec, tmp_path):
    command = job.command(at_step(6, "os.kill(os.getpid(), signal.SIGKILL)", job.task), 1)
    result = mpiexec(4, *command, *job.tiny("run")[2:], cwd=tmp_path)
    assert_ended(result, 137, rf"{job.script}: rank 1 of 4 was killed by SIGKILL; all end", tmp_path / "run", 4)


def test_a_full_disk_on_rank_0_ends_all(job, mpiexec, tmp_path):
    result = mpiexec(2, *job.command(FULL, 0), *job.tiny("run")[2:], cwd=tmp_path)
    assert_ended(result, 2, rf"{job.script}: cannot write .*: File too large", tmp_path / "run", 4)
