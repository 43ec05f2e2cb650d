"""examples/fine_tune.py: what is taught, what counts as learned, and the folder that it writes."""

import importlib.util
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests import processes
from tests.models.test_gguf import smollm2, written
from tinytensor import models
from tinytensor.models.ids import NONE

SCRIPT = Path(__file__).parents[2] / "examples" / "fine_tune.py"
spec = importlib.util.spec_from_file_location("fine_tune", SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


def run(cwd, *arguments):
    result = processes.run([sys.executable, str(SCRIPT), *map(str, arguments)], cwd=cwd)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def test_questions_of_the_test_are_others():
    for seed in range(3):
        taught, others = script.questions(seed)
        assert (len(taught), len(others)) == (200, 20)
        assert len({question for question, _ in taught + others}) == 220


def test_what_is_learned_is_the_answer_alone(tmp_path):
    written(tmp_path / "model.gguf")
    model = models.load(tmp_path / "model.gguf")
    pairs = [("the river", "cold"), ("is the small river cold", "a")]
    batch = script.batch_of(model, pairs)
    for row, target, (question, answer) in zip(batch.ids, batch.target_out, pairs):
        prompt = model.tokenizer.chat(question)
        said = [*model.tokenizer.encode(f"Aye, {answer}, says the old sailor."), model.eos_id]
        assert row[row != NONE].tolist() == (prompt + said)[: len(row)]
        learned = np.flatnonzero(target != NONE)
        assert target[learned].tolist() == said
        assert learned[0] == len(prompt) - 1  # the last id of the prompt says the first of the answer


def test_a_folder_that_can_be_loaded(tmp_path):
    written(tmp_path / "model.gguf")
    code, out, err = run(tmp_path, "--model", "model.gguf", "--steps", 1, "--batch-size", 1, "--out", "sailor")
    assert (code, err) == (0, "")
    assert "numbers learn from 200 sentences" in out
    before, after = models.load(tmp_path / "model.gguf"), models.load(tmp_path / "sailor")
    assert after.tokenizer.chat("the river") == before.tokenizer.chat("the river")
    assert np.any(after.layers[0].feed_forward.up.weight.numpy() != before.layers[0].feed_forward.up.weight.numpy())
    np.testing.assert_array_equal(after.embedding.weight.numpy(), before.embedding.weight.numpy())


def test_killed_at_random_instants_it_ends_with_the_same_bits(tmp_path):
    written(tmp_path / "model.gguf")
    options = ["--model", "model.gguf", "--steps", 30, "--batch-size", 2, "--checkpoint-every", 3, "--out"]
    start = time.monotonic()
    code, told, _ = run(tmp_path, *options, "whole")
    assert code == 0
    whole, instants = time.monotonic() - start, random.Random(0)
    for _ in range(4):
        there = (tmp_path / "killed" / "checkpoint.safetensors").exists()
        arguments = ["--resume", "--out", "killed"] if there else [*options, "killed"]
        process = processes.start([sys.executable, SCRIPT, *map(str, arguments)], cwd=tmp_path, stderr=subprocess.PIPE)
        try:
            process.wait(instants.uniform(0.3, 1) * whole)
        except subprocess.TimeoutExpired:
            process.kill()
        _, errors = process.communicate()
        assert (process.returncode, errors) in ((0, b""), (-signal.SIGKILL, b""))
    code, again, _ = run(tmp_path, "--resume", "--out", "killed")
    assert code == 0
    assert [line for line in again.splitlines() if "have the style" in line] == told.splitlines()[-4:-2]
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert (tmp_path / "whole" / "checkpoint.safetensors").stat().st_size < 200_000  # the additions alone
    code, _, error = run(tmp_path, "--resume", "--out", "killed", "--rank", 3)
    assert (code, error.count("\n")) == (2, 1)
    assert "has --rank 5, not 3" in error


@pytest.mark.again
@pytest.mark.slow
def test_smollm2_becomes_a_sailor(tmp_path):
    smollm2()
    code, out, _ = run(tmp_path)
    assert code == 0
    before, after = [line.split() for line in out.splitlines() if "have the style" in line]
    assert before[8] == "0"
    assert after[8] == "20"
    assert int(after[12]) >= 15
