"""Random layers, stacks, models, decoding, optimisers and loaders, as users run them and within `tt.textbook()`.

Each program is built twice from the same seed; results and gradients are the same but for rounding. For longer than the
suite does: `FUZZ_MINUTES=10 pytest tests/nn/test_random_modules.py`. A failure prints its seed: with `FUZZ_SEED=123`
in front, that program runs alone. With `-s`, the number of programs and the seconds are printed.
"""

import contextlib
import itertools
import os
import time
from collections import Counter

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.engine_room import room
from tinytensor import nn
from tinytensor.models import LanguageModel, Transformer
from tinytensor.models.data import DataLoader, TensorDataset
from tinytensor.models.decoding import beam_search, greedy
from tinytensor.nn.utils.rnn import pack_padded_sequence

MINUTES = float(os.environ.get("FUZZ_MINUTES", "0"))
SEED = os.environ.get("FUZZ_SEED")
PROGRAMS = 56  # 112 with `pytest --all`
CLOSE = {"float32": 1e-3, "float64": 1e-8}  # errors, relative to the largest number of an array
SMALLEST = 0.1  # of what an array is compared with, as a share of the largest number of all arrays


class Draw:
    """Random choices, which a failure prints, and random numbers of one dtype."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.chosen = {}
        self.dtype = self.one("dtype", "float32", "float64", "float64")

    def one(self, name, *options):
        self.chosen[name] = option = options[int(self.rng.integers(len(options)))]
        return option

    def yes(self, name, share=0.5):
        self.chosen[name] = found = bool(self.rng.random() < share)
        return found

    def normal(self, *shape):
        return self.rng.standard_normal(shape).astype(self.dtype)

    def sizes(self):
        """Of a batch, its length and its vectors, and the number of heads; one in four is large enough for loops."""
        if self.yes("large", 0.25):
            return self.one("sizes", (8, 32, 64, 4), (9, 31, 64, 2), (8, 33, 48, 3))
        heads = self.one("heads", 1, 2, 3)
        return self.one("batch", 1, 2, 3, 5), self.one("length", 1, 2, 5, 7), heads * self.one("head", 2, 4, 5), heads

    def made(self, module):
        """The module in this dtype, with parameters that are none of their first values; a few want no gradient."""
        frozen = self.yes("some frozen", 0.2)
        module = module.to(getattr(tt, self.dtype))
        with tt.no_grad():
            for parameter in module.parameters():
                parameter += tt.asarray(0.2 * self.normal(*parameter.shape))
                if frozen and self.rng.random() < 0.3:
                    parameter.requires_grad_(False)
        return module

    def learnt(self, module, call, *arrays):
        """The result of a call on arrays, and the gradients of the arrays and of the parameters."""
        inputs = [tt.tensor(array, requires_grad=True) for array in arrays]
        found = call(*inputs)
        found = [one for one in (found if isinstance(found, tuple) else (found,)) if one is not None]
        total = sum((one * tt.asarray(self.normal(*one.shape))).sum() for one in found)
        if total.requires_grad:
            total.backward()
        gradients = [x.grad for x in (*inputs, *module.parameters())]
        return [one.detach().numpy() for one in found] + [None if g is None else g.numpy() for g in gradients]

    def masks(self, name, batch, heads, rows, columns):
        """An attention mask and a key padding mask of one kind, boolean or added; or None."""
        future = np.triu(np.ones((rows, columns), bool), 1)
        share = self.one(f"{name} hides", 0.3, 0.8, 1.0)
        masks = {
            "none": lambda: None,
            "causal": lambda: future,
            "boolean": lambda: self.rng.random((rows, columns)) < share,
            "of each head": lambda: self.rng.random((batch * heads, rows, columns)) < share,
            "-inf": lambda: np.where(self.rng.random((rows, columns)) < share, -np.inf, 0).astype(self.dtype),
            "added": lambda: 3 * self.normal(rows, columns),
            "added to each head": lambda: np.where(
                self.rng.random((batch * heads, rows, columns)) < 0.3, -np.inf, self.normal(rows, columns)
            ).astype(self.dtype),
        }
        mask = masks[self.one(f"{name} mask", "none", *masks)]()
        padding = None
        if self.yes(f"{name} padding"):
            padding = np.arange(columns) >= self.rng.integers(0, columns + 1, batch)[:, None]
            if mask is not None and mask.dtype != bool:
                padding = np.where(padding, -np.inf, 0).astype(self.dtype)
        return [None if one is None else tt.asarray(one) for one in (mask, padding)]


# ---- programs: each returns arrays, of which those from the textbook are the same


def single_layer(draw):
    batch, length, d, _ = draw.sizes()
    if draw.yes("many rows", 0.1):
        batch, length = 64, 130
    bias, wide = draw.yes("bias"), draw.one("wide", 1, 3, 17)
    plain = "relu", "gelu", "gelu_tanh", "silu", "bilinear", "glu", "reglu", "geglu", "geglu_tanh", "swiglu"
    channels = draw.one("groups", 1, 2, 3)
    target = draw.rng.integers(0, d, batch)
    smoothing = draw.one("smoothing", 0.0, 0.1)
    layers = {
        "linear": lambda: nn.Linear(d, wide, bias),
        "layer norm": lambda: nn.LayerNorm(d, draw.one("eps", 1e-5, 1e-2), elementwise_affine=bias),
        "layer norm without bias": lambda: nn.LayerNorm(d, bias=False),
        "rms norm": lambda: nn.RMSNorm(d),
        "feed forward": lambda: nn.FeedForward(d, wide, draw.one("activation", *plain), bias=bias),
        "self-attention": lambda: nn.SelfAttention(d, 1, bias=bias, head_dim=draw.one("head_dim", None, 3)),
        "relu and linear": lambda: nn.Sequential(nn.Linear(d, wide), nn.ReLU(), nn.Dropout(0.0), nn.Linear(wide, 2)),
    }
    functions = {
        "softmax": lambda x: F.softmax(x, dim=draw.one("dim", -1, 0)),
        "log softmax": lambda x: F.log_softmax(x, dim=draw.one("dim", -1, 1)),
        "gelu": F.gelu, "silu": F.silu, "relu": F.relu, "elu": F.elu, "softplus": F.softplus,
        "cross-entropy": lambda x: F.cross_entropy(x[:, 0], tt.asarray(target), label_smoothing=smoothing),
        "mean square": lambda x: F.mse_loss(x, x.detach() * 0.5),
    }  # fmt: skip
    kind = draw.one("layer", *layers, *functions, "embedding", "group norm", "batch norm")
    if kind == "embedding":
        module = draw.made(nn.Embedding(7, d, padding_idx=draw.one("padding_idx", None, 0, 3)))
        ids = tt.asarray(draw.rng.integers(0, 7, (batch, length)))
        return draw.learnt(module, lambda: module(ids))
    if kind in ("group norm", "batch norm"):
        of_groups = nn.GroupNorm(channels, 6) if kind == "group norm" else nn.BatchNorm1d(6)
        module = draw.made(of_groups)
        found = draw.learnt(module, module, 3 * draw.normal(batch + 1, 6, length + 1))
        return found + [b.numpy() for b in module.buffers()]
    module = draw.made(layers[kind]() if kind in layers else nn.Identity())
    return draw.learnt(module, functions.get(kind, module), draw.normal(batch, length, d))


def attention(draw):
    batch, rows, d, heads = draw.sizes()
    columns = draw.one("keys", rows, rows, 3, 20)
    own_sizes = draw.yes("kdim and vdim", 0.2)
    key_size, value_size = (5, 3) if own_sizes else (d, d)
    first, bias, weights = draw.yes("batch_first"), draw.yes("bias"), draw.yes("need_weights")
    module = nn.MultiheadAttention(
        d, heads, bias=bias, kdim=key_size, vdim=value_size, batch_first=first,
        add_bias_kv=draw.yes("add_bias_kv", 0.1), add_zero_attn=draw.yes("add_zero_attn", 0.1),
    )  # fmt: skip
    draw.made(module)
    mask, padding = draw.masks("the", batch, heads, rows, columns)
    itself = draw.yes("to itself") and columns == rows and not own_sizes

    def call(query, key=None, value=None):
        given = (query, query, query) if itself else (query, key, value)
        return module(*given, key_padding_mask=padding, need_weights=weights, attn_mask=mask)

    arrays = [draw.normal(batch, *size) for size in ((rows, d), (columns, key_size), (columns, value_size))]
    return draw.learnt(module, call, *[x if first else x.swapaxes(0, 1) for x in arrays[: 1 if itself else 3]])


def stack(draw, layer, whole):
    """A stack of encoder or decoder layers, and what else its programs need: the batch, its length, d_model, heads."""
    _, _, d, heads = sizes = draw.sizes()
    made = layer(
        d, heads, draw.one("dim_feedforward", 1, 7, 4 * d), 0.0, draw.one("activation", "relu", "gelu", tt.tanh),
        layer_norm_eps=draw.one("eps", 1e-5, 1e-2), batch_first=draw.yes("batch_first", 0.7),
        norm_first=draw.yes("norm_first"), bias=draw.yes("bias", 0.7), scale=draw.one("scale", None, None, 0.5),
    )  # fmt: skip
    norms = {"none": lambda: None, "layer": lambda: nn.LayerNorm(d), "rms": lambda: nn.RMSNorm(d)}
    norm = norms[draw.one("last norm", "none", "layer", "rms")]()
    return draw.made(whole(made, draw.one("layers", 1, 2, 3), norm)), *sizes


def encoder(draw):
    module, batch, length, d, heads = stack(draw, nn.TransformerEncoderLayer, nn.TransformerEncoder)
    mask, padding = draw.masks("its", batch, heads, length, length)
    x = draw.normal(batch, length, d)
    if not module.layers[0].self_attn.batch_first:
        x = x.swapaxes(0, 1)
    if draw.yes("one layer", 0.2):
        module = module.layers[0]
    return draw.learnt(module, lambda x: module(x, mask, padding), x)


def decoder(draw):
    module, batch, length, d, heads = stack(draw, nn.TransformerDecoderLayer, nn.TransformerDecoder)
    source = draw.one("source", 1, 3, 17)
    masks = draw.masks("own", batch, heads, length, length), draw.masks("memory", batch, heads, length, source)
    arrays = draw.normal(batch, length, d), draw.normal(batch, source, d)
    if not module.layers[0].self_attn.batch_first:
        arrays = [x.swapaxes(0, 1) for x in arrays]
    (mask, padding), (memory_mask, memory_padding) = masks
    if draw.yes("one layer", 0.2):
        module = module.layers[0]
    return draw.learnt(module, lambda x, y: module(x, y, mask, memory_mask, padding, memory_padding), *arrays)


CHANGES = "a write", "new data", "another weight", "a hook", "a listener", "training", "eps"


def changed(draw, name, module):
    """Change something of a model that is in use."""
    parameters = [p for p in module.parameters() if p.size]
    chosen = parameters[int(draw.rng.integers(len(parameters)))]
    linear = [m for m in module.modules() if isinstance(m, nn.Linear)]
    one = linear[int(draw.rng.integers(len(linear)))]
    change = draw.one(name, None, None, *CHANGES)
    if change == "a write":
        with tt.no_grad():
            chosen *= 0.5
    elif change == "new data":
        chosen.data = chosen.data * 0.5
    elif change == "another weight":
        one.weight = nn.Parameter(one.weight.detach() * 0.5)
    elif change == "a hook":
        one.register_forward_hook(lambda module, given, out: out * 1.5)
    elif change == "a listener":
        one.register_forward_hook(lambda *given: None)
    elif change == "training":
        module.train(not module.training)
    elif change == "eps":
        for norm in module.modules():
            if hasattr(norm, "eps"):
                norm.eps = 0.1


def decoder_by_steps(draw):
    module, batch, _, d, _ = stack(draw, nn.TransformerDecoderLayer, nn.TransformerDecoder)
    source, found = draw.one("source", 1, 3, 17), []
    hidden = tt.asarray(np.arange(source) >= draw.rng.integers(0, source + 1, batch)[:, None])
    with tt.no_grad():
        cache = module.start(tt.asarray(draw.normal(batch, source, d)), hidden if draw.yes("padding") else None)
        branches = 1
        for step in range(draw.one("steps", 3, 8, 20)):
            found.append(module.step(tt.asarray(draw.normal(batch, branches, d)), cache).numpy())
            kept = draw.rng.permutation(batch)[: max(1, batch - int(draw.rng.random() < 0.2))]
            wider = int(draw.rng.choice([1, branches, 3, 20]))
            cache.reorder(tt.asarray(kept), tt.asarray(draw.rng.integers(0, branches, (len(kept), wider))))
            batch, branches = len(kept), wider
            changed(draw, f"after step {step}", module)
    return found


VOCABULARY = 17


def language_model(draw):
    """A model, and the sizes of a batch of its ids."""
    heads = draw.one("heads", 1, 2, 4)
    large = draw.yes("large", 0.25)
    model = LanguageModel(
        VOCABULARY, d_model=64 if large else heads * draw.one("size of a head", 2, 4, 6), num_heads=heads,
        num_layers=draw.one("layers", 1, 2), d_ff=draw.one("d_ff", None, 1, 7, 16), max_length=40,
        num_kv_heads=draw.one("kv heads", *[n for n in (1, 2, 4) if heads % n == 0]),
        head_dim=draw.one("head_dim", None, None, 2, 6),
        positions=draw.one("positions", "learned", "rotary", "alibi", None),
        pairing=draw.one("pairing", "half", "interleaved"), norm=draw.one("norm", "layer", "rms"),
        activation=draw.one("activation", *nn.feed_forward.PLAIN, *nn.feed_forward.GATES), bias=draw.yes("bias"),
        attention_bias=draw.one("attention_bias", None, None, True, False), window=draw.one("window", None, None, 1, 3),
        qk_norm=draw.yes("qk_norm", 0.2), tie_weights=draw.yes("tie_weights"),
    )  # fmt: skip
    return draw.made(model), (8, 32) if large else (draw.one("batch", 1, 2, 3), draw.one("length", 1, 2, 5, 13))


def language(draw):
    model, shape = language_model(draw)
    ids = draw.rng.integers(3, VOCABULARY, shape)
    if draw.yes("loss"):
        target = tt.asarray(draw.rng.integers(0, VOCABULARY, ids.size))
        ignored = draw.one("ignored", 0, -100)
        return draw.learnt(model, lambda: F.cross_entropy(model(ids).reshape(-1, VOCABULARY), target, None, ignored))
    return draw.learnt(model, lambda: model(ids))


def decoding(draw):
    """By greedy decoding and beams. In float64, since rounding might else decide between two ids."""
    draw.dtype = "float64"
    if draw.yes("language model"):
        model, (batch, length) = language_model(draw)
        batch, length = min(batch, 3), min(length, 13)
    else:
        model = Transformer(
            VOCABULARY, d_model=8, num_heads=2, num_layers=draw.one("layers", 1, 2), d_ff=draw.one("d_ff", 7, 16),
            dropout=0.0, max_length=40, positions=draw.one("positions", "sinusoidal", "learned", None),
            norm_first=draw.yes("norm_first"), tie_weights=draw.yes("tie_weights"),
        )  # fmt: skip
        draw.made(model)
        batch, length = draw.one("batch", 1, 3), draw.one("length", 1, 6)
    found = []
    for i in range(draw.one("times", 1, 2)):
        ids = draw.rng.integers(3, VOCABULARY, (batch, length))
        ids[0, 1 + int(draw.rng.integers(length)) :] = 0
        beam = draw.one(f"beam {i}", 1, 2, 5)
        if beam == 1:
            hypotheses = greedy(model, ids, max_length=8)
        else:
            hypotheses = itertools.chain(*beam_search(model, ids, beam=beam, max_length=8))
        for one in hypotheses:
            found += [np.array(one.ids), np.array([one.score, *one.log_probabilities])]
        changed(draw, f"after time {i}", model)
    return found


def language_by_steps(draw):
    model, (batch, length) = language_model(draw)
    batch, found = min(batch, 3), []
    length = min(length, 13)
    model.eval()
    with tt.no_grad():
        ids = draw.rng.integers(3, VOCABULARY, (batch, length))
        logits, state = model.next_logits(ids[:, :1], model.initial_state(ids))
        for step in range(draw.one("steps", 2, 5, 18)):
            found.append(logits.numpy())
            branches, wider = logits.shape[1], int(draw.rng.choice([1, 3, 20]))
            chosen = tt.asarray(draw.rng.integers(0, branches, (batch, wider)))
            state = model.reorder(state, tt.asarray(draw.rng.permutation(batch)), chosen)
            changed(draw, f"after step {step}", model)
            logits, state = model.next_logits(draw.rng.integers(3, VOCABULARY, (batch, wider)), state)
    return [*found, logits.numpy()]


def convolution(draw):
    axes, groups = draw.one("axes", 1, 2), draw.one("groups", 1, 1, 2)
    channels, large = groups * draw.one("channels", 1, 2, 3), draw.yes("large", 0.2)
    spatial = [32 if large else draw.one(f"size {i}", 7, 9, 12) for i in range(axes)]
    name = f"{axes}d"
    strided = draw.one("stride", 1, 1, 2, 3)
    layers = [
        getattr(nn, f"Conv{name}")(
            channels, groups * draw.one("out", 1, 2, 5), draw.one("kernel", 1, 2, 3), strided,
            draw.one("padding", 0, 1, 2, *(["same"] if strided == 1 else [])), draw.one("dilation", 1, 1, 2), groups,
            draw.yes("bias"),
        )
    ]  # fmt: skip
    if draw.yes("relu"):
        layers.append(nn.ReLU())
    pools = {
        "none": lambda: [],
        "max": lambda: [getattr(nn, f"MaxPool{name}")(2, draw.one("pool stride", None, 1), ceil_mode=draw.yes("ceil"))],
        "average": lambda: [getattr(nn, f"AvgPool{name}")(2, draw.one("pool stride", None, 1))],
        "adaptive": lambda: [getattr(nn, f"AdaptiveAvgPool{name}")(1)],
    }
    layers += pools[draw.one("pool", *pools)]()
    module = draw.made(nn.Sequential(*layers))
    return draw.learnt(module, module, draw.normal(8 if large else draw.one("batch", 1, 2, 5), channels, *spatial))


def recurrence(draw):
    kind, large = draw.one("kind", "RNN", "LSTM", "GRU"), draw.yes("large", 0.2)
    batch, length = (40, 16) if large else (draw.one("batch", 1, 2, 5), draw.one("length", 1, 3, 7))
    size, hidden = (32, 64) if large else (draw.one("size", 1, 3), draw.one("hidden", 1, 2, 7))
    first = draw.yes("batch_first")
    module = getattr(nn, kind)(
        size, hidden, num_layers=draw.one("layers", 1, 2), bias=draw.yes("bias"), batch_first=first,
        bidirectional=draw.yes("bidirectional", 0.3),
        **({"nonlinearity": draw.one("nonlinearity", "tanh", "relu")} if kind == "RNN" else {}),
    )  # fmt: skip
    draw.made(module)
    lengths = draw.rng.integers(1, length + 1, batch)
    how = draw.one("lengths", "none", "packed", "given")

    def call(x):
        if how == "packed":
            out, state = module(pack_padded_sequence(x, lengths, first, enforce_sorted=False))
            out = out.data
        else:
            out, state = module(x, lengths=tt.asarray(lengths)) if how == "given" else module(x)
        return out, *(state if isinstance(state, tuple) else (state,))

    x = draw.normal(batch, length, size)
    return draw.learnt(module, call, x if first else x.swapaxes(0, 1))


OPTIMIZERS = "SGD", "Adam", "AdamW", "Adadelta", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop", "Lion", "Muon"


def optimizer_of(draw, groups):
    """A function that makes one of all optimisers, with random options."""
    name = draw.one("optimizer", "SGD", "Adam", "AdamW", *OPTIMIZERS)
    more = {
        "SGD": lambda: {"momentum": draw.one("momentum", 0.0, 0.9), "dampening": draw.one("dampening", 0.0, 0.3)},
        "Adam": lambda: {"amsgrad": draw.yes("amsgrad"), "betas": draw.one("betas", (0.9, 0.999), (0.0, 0.5))},
        "AdamW": lambda: {"amsgrad": draw.yes("amsgrad"), "eps": draw.one("eps", 1e-8, 1e-3)},
        "RMSprop": lambda: {"momentum": draw.one("momentum", 0.0, 0.9), "centered": draw.yes("centered")},
        "Adagrad": lambda: {"lr_decay": draw.one("lr_decay", 0.0, 0.1)},
        "NAdam": lambda: {"decoupled_weight_decay": draw.yes("decoupled")},
    }
    options = {"weight_decay": draw.one("weight_decay", 0.0, 0.1), **more.get(name, dict)()}
    if name == "SGD" and options["momentum"] and not options["dampening"]:
        options["nesterov"] = draw.yes("nesterov")
    if name != "Muon":
        options["maximize"] = draw.yes("maximize", 0.2)
    if name == "Muon":
        groups = [group | {"params": [p for p in group["params"] if p.ndim == 2]} for group in groups]
    groups = [group for group in groups if group["params"]]
    return lambda: getattr(nn.optim, name)(groups, **options)


def optimizers(draw):
    shapes = [(3, 5), *[tuple(draw.rng.integers(0, 8, draw.rng.integers(0, 4))) for _ in range(4)]]
    if draw.yes("large", 0.25):
        shapes += [(131, 257), (64,)]
    parameters = [nn.Parameter(tt.asarray(draw.normal(*shape))) for shape in shapes]
    cut = int(draw.rng.integers(len(shapes) + 1))
    rates = draw.one("first lr", 0.01, 0.0), 0.05
    groups = [{"params": part, "lr": lr} for part, lr in zip((parameters[:cut], parameters[cut:]), rates, strict=True)]
    make = optimizer_of(draw, groups)
    optimizer, clipped = make(), draw.one("clipped", None, None, 0.1)
    saved = draw.one("saved after step", None, 0, 2)
    for step in range(draw.one("steps", 1, 3, 6)):
        for parameter, shape in zip(parameters, shapes, strict=True):
            given = tt.asarray(draw.normal(*shape))
            parameter.grad = None if draw.rng.random() < 0.15 else given
        if clipped:
            nn.utils.clip_grad_norm_(parameters, clipped)
        optimizer.step()
        if step == saved:
            state, optimizer = optimizer.state_dict(), make()
            optimizer.load_state_dict(state)
        if draw.yes(f"lr changes after step {step}", 0.2):
            optimizer.param_groups[0]["lr"] *= 0.5
    state = [v.numpy() for p in parameters for v in optimizer.state.get(p, {}).values() if isinstance(v, tt.Tensor)]
    return [*[p.detach().numpy() for p in parameters], *state]


def compiled_step(draw):
    """Training by `nn.compile_step`."""
    if draw.yes("language model"):
        model, shape = language_model(draw)
    else:
        d = draw.one("d", 8, 64)
        layers = nn.Embedding(VOCABULARY, d), nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d), nn.Linear(d, VOCABULARY)
        model, shape = draw.made(nn.Sequential(*layers)), (8, 32)

    def loss_of(ids, target):
        return F.cross_entropy(model(ids).reshape(-1, VOCABULARY), target.reshape(-1))

    optimizer = nn.optim.SGD(model.parameters(), lr=0.05)
    step, found = nn.compile_step(loss_of, model), []
    for _ in range(draw.one("steps", 1, 3)):
        batch = [tt.asarray(draw.rng.integers(3, VOCABULARY, shape)) for _ in range(2)]
        optimizer.zero_grad()
        found.append(step(*batch).detach().numpy())
        found += [None if p.grad is None else p.grad.numpy() for p in model.parameters()]
        optimizer.step()
    return found


def loaders(draw):
    """Batches, of which a loader that loads the state at some place gives the very same bits as the first one."""
    samples, size = draw.one("samples", 1, 2, 7, 20), draw.one("batch_size", 1, 2, 3, 8)
    dataset = TensorDataset(draw.normal(samples, 3), np.arange(samples))
    options = {"batch_size": size, "shuffle": draw.yes("shuffle"), "drop_last": draw.yes("drop_last", 0.3)}
    if options["drop_last"] and samples < size:
        options["drop_last"] = False
    first, second = (DataLoader(dataset, **options) for _ in range(2))
    batches = going_on(first)
    before = list(itertools.islice(batches, draw.one("batches before", 0, 1, 2, 5, 9, 21)))
    tt.random.uniform((draw.one("numbers in between", 1, 3),))
    second.load_state_dict(first.state_dict())
    count = draw.one("batches after", 1, 4, 15)
    goes_on = [list(itertools.islice(one, count)) for one in (batches, going_on(second))]
    continued, resumed = ([x.numpy() for batch in each for x in batch] for each in goes_on)
    for one, other in zip(continued, resumed, strict=True):
        np.testing.assert_array_equal(one, other)
    return [x.numpy() for batch in before for x in batch] + continued


def going_on(loader):
    while True:
        yield from loader


KINDS = [
    single_layer, single_layer, attention, encoder, decoder, decoder, decoder_by_steps, language, decoding,
    language_by_steps, convolution, recurrence, optimizers, optimizers, compiled_step, loaders,
]  # fmt: skip


# ---- both ways


def compare(found, expected):
    """Arrays of one program: raises AssertionError that names the first one that is another."""
    assert len(found) == len(expected)
    largest = max((largest_of(array) for array in expected if array is not None), default=0.0)
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        which = f"array {i} of {len(found)}"
        assert (one is None) == (other is None), f"{which}: only one is None"
        if one is None:
            continue
        assert (one.shape, one.dtype) == (other.shape, other.dtype), which
        if other.dtype.kind != "f":
            np.testing.assert_array_equal(one, other, err_msg=which)
            continue
        atol = CLOSE[other.dtype.name] * max(largest_of(other), SMALLEST * largest)
        np.testing.assert_allclose(one, other, rtol=0, atol=atol, err_msg=which)


def largest_of(array):
    if array.dtype.kind != "f":
        return 0.0
    return float(np.abs(array).max(initial=0.0, where=np.isfinite(array)))


def run(seed, mode):
    program = KINDS[seed % len(KINDS)]
    results, draw = [], None
    try:
        for way in (contextlib.nullcontext(), tt.textbook()):
            tt.manual_seed(seed)
            draw = Draw([seed, 1])
            with way:
                results.append(program(draw))
        compare(*results)
    except BaseException as error:
        chosen = draw.chosen if draw else {}
        error.add_note(
            f"{program.__name__} {chosen}\nagain: FUZZ_SEED={seed} pytest tests/nn/test_random_modules.py -k {mode}"
        )
        raise
    return program.__name__


@pytest.mark.parametrize("mode", ["unasked", "loops"])
def test_programs_give_what_the_textbook_gives(mode, request, monkeypatch):
    """Loops for large arrays alone, as without `tt.speed_up()`; and for all."""
    if mode == "unasked" and room("fast.numpy"):
        monkeypatch.undo()  # what all other tests do without
    elif mode == "loops":
        request.getfixturevalue("loops")
    begun, counted = time.monotonic(), Counter()
    programs = PROGRAMS * (2 if request.config.getoption("--all") else 1)
    first = 0 if not MINUTES else int(time.time()) * 1000
    seeds = [int(SEED)] if SEED else itertools.count(first) if MINUTES else range(programs)
    for seed in seeds:
        counted[run(seed, mode)] += 1
        if MINUTES and time.monotonic() - begun > 30 * MINUTES:
            break
    print(f"\n{mode}: {counted.total()} programs in {time.monotonic() - begun:.0f} s: {dict(counted)}")
