"""The page of a run, which is drawn from the log."""

import json
import re

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.models.data.sequences import SequenceTask
from tinytensor.models.scripts import copy_task
from tinytensor.models.training import page
from tinytensor.models.training.callbacks import Checkpoints, Log, Samples
from tinytensor.models.training.gradient_norms import layer_of, norms_by_layer
from tinytensor.models.training.page import MOST_LOOKS, RunPage, write_page
from tinytensor.models.training.run_folder import RunFolder, entries
from tinytensor.models.training.trainer import Trainer


def make(folder, *, resume=False, every=5):
    tt.manual_seed(0)
    task = SequenceTask("reverse", 0, max_length=4)
    model = Transformer(task.vocabulary, d_model=8, num_heads=2, num_layers=2, dropout=0.1, max_length=5)
    optimizer = nn.optim.SGD(model.parameters(), lr=0.5)
    scheduler = nn.optim.lr_scheduler.StepLR(optimizer, 7, 0.5)
    folder = RunFolder(folder, resume=resume)
    samples = Samples(folder, lambda say: say("  abc -> </script><b>c</b>"), every=10)
    watching = RunPage(folder, lambda: copy_task.attention(model, task), every)
    checkpoints = Checkpoints(folder, {"task": "reverse"}, every=10)
    trainer = Trainer(
        model, optimizer, scheduler, task, [Log(folder), samples, watching, checkpoints], batch_size=4, max_norm=0.1
    )
    if resume:
        state = folder.load()
        checkpoints.restore(trainer, state)
        folder.rewind(state)
    return trainer


def data(text):
    (found,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', text)
    return json.loads(found)


def charts(text):
    return re.findall(r'<svg [^>]*class="tt-picture"[^>]*>\n<title>(.*)</title>', text)


@pytest.fixture
def run(tmp_path):
    make(tmp_path / "run").run(25)
    return tmp_path / "run"


def test_it_shows_figures_samples_and_attention(run):
    text = write_page(run, "step 25 of 25: ended").read_text()
    assert charts(text) == ["Loss", "Accuracy in training", "Learning rate", "Norm of the gradient, by layer"]
    shown = data(text)
    assert not shown["live"]
    assert [look["step"] for look in shown["looks"]] == [0, 5, 10, 15, 20, 25]
    assert [sample["step"] for sample in shown["samples"]] == [0, 10, 20]
    assert "</script><b>" not in text
    for look in shown["looks"]:
        weights = np.array(look["layers"])
        assert weights.shape == (2, 2, len(shown["said"]), len(shown["source"]))
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=0.01)
    assert np.abs(np.array(shown["looks"][0]["layers"]) - shown["looks"][-1]["layers"]).max() > 0.01


def test_the_attention_is_that_of_the_model_at_that_step(tmp_path):
    trainer = make(tmp_path / "run")
    trainer.run(10)
    seen = copy_task.attention(trainer.model, trainer.task)
    look = entries(tmp_path / "run", "attention")[-1]
    np.testing.assert_allclose(look["layers"], [call.weights[0] for call in seen.layers["cross"]], atol=0.0006)


def test_the_log_has_the_rate_of_each_step_and_norms_as_they_were_before_clipping(tmp_path):
    trainer = make(tmp_path / "run")
    results = []
    step = trainer.train_step
    trainer.train_step = lambda batches: results.append(step(batches)) or results[-1]
    trainer.run(10)
    (entry,) = entries(tmp_path / "run", "step")
    assert entry["learning_rate"] == 0.25  # halved after seven steps
    whole = sum(norm**2 for norm in entry["gradient_norms"].values()) ** 0.5
    assert results[-1].norm.item() > 0.2  # so that it was clipped to 0.1
    assert whole == pytest.approx(results[-1].norm.item(), rel=1e-4)


def test_norms_by_layer_add_up_and_name_layers():
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)))
    tt.sum(model(tt.ones((2, 3))) ** 2).backward()
    squares = {name: float((p.grad.numpy() ** 2).sum()) for name, p in model.named_parameters()}
    total = sum(squares.values()) ** 0.5
    norms = norms_by_layer(model, total)
    assert list(norms) == ["0", "1"]
    assert norms["0"] == pytest.approx((squares["0.weight"] + squares["0.bias"]) ** 0.5)
    for parameter in model.parameters():
        parameter.grad *= 0.5
    assert norms_by_layer(model, total) == pytest.approx(norms)
    assert layer_of("encoder.layers.3.self_attn.in_proj_weight") == "encoder.layers.3"
    assert layer_of("encoder.norm.weight") == "encoder.norm"
    assert layer_of("scale") == "scale"


def test_a_run_that_was_killed_goes_on_in_the_page(tmp_path):
    whole, killed = tmp_path / "a" / "run", tmp_path / "b" / "run"
    make(whole).run(30)
    trainer = make(killed)
    step = trainer.train_step

    def dying(batches):
        if trainer.step == 17:
            raise KeyboardInterrupt
        return step(batches)

    trainer.train_step = dying
    with pytest.raises(KeyboardInterrupt):
        trainer.run(30)
    assert "step 10 of 30" in (killed / "run.html").read_text() or "step 0 of 30" in (killed / "run.html").read_text()
    trainer.callbacks[0].folder.close()
    make(killed, resume=True).run(30)
    pages = [write_page(folder, "ended").read_text() for folder in (whole, killed)]
    assert [look["step"] for look in data(pages[0])["looks"]] == [*range(0, 31, 5)]
    assert pages[0] == pages[1]


def test_it_is_written_while_training_goes_on_and_not_too_often(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(page, "write_page", lambda folder, status, live: written.append((status, live)))
    now = [0.0]
    monkeypatch.setattr(page.time, "monotonic", lambda: now[0])
    trainer = make(tmp_path / "run")
    watching = trainer.callbacks[2]
    trainer.run(40)
    assert [status for status, _ in written] == [f"training: step {n} of 40" for n in (0, 10, 20, 30, 40)]
    assert all(live for _, live in written)
    written.clear()
    watching.look = None
    monkeypatch.setattr(page, "write_page", lambda *_, **__: (written.append(now[0]), now.__setitem__(0, now[0] + 1.0)))
    for second in range(1, 400):
        now[0] = max(now[0], float(second))
        watching.after_step(trainer, None)
    assert np.diff(written).min() >= 100  # a second of writing, then none for a hundred
    assert len(written) == 4


def test_a_page_that_cannot_be_written_does_not_end_the_run(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page, "atomic_write", full)
    trainer = make(tmp_path / "run")
    trainer.run(20)
    assert trainer.step == 20
    assert "the page of the run could not be written: [Errno 28] No space left on device" in capsys.readouterr().out


def test_many_looks_are_thinned_to_the_first_the_last_and_some_between(tmp_path):
    folder = RunFolder(tmp_path / "run", resume=False)
    for step in range(0, 10_000, 100):
        folder.log(event="attention", step=step, source=["a"], said=["b"], layers=[[[[1.0]]]])
    steps = [look["step"] for look in data(write_page(folder.path, "ended").read_text())["looks"]]
    assert len(steps) == MOST_LOOKS
    assert (steps[0], steps[-1]) == (0, 9900)
    assert max(np.diff(steps)) <= 500


def test_a_log_with_little_in_it_gives_a_page_all_the_same(tmp_path):
    folder = RunFolder(tmp_path / "run", resume=False)
    assert charts(write_page(folder.path, "ended").read_text()) == []
    folder.log(event="step", step=10, loss=float("nan"), token_accuracy=0.0)  # as a run before this page had it
    folder.log(event="evaluation", step=10, validation_loss=1.5, validation_bleu=20.0)
    folder.log(event="result", step=10, exact_match=0.5, text="<i>")
    text = write_page(folder.path, "<ended>").read_text()
    assert charts(text) == ["Loss", "Accuracy in training", "Validation bleu"]
    assert "&lt;ended&gt;" in text
    assert "&lt;i&gt;" in text


def test_a_model_without_attention_has_a_page_without_it(tmp_path):
    folder = RunFolder(tmp_path / "run", resume=False)
    watching = RunPage(folder)
    trainer = make(tmp_path / "run2")
    trainer.callbacks = [watching]
    trainer.run(5)
    assert data((tmp_path / "run" / "run.html").read_text())["looks"] == []
