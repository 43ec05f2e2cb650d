"""The training loop: what it logs and saves, that it goes on with the same bits, and how it stops."""

import contextlib
import os
import signal
import threading

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.models.data.batch import TextBatch
from tinytensor.models.data.sequences import SequenceTask
from tinytensor.models.training.callbacks import Checkpoints, Evaluation, Log, Samples, TimeLimit, WeightAverage
from tinytensor.models.training.interruption import Interrupted
from tinytensor.models.training.loss import ForwardBackward, accuracies
from tinytensor.models.training.not_finite import NotFiniteError
from tinytensor.models.training.run_folder import CHECKPOINT, LOG, RunFolder, entries
from tinytensor.models.training.trainer import Callback, Trainer

from ...engine_room import room


@pytest.fixture(autouse=True)
def seed():
    tt.random.manual_seed(0)


class Trained(Trainer):
    """A trainer with all callbacks at hand, which goes on with its folder's run if it is told to."""

    def __init__(
        self, model, optimizer, scheduler, task, folder, *, checkpoint_every=4, show_every=2, sample=None,
        sample_every=100, evaluate=None, evaluate_every=0, patience=None, average=0, time_limit=None, **options,
    ):  # fmt: skip
        self.folder = folder
        self.evaluation = evaluate and Evaluation(folder, evaluate, evaluate_every, patience)
        self.average = WeightAverage(folder, average, evaluate_every) if average else None
        self.checkpoints = Checkpoints(folder, {"seed": 0}, every=checkpoint_every, average=self.average)
        samples = sample and Samples(folder, sample, sample_every)
        parts = [Log(folder), self.evaluation, self.average, samples, TimeLimit(time_limit), self.checkpoints]
        callbacks = [part for part in parts if part is not None]
        super().__init__(model, optimizer, scheduler, task, callbacks, show_every=show_every, batch_size=4, **options)

    def restore(self, state):
        self.checkpoints.restore(self, state)


def make(path, *, resume=False, learning_rate=1e-2, dropout=0.2, **options):
    tt.random.manual_seed(0)
    task = SequenceTask("copy", 0, max_length=3)
    model = Transformer(task.vocabulary, d_model=8, num_heads=2, num_layers=1, dropout=dropout, max_length=4)
    optimizer = nn.optim.Adam(model.parameters(), lr=learning_rate)
    scheduler = nn.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
    return Trained(model, optimizer, scheduler, task, RunFolder(path, resume=resume), **options)


def bits(trainer):
    return {name: value.numpy().tobytes() for name, value in trainer.model.state_dict().items()}


def figures(path):
    return [{k: value for k, value in entry.items() if k != "tokens_per_second"} for entry in entries(path, "step")]


# ---- what is told, logged and saved


def test_lines_log_and_checkpoint(tmp_path, capsys):
    trainer = make(tmp_path, show_every=4)
    trainer.run(11)
    assert trainer.step == 11
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["step 4/11", "step 8/11", "step 11/11"]
    logged = entries(tmp_path, "step")
    assert [entry["step"] for entry in logged] == [4, 8, 10, 11]
    for line, entry in zip(lines, [logged[0], logged[1], logged[3]], strict=True):
        assert list(entry) == [
            "event", "step", "loss", "token_accuracy", "sequence_accuracy", "learning_rate", "gradient_norms",
            "tokens_per_second",
        ]  # fmt: skip
        assert f"loss {entry['loss']:.3f}, token accuracy {entry['token_accuracy']:.1%}, sequence accuracy" in line
        assert line.endswith(f"{entry['tokens_per_second']:,} tokens/s")
        assert 0 < entry["tokens_per_second"] < 1e7
    state = nn.load(tmp_path / CHECKPOINT)
    assert set(state) == {
        "step", "arguments", "data", "model", "optimizer", "scheduler", "random", "log_bytes",
    }  # fmt: skip
    assert state["step"] == 11
    assert state["arguments"] == {"seed": 0}
    assert state["log_bytes"] == (tmp_path / LOG).stat().st_size
    for name, value in trainer.model.state_dict().items():
        np.testing.assert_array_equal(state["model"][name].numpy(), value.numpy())
    assert sorted(p.name for p in tmp_path.iterdir()) == [CHECKPOINT, LOG]


def test_without_callbacks_it_trains_and_writes_nothing(tmp_path):
    with_them = make(tmp_path / "a")
    with_them.run(6)
    alone = make(tmp_path / "b")
    alone.callbacks = []
    alone.run(6)
    assert bits(alone) == bits(with_them)
    assert list((tmp_path / "b").iterdir()) == []


def test_callbacks_see_every_moment_in_their_order(tmp_path):
    seen = []

    class Watch(Callback):
        def __init__(self, name):
            self.name = name

        def begin(self, trainer):
            seen.append((self.name, "begin", trainer.step))

        def after_step(self, trainer, result):
            seen.append((self.name, "step", trainer.step))
            if trainer.step == 2:
                trainer.end()

        def end(self, trainer):
            seen.append((self.name, "end", trainer.step))

    trainer = make(tmp_path)
    trainer.callbacks = [Watch("a"), Watch("b")]
    trainer.run(5)
    moments = [("begin", 0), ("step", 1), ("step", 2), ("end", 2)]
    assert seen == [(name, *moment) for moment in moments for name in "ab"]


def test_the_log_has_an_entry_every_ten_steps_however_little_is_shown(tmp_path, capsys):
    make(tmp_path / "seldom", show_every=1000).run(25)
    make(tmp_path / "at times", show_every=20).run(25)
    assert [entry["step"] for entry in figures(tmp_path / "seldom")] == [10, 20, 25]
    assert figures(tmp_path / "seldom") == figures(tmp_path / "at times")
    told = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert told == ["step 25/25", "step 20/25", "step 25/25"]


def test_checkpoints_come_at_their_steps_and_at_the_end(tmp_path):
    trainer = make(tmp_path, checkpoint_every=3)
    saved = []
    trainer.folder.save = lambda state, weights: saved.append(state["step"])
    trainer.run(8)
    assert saved == [3, 6, 8]


def test_samples_come_now_and_then(tmp_path, capsys):
    trainer = make(tmp_path, show_every=100, sample_every=3, sample=lambda say: say("a -> b"))
    trainer.run(9)
    assert capsys.readouterr().out.splitlines()[:-1] == ["a -> b"] * 2


def test_the_loss_in_the_log_is_the_mean_over_target_tokens(tmp_path):
    trainer = make(tmp_path, dropout=0.0, show_every=1)
    batch = trainer.task.training_batch(0, 4)
    logits = trainer.model(batch.source, batch.target_in).detach().numpy().astype(np.float64)
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    chances /= chances.sum(-1, keepdims=True)
    counted = batch.target_out != 0
    loss = -np.log(np.take_along_axis(chances, batch.target_out[..., None], -1)[..., 0])[counted].mean()
    trainer.run(1)
    assert figures(tmp_path)[0]["loss"] == pytest.approx(loss, abs=2e-6)


def test_accuracies_count_tokens_and_whole_sequences():
    task = SequenceTask("copy")
    batch = task.make_batch([[3, 4, 5], [6], [7, 8]])
    logits = np.eye(task.vocabulary)[batch.target_out]
    assert accuracies(tt.asarray(logits), batch) == {"token accuracy": 1.0, "sequence accuracy": 1.0}
    logits[0, 1] = np.eye(task.vocabulary)[9]  # a wrong letter
    logits[1, 2] = np.eye(task.vocabulary)[9]  # on padding
    tokens, sequences = accuracies(tt.asarray(logits), batch).values()
    assert tokens == pytest.approx(8 / 9)
    assert sequences == pytest.approx(2 / 3)


# ---- going on


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("stop", [1, 4, 7, 11])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path, stop, split, monkeypatch):
    """Dropout, the optimiser's state and the schedule included, whether or not a batch is computed in halves."""
    if split:
        monkeypatch.setattr(nn.parallel.threads, "WORTH_IT", 1)
    whole = make(tmp_path / "whole")
    whole.run(12)
    first = make(tmp_path / "parts", checkpoint_every=stop)
    first.run(stop)
    first.folder.close()
    second = make(tmp_path / "parts", resume=True)
    tt.random.manual_seed(99)
    state = second.folder.load()
    second.restore(state)
    second.folder.rewind(state)
    assert second.step == stop
    second.run(12)
    assert bits(second) == bits(whole)
    ours, theirs = figures(tmp_path / "parts"), figures(tmp_path / "whole")
    assert [entry for entry in ours if entry["step"] % 2 == 0] == theirs
    a, b = nn.load(tmp_path / "parts" / CHECKPOINT), nn.load(tmp_path / "whole" / CHECKPOINT)
    assert a["scheduler"] == b["scheduler"]
    for key, entry in b["optimizer"]["state"].items():
        for name, value in entry.items():
            np.testing.assert_array_equal(np.asarray(a["optimizer"]["state"][key][name]), np.asarray(value))


def test_a_checkpoint_of_another_model_changes_nothing(tmp_path):
    make(tmp_path).run(4)
    other = make(tmp_path, resume=True)
    other.model.projection = nn.Linear(8, 5)
    before, step = bits(other), other.step
    with pytest.raises(RuntimeError, match=r"projection\.weight"):
        other.restore(other.folder.load())
    assert (bits(other), other.step) == (before, step)


# ---- Ctrl-C and SIGTERM


class InterruptingTask(SequenceTask):
    signal = signal.SIGINT

    def training_batch(self, step, size):
        if step == 4:
            os.kill(os.getpid(), self.signal)
        return super().training_batch(step, size)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_saves_and_says_so(tmp_path, number):
    make(tmp_path / "whole").run(12)
    trainer = make(tmp_path / "parts", checkpoint_every=100)
    trainer.task = InterruptingTask("copy", 0, max_length=3)
    trainer.task.signal = number
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(Interrupted, match=f"by {number.name} after step 5") as caught:
        trainer.run(12)
    assert caught.value.step == trainer.step == 5
    assert caught.value.signal is number
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    trainer.folder.close()
    again = make(tmp_path / "parts", resume=True)
    again.restore(again.folder.load())
    again.run(12)
    assert figures(tmp_path / "parts") == figures(tmp_path / "whole")


def test_ctrl_c_in_the_last_step_does_not_undo_the_run(tmp_path):
    trainer = make(tmp_path)
    trainer.task = InterruptingTask("copy", 0, max_length=3)
    trainer.run(5)
    assert trainer.folder.load()["step"] == 5


def test_ctrl_c_twice_stops_at_once(tmp_path):
    trainer = make(tmp_path)

    class Impatient(SequenceTask):
        def training_batch(self, step, size):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            return super().training_batch(step, size)

    trainer.task = Impatient("copy", 0, max_length=3)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        trainer.run(5)
    assert signal.getsignal(signal.SIGINT) is handler


def test_sigterm_twice_says_nothing_new_and_ctrl_c_after_it_neither(tmp_path):
    trainer = make(tmp_path, checkpoint_every=100)

    class Insistent(SequenceTask):
        def training_batch(self, step, size):
            for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
                os.kill(os.getpid(), number)
            return super().training_batch(step, size)

    trainer.task = Insistent("copy", 0, max_length=3)
    with pytest.raises(Interrupted, match="after step 1"):
        trainer.run(5)
    assert trainer.folder.load()["step"] == 1


def test_a_thread_trains_too(tmp_path):
    trainer = make(tmp_path)
    thread = threading.Thread(target=trainer.run, args=(3,))
    thread.start()
    thread.join()
    assert trainer.step == 3


# ---- numbers that are not finite


def test_the_op_that_made_the_loss_infinite_is_named(tmp_path, recwarn):
    trainer = make(tmp_path, dropout=0.0)
    with tt.no_grad():
        trainer.model.transformer.encoder.layers[0].linear1.weight.copy_(tt.full((32, 8), 1e30))
        trainer.model.transformer.encoder.layers[0].linear2.weight.copy_(tt.full((8, 32), 1e30))
    before = bits(trainer)
    with pytest.raises(
        NotFiniteError, match=r"the loss is \S+ at step 1: (linear|matmul): .*encoder\.layers\.0\.linear2"
    ):
        trainer.run(3)
    assert bits(trainer) == before
    assert not (tmp_path / CHECKPOINT).exists()
    assert [str(warning.message) for warning in recwarn] == []


def test_the_op_whose_gradient_is_not_finite_is_named(tmp_path):
    """The loss is finite still, but a step with this gradient would ruin every parameter."""

    trainer = make(tmp_path, dropout=0.0)
    forward = trainer.model.forward

    def spoilt(source, target):
        logits = forward(source, target)
        return logits + 0.0 * tt.sqrt(tt.abs(logits) * 0.0)  # the derivative of sqrt at 0 is infinite

    trainer.model.forward = spoilt
    before = bits(trainer)
    with pytest.raises(NotFiniteError, match=r"a gradient is not finite at step 1: backward: .*sqrt"):
        trainer.run(3)
    assert bits(trainer) == before


def test_a_parameter_that_the_optimizer_made_infinite_is_named(tmp_path):
    trainer = make(tmp_path, learning_rate=1e300)
    with pytest.raises(NotFiniteError, match=r"at step 2: the optimizer's step before made source_embedding\.weight"):
        trainer.run(3)


def test_a_norm_that_overflows_from_finite_gradients(tmp_path, monkeypatch):
    """No parameter is changed by it."""
    trainer = make(tmp_path)
    before = bits(trainer)
    monkeypatch.setattr(nn.utils, "get_total_norm", lambda gradients: tt.asarray(np.inf))
    with pytest.raises(NotFiniteError, match="the gradient's norm is inf at step 1, from finite results of every op"):
        trainer.run(3)
    assert bits(trainer) == before


def test_a_large_but_finite_gradient_is_clipped(tmp_path):
    trainer = make(tmp_path, dropout=0.0, max_norm=1e-3)
    norms = []
    step = trainer.optimizer.step
    trainer.optimizer.step = lambda: (
        norms.append(nn.utils.get_total_norm([p.grad for p in trainer.model.parameters()]).item()),
        step(),
    )
    trainer.run(3)
    assert norms == pytest.approx([1e-3] * 3, rel=1e-3)


# ---- what real text needs


def test_accumulated_batches_are_one_large_batch(tmp_path):
    """The gradient is that of the mean over all tokens, however they are spread over the batches."""
    several = make(tmp_path / "several", accumulate=3, dropout=0.0)
    batches = [several.task.training_batch(i, 4) for i in range(3)]
    one = make(tmp_path / "one", dropout=0.0)
    sequences = [[i for i in row if i > 2] for batch in batches for row in batch.source.tolist()]
    expected = one.train_step([one.task.make_batch(sequences)])
    result = several.train_step(batches)
    assert result.loss.item() == pytest.approx(expected.loss.item(), rel=1e-6)
    for a, b in zip(several.model.parameters(), one.model.parameters(), strict=True):
        if a.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-3, atol=1e-6)


@pytest.mark.skipif(room("models.fast.training") is None, reason="the engine room is left out")
def test_what_is_computed_side_by_side(tmp_path, monkeypatch):
    grouped = room("models.fast.training").grouped
    trainer = make(tmp_path, dropout=0.0)
    batches = [trainer.task.training_batch(i, 4) for i in range(3)]
    small = [[len(part.source) for part in group] for group in grouped(trainer.model, batches)]
    monkeypatch.setattr(nn.parallel.threads, "WORTH_IT", 1)
    large = [[len(part.source) for part in group] for group in grouped(trainer.model, batches)]
    assert (small, large) == ([[4, 4], [4]], [[2, 2]] * 3)
    assert trainer.train_step(batches).logits.shape[:2] == batches[-1].target_in.shape


class AcrossTheBatch(nn.Module):
    """Computes with the mean over the batch, or counts its calls; and has a leaf that is no parameter."""

    def __init__(self, kind):
        super().__init__()
        self.embedding, self.out, self.kind = nn.Embedding(30, 8), nn.Linear(8, 30), kind
        self.norm, self.calls, self.leaf = nn.BatchNorm1d(8), 0, tt.zeros(8).requires_grad_()

    def forward(self, ids):
        x = self.embedding(ids) + self.leaf
        self.calls += 1
        if self.kind == "a norm":
            x = self.norm(x.reshape(-1, 8)).reshape(x.shape)
        return self.out(x - x.mean(axis=0) if self.kind == "a mean" else x)


@pytest.mark.parametrize("kind", ["a norm", "a mean", "a leaf"])
def test_a_model_of_ones_own_sees_the_whole_batch(kind, monkeypatch):
    monkeypatch.setattr(nn.parallel.threads, "WORTH_IT", 1)
    ids = np.random.default_rng(0).integers(1, 30, (6, 5))
    found = []
    for how in (contextlib.nullcontext(), tt.textbook()):
        tt.manual_seed(0)
        model = AcrossTheBatch(kind)
        with how:
            _, loss = ForwardBackward(model)([TextBatch(ids, ids), TextBatch(ids[:3], ids[:3])])
        assert model.calls == 2
        found.append([loss.numpy(), model.leaf.grad.numpy(), model.out.weight.grad.numpy()])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(room("models.fast.training") is None, reason="the engine room is left out")
@pytest.mark.parametrize("size", [1, 2, 5])
def test_two_halves_are_the_batch(tmp_path, size, monkeypatch):
    halves = room("models.fast.training").halves
    whole, split = (make(tmp_path / name, dropout=0.0) for name in ("whole", "split"))
    batch = whole.task.training_batch(0, size)
    expected = whole.train_step([batch])
    monkeypatch.setattr(nn.parallel.threads, "WORTH_IT", 1)
    assert [len(part.source) for part in halves(batch)] == ([size // 2, size - size // 2] if size > 1 else [1])
    result = split.train_step([batch])
    assert result.loss.item() == pytest.approx(expected.loss.item(), rel=1e-6)
    np.testing.assert_allclose(result.logits.numpy(), expected.logits.numpy(), rtol=1e-5, atol=1e-6)
    for a, b in zip(split.model.parameters(), whole.model.parameters(), strict=True):
        if a.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-3, atol=1e-6)


def test_accumulation_reads_every_batch_once(tmp_path):
    trainer = make(tmp_path, accumulate=3)
    seen = []
    given = trainer.task.training_batch
    trainer.task.training_batch = lambda step, size: seen.append(step) or given(step, size)
    trainer.run(4)
    assert seen == list(range(12))


def test_label_smoothing_is_in_the_loss(tmp_path):
    plain, smooth = make(tmp_path / "a", dropout=0.0), make(tmp_path / "b", dropout=0.0, label_smoothing=0.1)
    batch = plain.task.training_batch(0, 4)
    assert smooth.train_step([batch]).loss.item() == pytest.approx(
        ForwardBackward(plain.model)([batch], label_smoothing=0.1)[1].item(), rel=1e-6
    )
    smooth = make(tmp_path / "c", dropout=0.0)
    logits = plain.model(batch.source, batch.target_in).numpy().astype(np.float64)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    real = batch.target_out != 0
    likely = np.take_along_axis(logs, batch.target_out[..., None], -1)[..., 0]
    assert ForwardBackward(plain.model)([batch])[1].item() == pytest.approx(-likely[real].mean(), rel=1e-5)
    expected = -(0.9 * likely[real] + 0.1 * logs.mean(-1)[real]).mean()
    assert ForwardBackward(smooth.model)([batch], 0.1)[1].item() == pytest.approx(expected, rel=1e-5)


def evaluations(path):
    return [(e["step"], e["loss"]) for e in entries(path, "evaluation")]


def test_training_ends_when_evaluations_bring_nothing_better(tmp_path, capsys):
    figures = iter([5.0, 3.0, 3.0, 4.0, 1.0])
    trainer = make(tmp_path, evaluate=lambda: {"loss": next(figures)}, evaluate_every=2, patience=2)
    trainer.run(100)
    assert trainer.step == 8
    assert evaluations(tmp_path) == [(2, 5.0), (4, 3.0), (6, 3.0), (8, 4.0)]
    assert "2 evaluations brought nothing better: ended at step 8" in capsys.readouterr().out
    assert nn.load(tmp_path / CHECKPOINT)["step"] == 8


def test_evaluation_is_without_dropout_and_training_goes_on_with_it(tmp_path):
    modes = []
    trainer = make(tmp_path, evaluate=lambda: modes.append(trainer.model.training) or {"loss": 1.0}, evaluate_every=2)
    trainer.run(4)
    assert modes == [False, False]
    assert trainer.model.training


def test_evaluations_leave_the_bits_of_training_alone(tmp_path):
    with_them, without = make(tmp_path / "a", evaluate=lambda: {"loss": 1.0}, evaluate_every=1), make(tmp_path / "b")
    with_them.run(6)
    tt.random.manual_seed(0)
    without = make(tmp_path / "c")
    without.run(6)
    assert bits(with_them) == bits(without)


def test_the_mean_of_the_latest_weights(tmp_path):
    options = {"evaluate": lambda: {"loss": 1.0}, "evaluate_every": 2, "average": 3}
    trainer = make(tmp_path, **options)
    kept = {}
    trainer.folder.keep_weights, keep = lambda step, state: kept.update({
        step: {name: value.numpy().copy() for name, value in state.items()}
    }) or keep(step, state), trainer.folder.keep_weights  # fmt: skip
    trainer.run(9)
    assert [step for step, _ in trainer.folder.weights()] == [4, 6, 8]
    assert trainer.average.apply(trainer.model) == 3
    for name, value in trainer.model.state_dict().items():
        np.testing.assert_allclose(
            value.numpy(), np.mean([kept[s][name] for s in (4, 6, 8)], axis=0), rtol=1e-5, atol=1e-7
        )


def test_the_mean_is_the_same_after_a_kill(tmp_path):
    """Killed between keeping weights and the checkpoint that goes with them; ended before any are kept again."""
    options = {"evaluate": lambda: {"loss": 1.0}, "evaluate_every": 2, "average": 3}
    whole = make(tmp_path / "whole", **options)
    whole.run(7)
    killed = make(tmp_path / "parts", **options)
    save = killed.folder.save

    def kill(state, weights):
        if state["step"] == 8:
            raise KeyboardInterrupt
        save(state, weights)

    killed.folder.save = kill
    with pytest.raises(KeyboardInterrupt):
        killed.run(20)
    assert [step for step, _ in killed.folder.weights()] == [2, 4, 6, 8]
    killed.folder.close()
    again = make(tmp_path / "parts", resume=True, **options)
    state = again.folder.load()
    again.restore(state)
    again.folder.rewind(state)
    again.run(7)
    assert again.average.apply(again.model) == whole.average.apply(whole.model) == 3
    assert bits(again) == bits(whole)


def test_without_weights_that_were_kept_the_model_stays(tmp_path):
    trainer = make(tmp_path, evaluate_every=2, average=3)
    before = bits(trainer)
    assert trainer.average.apply(trainer.model) == 0
    assert bits(trainer) == before


def test_a_resumed_run_remembers_its_evaluations(tmp_path):
    figures = iter([5.0, 6.0])
    make(tmp_path, evaluate=lambda: {"loss": next(figures)}, evaluate_every=2, patience=3).run(4)
    again = make(tmp_path, resume=True, evaluate=lambda: {"loss": 7.0}, evaluate_every=2, patience=3)
    again.restore(again.folder.load())
    assert nn.load(tmp_path / CHECKPOINT)["without_improvement"] == 1
    assert (again.evaluation.best, again.evaluation.without_improvement) == (5.0, 1)
    again.run(100)
    assert again.step == 8


def test_a_time_limit_saves_and_ends(tmp_path, capsys):
    trainer = make(tmp_path, time_limit=0.005)
    trainer.run(10_000_000)
    assert 0 < trainer.step < 10_000_000
    assert nn.load(tmp_path / CHECKPOINT)["step"] == trainer.step
    assert "the time limit of 0.005 minutes ended training after step" in capsys.readouterr().out
