"""The encoder-only model: both sides are seen, padding is not, and what the head and pooling make of it."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Encoder

IDS = np.array([[3, 4, 5, 6], [7, 8, 0, 0]])


def made(device="cpu", **options):
    tt.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 4, "num_layers": 2, "max_length": 12}
    return Encoder(20, **{**sizes, **options}).double().to(device).eval()


@pytest.mark.parametrize("norm_first", [False, True])
def test_every_position_sees_every_other_but_padding(norm_first, device):
    model = made(device, norm_first=norm_first)
    changed = IDS.copy()
    changed[0, 3] = 9
    difference = abs((model(IDS) - model(changed)).detach().numpy()).max(axis=2)
    assert (difference[0] > 0).all()
    np.testing.assert_array_equal(difference[1], 0)
    longer = np.concatenate([IDS, np.zeros((2, 3), dtype=int)], axis=1)
    np.testing.assert_allclose(model(longer)[:, :4].detach().numpy(), model(IDS).detach().numpy(), atol=1e-12)


def test_the_head_is_the_embedding_once_more():
    model = made()
    head, x = model.head, model.hidden_states(IDS)
    inner = head.norm(nn.functional.gelu(head.dense(x)))
    expected = inner @ model.embedding.weight.mT + head.projection.bias
    np.testing.assert_allclose(model(IDS).detach().numpy(), expected.detach().numpy(), atol=1e-12)


def test_segments_are_told_apart():
    model = made()
    assert abs((model(IDS, np.ones_like(IDS)) - model(IDS)).detach().numpy()).max() > 1e-6
    np.testing.assert_array_equal(model(IDS, np.zeros_like(IDS)).detach().numpy(), model(IDS).detach().numpy())


def test_pooling_passes_over_padding():
    model = made(pooler=True)
    x = model.hidden_states(IDS).detach().numpy()
    expected = {
        "mean": [x[0].mean(axis=0), x[1, :2].mean(axis=0)],
        "max": [x[0].max(axis=0), x[1, :2].max(axis=0)],
        "first": x[:, 0],
        "pooler": np.tanh(x[:, 0] @ model.pooler.weight.numpy().T + model.pooler.bias.numpy()),
    }
    for kind, value in expected.items():
        np.testing.assert_allclose(model.pooled(IDS, kind).detach().numpy(), value, atol=1e-12, err_msg=kind)
    with pytest.raises(ValueError, match="cannot pool by 'pooler'; expected one of mean, first, max"):
        made().pooled(IDS, "pooler")


def test_save_and_load(tmp_path):
    model = made(pooler=True, head=False)
    model.save_pretrained(tmp_path)
    again = Encoder.from_pretrained(tmp_path)
    np.testing.assert_array_equal(again.pooled(IDS).numpy(), model.pooled(IDS).detach().numpy())
    with pytest.raises(RuntimeError, match="made without a head"):
        again(IDS)


def test_attention_is_recorded_as_an_encoders():
    model = made()
    with nn.record_attention() as attention:
        model(IDS)
    assert [call.kind for call in attention.layers] == ["encoder", "encoder"]
    assert attention.encoder[0].hidden[1, 0, 0].tolist() == [False, False, True, True]


def test_mistakes():
    with pytest.raises(ValueError, match="mask_id must be an id below 20, got 20"):
        made(mask_id=20)
    with pytest.raises(ValueError, match="a sequence of 13 is longer than max_length 12"):
        made()(np.ones((1, 13), dtype=int))
    with pytest.raises(ValueError, match="expected integer ids"):
        made()([3, 4])


@pytest.mark.parametrize("pad_id", [None, 0, 5])
def test_minus_one_is_padding_too(pad_id):
    model = Encoder(20, d_model=8, num_heads=2, num_layers=1, pad_id=pad_id).eval()
    expected = model.pooled([[7, 8]]).numpy()
    for batch in ([[7, 8], [4, 9, 6]], np.array([[7, 8, -1], [4, 9, 6]])):
        np.testing.assert_allclose(model.pooled(batch).numpy()[:1], expected, rtol=1e-5, atol=1e-6)
    if pad_id is None:
        assert (model.pooled([[7, 8, 0]]).numpy() != expected).any()  # a word
