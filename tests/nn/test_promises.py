"""What docs/promises.md says of numbers, memory and errors, for whole modules: training steps, threads, devices."""

import gc
import threading
import tracemalloc
import warnings

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn

VOCABULARY, D_MODEL, HEADS, LENGTH, BATCH = 11, 8, 2, 5, 4


class Translator(nn.Module):
    """A small Transformer with everything in it: embeddings with padding, positions, masks, dropout, tied weights."""

    def __init__(self, dropout=0.1, norm_first=False, activation="relu", tied=True, device=None, dtype=None):
        super().__init__()
        own = {"device": device, "dtype": dtype}
        self.embedding = nn.Embedding(VOCABULARY, D_MODEL, padding_idx=0, **own)
        self.positions = nn.PositionalEncoding(D_MODEL, dropout, batch_first=True)
        self.transformer = nn.Transformer(
            D_MODEL, HEADS, 1, 1, 16, dropout, activation, batch_first=True, norm_first=norm_first, **own
        )
        self.output = nn.Linear(D_MODEL, VOCABULARY, bias=False, **own)
        if tied:
            self.output.weight = self.embedding.weight
        self.to(device) if device else None

    def forward(self, source, target):
        embedded = [self.positions(self.embedding(ids)) for ids in (source, target)]
        hidden = self.transformer(
            *embedded,
            tgt_mask=F.causal_mask(target.shape[1], device=target.device),
            src_key_padding_mask=source == 0,
            tgt_key_padding_mask=target == 0,
            memory_key_padding_mask=source == 0,
        )
        return self.output(hidden)


def batch(seed=0, device=None):
    """Sequences of which the second is nothing but padding, and the third ends in some."""
    ids = np.random.default_rng(seed).integers(1, VOCABULARY, size=(BATCH, LENGTH))
    ids[1], ids[2, 3:] = 0, 0
    return tt.asarray(ids, device=device)


def training(model, optimizer, seed=0):
    """A function that takes one training step and returns the loss."""
    criterion = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
    ids = batch(seed, next(model.parameters()).device)

    def step():
        optimizer.zero_grad()
        logits = model(ids, ids[:, :-1])
        loss = criterion(tt.reshape(logits, (-1, VOCABULARY)), tt.reshape(ids[:, 1:], (-1,)))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def leaf(array):
    return tt.tensor(array, dtype=tt.float32, requires_grad=True)


def values(model):
    return b"".join(p.detach().numpy().tobytes() for p in model.parameters())


OPTIMIZERS = {
    "sgd": lambda p: nn.optim.SGD(p, lr=0.1),
    "nesterov": lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: nn.optim.Adam(p, lr=0.01),
    "adamw": lambda p: nn.optim.AdamW(p, lr=0.01),
}


# ---- floating point


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_a_training_step_keeps_its_dtype(dtype, kind, device):
    """Outputs, loss, gradients, parameters and the optimizer's state; nothing is float64 by accident."""
    tt.random.manual_seed(0)
    model = Translator(activation="gelu", dtype=dtype, device=device)
    seen = []

    def look(module, args, output):
        for value in (*args, *(output if isinstance(output, tuple) else (output,))):
            if isinstance(value, tt.Tensor) and value.dtype.kind == "f":
                seen.append((type(module).__name__, value.dtype, value.device))
                if value.requires_grad:
                    value.register_hook(lambda g, name=type(module).__name__: seen.append((name, g.dtype, g.device)))

    for module in model.modules():
        module.register_forward_hook(look)
    optimizer = OPTIMIZERS[kind](model.parameters())
    step = training(model, optimizer)
    for _ in range(2):
        step()
    assert {(d, where) for _, d, where in seen} == {(dtype, device)}
    for p in model.parameters():
        assert (p.dtype, p.device) == (dtype, device)
        assert (p.grad.dtype, p.grad.shape, p.grad.device) == (dtype, p.shape, device)
    held = [v for s in optimizer.state_dict()["state"].values() for v in s.values() if hasattr(v, "shape") and v.shape]
    assert bool(held) == (kind != "sgd")
    assert {v.dtype for v in held} <= {dtype}


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_sample_of_padding_alone_leaves_every_gradient_as_it_is(norm_first):
    """With the second sequence nothing but padding, and without it: the same loss, the same gradients."""
    tt.random.manual_seed(0)
    model = Translator(dropout=0.0, norm_first=norm_first, dtype=tt.float64)
    ids = batch()
    results = []
    for chosen in (ids, ids[tt.asarray([0, 2, 3])]):
        model.zero_grad()
        logits = model(chosen, chosen[:, :-1])
        assert tt.all(tt.isfinite(logits))
        loss = F.cross_entropy(tt.moveaxis(logits, -1, 1), chosen[:, 1:], ignore_index=0)
        loss.backward()
        results.append([loss.item(), *(p.grad.numpy() for p in model.parameters())])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("way", ["numpy", "loops"])
def test_gradients_that_are_sums_over_many_rows_are_accurate(way, request):
    """A running sum in float32 would be off by percents."""
    if way == "loops":
        request.getfixturevalue("loops")
    rows = 1 << 20
    x = tt.full((rows, 2), 0.1)
    exact = rows * float(np.float32(0.1))
    weight, bias = leaf(np.zeros((3, 2))), leaf(np.zeros(3))
    F.linear(x, weight, bias).backward(tt.full((rows, 3), 0.1))
    np.testing.assert_allclose(bias.grad.numpy(), exact, rtol=1e-6)
    np.testing.assert_allclose(weight.grad.numpy(), exact * 0.1, rtol=1e-4)  # a matrix product adds in its own order
    weight, bias = leaf(np.ones(2)), leaf(np.zeros(2))
    F.layer_norm(x + tt.asarray([1.0, -1.0]), 2, weight, bias).backward(x)
    np.testing.assert_allclose(bias.grad.numpy(), exact, rtol=1e-6)
    np.testing.assert_allclose(weight.grad.numpy(), [exact, -exact], rtol=1e-4)  # eps is in it
    table = leaf(np.zeros((2, 2)))
    F.embedding(tt.zeros((rows,), dtype=tt.int64), table).backward(x)
    np.testing.assert_allclose(table.grad.numpy(), [[exact] * 2, [0] * 2], rtol=1e-6)
    loss = F.cross_entropy(tt.zeros((rows, 2)), tt.zeros((rows,), dtype=tt.int64), reduction="sum")
    np.testing.assert_allclose(loss.item(), rows * np.log(2), rtol=1e-6)


def test_modules_neither_overflow_nor_warn_at_large_logits(device):
    with np.errstate(divide="raise", over="raise", invalid="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in (tt.float32, tt.float64):
            x = tt.tensor([[1e4, -1e4, 0.0], [-1e4] * 3], dtype=dtype, device=device, requires_grad=True)
            ones = tt.ones_like(x).detach()
            for module, args in (
                (nn.Softmax(dim=1), ()),
                (nn.LogSoftmax(dim=1), ()),
                (nn.Sigmoid(), ()),
                (nn.Tanh(), ()),
                (nn.GELU(), ()),
                (nn.GELU("tanh"), ()),
                (nn.CrossEntropyLoss(), (tt.asarray([1, 0], device=device),)),
                (nn.CrossEntropyLoss(label_smoothing=0.1), (ones / 3,)),
                (nn.BCEWithLogitsLoss(), (ones,)),
                (nn.LayerNorm(3, device=device, dtype=dtype), ()),
            ):
                out = module(x, *args)
                assert tt.all(tt.isfinite(out)), module
                for create_graph in (False, True):
                    g = tt.grad(out.sum(), x, create_graph=create_graph, retain_graph=True)
                    assert tt.all(tt.isfinite(g)), module


# ---- state


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.linear(x, x, x[:, 0]),
        lambda x: F.layer_norm(x, 4, x[0], x[1]),
        lambda x: F.softmax(x),
        lambda x: F.log_softmax(x),
        lambda x: F.gelu(x),
        lambda x: F.gelu(x, "tanh"),
        lambda x: F.relu(x),
        lambda x: F.embedding([0, 1, 1], x) ** 2,
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda x: F.scaled_dot_product_attention(x, x, x, x),
        lambda x: F.cross_entropy(x, [0, 1, 2, 3]),
        lambda x: F.cross_entropy(x, [0, 1, 2, 3], x[0].detach()),
    ],
)
def test_a_change_after_the_forward_pass_is_right_or_an_error(function, device):
    rng = np.random.default_rng(0)
    x = tt.tensor(rng.random((4, 4)) + 0.1, device=device, requires_grad=True)
    out = function(x)
    g = tt.asarray(rng.normal(size=out.shape), device=device)
    expected = tt.grad(out, x, g, retain_graph=True).numpy()
    with tt.no_grad():
        x += 1.0
    try:
        found = tt.grad(out, x, g).numpy()
    except RuntimeError as error:
        if "changed in place" not in str(error):
            raise
    else:
        np.testing.assert_array_equal(found, expected)


def test_an_optimizer_step_between_forward_and_backward_is_an_error():
    model = Translator(dropout=0.0)
    optimizer = OPTIMIZERS["adam"](model.parameters())
    step = training(model, optimizer)
    step()
    logits = model(batch(), batch())
    step()
    with pytest.raises(RuntimeError, match="changed in place"):
        logits.sum().backward()


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_one_seed_repeats_training_bit_for_bit(kind):
    """Initial values, dropout and every step; NumPy's own random numbers are neither used nor changed."""

    def train(seed):
        tt.random.manual_seed(seed)
        model = Translator(dropout=0.3)
        step = training(model, OPTIMIZERS[kind](model.parameters()))
        return [step() for _ in range(5)], values(model)

    before = np.random.get_state()  # noqa: NPY002
    first = train(1)
    np.random.seed(5)  # noqa: NPY002
    assert train(1) == first
    assert train(2) != first
    np.random.seed(5)  # noqa: NPY002
    expected = np.random.get_state()  # noqa: NPY002
    train(1)
    assert repr(np.random.get_state()) == repr(expected)  # noqa: NPY002
    np.random.set_state(before)  # noqa: NPY002


def test_four_threads_train_models_of_their_own():
    def prepare(seed):
        tt.random.manual_seed(seed)
        model = Translator(dropout=0.0, norm_first=bool(seed % 2))
        return model, training(model, OPTIMIZERS["adam"](model.parameters()), seed)

    def work(i, model, step):
        losses = [step() for _ in range(15)]
        with tt.no_grad():
            evaluated = model.eval()(batch(i), batch(i)).numpy().tobytes()
        results[i] = losses, values(model), evaluated

    results: dict[int, tuple] = {}
    for i in range(4):
        work(i, *prepare(i))
    expected, results = results, {}
    threads = [threading.Thread(target=work, args=(i, *prepare(i))) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 1, 2, 3]
    assert results == expected
    assert len({r[1] for r in results.values()}) == 4


# ---- memory


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.usefixtures("no_collector")
def test_training_does_not_grow_memory():
    """100 steps with the garbage collector off: no array and no object more, and no cycle for it to find."""
    tt.random.manual_seed(0)
    model = Translator()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    schedule = nn.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (1 + i))
    step = training(model, optimizer)
    for _ in range(5):
        step()
        schedule.step()
    gc.collect()
    arrays = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    tracemalloc.start()
    try:
        step()
        objects, before = len(gc.get_objects()), held(arrays)
        for _ in range(100):
            step()
            schedule.step()
        assert abs(held(arrays) - before) < 5_000  # one array lost in each step would be 100 times 100 bytes or more
    finally:
        tracemalloc.stop()
    assert len(gc.get_objects()) - objects < 50
    assert gc.collect() == 0


def held(domain):
    """How many bytes live arrays hold."""
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([domain]).traces)


@pytest.mark.usefixtures("no_collector")
def test_second_order_and_abandoned_graphs_leave_no_cycle():
    tt.random.manual_seed(0)
    model = Translator(activation="gelu")
    ids = batch()

    def use():
        model(ids, ids)
        grads = tt.grad(model(ids, ids).sum(), list(model.parameters()), create_graph=True)
        sum(tt.square(g).sum() for g in grads).backward()
        try:
            model(ids + VOCABULARY, ids)
        except IndexError:
            return
        raise AssertionError("ids out of range were taken")

    use()  # loads what is loaded when first used
    gc.collect()
    use()
    assert gc.collect() == 0


# ---- errors name the module


def noted(error):
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


@pytest.mark.parametrize(
    ("path", "replacement", "texts"),
    [
        ("transformer.encoder.layers.0.linear1", nn.Linear(7, 16), ("(4, 5, 8)", "(16, 7)", "linear")),
        ("transformer.decoder.layers.0.norm2", nn.LayerNorm(7), ("(4, 4, 8)", "(7,)", "layer_norm")),
        ("transformer.encoder.layers.0.self_attn", nn.MultiheadAttention(6, 2, batch_first=True), ("(4, 5, 8)", "6")),
        ("embedding", nn.Embedding(3, D_MODEL), ("embedding", "from 0 to 2")),
        ("output", nn.Linear(9, 3), ("(4, 4, 8)", "(3, 9)", "linear")),
    ],
)
def test_a_misfit_names_shapes_and_the_path_of_the_module(path, replacement, texts):
    model = Translator(tied=False)
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, replacement)
    with pytest.raises((ValueError, IndexError)) as caught:
        model(batch(), batch()[:, :-1])
    message = noted(caught.value)
    for text in texts:
        assert text in message
    assert f"in module Translator.{path}" in message


def test_mixed_devices_raise_and_name_both(request):
    if request.config.getoption("--device") == "cpu":
        pytest.skip("needs a second device")
    here, there = Translator(device="cpu"), Translator(device="gpu")
    with pytest.raises(tt.DeviceError) as caught:
        here(batch(device="gpu"), batch(device="gpu"))
    assert "cpu" in str(caught.value)
    assert "gpu" in str(caught.value)
    assert "in module Translator.embedding" in noted(caught.value)
    here.embedding = there.embedding
    with pytest.raises(tt.DeviceError, match="cpu.*gpu|gpu.*cpu"):
        here(batch(device="gpu"), batch(device="gpu"))
    assert {p.device for p in here.transformer.parameters()} == {"cpu"}
