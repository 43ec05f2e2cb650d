"""`models.Transformer` beside a twin built around torch.nn.Transformer: logits and gradients with the same weights."""

import math
import warnings

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.models import Transformer
from tinytensor.nn import functional as F

torch = pytest.importorskip("torch")

TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}
SOURCE_VOCABULARY, TARGET_VOCABULARY, D_MODEL, HEADS, LAYERS, D_FF, LONGEST = 13, 11, 12, 3, 2, 20, 9


class Twin(torch.nn.Module):
    def __init__(self, norm_first, tie_weights, share_embeddings):
        super().__init__()
        source_vocabulary = TARGET_VOCABULARY if share_embeddings else SOURCE_VOCABULARY
        self.source_embedding = torch.nn.Embedding(source_vocabulary, D_MODEL, padding_idx=0)
        padding = None if tie_weights else 0
        self.target_embedding = (
            self.source_embedding
            if share_embeddings
            else torch.nn.Embedding(TARGET_VOCABULARY, D_MODEL, padding_idx=padding)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that nested tensors are not used with these options
            self.transformer = torch.nn.Transformer(
                D_MODEL, HEADS, LAYERS, LAYERS, D_FF, dropout=0.0, norm_first=norm_first, batch_first=True
            )
        self.projection = torch.nn.Linear(D_MODEL, TARGET_VOCABULARY, bias=not tie_weights)
        if tie_weights:
            self.projection.weight = self.target_embedding.weight

    def forward(self, source, target):
        length = target.shape[1]
        hidden = self.transformer(
            self.source_embedding(source) * math.sqrt(D_MODEL) + sinusoids(source.shape[1]),
            self.target_embedding(target) * math.sqrt(D_MODEL) + sinusoids(length),
            tgt_mask=torch.triu(torch.ones(length, length, dtype=torch.bool), 1),
            src_key_padding_mask=source == 0,
            tgt_key_padding_mask=target == 0,
            memory_key_padding_mask=source == 0,
        )
        return self.projection(hidden)


def sinusoids(length):
    """Section 3.5 of the paper."""
    angle = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(0, D_MODEL, 2, dtype=torch.float64) / D_MODEL)
    return torch.stack([torch.sin(angle), torch.cos(angle)], dim=-1).reshape(length, D_MODEL)


def pair(norm_first=False, tie_weights=False, share_embeddings=False):
    """Both models in float64 with PyTorch's weights, disturbed so that no bias is zero and no norm one."""
    torch.manual_seed(0)
    tt.random.manual_seed(0)
    theirs = Twin(norm_first, tie_weights, share_embeddings).double()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    ours = Transformer(
        TARGET_VOCABULARY if share_embeddings else SOURCE_VOCABULARY, TARGET_VOCABULARY, d_model=D_MODEL,
        num_heads=HEADS, num_layers=LAYERS, d_ff=D_FF, dropout=0.0, max_length=LONGEST, norm_first=norm_first,
        tie_weights=tie_weights, share_embeddings=share_embeddings,
    ).double()  # fmt: skip
    missing, unexpected = ours.load_state_dict(theirs.state_dict(), strict=False)
    assert not unexpected
    assert all(name.startswith("positions.") for name in missing)
    return ours, theirs


def batch():
    rng = np.random.default_rng(0)
    source = rng.integers(3, TARGET_VOCABULARY, (4, 7))
    target_in, target_out = rng.integers(3, TARGET_VOCABULARY, (2, 4, LONGEST))
    for row, (long_source, long_target) in enumerate([(7, 9), (3, 5), (1, 1), (6, 8)]):
        source[row, long_source:] = target_in[row, long_target:] = target_out[row, long_target:] = 0
    return source, target_in, target_out


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize(("tie_weights", "share_embeddings"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_logits_loss_and_gradients_are_pytorchs(norm_first, tie_weights, share_embeddings, label_smoothing):
    ours, theirs = pair(norm_first, tie_weights, share_embeddings)
    source, target_in, target_out = batch()
    options = {"ignore_index": 0, "label_smoothing": label_smoothing}
    our_logits = ours(source, target_in)
    our_loss = F.cross_entropy(our_logits.reshape(-1, TARGET_VOCABULARY), target_out.reshape(-1), **options)
    our_loss.backward()
    their_logits = theirs(torch.tensor(source), torch.tensor(target_in))
    their_loss = torch.nn.functional.cross_entropy(
        their_logits.reshape(-1, TARGET_VOCABULARY), torch.tensor(target_out).reshape(-1), **options
    )
    their_loss.backward()
    np.testing.assert_allclose(our_logits.detach().numpy(), their_logits.detach().numpy(), **TOLERANCE)
    assert our_loss.item() == pytest.approx(their_loss.item(), rel=1e-12)
    their_gradients = {name: p.grad.numpy() for name, p in theirs.named_parameters()}
    our_gradients = {name: p.grad.numpy() for name, p in ours.named_parameters()}
    assert set(our_gradients) == set(their_gradients)
    for name, gradient in our_gradients.items():
        np.testing.assert_allclose(gradient, their_gradients[name], **TOLERANCE, err_msg=name)


def test_ten_steps_of_adam_end_at_pytorchs_weights():
    from tinytensor import nn

    ours, theirs = pair()
    our_adam = nn.optim.Adam(ours.parameters(), lr=1e-3)
    their_adam = torch.optim.Adam(theirs.parameters(), lr=1e-3)
    source, target_in, target_out = batch()
    for _ in range(10):
        our_adam.zero_grad()
        logits = ours(source, target_in).reshape(-1, TARGET_VOCABULARY)
        F.cross_entropy(logits, target_out.reshape(-1), ignore_index=0).backward()
        nn.utils.clip_grad_norm_(ours.parameters(), 1.0)
        our_adam.step()
        their_adam.zero_grad()
        logits = theirs(torch.tensor(source), torch.tensor(target_in)).reshape(-1, TARGET_VOCABULARY)
        torch.nn.functional.cross_entropy(logits, torch.tensor(target_out).reshape(-1), ignore_index=0).backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        their_adam.step()
    expected = {name: p.detach().numpy() for name, p in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        if name.endswith("in_proj_bias"):  # the key's bias has no gradient but rounding, which Adam makes steps of
            keep = np.r_[0:D_MODEL, 2 * D_MODEL : 3 * D_MODEL]
            np.testing.assert_allclose(parameter.detach().numpy()[keep], expected[name][keep], rtol=0, atol=1e-9)
        else:
            np.testing.assert_allclose(parameter.detach().numpy(), expected[name], rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_pytorch_transformer_goes_into_a_folder_and_out_again(tmp_path, norm_first):
    from safetensors.torch import load_file

    def pytorch():
        sizes = {"d_model": D_MODEL, "nhead": HEADS, "dim_feedforward": D_FF, "dropout": 0.0, "batch_first": True}
        stacks = {"num_encoder_layers": LAYERS, "num_decoder_layers": LAYERS, "norm_first": norm_first}
        return torch.nn.Transformer(**sizes, **stacks).eval()

    torch.manual_seed(0)
    theirs = pytorch()
    ours = Transformer(
        11, d_model=D_MODEL, num_heads=HEADS, num_layers=LAYERS, d_ff=D_FF, dropout=0.0, norm_first=norm_first
    )
    ours.transformer.load_state_dict(theirs.state_dict())
    ours.save_pretrained(tmp_path)
    again = Transformer.from_pretrained(tmp_path)
    (file,) = tmp_path.glob("model-*.safetensors")
    arrays = {name.removeprefix("transformer."): value for name, value in load_file(file).items()}
    back = pytorch()
    back.load_state_dict({name: arrays[name] for name in theirs.state_dict()})
    for name, value in theirs.state_dict().items():
        assert torch.equal(value, back.state_dict()[name])
    source, target = torch.randn(2, 5, D_MODEL), torch.randn(2, 3, D_MODEL)
    expected = theirs(source, target).detach().numpy()
    np.testing.assert_allclose(again.transformer(source.numpy(), target.numpy()).numpy(), expected, rtol=0, atol=1e-5)
