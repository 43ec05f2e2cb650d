"""What is checked on every rank. A function that returns has passed; the last line says what became of each."""

import json
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.models import Encoder, LanguageModel, Transformer
from tinytensor.models.data.languages import TranslationTask
from tinytensor.models.data.masked import MaskedWordTask
from tinytensor.models.data.sequences import SequenceTask
from tinytensor.models.data.stretches import StretchTask
from tinytensor.models.language_model import GPT2, LLAMA
from tinytensor.models.training.not_finite import NotFiniteError
from tinytensor.models.training.ranks import distribute
from tinytensor.models.training.schedules import adam
from tinytensor.models.training.trainer import Trainer
from tinytensor.nn import distributed as dist

ROWS = 12


def data(dtype=np.float64):
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, 5)).astype(dtype), rng.normal(size=(ROWS, 2)).astype(dtype)


class TwoLayers(nn.Module):
    """With a part that is not always used, and a bias of its own."""

    def __init__(self, dtype=tt.float64):
        super().__init__()
        self.first, self.second = nn.Linear(5, 7, dtype=dtype), nn.Linear(7, 2, dtype=dtype)
        self.extra = nn.Linear(7, 2, dtype=dtype)
        self.scale = nn.Parameter(tt.ones(2, dtype=dtype))

    def forward(self, x, extra=True):
        hidden = tt.tanh(self.first(x))
        out = self.second(hidden) * self.scale
        return out + self.extra(hidden) if extra else out


def model_of(seed=0, dtype=tt.float64):
    tt.manual_seed(seed)
    return TwoLayers(dtype)


def mine():
    """The rows of this rank."""
    return slice(dist.get_rank(), None, dist.get_world_size())


def loss_of(model, rows=slice(None), **options):
    x, y = data()
    return F.mse_loss(model(tt.asarray(x[rows]), **options), tt.asarray(y[rows]))


def gradients(model):
    return {name: p.grad.numpy().copy() for name, p in model.named_parameters() if p.grad is not None}


def assert_near(got, wanted, tolerance=1e-12):
    assert got.keys() == wanted.keys(), (sorted(got), sorted(wanted))
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=0, atol=tolerance, err_msg=name)


def raises(kind, function, *words):
    with pytest.raises(kind) as raised:
        function()
    assert all(word in str(raised.value) for word in words), str(raised.value)


# ---- what ranks send each other


def reductions_and_broadcasts():
    rank, size = dist.get_rank(), dist.get_world_size()
    x = tt.asarray(np.arange(5.0) + rank)
    dist.all_reduce(x)
    np.testing.assert_array_equal(x.numpy(), size * np.arange(5.0) + sum(range(size)))
    for source in range(size):
        y = tt.full((2, 3), float(rank), dtype=tt.float32).T
        dist.broadcast(y, source)
        np.testing.assert_array_equal(y.numpy(), np.full((3, 2), source))
    group = dist.world()
    assert group.broadcast_object({"rank": rank}, size - 1) == {"rank": size - 1}
    assert group.gather_objects("r" * rank) == ["r" * r for r in range(size)]
    dist.barrier()
    raises(RuntimeError, dist.init_process_group, "destroy_process_group")


# ---- DistributedDataParallel


def every_rank_begins_with_the_weights_of_rank_0():
    model = nn.parallel.DistributedDataParallel(model_of(seed=dist.get_rank()))
    wanted = model_of(seed=0).state_dict()
    assert list(model.state_dict()) == [f"module.{name}" for name in wanted]
    assert_near({n: v.numpy() for n, v in model.module.state_dict().items()}, {n: v.numpy() for n, v in wanted.items()})


def the_gradient_is_that_of_the_whole_batch():
    for cap in (25.0, 1e-4, 1e-9):
        whole, model = model_of(), model_of()
        ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=cap)
        for _ in range(2):  # the second backward pass adds to the first
            loss_of(whole).backward()
            loss_of(ddp, mine()).backward()
            assert_near(gradients(model), gradients(whole))
        model.zero_grad()
        loss_of(model).backward()  # not through the module: each rank's own
        whole.zero_grad()
        loss_of(whole).backward()
        assert_near(gradients(model), gradients(whole))


def two_forward_passes_before_one_backward_pass():
    whole, model = model_of(), model_of()
    ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1e-4)
    (loss_of(whole) + 2 * loss_of(whole)).backward()
    (loss_of(ddp, mine()) + 2 * loss_of(ddp, mine())).backward()
    assert_near(gradients(model), gradients(whole))


def a_parameter_that_is_used_beside_the_module():
    whole, model = model_of(), model_of()
    ddp = nn.parallel.DistributedDataParallel(model)
    (loss_of(whole) + tt.sum(whole.first.weight**2)).backward()
    before = tt.sum(model.first.weight**2)
    (before + loss_of(ddp, mine())).backward()
    assert_near(gradients(model), gradients(whole))


def no_sync_adds_up_alone_and_the_next_pass_averages():
    whole, model = model_of(), model_of()
    ddp = nn.parallel.DistributedDataParallel(model)
    with ddp.no_sync():
        loss_of(ddp, mine()).backward()
    own = model_of()
    loss_of(own, mine()).backward()
    assert_near(gradients(model), gradients(own))
    loss_of(ddp, mine()).backward()
    for _ in range(2):
        loss_of(whole).backward()
    assert_near(gradients(model), gradients(whole))


class Counting(nn.Module):
    """Running statistics; a count that a method replaces; and a buffer that backward needs, which nobody writes."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(5, 4, dtype=tt.float64), nn.BatchNorm1d(4, dtype=tt.float64)
        self.register_buffer("seen", tt.zeros((), dtype=tt.int64), persistent=False)
        self.register_buffer("factor", tt.full((4,), 2.0, dtype=tt.float64))

    def forward(self, x):
        if self.training:
            self.seen = self.seen + 1 + dist.get_rank()
        return tt.sum(self.norm(self.linear(x * 1.0)) * self.factor, axis=1, keepdims=True)


def buffers_are_those_of_rank_0_after_each_training_pass():
    for shared in (True, False):
        tt.manual_seed(0)
        ddp = nn.parallel.DistributedDataParallel(Counting(), broadcast_buffers=shared)
        model, rank, size = ddp.module, dist.get_rank(), dist.get_world_size()
        factor = model.factor.numpy()
        optimizer = nn.optim.SGD(ddp.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            first, second = ddp(tt.asarray(data()[0][mine()] + 3 * rank)), ddp(tt.asarray(data()[0][mine()] - rank))
            (tt.sum(first**2) + tt.sum(second)).backward()  # of two passes, between which buffers were sent
            optimizer.step()
        ddp.eval()
        with tt.no_grad():  # which sends nothing: rank 0 may evaluate alone
            answer = float(ddp(tt.ones((1, 5), dtype=tt.float64)).item()) if rank < 2 else None
        found = dist.world().gather_objects((model.norm.running_mean.tolist(), int(model.seen.item()), answer))
        same = [other[:2] == found[0][:2] for other in found]
        assert same == [True] * size if shared else same == [True] + [False] * (size - 1)
        assert (found[0][2] == found[1][2]) is shared
        assert model.factor.numpy() is factor or np.shares_memory(model.factor.numpy(), factor)
        assert found[0][1] == 6


def a_pass_that_sends_nothing_keeps_each_ranks_buffers():
    ddp = nn.parallel.DistributedDataParallel(Counting())
    with ddp.no_sync():
        tt.sum(ddp(tt.asarray(data()[0][mine()]))).backward()
    assert int(ddp.module.seen.item()) == 1 + dist.get_rank()
    tt.sum(ddp(tt.asarray(data()[0][mine()]))).backward()
    assert int(ddp.module.seen.item()) == 2


def unused_parameters_are_named():
    ddp = nn.parallel.DistributedDataParallel(model_of())
    loss = loss_of(ddp, mine(), extra=False)
    raises(RuntimeError, loss.backward, "extra.weight, extra.bias", "find_unused_parameters")


def unused_parameters_are_found():
    whole, model = model_of(), model_of()
    ddp = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    loss_of(whole, extra=False).backward()
    loss_of(ddp, mine(), extra=False).backward()
    assert_near(gradients(model), gradients(whole))
    assert model.extra.weight.grad is None  # no rank used it

    size = dist.get_world_size()
    whole.zero_grad()
    model.zero_grad()
    parts = [loss_of(whole, slice(rank, None, size), extra=rank == 0) / size for rank in range(size)]
    sum(parts[1:], parts[0]).backward()
    loss_of(ddp, mine(), extra=dist.get_rank() == 0).backward()
    assert_near(gradients(model), gradients(whole))


def half_precision_is_added_up_in_32_bits():
    model = model_of(dtype=tt.float16)
    ddp = nn.parallel.DistributedDataParallel(model)
    x, y = (tt.asarray(v[mine()], dtype=tt.float16) for v in data())
    F.mse_loss(ddp(x), y).backward()
    assert all(g.dtype == np.float16 and np.isfinite(g).all() for g in gradients(model).values())


def second_derivatives_are_refused():
    ddp = nn.parallel.DistributedDataParallel(model_of())
    loss = loss_of(ddp, mine())
    raises(NotImplementedError, lambda: loss.backward(create_graph=True), "second derivatives")


def another_model_is_named():
    size = 3 if dist.get_rank() == dist.get_world_size() - 1 else 2
    last = dist.get_world_size() - 1
    raises(RuntimeError, lambda: nn.parallel.DistributedDataParallel(nn.Linear(size, 2)), f"rank {last} ", "(2, 3)")


def gradients_are_sent_while_others_are_computed():
    """When the last gradient arrives, the first buckets are on their way already."""
    model = model_of()
    group = dist.world()
    begun, arrived = [], []
    ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1e-9)
    reducer = ddp._reducer
    put = reducer.put

    def seen(views, place, gradient):
        arrived.append(place)
        put(views, place, gradient)
        begun.append(views.next)

    reducer.put = seen
    loss_of(ddp, mine()).backward()
    reducer.put = put
    assert len(begun) == len(arrived) == 7
    assert begun[-2] >= 4, begun
    group.barrier()


# ---- the optimiser


def zero_has_the_bits_of_the_whole_for_a_language_model():
    """18,944 elements, so that loops compute them all, and no rank's share would need any."""
    ids = np.random.default_rng(0).integers(3, 40, (4, 16))
    for kind in (nn.optim.Adam, nn.optim.AdamW, nn.optim.SGD):
        found = []
        for shared in (False, True):
            tt.manual_seed(0)
            sizes = {"d_model": 32, "num_heads": 2, "num_layers": 2, "d_ff": 64, "max_length": 16}
            model = LanguageModel(40, **{**GPT2, **sizes}).eval()
            optimizer = kind(model.parameters(), lr=1e-2)
            optimizer = nn.optim.ZeroRedundancyOptimizer.of(optimizer) if shared else optimizer
            for _ in range(4):
                optimizer.zero_grad()
                (model(ids) ** 2).mean().backward()
                optimizer.step()
            found.append([p.numpy().tobytes() for p in model.parameters()])
        assert found[0] == found[1], kind


def zero_takes_the_same_steps_with_a_share_of_the_state():
    kept = {}
    for kind in ("whole", "shared"):
        model = model_of()
        ddp = nn.parallel.DistributedDataParallel(model)
        groups = [{"params": [*model.first.parameters()], "lr": 0.1}, {"params": [model.scale]}]
        groups[1]["params"] += [*model.second.parameters(), *model.extra.parameters()]
        optimizer = (
            nn.optim.Adam(groups)
            if kind == "whole"
            else nn.optim.ZeroRedundancyOptimizer(groups, nn.optim.Adam, lr=1e-3)
        )
        schedule = nn.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        for _ in range(4):
            optimizer.zero_grad()
            loss_of(ddp, mine()).backward()
            optimizer.step()
            schedule.step()
        kept[kind] = model, optimizer
    (a, whole), (b, shared) = kept["whole"], kept["shared"]
    assert [p.numpy().tobytes() for p in a.parameters()] == [p.numpy().tobytes() for p in b.parameters()]
    counts = dist.world().gather_objects(len(shared.state))
    assert sum(counts) == len(whole.state) == 7
    assert max(counts) < 7
    raises(RuntimeError, shared.state_dict, "consolidate_state_dict")
    shared.consolidate_state_dict(to=1)
    if dist.get_rank() != 1:
        raises(RuntimeError, shared.state_dict, "consolidate_state_dict")
    state = dist.world().broadcast_object(shared.state_dict() if dist.get_rank() == 1 else None, 1)
    wanted = whole.state_dict()
    assert state["param_groups"] == wanted["param_groups"]
    for i, entry in wanted["state"].items():
        assert entry["step"] == state["state"][i]["step"]
        assert entry["exp_avg"].numpy().tobytes() == np.asarray(state["state"][i]["exp_avg"]).tobytes()
    shared.load_state_dict(wanted)
    assert len(shared.state) == counts[dist.get_rank()]


# ---- the training loop


SIZES = {"d_model": 8, "num_heads": 2, "num_layers": 1}


def copying(dropout):
    task = SequenceTask("copy", 0, max_length=5)
    return Transformer(task.vocabulary, dropout=dropout, max_length=6, tie_weights=True, **SIZES), task


def translating(dropout):
    task = TranslationTask("en-fr")
    sizes = {**SIZES, "max_length": task.max_length + 1}
    return Transformer(len(task.source), len(task.target), dropout=dropout, norm_first=True, **sizes), task


def writing(kind, dropout, **more):
    task = StretchTask(np.random.default_rng(0).integers(3, 20, 200), length=12)
    return LanguageModel(20, dropout=dropout, max_length=12, **kind, **SIZES, **more), task


def guessing(dropout):
    task = MaskedWordTask()
    return Encoder(len(task), dropout=dropout, max_length=64, mask_id=task.mask_id, **SIZES), task


KINDS = {
    "copying": copying, "translating": translating, "guessing": guessing,
    "like GPT-2": lambda dropout: writing(GPT2, dropout),
    "like Llama": lambda dropout: writing(LLAMA, dropout, num_kv_heads=1),
}  # fmt: skip


def trainer_of(optimizer="sgd", dropout=0.0, dtype=tt.float64, kind="copying", **options):
    tt.manual_seed(0)
    model, task = KINDS[kind](dropout)
    model.to(dtype)
    if optimizer == "adam":
        made, schedule = adam(model, "cosine", 2e-3, 3, 10)
    else:
        made = nn.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
        schedule = nn.optim.lr_scheduler.StepLR(made, 3, 0.5)
    return Trainer(model, made, schedule, task, label_smoothing=0.1, **{"batch_size": 8, **options})


def trained(steps=6, alone=False, zero=False, **options):
    trainer = trainer_of(**options)
    if not alone:
        distribute(trainer, dist.world(), shard_optimizer=zero)
    trainer.run(steps)
    return {name: value.numpy().copy() for name, value in trainer.model.state_dict().items()}


def same_everywhere(weights):
    everywhere = dist.world().gather_objects({name: value.tobytes() for name, value in weights.items()})
    assert all(other == everywhere[0] for other in everywhere)
    return weights


def all_ranks_train_what_one_process_trains():
    for options in ({}, {"accumulate": 2}, {"zero": True}, {"batch_size": 7}, {"batch_size": 1}, {"max_norm": 0.1}):
        weights = same_everywhere(trained(**options))
        options.pop("zero", None)
        assert_near(weights, trained(alone=True, **options))


def every_kind_of_model_trains_as_one_process_does():
    for kind in KINDS:
        assert_near(same_everywhere(trained(kind=kind)), trained(kind=kind, alone=True))
        first, again = (trained(kind=kind, dropout=0.3, steps=2) for _ in range(2))
        assert {n: v.tobytes() for n, v in first.items()} == {n: v.tobytes() for n, v in again.items()}


def with_adam_too_but_for_the_biases_of_keys():
    """Their gradients are 0, but for rounding, which Adam makes as large as any other."""
    weights, alone = same_everywhere(trained(optimizer="adam")), trained(optimizer="adam", alone=True)
    for found in (weights, alone):
        for name in found:
            if name.endswith("in_proj_bias"):
                found[name][8:16] = 0
    assert_near(weights, alone, 1e-11)


def in_32_bits_up_to_rounding():
    weights = same_everywhere(trained(dtype=tt.float32))
    assert_near(weights, trained(alone=True, dtype=tt.float32), 2e-6)


def dropout_is_repeated_and_each_ranks_own():
    first, again = (trained(dropout=0.5, steps=3) for _ in range(2))
    assert {n: v.tobytes() for n, v in first.items()} == {n: v.tobytes() for n, v in again.items()}
    trainer = trainer_of(dropout=0.5)
    distribute(trainer, dist.world())
    masks = []
    trainer.model.positions.register_forward_hook(lambda module, args, out: masks.append((out.numpy() == 0).tobytes()))
    trainer.task._task.training_batch = lambda step, size: trainer.task._task.make_batch([[5, 6, 7]] * 8)
    trainer.run(2)
    masks = [mask for each in dist.world().gather_objects(masks) for mask in each]
    assert len(set(masks)) == len(masks) == 4 * dist.get_world_size()


def steps_taken_by_hand_are_those_of_all():
    trainer = trainer_of()
    distribute(trainer, dist.world())
    for _ in range(2):
        trainer.train_step([trainer.task.training_batch(0, 8)])
    same_everywhere({name: value.numpy() for name, value in trainer.model.state_dict().items()})


def what_is_not_finite_is_named_by_all():
    trainer = trainer_of()
    distribute(trainer, dist.world())

    def spoil(module, args, out):
        return out * (float("inf") if dist.get_rank() == 1 else 1.0)

    trainer.model.positions.register_forward_hook(spoil)
    raises(NotFiniteError, lambda: trainer.run(2), "on rank 1", "step 1")


CHECKS = [
    reductions_and_broadcasts, every_rank_begins_with_the_weights_of_rank_0, the_gradient_is_that_of_the_whole_batch,
    two_forward_passes_before_one_backward_pass, a_parameter_that_is_used_beside_the_module,
    no_sync_adds_up_alone_and_the_next_pass_averages, buffers_are_those_of_rank_0_after_each_training_pass,
    a_pass_that_sends_nothing_keeps_each_ranks_buffers, unused_parameters_are_named, unused_parameters_are_found,
    half_precision_is_added_up_in_32_bits, second_derivatives_are_refused, another_model_is_named,
    gradients_are_sent_while_others_are_computed, zero_takes_the_same_steps_with_a_share_of_the_state,
    zero_has_the_bits_of_the_whole_for_a_language_model,
    all_ranks_train_what_one_process_trains, every_kind_of_model_trains_as_one_process_does,
    with_adam_too_but_for_the_biases_of_keys, in_32_bits_up_to_rounding,
    dropout_is_repeated_and_each_ranks_own, what_is_not_finite_is_named_by_all, steps_taken_by_hand_are_those_of_all,
]  # fmt: skip


def ranks_wait_for_each_other():
    """The last, since no rank can go on after it: rank 0 waits for rank 1, and the others for rank 0.

    Rank 0 calls the roll and hears that all wait. It leaves, so that the others do not hear it later.
    """
    group = dist.world()
    group.timeout = 2.0 if group.rank else 1.0
    start = time.monotonic()
    source, words = (0, "rank") if group.rank else (1, "ranks wait for each other")
    raises(dist.RankError, lambda: dist.broadcast(tt.zeros(3), source), words)
    assert time.monotonic() - start < 60  # takes three seconds


CHECKS.append(ranks_wait_for_each_other)


def main():
    warnings.simplefilter("error")
    group = dist.init_process_group(timeout=20)
    found = {}
    for check in CHECKS:
        try:
            check()
            found[check.__name__] = ""
        except Exception:
            found[check.__name__] = f"rank {group.rank}:\n{traceback.format_exc()}"
    Path(sys.argv[1], f"{group.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
