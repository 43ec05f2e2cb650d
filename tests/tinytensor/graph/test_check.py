"""Pictures of random computations are read back, and compute what was recorded; and false ones are found out.

For longer than the suite does: `FUZZ_MINUTES=10 pytest tests/tinytensor/graph/test_check.py`. A failure prints its
seed: with `FUZZ_SEED=123` in front, that computation is drawn alone. With `-s`, the number of graphs and the seconds
are printed.
"""

import dataclasses
import itertools
import os
import time
from collections import Counter

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.graph import Falsehood, Options
from tinytensor.graph.check import check
from tinytensor.graph.compose import Look

MINUTES = float(os.environ.get("FUZZ_MINUTES", "0"))
SEED = os.environ.get("FUZZ_SEED")
GRAPHS = 100  # 1,000 with `pytest --all`


class Draw:
    """Random choices; the shape of most arrays is (rows, width)."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.rows, self.width = self.one(1, 2, 3), self.one(2, 3, 4)

    def one(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def some(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def yes(self, share=0.5):
        return bool(self.rng.random() < share)

    def array(self, *shape, requires_grad=None):
        shape = shape or (self.rows, self.width)
        wanted = self.yes(0.3) if requires_grad is None else requires_grad
        return tt.tensor(self.rng.standard_normal(shape).astype("float32"), requires_grad=wanted)

    def weight(self):
        return self.array(self.width, self.width, requires_grad=self.yes(0.8))

    def unary(self):
        return self.one(tt.tanh, tt.sin, F.relu, lambda x: x * 0.5, lambda x: F.softmax(x, dim=-1), lambda x: x - 1.0)

    def binary(self):
        return self.one(
            lambda x, y: x + y, lambda x, y: x - y, lambda x, y: y - x, lambda x, y: x * y,
            lambda x, y: x / (1 + y * y), lambda x, y: x @ y.mT @ x, tt.maximum,
        )  # fmt: skip

    def module(self, depth=1):
        """A module from (..., width) to the same."""
        kind = self.some(0, 5 if depth else 3)
        if kind == 0:
            found = nn.Linear(self.width, self.width, bias=self.yes())
        elif kind == 1:
            found = nn.Sequential(nn.Linear(self.width, self.width), nn.Tanh(), nn.Linear(self.width, self.width))
        elif kind == 2:
            found = nn.LayerNorm(self.width)
        elif kind == 3:
            found = Residual(nn.Linear(self.width, self.width), self.unary())
        elif kind == 4:
            found = Stacked(layers(self, depth - 1), self)
        else:
            found = Looped(self.module(0), self.some(2, 5))
        if self.yes(0.2):
            for parameter in found.parameters():
                parameter.requires_grad = False
        return found


class Residual(nn.Module):
    def __init__(self, inner, function):
        super().__init__()
        self.inner, self.function = inner, function

    def forward(self, x):
        return x + self.function(self.inner(x))


class Looped(nn.Module):
    def __init__(self, inner, turns):
        super().__init__()
        self.inner, self.turns = inner, turns

    def forward(self, x):
        for _ in range(self.turns):
            x = self.inner(x)
        return x


class Stacked(nn.Module):
    """Layers, each on the one before; some results are read once more behind them."""

    def __init__(self, modules, draw):
        super().__init__()
        self.layers = nn.ModuleList(modules)
        self.taps = [i for i in range(len(modules)) if draw.yes(0.15)]

    def forward(self, x):
        seen = []
        for layer in self.layers:
            x = layer(x)
            seen.append(x)
        return sum((seen[i] for i in self.taps), x)


def layers(draw, depth=1):
    """Layers of a stack: alike, shared, used in turn, or of any kind."""
    count, how = draw.some(2, 5), draw.some(0, 3)
    if how == 0:
        return [draw.module(depth) for _ in range(count)]
    if how == 1:
        return [draw.module(depth)] * count
    alike = [Residual(nn.Linear(draw.width, draw.width), F.relu) for _ in range(count)]
    return alike if how == 2 else [alike[i % 2] for i in range(count)]


# ---- kinds of computations; each gives what its caller holds


def dag(draw):
    """Ops and modules that read any results before them."""
    pool = [draw.module() for _ in range(draw.some(1, 3))]
    alive = [draw.array() for _ in range(draw.some(1, 3))]
    for _ in range(draw.some(2, 12)):
        if draw.yes(0.4):
            alive.append(draw.one(*pool)(draw.one(*alive)))
        elif draw.yes(0.3):
            alive.append(draw.unary()(draw.one(*alive)))
        else:
            alive.append(draw.binary()(draw.one(*alive), draw.one(*alive)))
    return alive[-1] if draw.yes() else alive


def towers(draw):
    """Calls side by side, of one module or several, on one input or several, that are joined in some way."""
    count, one = draw.some(2, 4), draw.module()
    modules = [one] * count if draw.yes() else layers(draw)
    inputs = [draw.array()] * len(modules) if draw.yes() else [draw.array() for _ in modules]
    results = [module(x) for module, x in zip(modules, inputs)]
    if draw.yes(0.2):
        results = [draw.unary()(result) for result in results]
    return joined(draw, results)


def joined(draw, results):
    how = draw.some(0, 6)
    if how == 0:
        return tt.concat(results, axis=-1)
    if how == 1:
        return tt.stack(results)
    if how == 2:
        return sum(results[1:], results[0])
    if how == 3:
        return results[0] - results[-1]
    if how == 4:
        return tt.concat([results[-1], *results], axis=0)
    if how == 5:
        return tt.stack(results[::-1])
    return results if draw.yes() else results[draw.some(0, len(results) - 1)]


def attention(draw):
    """Queries, keys and values by hand, from one array or two."""
    x, memory = draw.array(), draw.array(draw.rows + 1, draw.width)
    to_q, to_k, to_v = (nn.Linear(draw.width, draw.width) for _ in range(3))
    q, k, v = to_q(x), to_k(memory), to_v(memory if draw.yes() else tt.tanh(memory))
    scores = q @ k.mT / draw.width**0.5
    if draw.yes():
        scores = tt.where(tt.asarray(draw.rng.random(scores.shape) < 0.3), scores, -1e9)
    return F.softmax(scores, dim=-1) @ v


def loop(draw):
    """A recurrence: values that turns hand on, swap, or hand on later; slices, and what is done with each turn's."""
    turns, w, u = draw.some(3, 7), draw.weight(), draw.weight()
    xs, others = draw.array(turns, draw.rows, draw.width), [draw.array() for _ in range(turns)]
    a, b, before = draw.array(), draw.array(), draw.array()
    how, keep, cell = draw.some(0, 7), draw.some(0, 3), draw.module(0)
    first, second, both = draw.unary(), draw.unary(), draw.binary()
    step = draw.one(1, 1, -1)
    kept = []
    for t in range(turns)[::step]:
        if how == 0:
            a = first(xs[t] @ w + a @ u)
        elif how == 1:
            a, b = b, first(a @ w)
        elif how == 2:
            a, before = first(a @ w + before), a
        elif how == 3:
            a = first(a @ w) + others[t]
        elif how == 4:
            a = cell(both(a, xs[t]))
        elif how == 5:
            a, b = first(a @ w + b), second(b @ u)
        elif how == 6:
            a = a + first(xs[(t * t) % turns] @ w)
        else:
            for _ in range(3):
                a = first(a @ w + b)
            b = second(a + b)
        if keep == 1:
            kept.append(a)
        elif keep == 2:
            kept.append(tt.tanh(a @ u))
        elif keep == 3 and t % 2:
            kept.append(a)
    return (joined(draw, kept), a) if kept else (a, b)


def dense(draw):
    """Each layer reads all before it."""
    w = draw.weight()
    states = [draw.array() @ w]
    for _ in range(draw.some(2, 5)):
        states.append(tt.tanh(sum(states[1:], states[0]) @ w))
    return states[-1]


def writes(draw):
    """Memory that is written, with and without gradients, through views and whole."""
    x, w = draw.array(draw.rows + 1, draw.width, requires_grad=False), draw.weight()
    h = tt.tanh(x @ w.detach() if draw.yes() else x)
    row, flat = x[0], x.reshape(-1)
    with tt.no_grad():
        for _ in range(draw.some(1, 4)):
            how = draw.some(0, 9)
            if how == 0:
                x += 1.5
            elif how == 1:
                x[0] = tt.sin(x[-1])
            elif how == 2:
                x[0] *= 2.0
            elif how == 3:
                w -= 0.1 * w
            elif how == 4:
                x.fill_(0.5)
            elif how == 5:
                row += 1.0
            elif how == 6:
                flat[1:] = flat[:-1].clone()
            elif how == 7:
                for some in x:
                    some *= 0.5
            elif how == 8:
                x.mT[0] = flat[: len(x)] + row[0]
            else:
                x[:, 0] = h[: x.shape[0], 0].detach() if h.shape == x.shape else 0.25
            if draw.yes():
                h = h + tt.tanh(x)
    return (h + x @ w, row * 2.0, flat + 1.0) if draw.yes() else h + x @ w


def training(draw):
    """Steps of an optimiser within the recording, and behind it."""
    model = nn.Sequential(*layers(draw, 0))
    parameters = [p for p in model.parameters() if p.requires_grad] or [draw.weight().requires_grad_()]
    optimizer = draw.one(nn.optim.SGD, nn.optim.Adam)(parameters, lr=0.1)
    x = draw.array(requires_grad=False)
    for _ in range(draw.some(1, 3)):
        loss = (model(x) ** 2).mean() + sum((p * p).sum() for p in parameters[:1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model(x)


def second_order(draw):
    """Gradients of gradients: a penalty, or a step that is differentiated."""
    w, x = draw.array(draw.width, draw.width, requires_grad=True), draw.array()
    inner = (tt.tanh(x @ w) ** 2).sum()
    (slope,) = tt.grad(inner, [w], create_graph=True)
    loss = ((x @ (w - 0.1 * slope)) ** 2).sum() if draw.yes() else inner + (slope**2).sum()
    if draw.yes():
        loss.backward()
    return loss


def routing(draw):
    """Experts: rows chosen by scores, read by index arrays, computed apart, put together."""
    x, gate = draw.array(draw.rows + 2, draw.width), draw.weight()
    experts = [nn.Linear(draw.width, draw.width) for _ in range(draw.width)]
    scores = F.softmax(x @ gate, dim=-1)
    values, chosen = tt.topk(scores, 1)
    result = tt.zeros(x.shape)
    for i, expert in enumerate(experts):
        (rows,) = tt.nonzero(chosen[:, 0] == i)
        if len(rows):
            result = tt.index_set(result, rows, expert(x[rows]) * values[rows])
    return result


def read_by_python(draw):
    """Numbers decide how often something runs."""
    x, w = draw.array(), draw.weight()
    for _ in range(5):
        x = tt.tanh(x @ w)
        if float(x.sum()) > 0:
            break
    return x


def recomputed(draw):
    """Parts that checkpoints run twice."""
    model = nn.Sequential(*layers(draw, 0))
    x = draw.array(requires_grad=True)
    h = nn.utils.checkpoint(model, x)
    loss = (h * h).sum()
    loss.backward()
    return loss


def transformer(draw):
    """Layers of the library, in training or not, with masks."""
    width, batch, length = 4, draw.some(1, 2), draw.some(1, 4)
    x = draw.array(batch, length, width)
    dropout = draw.one(0.0, 0.3)
    if draw.yes():
        layer = nn.TransformerEncoderLayer(width, 2, 6, dropout, batch_first=True, norm_first=draw.yes())
        model = nn.TransformerEncoder(layer, draw.some(1, 3)).train(draw.yes())
        mask = nn.Transformer.generate_square_subsequent_mask(length) if draw.yes() else None
        return model(x, mask=mask)
    layer = nn.TransformerDecoderLayer(width, 2, 6, dropout, batch_first=True)
    model = nn.TransformerDecoder(layer, draw.some(1, 3)).train(draw.yes())
    return model(x, draw.array(batch, draw.some(1, 3), width))


def recurrent(draw):
    """The recurrent layers of the library."""
    kind = draw.one(nn.RNN, nn.LSTM, nn.GRU)
    model = kind(draw.width, 3, num_layers=draw.some(1, 2), batch_first=True, bidirectional=draw.yes(0.3))
    return model(draw.array(draw.rows, draw.some(1, 5), draw.width))


KINDS = [
    dag, dag, dag, towers, towers, attention, loop, loop, loop, dense, writes, writes, training, second_order, routing,
    read_by_python, recomputed, transformer, recurrent,
]  # fmt: skip


def options(draw):
    chosen = {"depth": draw.some(0, 5), "fold": draw.yes(0.7)}
    chosen |= draw.one({}, {}, {}, {"constants": True}, {"fused": "folded"}, {"fused": "formula"}, {"saved": True})
    return chosen if draw.yes(0.9) else {**chosen, "unroll": True}


def drawn(seed):
    """The kind of a random computation, its recording and options for a picture of it."""
    draw, kind = Draw(seed), KINDS[seed % len(KINDS)]
    tt.manual_seed(seed)
    with tt.textbook() if draw.yes(0.3) else tt.enable_grad(), tt.record() as graph:
        held = kind(draw)  # noqa: F841
    return kind, graph, options(draw)


@pytest.mark.slow
def test_pictures_of_random_computations_compute_what_was_recorded(request):
    begun, counted, folds = time.monotonic(), Counter(), 0
    graphs = GRAPHS * (10 if request.config.getoption("--all") else 1)
    first = 0 if not MINUTES else int(time.time()) * 1000
    for seed in [int(SEED)] if SEED else itertools.count(first) if MINUTES else range(graphs):
        try:
            kind, graph, chosen = drawn(seed)
            graph.check(**chosen)
        except BaseException as error:
            error.add_note(f"{KINDS[seed % len(KINDS)].__name__}; again: FUZZ_SEED={seed} pytest {__file__}")
            raise
        counted[kind.__name__] += 1
        folds += any("\N{MULTIPLICATION SIGN}" in box.label for box in graph.picture(**chosen).boxes)
        if MINUTES and time.monotonic() - begun > 60 * MINUTES:
            break
    print(f"\n{counted.total()} graphs, {folds} of them folded, in {time.monotonic() - begun:.0f} s: {dict(counted)}")


# ---- pictures that say what is not so


def recurrence():
    w, u, xs = (tt.tensor(np.ones(shape, "float32") / 3, requires_grad=True) for shape in ((3, 3), (3, 3), (4, 2, 3)))
    h, states = tt.zeros((2, 3)), []
    with tt.record() as graph:
        for t in range(4):
            h = tt.tanh(xs[t] @ w - h @ u)
            states.append(h)
        states = tt.concat(states)
    return graph


def changed(picture, where, **changes):
    """The picture with one edge changed, the first for which `where` holds; without it if there are no changes."""
    edge = next(edge for edge in picture.edges if where(edge))
    new = [dataclasses.replace(edge, **changes)] if changes else []
    edges = [other for one in picture.edges for other in (new if one is edge else [one])]
    return dataclasses.replace(picture, edges=tuple(edges))


def with_reads_swapped(picture):
    """Two arrows change their readers: who is subtracted from whom."""
    subtract = next(v.id for v in picture.vertices if v.title == "subtract")
    one, other = (e for e in picture.edges if e.head == subtract)
    (a,), (b,) = one.reads, other.reads
    swapped = {one: (*b[:2], a[2]), other: (*a[:2], b[2])}
    edges = tuple([dataclasses.replace(e, reads=(swapped[e],)) if e in swapped else e for e in picture.edges])
    return dataclasses.replace(picture, edges=edges)


def counted_twice(picture):
    vertices = tuple([dataclasses.replace(v, counts=2 * v.counts) for v in picture.vertices])
    return dataclasses.replace(picture, vertices=vertices)


FALSE = {
    "an arrow is missing": lambda p: changed(p, lambda e: e.kind == "data"),
    "an arrow begins elsewhere": lambda p: changed(
        p, lambda e: e.operand == "left", reads=tuple([(op, i, p.vertices[0].id) for op, i, _ in
                                                       next(e for e in p.edges if e.operand == "left").reads])
    ),
    "no arrow to the next turn": lambda p: changed(p, lambda e: e.kind == "loop"),
    "the last turn for all": lambda p: changed(p, lambda e: "all 4" in e.operand, operand=""),
    "no names of operands": lambda p: changed(changed(p, lambda e: e.operand == "left", operand=""),
                                              lambda e: e.operand == "right", operand=""),
    "operands swapped": with_reads_swapped,
    "parameters counted twice": counted_twice,
}  # fmt: skip


@pytest.mark.parametrize("how", FALSE)
def test_false_pictures_are_found_out(how):
    graph = recurrence()
    structure, builder = graph._build(Options())
    looked = Look(structure, Options(), None, {})
    picture = looked.picture(None, None)
    parts = looked.structure, looked.shown, looked.folded.folds, builder.program(structure)
    (states,) = check(picture, *parts).run()
    assert states.shape == (8, 3)
    with pytest.raises(Falsehood, match="another computation"):
        check(FALSE[how](picture), *parts)


def test_check_needs_a_recording():
    x = tt.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match=r"compute within tt.record"):
        tt.draw(x * 2.0).check()


def test_a_program_runs_on_other_arrays():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x, other = (tt.tensor(np.random.default_rng(i).normal(size=(5, 3)).astype("float32")) for i in range(2))
    with tt.record() as graph:
        model(x)
    program = graph.program()
    assert [call.op.name for call in program.calls] == ["linear", "tanh", "linear"]
    (again,) = program.run(x=other)
    np.testing.assert_allclose(again, model(other).numpy(), rtol=1e-6)
    with pytest.raises(KeyError, match="there is no array 'y'; there are 0.bias"):
        program.run(y=other)


def test_a_program_of_two_lengths_runs_at_any():
    tt.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2).eval()
    x = tt.random.randn(3, 9, 8)

    def recorded(batch, length):
        src = x[:batch, :length]
        with tt.record() as graph:
            model(src)
        return graph.program()

    program = recorded(2, 4).with_free_lengths(recorded(3, 7))
    assert len(program.lengths) == 2
    for batch, length in ((1, 1), (3, 9)):
        (again,) = program.run(src=x[:batch, :length])
        np.testing.assert_allclose(again, model(x[:batch, :length]).numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + tt.ones(x.shape) * tt.zeros_like(x) + tt.full((len(x), 1), 3.0),
        lambda x: x * tt.expand_dims(tt.arange(len(x) - 1, -1, -1), axis=1),
        lambda x: x[tt.arange(len(x))] + x[tt.arange(1, len(x) + 1) - 1, tt.arange(2)[:, None]][0][:, None],
        lambda x: tt.masked_fill(x @ tt.matrix_transpose(x), nn.functional.causal_mask(len(x)), 0.0),
        lambda x: tt.reshape(x[:, None] + x, (len(x) * len(x), 3)),
    ],
)
def test_constants_that_rules_make_follow_a_length(function):
    def recorded(length):
        x = tt.ones((length, 3))
        with tt.record() as graph:
            function(x)
        return graph.program()

    program = recorded(4).with_free_lengths(recorded(7))
    for length in (1, 4, 6):
        x = tt.random.randn(length, 3)
        np.testing.assert_allclose(program.run(x=x)[-1], function(x).numpy(), rtol=1e-6)


def halves(x):
    return tt.concat([x[: x.shape[0] // 2], x[-1:] * 2.0])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x * float(x.shape[0]), r"multiply at test_check.py:\d+ in <lambda>: 4.0 and 6.0 follow no length"),
        (lambda x: x + np.ones(x.shape), r"a constant \(4, 3\) is \(6, 3\) in the other recording; .*, read by add at"),
        (lambda x: x + tt.full(x.shape, len(x) / 2), "full, read by add at .*: 2.0 and 3.0 follow no length"),
        (lambda x: tt.tanh(x) if len(x) > 5 else tt.exp(x), "differ in their ops: exp, tanh at test_check"),
        (lambda x: tt.tanh(x) if len(x) > 5 else tt.exp(tt.tanh(x)), "one recording has 2 ops, the other 1"),
        (lambda x: x * tt.asarray([1.0, 2.0, float(len(x))]), r"a constant \(3,\) has other numbers in each"),
    ],
)
def test_what_follows_no_length_is_named(function, message):
    def recorded(length):
        x = tt.ones((length, 3))
        with tt.record() as graph:
            function(x)
        return graph.program()

    with pytest.raises(ValueError, match=message):
        recorded(4).with_free_lengths(recorded(6))


def test_numbers_that_follow_a_length_by_half_are_found():
    programs = []
    for length in (4, 8):
        x = tt.ones((length, 3))
        with tt.record() as graph:
            halves(tt.concat([x, x]))
        programs.append(graph.program())
    program = programs[0].with_free_lengths(programs[1])
    x = tt.random.randn(5, 3)
    np.testing.assert_array_equal(program.run(x=x)[0], halves(tt.concat([x, x])).numpy())
