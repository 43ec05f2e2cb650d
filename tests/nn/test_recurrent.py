"""Recurrent layers: padding, directions, layers and dropout, cells, states, threads, and what does not fit."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn

LENGTH, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
KINDS = ("GRU", "LSTM", "RNN")


@pytest.fixture(autouse=True)
def nothing_overflows():
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        yield


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def make(kind, *, device="cpu", dtype=tt.float64, sizes=(INPUT, HIDDEN), **options):
    tt.random.manual_seed(0)
    return getattr(nn, kind)(*sizes, device=device, dtype=dtype, **options)


def states(result):
    """Output and final states in a row."""
    output, final = result
    return [output, *(final if isinstance(final, tuple) else (final,))]


def initial(layer, batch=BATCH, device="cpu"):
    count = layer.num_layers * layer.num_directions
    found = [tt.asarray(normal(count, batch, HIDDEN, seed=3 + i), device=device) for i in range(len(layer.state_names))]
    return tuple(found) if len(found) == 2 else found[0]


def close(a, b, tolerance=1e-12, what=""):
    a, b = (x.detach().numpy() if isinstance(x, tt.Tensor) else np.asarray(x) for x in (a, b))
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance, err_msg=what)


# ---- padding


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_layers", [1, 2])
def test_padding_changes_nothing(kind, num_layers, device):
    """Neither what it holds nor how much of it there is; and it gets no gradient."""
    layer = make(kind, device=device, num_layers=num_layers, bidirectional=True)
    lengths = [2, 5, 4]
    x = normal(LENGTH, BATCH, INPUT)
    results = states(layer(tt.asarray(x, device=device)))
    weights = [tt.asarray(normal(*s.shape, seed=8 + i), device=device) for i, s in enumerate(results)]

    def run(values):
        layer.zero_grad()
        leaf = tt.tensor(values, device=device, requires_grad=True)
        found = states(layer(leaf, initial(layer, device=device), lengths=lengths))
        found[0] = found[0][:LENGTH]
        sum((a * w).sum() for a, w in zip(found, weights)).backward()
        return [*found, leaf.grad[:LENGTH], *(p.grad for p in layer.parameters())]

    expected = run(x)
    changed, longer = x.copy(), np.concatenate([x, np.full((3, BATCH, INPUT), 9.0)])
    for i, length in enumerate(lengths):
        changed[length:, i] = -7.0
        close(expected[0][length:, i], np.zeros((LENGTH - length, 2 * HIDDEN)))
        leaf_gradient = expected[-1 - len(list(layer.parameters()))]
        close(leaf_gradient[length:, i], np.zeros((LENGTH - length, INPUT)))
        assert np.abs(leaf_gradient.numpy()[:length, i]).min() > 0
    for values in (changed, longer):
        for a, b in zip(run(values), expected, strict=True):
            close(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_each_sequence_of_a_batch_is_as_if_alone(kind, device):
    layer = make(kind, device=device, num_layers=2, bidirectional=True, batch_first=True)
    lengths, x = [2, 5, 4], normal(BATCH, LENGTH, INPUT)
    together = states(layer(tt.asarray(x, device=device), lengths=tt.asarray(lengths, device=device)))
    for i, length in enumerate(lengths):
        for sequence in (x[i, :length], x[i : i + 1, :length]):
            alone = states(layer(tt.asarray(sequence, device=device)))
            pick = (lambda s: s[i]) if sequence.ndim == 2 else (lambda s: s[i : i + 1])
            close(alone[0], pick(together[0])[..., :length, :])
            for a, b in zip(alone[1:], together[1:]):
                close(a, b[:, i] if sequence.ndim == 2 else b[:, i : i + 1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_of_no_steps_keeps_the_initial_state(kind):
    layer = make(kind, bidirectional=True)
    hx = initial(layer)
    output, *final = states(layer(tt.asarray(normal(LENGTH, BATCH, INPUT)), hx, lengths=[5, 0, 3]))
    close(output[:, 1], np.zeros((LENGTH, 2 * HIDDEN)))
    for a, b in zip(final, hx if isinstance(hx, tuple) else (hx,)):
        close(a[:, 1], b[:, 1])
        assert np.abs((a - b).numpy()[:, [0, 2]]).min() > 1e-6


def test_full_lengths_are_no_lengths():
    layer, x = make("GRU", bidirectional=True), tt.asarray(normal(LENGTH, BATCH, INPUT))
    for a, b in zip(layer(x), layer(x, lengths=[LENGTH] * BATCH)):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


# ---- directions and layers


@pytest.mark.parametrize("kind", KINDS)
def test_the_reverse_direction_is_the_forward_one_of_the_reversed_sequence(kind):
    both, one = make(kind, bidirectional=True), make(kind)
    one.load_state_dict(
        {name.removesuffix("_reverse"): v for name, v in both.state_dict().items() if name.endswith("_reverse")}
    )
    x = normal(LENGTH, BATCH, INPUT)
    output, *final = states(both(tt.asarray(x)))
    turned, *last = states(one(tt.asarray(x[::-1].copy())))
    close(output[..., HIDDEN:], turned.numpy()[::-1])
    for a, b in zip(final, last):
        close(a[1:], b)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_are_layers_over_the_outputs_of_others(kind):
    both = make(kind, num_layers=2)
    first, second = make(kind), make(kind, sizes=(HIDDEN, HIDDEN))
    state = both.state_dict()
    for layer, place in ((first, "0"), (second, "1")):
        layer.load_state_dict({name.replace(f"l{place}", "l0"): v for name, v in state.items() if name[-1] == place})
    x = tt.asarray(normal(LENGTH, BATCH, INPUT))
    output, *final = states(both(x))
    below = states(first(x))
    above = states(second(below[0]))
    close(output, above[0])
    for a, b, c in zip(final, below[1:], above[1:]):
        close(a, np.concatenate([b.numpy(), c.numpy()]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_its_cell_again_and_again(kind, bias, device):
    layer = make(kind, device=device, bias=bias)
    cell = getattr(nn, f"{kind}Cell")(INPUT, HIDDEN, bias=bias, device=device, dtype=tt.float64)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    x = tt.asarray(normal(LENGTH, BATCH, INPUT), device=device)
    output, *final = states(layer(x))
    state = None
    for t in range(LENGTH):
        state = cell(x[t], state)
        close(state[0] if kind == "LSTM" else state, output[t])
    for a, b in zip(state if kind == "LSTM" else (state,), final):
        close(a, b[0])
    one = cell(x[0, 1], tuple(s[0, 1] for s in final) if kind == "LSTM" else final[0][0, 1])
    many = cell(x[0], tuple(s[0] for s in final) if kind == "LSTM" else final[0][0])
    close(one[0] if kind == "LSTM" else one, (many[0] if kind == "LSTM" else many)[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_can_be_carried_from_one_part_of_a_sequence_to_the_next(kind):
    layer, x = make(kind, num_layers=2), tt.asarray(normal(LENGTH, BATCH, INPUT))
    whole, *final = states(layer(x))
    first, state = layer(x[:2])
    second, *last = states(layer(x[2:], state))
    close(tt.concat([first, second]), whole)
    for a, b in zip(last, final):
        close(a, b)


# ---- numbers


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_a_whole_layer(kind):
    layer = make(kind, sizes=(2, 2), num_layers=2, bidirectional=True)
    names = [name for name, _ in layer.named_parameters()]
    leaves = [p.detach().clone().requires_grad_() for p in layer.parameters()]

    def run(x, *parameters):
        for name, value in zip(names, parameters):
            layer._parameters[name] = value
        return states(layer(x, lengths=[3, 1]))

    tt.gradcheck(run, [tt.tensor(normal(3, 2, 2), requires_grad=True), *leaves])


@pytest.mark.parametrize("kind", KINDS)
def test_large_numbers_neither_overflow_nor_warn(kind):
    for dtype in (tt.float32, tt.float64):
        layer = make(kind, dtype=dtype)
        x = tt.tensor(1e4 * normal(LENGTH, BATCH, INPUT), dtype=dtype, requires_grad=True)
        output, _ = layer(x)
        output.sum().backward()
        assert np.isfinite(output.numpy()).all()
        assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("kind", KINDS)
def test_float32_stays_float32(kind, device):
    layer = getattr(nn, kind)(INPUT, HIDDEN, 2, bidirectional=True, device=device)
    x = tt.tensor(normal(LENGTH, BATCH, INPUT), dtype=tt.float32, device=device, requires_grad=True)
    found = states(layer(x, lengths=[5, 2, 1]))
    sum(s.sum() for s in found).backward()
    assert {s.dtype for s in found} == {x.grad.dtype} == {p.grad.dtype for p in layer.parameters()} == {tt.float32}
    assert {s.device for s in found} == {device}
    wide = getattr(nn, kind)(INPUT, HIDDEN, 2, bidirectional=True).double()
    wide.load_state_dict(layer.cpu().state_dict())
    expected = states(wide(x.detach().to("cpu", tt.float64), lengths=[5, 2, 1]))
    for a, b in zip(found, expected):
        close(a, b, 1e-6)


def test_no_graph_without_gradients():
    layer = make("LSTM").requires_grad_(False)
    assert not layer(tt.asarray(normal(LENGTH, BATCH, INPUT)))[0].requires_grad


def test_changing_a_weight_between_forward_and_backward_raises():
    layer = make("GRU")
    output, _ = layer(tt.asarray(normal(LENGTH, BATCH, INPUT)))
    with tt.no_grad():
        layer.weight_hh_l0 += 1.0
    with pytest.raises(RuntimeError, match="was changed in place"):
        output.sum().backward()


# ---- initial values and dropout


@pytest.mark.parametrize("kind", [*KINDS, "GRUCell", "LSTMCell", "RNNCell"])
def test_all_parameters_start_from_one_uniform_distribution(kind):
    layer = make(kind, sizes=(7, 100))
    for name, parameter in layer.named_parameters():
        values = parameter.numpy()
        assert 0.09 < values.max() <= 0.1, name
        assert -0.1 <= values.min() < -0.09, name
    again = make(kind, sizes=(7, 100))
    for (name, a), (_, b) in zip(layer.named_parameters(), again.named_parameters()):
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=name)
    before = {name: p.numpy().copy() for name, p in layer.named_parameters()}
    layer.reset_parameters()
    assert all((p.numpy() != before[name]).all() for name, p in layer.named_parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_acts_between_layers_and_in_training_only(kind):
    layer = make(kind, num_layers=2, dropout=1.0)
    x = [tt.asarray(normal(LENGTH, BATCH, INPUT, seed=i)) for i in range(2)]
    first, second = (states(layer(value)) for value in x)
    np.testing.assert_array_equal(first[0].numpy(), second[0].numpy())  # nothing passes the first layer
    assert np.abs(first[0].numpy()).max() > 1e-3  # and nothing is dropped after the last
    assert np.abs((first[1] - second[1]).numpy()[0]).max() > 1e-3
    layer.eval()
    assert np.abs((layer(x[0])[0] - layer(x[1])[0]).numpy()).max() > 1e-3


def test_dropout_repeats_with_the_seed():
    layer, x = make("GRU", num_layers=2, dropout=0.5), tt.asarray(normal(LENGTH, BATCH, INPUT))
    tt.random.manual_seed(3)
    first, second = layer(x)[0].numpy(), layer(x)[0].numpy()
    assert np.abs(first - second).max() > 1e-3
    tt.random.manual_seed(3)
    np.testing.assert_array_equal(layer(x)[0].numpy(), first)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_without_a_place_to_act_warns(kind):
    with pytest.warns(UserWarning, match=f"{kind}: dropout=0.3 acts between layers") as caught:
        getattr(nn, kind)(2, 3, dropout=0.3)
    assert caught[0].filename == __file__


# ---- what does not fit


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (((0, 3), {}), "input_size must be an integer of at least 1, got 0"),
        (((3, 0), {}), "hidden_size must be an integer of at least 1, got 0"),
        (((3, 4, 0), {}), "num_layers must be an integer of at least 1, got 0"),
        (((3, 4, 2), {"dropout": 1.5}), "dropout must be between 0 and 1, got 1.5"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_sizes_that_are_none_are_refused(kind, arguments, told):
    positional, named = arguments
    with pytest.raises(ValueError, match=f"{kind}: {told}"):
        getattr(nn, kind)(*positional, **named)


@pytest.mark.parametrize(
    ("shape", "options", "told"),
    [
        ((5, 3, 7), {}, r"expected an input \(length, batch, 4\), or \(length, 4\) without a batch, got \(5, 3, 7\)"),
        ((5, 3, 7), {"batch_first": True}, r"expected an input \(batch, length, 4\)"),
        ((4,), {}, r"got \(4,\)"),
        ((1, 2, 3, 4), {}, r"got \(1, 2, 3, 4\)"),
        ((0, 3, 4), {}, "at least one step"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_that_do_not_fit_are_refused(kind, shape, options, told):
    with pytest.raises(ValueError, match=told):
        make(kind, **options)(tt.zeros(shape, dtype=tt.float64))


@pytest.mark.parametrize(
    ("lengths", "told"),
    [
        ([1, 2], r"must be 3 integers, one for each sequence; got int64 of shape \(2,\)"),
        ([1.0, 2.0, 3.0], "got float"),
        ([1, 6, 2], "from 0 to 5, got 6"),
        ([1, -1, 2], "from 0 to 5, got -1"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(lengths, told):
    with pytest.raises(ValueError, match=f"GRU: lengths .*{told}"):
        make("GRU")(tt.zeros((LENGTH, BATCH, INPUT), dtype=tt.float64), lengths=lengths)


def test_lengths_of_a_single_sequence_are_refused():
    with pytest.raises(ValueError, match="lengths are for a batch"):
        make("GRU")(tt.zeros((LENGTH, INPUT), dtype=tt.float64), lengths=[3])


def test_states_that_do_not_fit_are_refused():
    x = tt.zeros((LENGTH, BATCH, INPUT), dtype=tt.float64)
    state, wrong = tt.zeros((2, BATCH, HIDDEN)), tt.zeros((1, BATCH, HIDDEN))
    with pytest.raises(ValueError, match=r"GRU: expected h_0 of shape \(2, 3, 6\), got \(1, 3, 6\)"):
        make("GRU", num_layers=2)(x, wrong)
    with pytest.raises(ValueError, match=r"LSTM: expected c_0 of shape \(2, 3, 6\), got \(1, 3, 6\)"):
        make("LSTM", num_layers=2)(x, (state, wrong))
    with pytest.raises(
        TypeError, match=r"LSTM: expected hx as a pair \(h_0, c_0\), got one array of shape \(2, 3, 6\)"
    ):
        make("LSTM", num_layers=2)(x, state)
    with pytest.raises(ValueError, match=r"GRUCell: input \(3, 4\) needs h_0 of shape \(3, 6\), got \(2, 6\)"):
        make("GRUCell")(x[0], tt.zeros((2, HIDDEN)))
    with pytest.raises(ValueError, match=r"RNNCell: expected an input \(batch, 4\) or \(4,\), got \(3, 5\)"):
        make("RNNCell")(tt.zeros((3, 5)))
    with pytest.raises(TypeError, match="LSTMCell: expected hx as a pair"):
        make("LSTMCell")(x[0], 3)


def test_what_is_not_supported_says_so():
    with pytest.raises(NotImplementedError, match="proj_size=2 is not supported; use proj_size=0 and an nn.Linear"):
        nn.LSTM(3, 4, proj_size=2)
    for kind in ("RNN", "RNNCell"):
        with pytest.raises(ValueError, match=f"{kind}: nonlinearity must be 'tanh' or 'relu', got 'sin'"):
            getattr(nn, kind)(3, 4, nonlinearity="sin")


def test_errors_name_the_module_path():
    model = nn.Sequential(nn.Identity(), make("GRU"))
    with pytest.raises(ValueError, match=r"in module Sequential\.1"):
        model(tt.zeros((2, 2, 9)))


def test_arrays_and_lists_are_taken_as_inputs():
    layer, x = make("GRU"), normal(LENGTH, BATCH, INPUT)
    close(layer(x)[0], layer(tt.asarray(x))[0])
    close(make("GRUCell")(x[0])[0], make("GRUCell")(tt.asarray(x[0]))[0])
    close(make("GRUCell", dtype=tt.float32)([0.5] * INPUT), make("GRUCell", dtype=tt.float32)(tt.full(INPUT, 0.5)))
