"""Layers, activations, losses, positions and the Transformer's modules, without PyTorch beside them."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.marian import SineThenCosine


def normal(*shape, seed=0, dtype=tt.float64):
    return tt.random.Generator(seed).normal(shape, dtype=dtype)


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=tolerance, atol=tolerance)


# ---- Linear, Embedding, LayerNorm, Dropout, Identity


def test_linear():
    layer = nn.Linear(3, 2, dtype=tt.float64)
    x = normal(4, 5, 3)
    close(layer(x), x.numpy() @ layer.weight.detach().numpy().T + layer.bias.detach().numpy())
    assert nn.Linear(3, 2).weight.dtype == tt.float32


def test_linear_without_bias():
    layer = nn.Linear(3, 2, bias=False)
    assert layer.bias is None
    assert list(layer.state_dict()) == ["weight"]
    assert (layer(tt.zeros((1, 3))) == 0).all()


def test_linear_without_inputs():
    layer = nn.Linear(0, 2)
    assert layer(tt.ones((3, 0))).tolist() == [[0.0, 0.0]] * 3


def test_embedding_padding_is_zero_and_learns_nothing():
    layer = nn.Embedding(5, 3, padding_idx=-1)
    assert layer.padding_idx == 4
    assert layer.weight[4].tolist() == [0.0, 0.0, 0.0]
    assert (layer.weight[:4] != 0).all()
    layer(tt.asarray([[0, 4], [0, 1]])).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0] * 3, [1.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3]


def test_embedding_refuses_what_is_out_of_range():
    with pytest.raises(ValueError, match="padding_idx 5 is none of the 5 ids"):
        nn.Embedding(5, 3, padding_idx=5)
    with pytest.raises(IndexError):
        nn.Embedding(5, 3)(tt.asarray([5]))


def test_embedding_from_pretrained():
    table = normal(4, 2)
    layer = nn.Embedding.from_pretrained(table, padding_idx=1)
    assert not layer.weight.requires_grad
    assert layer.weight.dtype == tt.float64
    assert layer.weight.tolist() == table.tolist()
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad
    with pytest.raises(ValueError, match=r"2 dimensions, got shape \(4,\)"):
        nn.Embedding.from_pretrained(table[:, 0])


def test_layer_norm():
    layer = nn.LayerNorm((2, 3), dtype=tt.float64)
    x = normal(4, 2, 3)
    a = x.numpy()
    mean = a.mean(axis=(1, 2), keepdims=True)
    close(layer(x), (a - mean) / np.sqrt(((a - mean) ** 2).mean(axis=(1, 2), keepdims=True) + 1e-5))
    assert layer.weight.tolist() == np.ones((2, 3)).tolist()
    assert layer.bias.tolist() == np.zeros((2, 3)).tolist()
    assert list(nn.LayerNorm(3, bias=False).state_dict()) == ["weight"]
    assert list(nn.LayerNorm(3, elementwise_affine=False).state_dict()) == []


def test_dropout():
    tt.random.manual_seed(0)
    layer, x = nn.Dropout(0.25), tt.ones((400, 50))
    out = layer(x).numpy()
    assert set(np.unique(out).tolist()) == {0.0, float(np.float32(1 / 0.75))}
    assert abs((out == 0).mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / out.size)
    assert (layer.eval()(x) == x).all()
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match="Dropout: p must be between 0 and 1"):
            nn.Dropout(wrong)


def test_identity():
    x = tt.ones((2,))
    assert nn.Identity(3, unused=True)(x) is x


# ---- activations


def test_activations():
    x = normal(3, 4)
    a = x.numpy()
    close(nn.ReLU()(x), np.maximum(a, 0))
    close(nn.Tanh()(x), np.tanh(a))
    close(nn.Sigmoid()(x), 1 / (1 + np.exp(-a)))
    close(nn.GELU()(x), a * 0.5 * (1 + np.vectorize(math.erf)(a / math.sqrt(2))))
    close(nn.GELU("tanh")(x), 0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))))
    e = np.exp(a)
    close(nn.Softmax(dim=0)(x), e / e.sum(axis=0))
    close(nn.LogSoftmax(dim=1)(x), np.log(e / e.sum(axis=1, keepdims=True)))
    with pytest.raises(ValueError, match="approximate must be"):
        nn.GELU("erf")


# ---- losses


def test_losses_pass_their_options_on():
    logits, target = normal(4, 3), tt.asarray([0, 2, 1, 0])
    weight = tt.asarray([1.0, 2.0, 0.5], dtype=tt.float64)
    F = nn.functional
    options = {"weight": weight, "ignore_index": 2, "reduction": "sum"}
    close(
        nn.CrossEntropyLoss(**options, label_smoothing=0.1)(logits, target),
        F.cross_entropy(logits, target, **options, label_smoothing=0.1).numpy(),
    )
    close(nn.NLLLoss(**options)(logits, target), F.nll_loss(logits, target, **options).numpy())
    close(nn.MSELoss(reduction="none")(logits, logits * 2), logits.numpy() ** 2)
    options = {"weight": weight, "reduction": "none", "pos_weight": weight * 3}
    hot = tt.one_hot(target, 3).astype(tt.float64)
    close(
        nn.BCEWithLogitsLoss(**options)(logits, hot),
        F.binary_cross_entropy_with_logits(logits, hot, **options).numpy(),
    )


def test_losses_keep_weights_as_buffers():
    loss = nn.BCEWithLogitsLoss(tt.ones((3,)), pos_weight=tt.ones((3,)))
    assert list(loss.state_dict()) == ["weight", "pos_weight"]
    assert loss.double().weight.dtype == tt.float64
    assert list(nn.CrossEntropyLoss().state_dict()) == []


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss, nn.NLLLoss, nn.MSELoss, nn.BCEWithLogitsLoss])
def test_losses_refuse_an_unknown_reduction(loss):
    with pytest.raises(ValueError, match=rf"{loss.__name__}: reduction must be one of .*, got 'avg'"):
        loss(reduction="avg")


# ---- positions


def test_sinusoidal_encoding_is_the_formula():
    for d_model in (6, 7):
        encoding = nn.sinusoidal_encoding(50, d_model, dtype=tt.float64)
        for position in (0, 1, 49):
            for i in range(d_model):
                angle = position / 10000 ** ((i - i % 2) / d_model)
                expected = math.cos(angle) if i % 2 else math.sin(angle)
                assert abs(encoding[position, i].item() - expected) < 1e-14
    assert nn.sinusoidal_encoding(2, 4).dtype == tt.float32


def test_positional_encoding_layouts():
    x = normal(2, 5, 4)
    expected = x.numpy() + nn.sinusoidal_encoding(5, 4, dtype=tt.float64).numpy()
    close(nn.PositionalEncoding(4, dropout=0.0, batch_first=True)(x), expected)
    close(nn.PositionalEncoding(4, dropout=0.0)(x.permute(1, 0, 2)), expected.transpose(1, 0, 2))
    for batch_first in (True, False):
        close(nn.PositionalEncoding(4, dropout=0.0, batch_first=batch_first)(x[0]), expected[0])


def test_positional_encoding_follows_dtype_without_losing_digits():
    layer = nn.PositionalEncoding(4, dropout=0.0, batch_first=True)
    assert layer(tt.zeros((3, 4))).dtype == tt.float32
    out = layer.double()(tt.zeros((3, 4), dtype=tt.float64))
    assert (out == nn.sinusoidal_encoding(3, 4, dtype=tt.float64)).all()
    assert list(layer.state_dict()) == []


@pytest.mark.parametrize("kind", [nn.PositionalEncoding, SineThenCosine])
def test_positional_encoding_never_has_a_table_that_is_half_made(kind, monkeypatch):
    """Another thread may read it between any two lines."""
    assign = nn.Module.__setattr__
    layer, assigned = kind(4, dropout=0.0, max_len=5, batch_first=True), []
    monkeypatch.setattr(kind, "__setattr__", lambda self, *what: (assigned.append(what), assign(self, *what)), False)
    layer(tt.zeros((3, 4), dtype=tt.float64))
    (found,) = assigned
    assert found[1] is layer.encoding


def test_positional_encoding_drops_out_in_training_only():
    tt.random.manual_seed(0)
    layer = nn.PositionalEncoding(4, dropout=0.5)
    x = tt.ones((50, 4))
    assert (layer(x) == 0).any()
    assert not (layer.eval()(x) == 0).any()


def test_positional_encoding_refuses():
    layer = nn.PositionalEncoding(4, max_len=3)
    layer(tt.zeros((3, 9, 4)))
    with pytest.raises(ValueError, match="length 4 is longer than max_len 3"):
        layer(tt.zeros((4, 1, 4)))
    with pytest.raises(ValueError, match=r"with d_model 4, got \(3, 1, 5\)"):
        layer(tt.zeros((3, 1, 5)))


def test_learned_positions_are_added_and_learned(device):
    tt.random.manual_seed(0)
    layer = nn.LearnedPositionalEncoding(4, dropout=0.0, max_len=7, batch_first=True).double().to(device)
    assert [(name, p.shape) for name, p in layer.named_parameters()] == [("encoding", (7, 4))]
    x = normal(2, 5, 4).to_device(device)
    table = layer.encoding.detach().numpy()
    out = layer(x, start=1)
    close(out, x.numpy() + table[1:6])
    (out * out).sum().backward()
    expected = np.zeros((7, 4))
    expected[1:6] = 2 * out.detach().numpy().sum(axis=0)
    close(layer.encoding.grad, expected)
    layer.batch_first = False
    close(layer(x.permute(1, 0, 2)), (x.numpy() + table[:5]).transpose(1, 0, 2))
    close(layer(x[0]), x.numpy()[0] + table[:5])
    assert nn.LearnedPositionalEncoding(64, max_len=1000).encoding.numpy().std() == pytest.approx(1, abs=0.02)
    assert "LearnedPositionalEncoding" in repr(layer)
    assert "4, max_len=7, batch_first=False" in repr(layer)


def test_learned_positions_refuse():
    layer = nn.LearnedPositionalEncoding(4, max_len=3)
    with pytest.raises(ValueError, match="LearnedPositionalEncoding: .* length 4 is longer than max_len 3; no"):
        layer(tt.zeros((4, 1, 4)))
    with pytest.raises(ValueError, match=r"LearnedPositionalEncoding: expected .* with d_model 4, got \(3, 1, 5\)"):
        layer(tt.zeros((3, 1, 5)))
    with pytest.raises(ValueError, match="LearnedPositionalEncoding: max_len must be from 0 to"):
        nn.LearnedPositionalEncoding(4, max_len=1 << 40)


# ---- Transformer


def small(**options):
    arguments = {"d_model": 8, "nhead": 2, "num_encoder_layers": 2, "num_decoder_layers": 2, "dim_feedforward": 16}
    return nn.Transformer(**{**arguments, "batch_first": True, "dtype": tt.float64, **options})


def test_transformer_layers_are_copies_that_xavier_draws_apart():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
    first, second = encoder.layers
    assert (first.linear1.weight == second.linear1.weight).all()
    assert first.linear1.weight is not second.linear1.weight
    model = small()
    assert (model.encoder.layers[0].linear1.weight != model.encoder.layers[1].linear1.weight).any()
    assert len(list(model.parameters())) == len(model.state_dict())


def test_transformer_does_not_look_ahead():
    model = small(dropout=0.0)
    src, tgt = normal(2, 5, 8), normal(2, 4, 8, seed=1)
    mask = nn.Transformer.generate_square_subsequent_mask(4, dtype=tt.float64)
    out = model(src, tgt, tgt_mask=mask, tgt_is_causal=True)
    other = tt.asarray(tgt, copy=True)
    other[:, 2:] = 7.0
    changed = model(src, other, tgt_mask=mask, tgt_is_causal=True)
    close(changed[:, :2], out[:, :2].detach().numpy())
    assert (changed[:, 2:] != out[:, 2:]).any()


def test_transformer_ignores_padding():
    model = small(dropout=0.0)
    src, tgt = normal(2, 5, 8), normal(2, 4, 8, seed=1)
    padding = tt.asarray([[False, False, False, True, True]] * 2)
    out = model(src, tgt, src_key_padding_mask=padding, memory_key_padding_mask=padding)
    close(out, model(src[:, :3], tgt).detach().numpy())


def test_subsequent_mask():
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.dtype == tt.float32
    assert mask.tolist() == [[0.0, -math.inf, -math.inf], [0.0, 0.0, -math.inf], [0.0, 0.0, 0.0]]


def test_transformer_custom_stacks():
    class Stack(nn.Module):
        def forward(self, x, *others, **masks):
            return x * 2

    model = small(custom_encoder=Stack(), custom_decoder=Stack())
    x = normal(2, 3, 8)
    close(model(x, x), x.numpy() * 2)


def test_activation_may_be_a_function_or_a_module():
    x = normal(3, 2, 8)
    tt.random.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", dtype=tt.float64)
    for activation in (nn.functional.gelu, nn.GELU()):
        tt.random.manual_seed(0)
        other = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation=activation, dtype=tt.float64)
        close(other(x), layer(x).detach().numpy())
    with pytest.raises(ValueError, match="expected 'relu', 'gelu' or a function, got 'swish'"):
        nn.TransformerEncoderLayer(8, 2, activation="swish")


def test_transformer_refuses_what_does_not_fit():
    model = small()
    x = normal(2, 3, 8)
    for src, tgt, fault in (
        (x, x[:1], "batch sizes differ"),
        (x, x[0], "must have 2 dimensions, or 3"),
        (x, normal(2, 3, 6), "must be d_model, 8"),
    ):
        with pytest.raises(ValueError, match=fault):
            model(src, tgt)


def test_one_seed_repeats_everything():
    def train():
        tt.random.manual_seed(5)
        model = small(dropout=0.3)
        x = normal(2, 3, 8)
        model(x, x).sum().backward()
        return [p.grad.numpy() for p in model.parameters()]

    for a, b in zip(train(), train(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_layer_deep_inside_names_itself_in_an_error():
    model = small()
    model.decoder.layers[1].linear2 = nn.Linear(5, 8, dtype=tt.float64)
    x = normal(2, 3, 8)
    with pytest.raises(ValueError, match=r"in module Transformer\.decoder\.layers\.1\.linear2\)"):
        model(x, x)


def test_layers_on_a_device(device):
    model = small(device=device)
    assert {p.device for p in model.parameters()} == {device}
    x = normal(2, 3, 8).to(device)
    positions = nn.PositionalEncoding(8, batch_first=True).to(device)
    loss = nn.MSELoss()(model(positions(x), positions(x)), x)
    loss.backward()
    assert loss.device == device
    assert {p.grad.device for p in model.parameters()} == {device}
    embedding = nn.Embedding(5, 3, padding_idx=0, device=device)
    assert embedding(tt.asarray([0], device=device)).tolist() == [[0.0, 0.0, 0.0]]
