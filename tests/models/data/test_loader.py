"""Datasets, samplers, batches: what they hold, how orders follow from seeds, going on from the very sample, errors."""

import gc
import itertools
import json
import weakref
from collections import namedtuple

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    TokenBatchSampler,
    default_collate,
    random_split,
)
from tinytensor.models.data.batch import Batch


class Counted(Dataset):
    """Numbers, of which it is known how often each was read."""

    def __init__(self, size):
        self.read = [0] * size

    def __getitem__(self, index):
        self.read[index] += 1
        return index

    def __len__(self):
        return len(self.read)


def loader(size=10, batch_size=3, seed=0, **options):
    options = {"shuffle": True, "generator": tt.random.Generator(seed), **options}
    return DataLoader(Counted(size), batch_size, **options)


def through(batches):
    return [batch.tolist() for batch in batches]


def flat(batches):
    return [sample for batch in batches for sample in batch]


# ---- datasets


def test_a_tensor_dataset_gives_rows(device):
    x, y = np.arange(12.0, dtype=np.float32).reshape(4, 3), tt.asarray([0, 1, 0, 1], device=device)
    dataset = TensorDataset(tt.asarray(x, device=device), y)
    assert len(dataset) == 4
    assert [part.tolist() for part in dataset[2]] == [[6.0, 7.0, 8.0], 0]
    for wrong in ((), (x, np.arange(3)), (x, np.asarray(1.0))):
        with pytest.raises(ValueError, match="TensorDataset: expected Tensors of the same length"):
            TensorDataset(*wrong)


def test_a_dataset_of_ones_own_says_what_to_write():
    with pytest.raises(NotImplementedError, match="__getitem__"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="__len__"):
        len(Dataset())


@pytest.mark.parametrize(("lengths", "sizes"), [([7, 3], [7, 3]), ([0.5, 0.25, 0.25], [6, 2, 2]), ([1.0], [10])])
def test_a_random_split_has_every_sample_once(lengths, sizes):
    parts = random_split(Counted(10), lengths, tt.random.Generator(0))
    assert [len(part) for part in parts] == sizes
    samples = [part[i] for part in parts for i in range(len(part))]
    assert sorted(samples) == list(range(10))
    assert samples != sorted(samples) or lengths == [1.0]
    again = random_split(Counted(10), lengths, tt.random.Generator(0))
    assert [part.indices for part in again] == [part.indices for part in parts]


@pytest.mark.parametrize("lengths", [[7, 2], [0.5, 0.4], [7.5, 2.5], []])
def test_a_split_that_does_not_add_up(lengths):
    with pytest.raises(ValueError, match="do not add up to the dataset's 10 samples, or to 1"):
        random_split(Counted(10), lengths)


# ---- samplers


def test_orders():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    sampler = RandomSampler(range(20), generator=tt.random.Generator(0))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert list(RandomSampler(range(20), generator=tt.random.Generator(0))) == first
    more = list(RandomSampler(range(4), num_samples=10))
    assert len(more) == 10
    assert sorted(more[:4]) == sorted(more[4:8]) == [0, 1, 2, 3]
    drawn = RandomSampler(range(4), replacement=True, num_samples=100)
    assert len(drawn) == len(list(drawn)) == 100
    assert set(drawn) == {0, 1, 2, 3}
    assert list(RandomSampler([])) == []


@pytest.mark.parametrize(("drop_last", "sizes"), [(False, [3, 3, 1]), (True, [3, 3])])
def test_batches_of_indices(drop_last, sizes):
    sampler = BatchSampler(range(7), 3, drop_last)
    assert [len(batch) for batch in sampler] == sizes
    assert len(sampler) == len(sizes)


def test_batches_by_tokens_hold_like_lengths():
    lengths = np.random.default_rng(0).integers(1, 20, size=200)
    sampler = TokenBatchSampler(lengths, 64, generator=tt.random.Generator(0))
    first, second = list(sampler), list(sampler)
    assert first != second
    for batches in (first, second):
        assert len(batches) == len(sampler)
        assert sorted(i for batch in batches for i in batch) == list(range(200))
        assert all(len(batch) * max(lengths[batch]) <= 64 for batch in batches)
        padding = sum(len(batch) * max(lengths[batch]) for batch in batches) / lengths.sum() - 1
        assert padding < 0.05
    ordered = list(TokenBatchSampler(lengths, 64, shuffle=False))
    assert [i for batch in ordered for i in batch] == np.argsort(lengths, kind="stable").tolist()
    assert list(TokenBatchSampler([5, 100, 5], 10, shuffle=False)) == [[0, 2], [1]]


# ---- the loader


def test_an_epoch_has_every_sample_once():
    batches = loader()
    first, second = through(batches), through(batches)
    assert [len(batch) for batch in first] == [3, 3, 3, 1]
    assert len(batches) == 4
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(10))
    assert first != second
    assert batches.epoch == 2
    assert batches.dataset.read == [2] * 10
    assert through(loader(shuffle=None)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert through(loader(shuffle=None, drop_last=True)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_the_order_follows_from_the_seed():
    assert through(loader(seed=1)) == through(loader(seed=1)) != through(loader(seed=2))
    orders = []
    for _ in range(2):
        tt.manual_seed(0)
        batches = loader(generator=None)
        tt.random.rand(5)
        orders.append(through(batches))
        after = tt.random.rand(3).tolist()
    assert orders[0] == orders[1]
    tt.manual_seed(0)
    loader(generator=None)
    tt.random.rand(5)
    assert tt.random.rand(3).tolist() == after  # an epoch draws nothing from the default generator


@pytest.mark.parametrize("stop", range(10))
def test_it_goes_on_with_the_very_next_sample(stop):
    """Through 2.5 epochs, interrupted after each number of batches: in the middle, at the end, and at the beginning."""
    whole = loader()
    expected = through(whole) + through(whole) + through(whole)
    interrupted, seen = loader(), []
    while len(seen) < stop:
        for batch in interrupted:
            seen.append(batch.tolist())
            if len(seen) == stop:
                break
    state = json.loads(json.dumps(interrupted.state_dict()))
    resumed = loader(seed=7)
    resumed.load_state_dict(state)
    assert resumed.epoch == interrupted.epoch
    while len(seen) < 12:
        seen += through(resumed)
    assert seen == expected
    assert resumed.epoch == 3
    assert resumed.dataset.read.count(0) == (0 if stop < 8 else len(flat(expected[8:stop])))


def sampler_of(kind, generator):
    if kind == "by tokens":
        return {"batch_sampler": TokenBatchSampler([1, 2, 3] * 4, 6, generator=generator)}
    options = {"replacement": kind == "replacement", "num_samples": 30 if kind == "several orders" else None}
    return {"batch_size": 3, "sampler": RandomSampler(range(12), generator=generator, **options)}


@pytest.mark.parametrize("kind", ["one order", "several orders", "replacement", "by tokens"])
@pytest.mark.parametrize("stop", [0, 1, 3])
def test_others_may_draw_from_its_generator_at_any_time(kind, stop):
    """Between `iter` and the first batch, between batches, and after a state was loaded."""
    generator, other = tt.random.Generator(0), tt.random.Generator(1)
    interrupted = DataLoader(range(12), **sampler_of(kind, generator))
    for _ in range(2):
        batches = iter(interrupted)
        generator.integers(5)
    seen = []
    for _ in range(stop):
        seen.append(next(batches).tolist())
        generator.integers(5)
    state = interrupted.state_dict()
    resumed = DataLoader(range(12), **sampler_of(kind, other))
    resumed.load_state_dict(state)
    other.integers(5)
    rest = iter(resumed)
    other.integers(5)
    expected = through(batches)
    assert through(rest) == expected
    if kind in ("one order", "by tokens"):
        assert sorted(flat(seen + expected)) == list(range(12))


def test_a_state_in_the_body_of_the_loop_is_after_its_batch():
    """At the last batch of an epoch, too: what is left of that epoch is nothing."""
    batches, states, seen = loader(), [], []
    for batch in batches:
        seen.append(batch.tolist())
        states.append(batches.state_dict())
    second = through(batches)
    for given, state in enumerate(states, start=1):
        resumed = loader()
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert through(resumed) == seen[given:]
        assert resumed.epoch == 1
        assert through(resumed) == second


def test_an_abandoned_epoch_is_left_and_another_begun():
    batches = loader()
    abandoned = iter(batches)
    next(abandoned)
    begun = iter(batches)
    next(begun)
    state = batches.state_dict()
    next(abandoned)
    assert batches.state_dict() == state
    list(abandoned)
    assert batches.epoch == 0
    list(begun)
    assert batches.epoch == 1


@pytest.mark.parametrize("options", [{"batch_sampler": [[5, 4], [3, 2], [1, 0]]}, {"sampler": range(5, -1, -1)}])
def test_a_sampler_of_ones_own_needs_no_length(options, tmp_path):
    class Lengthless:
        def __init__(self, indices):
            self.indices = indices

        def __iter__(self):
            return iter(self.indices)

    options = {name: Lengthless(indices) for name, indices in options.items()}
    options["batch_size"] = 1 if "batch_sampler" in options else 2
    batches, resumed = DataLoader(Counted(6), **options), DataLoader(Counted(6), **options)
    next(iter(batches))
    nn.save(batches.state_dict(), tmp_path / "loader")
    resumed.load_state_dict(nn.load(tmp_path / "loader"))
    assert through(resumed) == [[3, 2], [1, 0]]


def test_a_loader_dies_with_its_last_name():
    """Also in the middle of an epoch, without the garbage collector."""
    batches = loader()
    dataset = weakref.ref(batches.dataset)
    gc.disable()
    try:
        iterator = iter(batches)
        next(iterator)
        del batches
        next(iterator)
        del iterator
        assert dataset() is None
    finally:
        gc.enable()


def test_batches_by_tokens_go_on_as_well():
    pairs = [([5] * n, [6] * (n % 4 + 1)) for n in np.random.default_rng(0).integers(1, 9, size=50).tolist()]

    def make(seed):
        sampler = TokenBatchSampler([len(s) + 1 for s, _ in pairs], 40, generator=tt.random.Generator(seed))
        return DataLoader(pairs, batch_sampler=sampler, collate_fn=Batch.of)

    whole = make(0)
    expected = [batch.source.tolist() for batch in whole] + [batch.source.tolist() for batch in whole]
    assert len(expected) == 2 * len(whole)
    first = make(0)
    seen = [batch.source.tolist() for _, batch in zip(range(3), first)]
    resumed = make(1)
    resumed.load_state_dict(first.state_dict())
    for _ in range(2):
        seen += [batch.source.tolist() for batch in resumed]
    assert seen == expected


@pytest.mark.parametrize("part", [False, True])
def test_a_tensor_dataset_is_looked_up_at_once(part, device):
    x = tt.asarray(np.random.default_rng(0).normal(size=(20, 3)), device=device)
    dataset = TensorDataset(x, np.arange(20))
    if part:
        dataset = Subset(Subset(dataset, range(2, 18)), list(range(15, 3, -1)))
    fast = DataLoader(dataset, 4, shuffle=True, generator=tt.random.Generator(0))
    slow = DataLoader(
        dataset, 4, shuffle=True, generator=tt.random.Generator(0), collate_fn=lambda batch: default_collate(batch)
    )
    for mine, expected in zip(fast, slow, strict=True):
        assert [t.tolist() for t in mine] == [t.tolist() for t in expected]
        assert [(t.dtype, t.device) for t in mine] == [(t.dtype, t.device) for t in expected]
        assert mine[0].device == device


def test_a_dataset_that_changes_samples_is_asked_for_them():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return tuple(2 * x for x in super().__getitem__(index))

    ((x,),) = DataLoader(Doubled(np.asarray([1.0, 2.0])), 2)
    assert x.tolist() == [2.0, 4.0]


def test_training_goes_on_bit_for_bit(tmp_path):
    """The loop of docs/training-loop.md: model, optimiser, schedule and loader from one file."""
    rng = np.random.default_rng(0)
    data = TensorDataset(rng.normal(size=(20, 3)).astype(np.float32), rng.integers(0, 2, size=20))

    def make():
        tt.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = nn.optim.AdamW(model.parameters(), lr=0.1)
        schedule = nn.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return {
            "model": model,
            "optimizer": optimizer,
            "schedule": schedule,
            "loader": DataLoader(data, 3, shuffle=True),
        }

    def run(parts, most):
        steps = 0
        while parts["loader"].epoch < 3:
            for x, y in parts["loader"]:
                if steps == most:
                    return
                loss = nn.functional.cross_entropy(parts["model"](x), y)
                parts["optimizer"].zero_grad()
                loss.backward()
                parts["optimizer"].step()
                parts["schedule"].step()
                steps += 1
                nn.save({name: part.state_dict() for name, part in parts.items()}, tmp_path / "checkpoint")

    whole = make()
    run(whole, 99)
    run(make(), 10)
    resumed = make()
    for name, state in nn.load(tmp_path / "checkpoint").items():
        resumed[name].load_state_dict(state)
    run(resumed, 99)
    assert resumed["model"].weight.tolist() == whole["model"].weight.tolist()
    assert resumed["schedule"].get_last_lr() == whole["schedule"].get_last_lr()


# ---- batches of samples


def test_samples_become_batches_by_what_they_are():
    Point = namedtuple("Point", "x y")
    made = default_collate(
        [{"a": np.float32(1), "b": ("one", [1, 2.0]), "c": Point(True, b"x"), "d": np.ones(2)} for _ in range(2)]
    )
    assert made["a"].dtype == tt.float32
    assert made["a"].tolist() == [1.0, 1.0]
    assert made["b"][0] == ["one", "one"]
    assert [(t.dtype, t.tolist()) for t in made["b"][1]] == [(tt.int64, [1, 1]), (tt.float64, [2.0, 2.0])]
    assert isinstance(made["c"], Point)
    assert (made["c"].x.dtype, made["c"].y) == (tt.bool, [b"x", b"x"])
    assert made["d"].shape == (2, 2)


def test_samples_that_make_no_batch():
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\) make no batch; pass a collate_fn"):
        default_collate([tt.zeros(2), tt.zeros(3)])
    with pytest.raises(ValueError, match="samples of 1 to 2 parts make no batch"):
        default_collate([[1], [1, 2]])
    for wrong in (object(), None, np.asarray("text")):
        with pytest.raises(TypeError, match="default_collate: expected Tensors, arrays"):
            default_collate([wrong])


# ---- errors


def test_what_a_loader_refuses():
    with pytest.raises(TypeError, match="expected a dataset with __getitem__ and __len__, got a generator"):
        DataLoader(i for i in range(3))
    with pytest.raises(ValueError, match="there are no workers; leave out num_workers=2"):
        loader(num_workers=2)
    for option in ({"batch_size": 3}, {"shuffle": True}, {"sampler": [0, 1]}, {"drop_last": True}):
        with pytest.raises(
            ValueError, match="a batch_sampler decides on batch_size, shuffle, sampler and drop_last by i"
        ):
            DataLoader(Counted(10), batch_sampler=[[0, 1]], **option)
    with pytest.raises(ValueError, match="a sampler decides on the order by itself"):
        loader(sampler=[0, 1])
    for size in (1.5, None, "2", True):
        with pytest.raises(TypeError, match="DataLoader: batch_size must be an integer, got "):
            loader(batch_size=size)
    for size in (0, -1):
        with pytest.raises(ValueError, match="batch_size must be an integer of at least 1"):
            loader(batch_size=size)


def test_a_state_that_does_not_fit_changes_nothing():
    batches = loader()
    next(iter(batches))
    before = batches.state_dict()
    for wrong, words in (
        (loader(11).state_dict(), "the state is of 11 samples in an epoch, here there are 10"),
        (loader(batch_size=5).state_dict(), "the state is of 2 batches in an epoch, here there are 4"),
        (
            loader(shuffle=False).state_dict(),
            "is of batches in the order of the dataset, these are in an order that is d",
        ),
        ({"epoch": 1}, "expects .* got"),
        ({**before, "generator": {"bit_generator": "MT19937"}}, "no state of a PCG64 generator"),
    ):
        with pytest.raises(ValueError, match=words):
            batches.load_state_dict(wrong)
        assert batches.state_dict() == before


def test_endless_draws_take_no_memory():
    """As in makemore and minGPT: so many draws that they never end."""
    sampler = RandomSampler(range(5), replacement=True, num_samples=10**10, generator=tt.random.Generator(0))
    assert len(sampler) == 10**10
    first = list(itertools.islice(sampler, 100_000))
    assert set(first) == set(range(5))
    again = RandomSampler(range(5), replacement=True, num_samples=100_000, generator=tt.random.Generator(0))
    assert list(again) == first
