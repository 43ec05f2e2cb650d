"""Recurrent layers beside PyTorch's: outputs, final states and all gradients agree, and state_dicts go over both ways.

Where our layers take `lengths`, PyTorch's take what `pack_padded_sequence` makes.
"""

import itertools

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn

torch = pytest.importorskip("torch")
packing = torch.nn.utils.rnn

TOLERANCE = 1e-10
LENGTH, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
LAYERS = {
    "GRU": {},
    "LSTM": {},
    "RNN": {},
    "RNN relu": {"nonlinearity": "relu"},
}
SHAPES = [
    {"num_layers": layers, "bidirectional": both, "bias": bias}
    for layers, both, bias in itertools.product((1, 2), (False, True), (True, False))
]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    tt.random.manual_seed(0)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def pair(name, *sizes, **options):
    """The same layer of both libraries in float64, with the weights of PyTorch's."""
    options = {**LAYERS.get(name, {}), **options}
    kind = name.split()[0]
    ours = getattr(nn, kind)(*sizes, dtype=tt.float64, **options)
    theirs = getattr(torch.nn, kind)(*sizes, dtype=torch.float64, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    return ours, theirs


def flat(result):
    """Output and states, nested as a layer gives them, in a row."""
    return [result] if hasattr(result, "shape") else [x for part in result for x in flat(part)]


def close(ours, theirs, what):
    theirs = theirs.detach().numpy()
    assert ours.shape == theirs.shape, what
    np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def given(x, states):
    """Input and states as leaves of both libraries, the states as the layer wants them."""
    ours = [tt.tensor(a, requires_grad=True) for a in (x, *states)]
    theirs = [torch.tensor(a, requires_grad=True) for a in (x, *states)]
    packed = [tuple(leaves[1:]) if len(states) == 2 else leaves[1] if states else None for leaves in (ours, theirs)]
    return ours, theirs, packed


def agree(ours, theirs, our_leaves, their_leaves, our_result, their_result):
    """Results, and gradients of leaves and parameters for random gradients of all results."""
    found, expected = flat(our_result), flat(their_result)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        close(a, b, f"result {i}")
    gradients = [normal(*a.shape, seed=20 + i) for i, a in enumerate(found)]
    sum((a * tt.asarray(g)).sum() for a, g in zip(found, gradients)).backward()
    sum((b * torch.tensor(g)).sum() for b, g in zip(expected, gradients)).backward()
    for i, (a, b) in enumerate(zip(our_leaves, their_leaves, strict=True)):
        close(a.grad, b.grad, f"gradient of input {i}")
    for (name, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        close(a.grad, b.grad, f"gradient of {name}")


def initial(name, options, *batch, seed=5):
    count = options["num_layers"] * (2 if options["bidirectional"] else 1)
    return [normal(count, *batch, HIDDEN, seed=seed + i) for i in range(2 if name == "LSTM" else 1)]


@pytest.mark.parametrize("options", SHAPES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("with_states", [False, True])
def test_layers(name, options, with_states):
    ours, theirs = pair(name, INPUT, HIDDEN, **options)
    states = initial(name, options, BATCH) if with_states else []
    our_leaves, their_leaves, (hx, their_hx) = given(normal(LENGTH, BATCH, INPUT), states)
    agree(ours, theirs, our_leaves, their_leaves, ours(our_leaves[0], hx), theirs(their_leaves[0], their_hx))


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_batch_first_and_without_a_batch(name, with_states):
    options = {"num_layers": 2, "bidirectional": True, "batch_first": True}
    for shape, batch in (((BATCH, LENGTH, INPUT), (BATCH,)), ((LENGTH, INPUT), ())):
        ours, theirs = pair(name, INPUT, HIDDEN, **options)
        states = initial(name, options, *batch) if with_states else []
        our_leaves, their_leaves, (hx, their_hx) = given(normal(*shape), states)
        agree(ours, theirs, our_leaves, their_leaves, ours(our_leaves[0], hx), theirs(their_leaves[0], their_hx))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("options", SHAPES[::2], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_lengths_do_what_packing_does(name, options, batch_first):
    ours, theirs = pair(name, INPUT, HIDDEN, batch_first=batch_first, **options)
    lengths = [3, 5, 1]
    shape = (BATCH, LENGTH, INPUT) if batch_first else (LENGTH, BATCH, INPUT)
    our_leaves, their_leaves, (hx, their_hx) = given(normal(*shape), initial(name, options, BATCH))
    packed = packing.pack_padded_sequence(their_leaves[0], lengths, batch_first=batch_first, enforce_sorted=False)
    output, final = theirs(packed, their_hx)
    output, _ = packing.pad_packed_sequence(output, batch_first=batch_first)
    found = ours(our_leaves[0], hx, lengths=lengths)
    agree(ours, theirs, our_leaves, their_leaves, found, (output, final))


@pytest.mark.parametrize("name", LAYERS)
def test_a_state_dict_goes_back_to_pytorch(name):
    ours, theirs = pair(name, INPUT, HIDDEN, 2, bidirectional=True)
    with tt.no_grad():
        for parameter in ours.parameters():
            parameter.copy_(parameter * 0.5 + 0.1)
    state = {key: torch.from_numpy(np.array(value.numpy())) for key, value in ours.state_dict().items()}
    result = theirs.load_state_dict(state)
    assert not result.missing_keys
    assert not result.unexpected_keys
    x = normal(LENGTH, BATCH, INPUT)
    for a, b in zip(flat(ours(tt.asarray(x))), flat(theirs(torch.tensor(x)))):
        close(a, b, name)


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("batch", [(), (BATCH,)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["GRUCell", "LSTMCell", "RNNCell", "RNNCell relu"])
def test_cells(name, bias, batch, with_states):
    options = {"nonlinearity": "relu"} if "relu" in name else {}
    ours, theirs = pair(name, INPUT, HIDDEN, bias=bias, **options)
    states = [normal(*batch, HIDDEN, seed=5 + i) for i in range(2 if name == "LSTMCell" else 1)] * with_states
    our_leaves, their_leaves, (hx, their_hx) = given(normal(*batch, INPUT), states)
    agree(ours, theirs, our_leaves, their_leaves, ours(our_leaves[0], hx), theirs(their_leaves[0], their_hx))


@pytest.mark.parametrize("name", ["GRU", "LSTM"])
def test_a_few_steps_of_training_stay_together(name):
    ours, theirs = pair(name, INPUT, HIDDEN)
    optimizers = (nn.optim.Adam(ours.parameters(), lr=0.05), torch.optim.Adam(theirs.parameters(), lr=0.05))
    x, target = normal(LENGTH, BATCH, INPUT), normal(LENGTH, BATCH, HIDDEN, seed=1)
    for _ in range(10):
        for layer, optimizer, library in zip((ours, theirs), optimizers, (tt, torch)):
            optimizer.zero_grad()
            ((layer(library.asarray(x))[0] - library.asarray(target)) ** 2).mean().backward()
            optimizer.step()
    for (what, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters()):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=0, atol=1e-8, err_msg=what)


def test_one_distribution_of_initial_weights():
    ours, theirs = nn.GRU(64, 100), torch.nn.GRU(64, 100)
    for (name, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters()):
        found, expected = a.detach().numpy(), b.detach().numpy()
        assert np.abs(found).max() <= 0.1, name
        assert found.min() == pytest.approx(expected.min(), abs=2e-3), name
        assert found.max() == pytest.approx(expected.max(), abs=2e-3), name
        assert found.std() == pytest.approx(expected.std(), abs=6e-3), name


@pytest.mark.parametrize("name", ["GRU", "LSTM", "RNN"])
@pytest.mark.parametrize("lengths", [[5, 3, 3], [2, 5, 4]])
def test_packed_sequences(name, lengths):
    """The same functions, the same packed data, and the same outputs, states and gradients."""
    ours, theirs = pair(name, INPUT, HIDDEN, num_layers=2, bidirectional=True, batch_first=True)
    arrays = [normal(n, INPUT, seed=n + i) for i, n in enumerate(lengths)]
    is_sorted = lengths == sorted(lengths, reverse=True)
    results = []
    for module, layer, from_numpy in ((nn.utils.rnn, ours, tt.asarray), (packing, theirs, torch.tensor)):
        given = [from_numpy(array).requires_grad_() for array in arrays]
        packed = module.pack_sequence(given, enforce_sorted=is_sorted)
        output, states = layer(packed)
        padded, sizes = module.pad_packed_sequence(output, batch_first=True, padding_value=-1.0, total_length=7)
        (padded**2).sum().backward()
        order = [] if is_sorted else [output.sorted_indices, output.unsorted_indices]
        results.append(
            [packed.data, packed.batch_sizes, *order, *flat(states), padded, sizes, *(x.grad for x in given)]
        )
    for place, (mine, expected) in enumerate(zip(*results, strict=True)):
        close(mine, expected, place)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["right", "left"])
def test_padded_sequences(side, batch_first):
    arrays = [normal(n, 2, 3) for n in (2, 4, 1)]
    ours = nn.utils.rnn.pad_sequence([tt.asarray(a) for a in arrays], batch_first, 0.5, side)
    theirs = packing.pad_sequence([torch.tensor(a) for a in arrays], batch_first, 0.5, side)
    close(ours, theirs, "padded")
    mine = nn.utils.rnn.unpad_sequence(ours, tt.asarray([2, 4, 1]), batch_first)
    for place, expected in enumerate(packing.unpad_sequence(theirs, torch.tensor([2, 4, 1]), batch_first)):
        close(mine[place], expected, place)
