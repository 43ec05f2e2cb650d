"""Sequences of different lengths as one Tensor and back; instead of packed ones, lengths."""

import pytest

import tinytensor as tt
from tinytensor import nn

SEQUENCES = [tt.asarray([[1.0, 2.0], [3.0, 4.0]]), tt.asarray([[5.0, 6.0]])]


def test_padded_and_back(device):
    given = [sequence.to(device) for sequence in SEQUENCES]
    padded = nn.utils.rnn.pad_sequence(given, batch_first=True, padding_value=-1.0)
    assert padded.tolist() == [[[1, 2], [3, 4]], [[5, 6], [-1, -1]]]
    left = nn.utils.rnn.pad_sequence(given, padding_side="left")
    assert left.tolist() == [[[1, 2], [0, 0]], [[3, 4], [5, 6]]]
    for batch_first in (False, True):
        again = nn.utils.rnn.unpad_sequence(nn.utils.rnn.pad_sequence(given, batch_first), [2, 1], batch_first)
        assert [x.tolist() for x in again] == [x.tolist() for x in given]


def test_gradients_go_back_to_each():
    given = [sequence.clone().requires_grad_() for sequence in SEQUENCES]
    (nn.utils.rnn.pad_sequence(given) ** 2).sum().backward()
    assert [x.grad.tolist() for x in given] == [[[2, 4], [6, 8]], [[10, 12]]]


def test_packed_sequences_say_what_takes_their_place():
    with pytest.raises(AttributeError, match="the recurrent layers take padded sequences and their lengths"):
        nn.utils.rnn.pack_padded_sequence  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        nn.utils.rnn.other  # noqa: B018


@pytest.mark.parametrize("sequences", [[], [tt.ones((2, 3)), tt.ones((2, 4))], [tt.ones(())]])
def test_what_does_not_fit(sequences):
    with pytest.raises(ValueError, match="pad_sequence: expected sequences"):
        nn.utils.rnn.pad_sequence(sequences)
    with pytest.raises(ValueError, match="padding_side must be 'right' or 'left', got 'both'"):
        nn.utils.rnn.pad_sequence(SEQUENCES, padding_side="both")
