"""The log's figures as a table and as TensorBoard's events, also of a run that was killed and resumed."""

import csv
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tinytensor.models.training.figures import CSVLogger, TensorBoardLogger
from tinytensor.models.training.run_folder import entries
from tinytensor.models.training.trainer import Callback

from .test_page import make

ROOT = Path(__file__).parents[3]


def table(folder):
    with open(folder / "figures.csv", newline="", encoding="utf-8") as file:
        return {int(row["step"]): row for row in csv.DictReader(file)}


def events(folder):
    """The scalars that TensorBoard would show: by name, the value of each step, later files over earlier ones."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in sorted((folder / "events").iterdir(), key=lambda path: path.stat().st_mtime_ns):
        content, at = path.read_bytes(), 0
        while at < len(content):  # a record: its length and a checksum in 12 bytes, the event, a checksum in 4
            length = int.from_bytes(content[at : at + 8], "little")
            event = Event.FromString(content[at + 12 : at + 12 + length])
            at += 16 + length
            if event.HasField("session_log"):  # what a resumed run throws away
                for values in found.values():
                    for step in [step for step in values if step >= event.step]:
                        del values[step]
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def logged(folder):
    return {entry["step"]: entry for entry in entries(folder, "step")}


class Killed(Callback):
    """Ends the process after step 14, when the checkpoint is of step 10 and the log goes on to step 12."""

    def __init__(self, folder):
        self.folder = folder

    def after_step(self, trainer, result):
        if trainer.step == 12:
            self.folder.log(event="step", step=12, loss=-1.0)
        if trainer.step == 14:
            raise SystemExit


@pytest.fixture
def killed(tmp_path):
    trainer = make(tmp_path / "run")
    folder = trainer.callbacks[0].folder
    loggers = [CSVLogger(folder, every=7), TensorBoardLogger(folder, every=7)]
    trainer.callbacks += [*loggers, Killed(folder)]
    with pytest.raises(SystemExit):
        trainer.run(25)
    folder.close()
    return tmp_path / "run"


def go_on(folder):
    trainer = make(folder, resume=True)
    trainer.callbacks += [kind(trainer.callbacks[0].folder, every=7) for kind in (CSVLogger, TensorBoardLogger)]
    trainer.run(25)


needs_tensorboard = pytest.mark.skipif(not importlib.util.find_spec("tensorboardX"), reason="tensorboardX is missing")


def test_the_table_has_the_figures_of_the_log(tmp_path):
    trainer = make(tmp_path / "run")
    trainer.callbacks.append(CSVLogger(trainer.callbacks[0].folder))
    trainer.callbacks[0].folder.log(event="evaluation", step=10, validation_loss=2.5)
    trainer.run(25)
    rows, log = table(tmp_path / "run"), logged(tmp_path / "run")
    assert list(rows) == list(log) == [10, 20, 25]
    for step, row in rows.items():
        assert float(row["step/loss"]) == log[step]["loss"]
        norms = {name: float(row[f"step/gradient_norms/{name}"]) for name in log[step]["gradient_norms"]}
        assert norms == log[step]["gradient_norms"]
    assert [row["evaluation/validation_loss"] for row in rows.values()] == ["2.5", "", ""]
    assert not any("event" in name for name in rows[10])


@needs_tensorboard
def test_a_resumed_run_tells_of_no_step_that_was_lost(killed):
    assert list(table(killed)) == [10, 12]
    go_on(killed)
    rows, log, shown = table(killed), logged(killed), events(killed)
    assert list(rows) == list(log) == list(shown["step/loss"]) == [10, 20, 25]
    for step, entry in log.items():
        assert shown["step/loss"][step] == pytest.approx(entry["loss"], rel=1e-6)
        assert shown["step/learning_rate"][step] == pytest.approx(entry["learning_rate"], rel=1e-6)


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"tensorboardX is not installed; run: pip install -e '\.\[tensorboard\]'"):
        TensorBoardLogger(make(tmp_path / "run").callbacks[0].folder)


@needs_tensorboard
def test_the_option_of_the_scripts(tmp_path):
    small = "--steps 20 --batch-size 4 --d-model 8 --num-heads 2 --num-layers 1 --max-length 4"
    command = [sys.executable, "examples/train_copy_task.py", *small.split(), "--out", str(tmp_path / "run")]
    done = subprocess.run([*command, "--log-to", "csv", "tensorboard"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list(table(tmp_path / "run")) == list(events(tmp_path / "run")["step/loss"]) == [10, 20]
    wrong = subprocess.run([*command, "--log-to", "excel"], cwd=ROOT, capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
