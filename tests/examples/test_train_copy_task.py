"""examples/train_copy_task.py as its user meets it: a process with arguments, output, files and an exit code."""

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests import processes
from tinytensor import nn

pytest.importorskip("tqdm")

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "train_copy_task.py"
COMMAND = (sys.executable, str(SCRIPT))
STANDIN = ROOT / "tests" / "standin"
TINY = ["--d-model", "8", "--num-heads", "2", "--num-layers", "1", "--batch-size", "4", "--max-length", "3"]
FILES = [
    "attention-head.svg", "checkpoint.safetensors", "cross-attention.svg", "log.jsonl", "loss.svg", "run.html",
]  # fmt: skip


def run(cwd, *arguments, command=COMMAND, env=None, prelude=""):
    return processes.run([*command, *arguments], cwd=cwd, env=env, text=True, prelude=prelude)


def start(cwd, *arguments, prelude=""):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return processes.start([*COMMAND, *arguments], cwd=cwd, text=True, prelude=prelude, **pipes)


def wait_for(process, beginning):
    """Read the first line, which tells of the run, and the second, which begins so."""
    assert process.stdout.readline().startswith("a new run in ")
    assert process.stdout.readline().startswith(beginning)


def contents(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(Path(path).rglob("*")) if p.is_file()}


def log(folder):
    """The log without what depends on the time."""
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in entry.items() if name != "tokens_per_second"} for entry in entries]


def weights(folder):
    return {name: v.numpy().tobytes() for name, v in nn.load(folder / "checkpoint.safetensors")["model"].items()}


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A folder with a finished run in `run`, and what the script said."""
    cwd = tmp_path_factory.mktemp("finished")
    result = run(cwd, *TINY, "--steps", "120", "--out", "run")
    assert result.returncode == 0, result.stderr
    return cwd, result


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of the finished run, to be changed."""
    (tmp_path / "run").mkdir()
    for name, content in contents(finished[0] / "run").items():
        (tmp_path / "run" / name).write_bytes(content)
    return tmp_path


# ---- a run


def test_what_it_says_off_a_terminal(finished):
    _, result = finished
    first, *lines = result.stdout.splitlines()
    assert re.fullmatch(r"a new run in run: 120 steps, [\d,]+ parameters", first)
    figures = r"loss \d\.\d{3}, token accuracy \d+\.\d%, sequence accuracy \d+\.\d%, [\d,]+ tokens/s"
    assert re.fullmatch(rf"step 100/120: {figures}", lines[0])
    assert re.fullmatch(rf"step 120/120: {figures}", lines[4])
    assert lines[5:7] == ["", "copy: a few sequences the model has never seen"]
    for line in lines[1:4] + lines[7:12]:
        assert re.fullmatch(r"  [a-z]{1,3} -> [a-z?]*(   \(should be [a-z]{1,3}\))?", line)
        source, rest = line.strip().split(" -> ", 1)
        answer = rest.split("   ")[0]
        assert ("should be" in line) == (answer.strip() != source)
    assert [line.split(" -> ")[0] for line in lines[1:4]] == [line.split(" -> ")[0] for line in lines[7:10]]
    assert re.fullmatch(r"exact match on 1,000 sequences never seen in training: \d+\.\d%", lines[12])
    assert sorted(lines[13:]) == sorted(f"wrote run/{name}" for name in FILES if name.endswith((".svg", ".html")))
    assert "%|" not in result.stderr
    assert "Traceback" not in result.stderr


SLOW = """
import time
from tinytensor.models.data.sequences import SequenceTask
SequenceTask.training_batch = lambda *arguments: time.sleep(600)
"""


def test_something_is_said_before_the_first_step_is_done(tmp_path):
    """Whoever pipes the output into a file sees that it works."""
    process = start(tmp_path, *TINY, prelude=SLOW)
    started = time.monotonic()
    try:
        assert process.stdout.readline().startswith("a new run in runs/copy-task: 800 steps, ")
        assert time.monotonic() - started < 60  # takes a second; the first step takes ten minutes
    finally:
        process.kill()
        process.communicate()


def test_what_it_writes(finished):
    cwd, result = finished
    assert sorted(p.name for p in (cwd / "run").iterdir()) == FILES
    entries = log(cwd / "run")
    assert Counter(entry["event"] for entry in entries) == {
        "start": 1, "samples": 2, "attention": 2, "step": 12, "result": 1,
    }  # fmt: skip
    assert entries[0]["arguments"] == {
        "task": "copy", "device": "cpu", "steps": 120, "batch_size": 4, "d_model": 8, "num_heads": 2, "num_layers": 1,
        "max_length": 3, "dropout": 0.0, "learning_rate": 0.002, "seed": 0, "out": "run", "checkpoint_every": 200,
        "time_limit": None, "matmul_precision": "highest", "log_to": [], "require_accuracy": None,
    }  # fmt: skip
    assert [entry["step"] for entry in entries if entry["event"] in ("step", "result")] == [*range(10, 121, 10), 120]
    assert [entry["step"] for entry in entries if entry["event"] in ("samples", "attention")] == [0, 0, 100, 100]
    assert entries[-1]["sequences"] == 1000
    assert f"{entries[-1]['exact_match']:.1%}" in result.stdout
    for name in FILES:
        content = (cwd / "run" / name).read_bytes()
        if name.endswith(".svg"):
            assert b"<svg" in content
            assert content.rstrip().endswith(b"</svg>")
    assert b"softmax" in (cwd / "run" / "attention-head.svg").read_bytes()
    state = nn.load(cwd / "run" / "checkpoint.safetensors")
    assert state["step"] == 120


def test_the_same_arguments_give_the_same_bits(finished, tmp_path):
    result = run(tmp_path, *TINY, "--steps", "120", "--out", "run")
    assert result.returncode == 0
    assert weights(tmp_path / "run") == weights(finished[0] / "run")
    assert log(tmp_path / "run") == log(finished[0] / "run")


def test_a_second_run_keeps_the_first(copied):
    before = contents(copied / "run")
    result = run(copied, *TINY, "--steps", "2", "--seed", "5", "--out", "run")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "the run that was in run is kept as run.1"
    assert lines[1].startswith("a new run in run: 2 steps, ")
    assert contents(copied / "run.1") == before
    assert log(copied / "run")[0]["arguments"]["seed"] == 5


@pytest.mark.parametrize("task", ["reverse", "sort"])
def test_the_other_tasks(tmp_path, task):
    result = run(tmp_path, *TINY, "--steps", "2", "--task", task)
    assert result.returncode == 0
    assert f"{task}: a few sequences the model has never seen" in result.stdout
    assert (tmp_path / "runs" / "copy-task" / "checkpoint.safetensors").exists()
    for source, answer in re.findall(r"  ([a-z]+) -> .*should be ([a-z]+)", result.stdout):
        assert answer == (source[::-1] if task == "reverse" else "".join(sorted(source)))


@pytest.mark.slow
def test_it_learns(tmp_path):
    """A hard task for a tiny model: three letters, but only sequences that it was never shown are counted."""
    result = run(
        tmp_path, "--steps", "500", "--d-model", "32", "--num-heads", "2", "--num-layers", "1", "--batch-size", "32",
        "--max-length", "3", "--learning-rate", "5e-3", "--require-accuracy", "0.9",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


def test_three_fixed_examples_now_and_then(tmp_path):
    result = run(tmp_path, *TINY, "--steps", "201")
    lines = result.stdout.splitlines()
    places = [i for i, line in enumerate(lines) if line.startswith(("step 100/", "step 200/"))]
    shown = [[line.split(" -> ")[0] for line in lines[i + 1 : i + 4]] for i in places]
    assert shown[0] == shown[1]
    assert len(set(shown[0])) == 3


def test_help_says_what_every_argument_is(tmp_path):
    result = run(tmp_path, "--help")
    assert result.returncode == 0
    assert result.stderr == ""
    text = result.stdout
    options = [
        "--task", "--device", "--steps", "--batch-size", "--dropout", "--learning-rate", "--seed", "--out", "--resume",
        "--checkpoint-every", "--time-limit", "--matmul-precision", "--log-to", "--require-accuracy", "--d-model",
        "--num-heads", "--num-layers", "--max-length", "--rank-timeout", "--shard-optimizer",
    ]  # fmt: skip
    described = re.findall(r"^  (--[a-z-]+)(?: \S+)*?(?:  +|\n +)(\w.*)", text, flags=re.MULTILINE)
    assert [option for option, _ in described] == options
    assert "130 interrupted" in " ".join(text.split())
    assert list(tmp_path.iterdir()) == []


# ---- a terminal


def test_on_a_terminal_of_80_columns_there_is_a_bar_with_every_figure(tmp_path):
    pty = pytest.importorskip("pty")
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [*COMMAND, *TINY, "--steps", "150"]
    process = processes.start(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    content = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end was closed
            break
        if not part:
            break
        content += part
    os.close(ours)
    assert process.wait() == 0
    frames = re.split(r"[\r\n]+", content.decode())
    bars = [frame for frame in frames if re.search(r"\| \d+/150 ", frame)]
    figures = r"loss \d\.\d{3}, token \d+\.\d%, sequence \d+\.\d%, [\d,]+ tokens/s$"
    assert len(bars) > 3
    assert any(re.search(figures, bar) for bar in bars)
    assert re.search(r"█\| 150/150 00:00, " + figures, bars[-1])
    assert max(map(len, bars)) <= 80
    assert not any(frame.startswith("step 100/") for frame in frames)
    assert any(frame.startswith("exact match on 1,000") for frame in frames)


# ---- going on


KILL = """
import os, signal
calls = 0
def killing(function):
    def call(*args, **kwargs):
        global calls
        calls += 1
        if calls == {nth}:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call
os.fsync, os.replace = killing(os.fsync), killing(os.replace)
"""
LONG = [*TINY, "--dropout", "0.1", "--seed", "3", "--out", "run"]


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("undisturbed")
    result = run(cwd, *LONG, "--steps", "450")
    assert result.returncode == 0, result.stderr
    return cwd / "run"


def again(cwd):
    """The arguments to go on with, or to start with where there is no checkpoint yet."""
    there = (cwd / "run" / "checkpoint.safetensors").exists()
    return ["--resume", "--out", "run"] if there else [*LONG, "--steps", "450"]


def finish(cwd):
    result = run(cwd, *again(cwd))
    assert result.returncode == 0, result.stderr
    return cwd / "run"


@pytest.mark.slow
def test_killed_while_it_writes_it_ends_with_the_same_bits(undisturbed, tmp_path):
    """Killed before each step of writing a file: flushing, renaming, flushing the folder."""
    for nth in (5, 8, 4, 5, 6):
        result = run(tmp_path, *again(tmp_path), prelude=KILL.format(nth=nth))
        assert result.returncode == -signal.SIGKILL, result.stdout + result.stderr
    folder = finish(tmp_path)
    assert weights(folder) == weights(undisturbed)
    assert log(folder) == log(undisturbed)
    assert (folder / "run.html").read_bytes() == (undisturbed / "run.html").read_bytes()
    assert sorted(p.name for p in folder.iterdir()) == FILES


@pytest.mark.slow
def test_killed_at_any_instant_it_ends_with_the_same_bits(undisturbed, tmp_path):
    delays = random.Random(0)
    for lines in (0, 5, 1, 13, 2):  # how much was said before; with 13 lines one after step 200 is certain
        process = start(tmp_path, *again(tmp_path))
        for _ in range(lines):
            process.stdout.readline()
        time.sleep(delays.uniform(0.0, 0.05))
        process.kill()
        process.communicate()
    assert nn.load(tmp_path / "run" / "checkpoint.safetensors")["step"] >= 200
    folder = finish(tmp_path)
    assert weights(folder) == weights(undisturbed)
    assert log(folder) == log(undisturbed)
    assert (folder / "run.html").read_bytes() == (undisturbed / "run.html").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signals", "code", "told"),
    [
        ([signal.SIGINT], 130, "interrupted"),
        ([signal.SIGTERM], 143, "saved and ended by SIGTERM"),
        ([signal.SIGTERM, signal.SIGTERM], 143, "saved and ended by SIGTERM"),  # `timeout` sends two
    ],
)
def test_a_signal_and_the_command_that_it_tells(undisturbed, tmp_path, signals, code, told):
    process = start(tmp_path, *LONG, "--steps", "450")
    wait_for(process, "step 100/450")
    for number in signals:
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err == ""
    last = out.splitlines()[-1]
    step, command = re.fullmatch(told + r" after step (\d+); go on with: (.*)", last).groups()
    assert nn.load(tmp_path / "run" / "checkpoint.safetensors")["step"] == int(step)
    assert 100 <= int(step) < 450
    words = shlex.split(command)
    assert words[0] == "python"
    result = run(tmp_path, command=[sys.executable, *words[1:]])
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == f"resuming run after step {step}"
    assert weights(tmp_path / "run") == weights(undisturbed)
    assert log(tmp_path / "run") == log(undisturbed)


@pytest.mark.slow
def test_checkpoints_as_often_as_is_asked_for(tmp_path):
    process = start(tmp_path, *LONG, "--steps", "100000", "--checkpoint-every", "30")
    wait_for(process, "step 100/")
    process.kill()
    process.communicate()
    step = nn.load(tmp_path / "run" / "checkpoint.safetensors")["step"]
    assert step >= 90
    assert step % 30 == 0
    result = run(tmp_path, "--resume", "--out", "run", "--steps", str(step + 8), "--checkpoint-every", "7")
    assert result.returncode == 0, result.stderr
    assert nn.load(tmp_path / "run" / "checkpoint.safetensors")["arguments"]["checkpoint_every"] == 7


def test_a_run_from_before_an_argument_that_may_differ_goes_on(copied):
    path = copied / "run" / "checkpoint.safetensors"
    state = nn.load(path)
    del state["arguments"]["checkpoint_every"]
    nn.save(state, path)
    result = run(copied, "--resume", "--out", "run", "--steps", "125")
    assert result.returncode == 0, result.stderr


def test_ctrl_c_before_the_last_pictures(copied):
    prelude = (
        "from tinytensor.models.training import plots\n"
        "def stop(*_, **options): raise KeyboardInterrupt\n"
        "plots.draw_losses = stop"
    )
    result = run(copied, "--resume", "--out", "run", prelude=prelude)
    assert result.returncode == 130
    assert "interrupted after step 120; go on with: python" in result.stdout.splitlines()[-1]
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_a_second_run_does_not_disturb_the_first(tmp_path):
    first = start(tmp_path, *LONG, "--steps", "100000")
    wait_for(first, "step 100/")
    for arguments in ([*TINY, "--out", "run"], ["--resume", "--out", "run"]):
        refused(
            run(tmp_path, *arguments), "another run is writing to run; wait until it ends, or choose another folder"
        )
    assert not (tmp_path / "run.1").exists()
    assert first.poll() is None
    first.kill()
    first.communicate()


def test_a_finished_run_gives_its_result_again(copied):
    before = log(copied / "run")
    result = run(copied, "--resume", "--out", "run")
    assert result.returncode == 0
    assert log(copied / "run") == before


def test_a_finished_run_goes_on_with_more_steps(copied):
    before = log(copied / "run")
    result = run(copied, "--resume", "--out", "run", "--steps", "200")
    assert result.returncode == 0, result.stderr
    after = log(copied / "run")
    assert [entry["step"] for entry in after if entry["event"] in ("step", "result")] == [*range(10, 201, 10), 200]
    assert after[:13] == before[:13]
    state = nn.load(copied / "run" / "checkpoint.safetensors")
    assert state["step"] == state["arguments"]["steps"] == 200


def test_the_same_arguments_may_be_given_again(copied):
    assert run(copied, "--resume", "--out", "run", *TINY, "--steps", "121").returncode == 0


@pytest.mark.slow
def test_required_accuracy_outlives_an_interruption(tmp_path):
    first = run(tmp_path, *TINY, "--steps", "2", "--out", "run", "--require-accuracy", "1.0")
    assert first.returncode == 4
    assert run(tmp_path, "--resume", "--out", "run").returncode == 4
    assert run(tmp_path, "--resume", "--out", "run", "--require-accuracy", "0").returncode == 0


@pytest.mark.slow
def test_a_run_on_the_gpu_goes_on_there_or_not_at_all(tmp_path):
    """On the stand-in for CuPy."""
    gpu = processes.environment(STANDIN)
    assert run(tmp_path, *TINY, "--steps", "2", "--out", "run", "--device", "gpu", env=gpu).returncode == 0
    result = run(tmp_path, "--resume", "--out", "run", "--steps", "3", env=gpu)
    assert result.returncode == 0, result.stderr
    assert nn.load(tmp_path / "run" / "checkpoint.safetensors")["arguments"]["device"] == "gpu"
    before = contents(tmp_path)
    refused(run(tmp_path, "--resume", "--out", "run", "--steps", "4"), "train_copy_task.py: device 'gpu' needs ")
    assert contents(tmp_path) == before
    assert run(tmp_path, "--resume", "--out", "run", "--steps", "4", "--device", "cpu").returncode == 0


# ---- mistakes


def refused(result, told):
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stderr.startswith("train_copy_task.py: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.endswith("\n")
    assert result.stdout == ""
    assert told in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--num-heads 3", "--num-heads 3 does not divide --d-model 64"),
        ("--d-model 10 --num-heads 4", "--num-heads 4 does not divide --d-model 10"),
        ("--num-heads 128", "--num-heads 128 does not divide --d-model 64"),
        ("--d-model 0", "--d-model: must be at least 1, got 0"),
        ("--d-model -64", "--d-model: must be at least 1, got -64"),
        ("--num-heads 0", "--num-heads: must be at least 1"),
        ("--num-layers -1", "--num-layers: must be at least 1"),
        ("--batch-size 0", "--batch-size: must be at least 1"),
        ("--max-length 0", "--max-length: must be at least 1"),
        ("--steps -5", "--steps: must be at least 1"),
        ("--checkpoint-every 0", "--checkpoint-every: must be at least 1, got 0"),
        ("--checkpoint-every often", "--checkpoint-every: must be a whole number, got 'often'"),
        ("--steps 1.5", "--steps: must be a whole number, got '1.5'"),
        ("--seed -1", "--seed: must be at least 0"),
        ("--dropout 1.1", "--dropout: must be from 0 to 1"),
        ("--learning-rate 0", "--learning-rate: must be a number above 0"),
        ("--learning-rate nan", "--learning-rate: must be a number above 0"),
        ("--require-accuracy 99.9", "--require-accuracy: must be from 0 to 1"),
        ("--task shuffle", "invalid choice: 'shuffle'"),
        ("--device tpu", "invalid choice: 'tpu'"),
        ("--device gpu", "train_copy_task.py: device 'gpu' needs "),
        ("--unknown 3", "--unknown"),
        ("stray", "stray"),
        pytest.param("--d-model 1000000", "not enough memory", marks=pytest.mark.slow),
        ("--batch-size 1000001", "--batch-size: must be at most 1000000, got 1000001"),
        ("--max-length 100000000000", "--max-length: must be at most 1000000"),
        ("--num-layers 1000000000000", "--num-layers: must be at most 1000,"),
        ("--steps " + "9" * 5000, "--steps: must be a whole number"),
        ("--seed 1e11", "--seed: must be a whole number, got '1e11'"),
        ("--out run/log.jsonl", "cannot write to the folder run/log.jsonl"),
        ("--out run/log.jsonl/below", "cannot write to the folder run/log.jsonl/below"),
        ("--out /dev/null/x", "cannot write to the folder /dev/null/x"),
        ("--resume --out missing", "there is no checkpoint.safetensors in missing"),
        ("--resume --out run/log.jsonl", "there is no checkpoint.safetensors in run/log.jsonl"),
        ("--resume --out run --seed 1", "the run in run has --seed 0, not 1"),
        ("--resume --out run --d-model 16", "has --d-model 8, not 16"),
        ("--resume --out run --num-heads 3", "has --num-heads 2, not 3"),
        ("--resume --out run --task sort", "has --task copy, not sort"),
        ("--resume --out run --steps 119", "--steps 119, but the run has done 120 already"),
        ("--resume --out run --device gpu", "train_copy_task.py: device 'gpu' needs "),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(copied, arguments, told):
    before = contents(copied)
    result = run(copied, *arguments.split())
    refused(result, told)
    assert contents(copied) == before


@pytest.mark.parametrize("damage", ["empty", "truncated", "flipped", "text", "foreign", "another model", "arguments"])
def test_a_checkpoint_that_is_none_is_one_line_and_kept(copied, damage):
    path = copied / "run" / "checkpoint.safetensors"
    content = path.read_bytes()
    state = nn.load(path)
    if damage == "foreign":
        from safetensors.numpy import save_file

        save_file({"x": np.zeros(3)}, path)
    elif damage == "another model":
        nn.save({**state, "model": {"weight": state["model"]["projection.weight"]}}, path)
    elif damage == "arguments":
        nn.save({**state, "arguments": {**state["arguments"], "d_model": 16}}, path)
    else:
        changed = {
            "empty": b"",
            "truncated": content[:-100],
            "flipped": content[:-9] + bytes([content[-9] ^ 4]) + content[-8:],
            "text": b"loss,accuracy\n1,2\n",
        }
        path.write_bytes(changed[damage])
    before = contents(copied)
    told = "does not fit" if damage in ("another model", "arguments") else "run/checkpoint.safetensors"
    refused(run(copied, "--resume", "--out", "run"), told)
    assert contents(copied) == before


def test_a_run_in_the_current_folder_is_not_moved(copied):
    before = contents(copied)
    refused(run(copied / "run", *TINY, "--steps", "2", "--out", "."), "cannot be moved aside")
    assert contents(copied) == before


def test_a_missing_package_is_told_before_the_training(tmp_path):
    result = run(tmp_path, *TINY, prelude="import sys; sys.modules['tqdm'] = None")
    refused(result, "tqdm is not installed; run: pip install")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_reader_that_goes_away(tmp_path):
    process = start(tmp_path, *TINY, "--steps", "100000")
    wait_for(process, "step 100/")
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


# ---- numbers


@pytest.mark.parametrize(
    ("rate", "told"),
    [("1e30", "linear: the first result that is not finite, from finite inputs"), ("1e300", "the optimizer's step")],
)
def test_a_loss_that_is_not_finite(tmp_path, rate, told):
    result = run(tmp_path, *TINY, "--learning-rate", rate, "--out", "run")
    assert result.returncode == 3
    assert result.stderr.count("\n") == 1, result.stderr
    assert re.match(r"train_copy_task.py: the loss is (nan|inf) at step 2: ", result.stderr)
    assert told in result.stderr
    last = log(tmp_path / "run")[-1]
    assert last["event"] == "not finite"
    assert last["step"] == 2
    assert last["message"] in result.stderr


@pytest.mark.slow
def test_required_accuracy(tmp_path):
    result = run(tmp_path, *TINY, "--steps", "2", "--require-accuracy", "0.999")
    assert result.returncode == 4
    last = result.stderr.splitlines()[-1]
    assert re.fullmatch(r"train_copy_task.py: exact match 0\.\d{4} is below the required 0\.999", last)


@pytest.mark.slow
def test_a_time_limit_ends_training_well_and_resume_goes_on(tmp_path):
    first = run(tmp_path, *TINY, "--out", "run", "--steps", "1000000", "--time-limit", "0.02")
    assert first.returncode == 0, first.stderr
    assert "the time limit of 0.02 minutes ended training after step " in first.stdout + first.stderr
    done = nn.load(tmp_path / "run" / "checkpoint.safetensors")["step"]
    assert 0 < done < 1_000_000
    second = run(tmp_path, "--resume", "--out", "run", "--steps", str(done + 3), "--time-limit", "5")
    assert second.returncode == 0, second.stderr
    assert nn.load(tmp_path / "run" / "checkpoint.safetensors")["step"] == done + 3
