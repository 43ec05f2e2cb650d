"""The folder of a run: moved aside, never overwritten; a checkpoint and a log that belong together."""

import json
import subprocess
import sys

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.pretrained import CONFIG
from tinytensor.models.training.run_folder import CHECKPOINT, LOG, RunFolder, RunFolderError


def contents(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def finished_run(path):
    folder = RunFolder(path, resume=False)
    folder.begin()
    folder.log(event="start", arguments={"seed": 1})
    folder.log(event="step", step=1, loss=2.5)
    folder.save({"arguments": {"seed": 1}, "step": 1, "weights": tt.asarray([1.0, 2.0])})
    folder.close()
    return folder


def test_the_folder_is_made_and_nothing_is_left_in_it(tmp_path):
    folder = RunFolder(tmp_path / "runs" / "first", resume=False)
    assert folder.begin() is None
    assert contents(tmp_path) == {}
    assert (tmp_path / "runs" / "first").is_dir()


def test_a_run_that_is_there_is_moved_aside_whole(tmp_path):
    kept = []
    for _ in range(3):
        finished_run(tmp_path / "run")
        (tmp_path / "run" / "notes.txt").write_text(f"of run {len(kept)}")
        (tmp_path / "run" / ".checkpoint.safetensors.0123abcd.tmp").write_bytes(b"being written")
        kept.append(contents(tmp_path / "run"))
        folder = RunFolder(tmp_path / "run", resume=False)
        assert contents(tmp_path / "run") == kept[-1]  # until the new run begins
        assert folder.begin() == tmp_path / f"run.{len(kept)}"
        assert contents(tmp_path / "run") == {}
        folder.close()
    assert [contents(tmp_path / f"run.{i}") for i in (1, 2, 3)] == kept


@pytest.mark.parametrize("file", [CHECKPOINT, LOG, CONFIG, "weights-00000100.safetensors"])
def test_half_a_run_is_moved_aside_too(tmp_path, file):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / file).write_text("x")
    assert RunFolder(tmp_path / "run", resume=False).begin() == tmp_path / "run.1"
    assert contents(tmp_path / "run.1") == {file: b"x"}


def test_other_files_stay_where_they_are(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert RunFolder(tmp_path, resume=False).begin() is None
    assert contents(tmp_path) == {"notes.txt": b"mine"}


HOLD = """
import sys
from tinytensor.models.training.run_folder import RunFolder
folder = RunFolder(sys.argv[1], resume=False)
folder.begin()
print("begun", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_two_processes_do_not_train_in_one_folder(tmp_path):
    finished_run(tmp_path / "run")
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "begun\n"
    before = contents(tmp_path)
    with pytest.raises(RunFolderError, match="another run is writing to"):
        RunFolder(tmp_path / "run", resume=False)
    RunFolder(tmp_path / "run.1", resume=True)  # what was moved aside is nobody's
    assert contents(tmp_path) == before
    other.kill()
    other.communicate()
    RunFolder(tmp_path / "run", resume=False)


def test_a_run_that_goes_on_is_locked_too(tmp_path):
    finished_run(tmp_path)
    folder = RunFolder(tmp_path, resume=True)
    for resume in (True, False):
        with pytest.raises(RunFolderError, match="another run is writing to"):
            RunFolder(tmp_path, resume=resume)
    folder.close()
    RunFolder(tmp_path, resume=True)


@pytest.mark.parametrize("place", [".", "..", "../.."])
def test_a_run_is_not_moved_away_from_under_the_current_folder(tmp_path, monkeypatch, place):
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    finished_run(place)
    before = contents(tmp_path)
    with pytest.raises(RunFolderError, match="cannot be moved aside"):
        RunFolder(place, resume=False)
    assert contents(tmp_path) == before


def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("precious")
    for path in (tmp_path / "file", tmp_path / "file" / "below", "/dev/null/x"):
        with pytest.raises(RunFolderError, match="cannot write to the folder") as caught:
            RunFolder(path, resume=False)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert contents(tmp_path) == {"file": b"precious"}


def test_nothing_to_resume(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(RunFolderError, match=f"there is no {CHECKPOINT} in {path}"):
            RunFolder(path, resume=True)
    assert list(tmp_path.iterdir()) == []


def test_the_checkpoint_comes_back_and_the_log_is_cut_back_to_it(tmp_path):
    folder = finished_run(tmp_path / "run")
    log = (tmp_path / "run" / LOG).read_bytes()
    folder.log(event="step", step=2, loss=2.0)
    with open(tmp_path / "run" / LOG, "a") as file:
        file.write('{"event": "step", "st')
    longer = contents(tmp_path / "run")
    folder = RunFolder(tmp_path / "run", resume=True)
    state = folder.load()
    assert contents(tmp_path / "run") == longer
    assert state["step"] == 1
    np.testing.assert_array_equal(state["weights"].numpy(), [1.0, 2.0])
    folder.rewind(state)
    assert (tmp_path / "run" / LOG).read_bytes() == log
    folder.rewind(state)
    assert (tmp_path / "run" / LOG).read_bytes() == log


def test_a_missing_log_does_not_stop_a_run(tmp_path):
    finished_run(tmp_path)
    (tmp_path / LOG).unlink()
    folder = RunFolder(tmp_path, resume=True)
    folder.rewind(folder.load())
    assert folder.entries("step") == []


def test_what_a_killed_writer_left_behind_is_removed(tmp_path):
    finished_run(tmp_path)
    (tmp_path / f".{CHECKPOINT}.0123abcd.tmp").write_bytes(b"half")
    (tmp_path / ".mine.tmp").write_bytes(b"mine")
    RunFolder(tmp_path, resume=True)
    assert set(contents(tmp_path)) == {CHECKPOINT, LOG, ".mine.tmp"}


def steps(folder):
    return [step for step, _ in folder.weights()]


def test_weights_are_dropped_when_the_checkpoint_is_past_them(tmp_path):
    """So that a run that is killed at any instant has those of its checkpoint."""
    folder = RunFolder(tmp_path, resume=False)
    for step in (2, 4, 6):
        folder.keep_weights(step, {"x": tt.asarray([step])})
    folder.save({"arguments": {}, "step": 6}, weights=2)
    assert steps(folder) == [4, 6]
    for step in (8, 10):
        folder.keep_weights(step, {"x": tt.asarray([step])})
    assert steps(folder) == [4, 6, 8, 10]
    folder.close()
    again = RunFolder(tmp_path, resume=True)
    again.rewind(again.load())
    assert steps(again) == [4, 6]


def damaged(content):
    yield "empty", b""
    yield "truncated", content[:-1]
    yield "half", content[: len(content) // 2]
    yield "flipped", content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]
    yield "text", b"not a checkpoint\n"
    yield "huge header", b"\xff" * 100


def test_a_damaged_checkpoint_is_refused_in_one_line_and_kept(tmp_path):
    folder = finished_run(tmp_path)
    for what, content in damaged((tmp_path / CHECKPOINT).read_bytes()):
        (tmp_path / CHECKPOINT).write_bytes(content)
        before = contents(tmp_path)
        with pytest.raises(RunFolderError, match=CHECKPOINT) as caught:
            folder.load()
        assert "\n" not in str(caught.value), what
        assert contents(tmp_path) == before, what


@pytest.mark.parametrize(
    "state", [[1, 2], {"step": 1}, {"log_bytes": 0}, {"arguments": {}}, {"arguments": 3, "log_bytes": 0}]
)
def test_a_checkpoint_of_something_else_is_refused(tmp_path, state):
    nn.save(state, tmp_path / CHECKPOINT)
    with pytest.raises(RunFolderError, match="no checkpoint of a training run"):
        RunFolder(tmp_path, resume=True).load()


def test_the_log_is_json_lines_and_an_unfinished_one_is_passed_over(tmp_path):
    folder = RunFolder(tmp_path, resume=False)
    assert folder.entries("step") == []
    folder.log(event="start", arguments={"task": "copy"})
    folder.log(event="step", step=100, loss=1.5)
    folder.log(event="step", step=200, loss=0.5)
    lines = (tmp_path / LOG).read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["start", "step", "step"]
    with open(tmp_path / LOG, "a") as file:
        file.write('{"event": "step", "step": 30')
    assert [entry["step"] for entry in folder.entries("step")] == [100, 200]
