"""Sequences of different lengths, padded and packed, and through recurrent layers; parameters as one vector."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn.utils import parameters_to_vector, vector_to_parameters
from tinytensor.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)
from tinytensor.testing import gradcheck, gradgradcheck

LENGTHS = [2, 4, 1, 4]


def sequences(device="cpu", dtype=tt.float32, lengths=LENGTHS):
    rng = np.random.default_rng(0)
    return [tt.asarray(rng.normal(size=(n, 3)), dtype=dtype, device=device) for n in lengths]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding(side, batch_first, device):
    given = sequences(device)
    padded = pad_sequence(given, batch_first, -7.0, side)
    assert padded.shape == (4, 4, 3)
    assert padded.device == device
    assert padded.dtype == tt.float32
    rows = padded.numpy() if batch_first else np.moveaxis(padded.numpy(), 1, 0)
    for row, sequence in zip(rows, given):
        filled = np.full((4 - len(sequence), 3), -7.0)
        parts = [sequence.numpy(), filled] if side == "right" else [filled, sequence.numpy()]
        np.testing.assert_array_equal(row, np.concatenate(parts))
    if side == "right":
        back = unpad_sequence(padded, tt.asarray(LENGTHS), batch_first)
        assert [s.tolist() for s in back] == [s.tolist() for s in given]


def test_ids_are_padded_as_integers():
    padded = pad_sequence([tt.asarray([1, 2, 3]), np.asarray([4])], batch_first=True)
    assert padded.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert padded.dtype == tt.int64


def test_packed_steps_stand_one_after_the_other(device):
    given = [tt.asarray([[10.0 * i + t] for t in range(n)], device=device) for i, n in enumerate(LENGTHS)]
    packed = pack_sequence(given, enforce_sorted=False)
    assert packed.data[:, 0].tolist() == [10, 30, 0, 20, 11, 31, 1, 12, 32, 13, 33]
    assert packed.batch_sizes.tolist() == [4, 3, 2, 2]
    assert packed.sorted_indices.tolist() == [1, 3, 0, 2]
    assert packed.unsorted_indices.tolist() == [2, 0, 3, 1]
    assert packed.data.device == packed.sorted_indices.device == device
    assert [s.tolist() for s in unpack_sequence(packed)] == [s.tolist() for s in given]
    half = packed.to(tt.float16)
    assert (half.data.dtype, half.batch_sizes) == (tt.float16, packed.batch_sizes)


@pytest.mark.parametrize("batch_first", [False, True])
def test_there_and_back(batch_first):
    padded = pad_sequence(sequences(), batch_first)
    packed = pack_padded_sequence(padded, tt.asarray(LENGTHS), batch_first, enforce_sorted=False)
    again, lengths = pad_packed_sequence(packed, batch_first)
    assert again.tolist() == padded.tolist()
    assert lengths.tolist() == LENGTHS
    longer, lengths = pad_packed_sequence(packed, batch_first, -1.0, total_length=6)
    assert longer.shape == ((4, 6, 3) if batch_first else (6, 4, 3))
    assert lengths.tolist() == LENGTHS
    assert (longer.numpy() == -1.0).sum() == 3 * (4 * 6 - sum(LENGTHS))


def test_gradients_pass():
    given = [s.requires_grad_() for s in sequences(dtype=tt.float64, lengths=[3, 2])]

    def through(*inputs):
        packed = pack_sequence(inputs)
        padded, _ = pad_packed_sequence(packed._replace(data=tt.tanh(packed.data)))
        return tt.sum(padded**2) + tt.sum(tt.sin(pad_sequence(inputs, padding_side="left")))

    assert gradcheck(through, given)
    assert gradgradcheck(through, given)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}])
def test_a_recurrent_layer_takes_a_packed_batch(name, options, device):
    """And gives what it gives without packing, sequence by sequence."""
    tt.manual_seed(0)
    layer = getattr(nn, name)(3, 5, device=device, **options)
    output, states = layer(pack_sequence(sequences(device), enforce_sorted=False))
    assert isinstance(output, PackedSequence)
    for i, (found, sequence) in enumerate(zip(unpack_sequence(output), sequences(device))):
        alone, final = layer(sequence)
        np.testing.assert_allclose(found.detach().numpy(), alone.detach().numpy(), rtol=1e-5, atol=1e-6)
        for state, expected in zip(states, final) if name == "LSTM" else [(states, final)]:
            np.testing.assert_allclose(state[:, i].detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_sorted_batch_stays_as_it_came():
    layer = nn.GRU(3, 2)
    packed = pack_sequence(sequences(lengths=[4, 3, 3]))
    output, _ = layer(packed)
    assert packed.sorted_indices is None
    assert output.sorted_indices is None
    assert output.batch_sizes is packed.batch_sizes


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: pad_sequence([]), r"pad_sequence: expected sequences \(length, ...\) .* got \[\]"),
        (lambda x: pad_sequence([x, x[:, 0]]), r"that differ in length alone, got \[\(4, 2, 3\), \(4, 3\)\]"),
        (lambda x: pad_sequence([x[0, 0, 0]]), "that differ in length alone"),
        (lambda x: pad_sequence([x], padding_side="top"), "padding_side must be 'right' or 'left', got 'top'"),
        (lambda x: unpad_sequence(x, [1]), r"unpad_sequence: expected 2 integers from 0 to 4, .* got \[1\]"),
        (lambda x: pack_padded_sequence(x, [5, 1]), r"expected 2 integers from 0 to 4, one for each sequence, got \[5"),
        (lambda x: pack_padded_sequence(x, [2.0, 1.0]), "expected 2 integers"),
        (lambda x: pack_padded_sequence(x, [2, 0]), "expected lengths of at least 1"),
        (lambda x: pack_padded_sequence(x, [1, 2]), r"\[1, 2\] are not sorted, .* pass enforce_sorted=False"),
        (
            lambda x: pad_packed_sequence(pack_padded_sequence(x, [3, 2]), total_length=2),
            "total_length is 2, the longest",
        ),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(tt.zeros((4, 2, 3)))


# ---- parameters as one vector


def test_parameters_to_a_vector_and_back(device):
    model = nn.Linear(3, 2, device=device)
    vector = parameters_to_vector(model.parameters())
    assert vector.shape == (8,)
    (gradient,) = tt.grad(tt.sum(vector**2), [model.weight])
    np.testing.assert_allclose(gradient.numpy(), 2 * model.weight.detach().numpy(), rtol=1e-6)
    memory, loss = model.weight._data, tt.sum(model.weight**2)
    vector_to_parameters(tt.arange(8.0, device=device), model.parameters())
    assert model.weight.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert model.bias.tolist() == [6, 7]
    assert model.weight._data is memory
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_a_vector_that_does_not_fit_changes_nothing():
    model = nn.Linear(3, 2)
    before = model.weight.tolist()
    for wrong, met in ((tt.zeros(9), r"got \(9,\)"), (tt.zeros((8, 1)), r"got \(8, 1\)"), ([0.0] * 8, "got a list")):
        with pytest.raises(ValueError, match=rf"expected a Tensor of shape \(8,\) .*{met}"):
            vector_to_parameters(wrong, model.parameters())
    assert model.weight.tolist() == before
    with pytest.raises(ValueError, match="at least one Tensor"):
        parameters_to_vector([])
