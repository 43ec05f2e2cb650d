"""Decoding with a cache, a position at a time: the same vectors and gradients as all positions at once."""

import contextlib

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F

CLOSE = {"rtol": 0, "atol": 1e-12}
BATCH, SOURCE, TARGET, SIZE = 3, 4, 20, 8


def make(device="cpu", norm_first=False, bias=True, batch_first=True, scale=None):
    tt.manual_seed(0)
    layer = nn.TransformerDecoderLayer(
        SIZE, 2, 12, dropout=0.0, norm_first=norm_first, bias=bias, batch_first=batch_first, scale=scale
    )
    decoder = nn.TransformerDecoder(layer, 2, nn.LayerNorm(SIZE)).double().to(device)
    with tt.no_grad():
        for parameter in decoder.parameters():
            parameter.copy_(parameter + 0.3 * tt.random.normal(parameter.shape, dtype=tt.float64, device=device))
    return decoder


def inputs(device="cpu"):
    rng = np.random.default_rng(0)
    target, memory = (tt.asarray(rng.normal(size=(BATCH, n, SIZE)), device=device) for n in (TARGET, SOURCE))
    return target, memory, tt.asarray(np.arange(SOURCE) >= np.array([[4], [2], [0]]), device=device)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_steps_give_what_forward_gives(device, norm_first, bias, padded):
    decoder = make(device, norm_first, bias)
    target, memory, padding = inputs(device)
    hidden = np.random.default_rng(1).random((BATCH, TARGET)) < 0.2
    hidden = tt.asarray(hidden, device=device)
    expected = decoder(
        target, memory, tgt_mask=F.causal_mask(TARGET, device=device), tgt_key_padding_mask=hidden if padded else None,
        memory_key_padding_mask=padding if padded else None,
    )  # fmt: skip
    cache = decoder.start(memory, padding if padded else None)
    for t in range(TARGET):
        assert cache.length == t
        out = decoder.step(target[:, t : t + 1], cache, hidden[:, t : t + 1] if padded else None)
        np.testing.assert_allclose(out[:, 0].detach().numpy(),
                                   expected[:, t].detach().numpy(), **CLOSE)  # fmt: skip


@pytest.mark.parametrize("textbook", [False, True])
def test_steps_have_the_scale_of_forward(device, textbook):
    decoder, other = make(device, scale=1.5), make(device)
    target, memory, _ = inputs(device)
    mask = F.causal_mask(TARGET, device=device)
    expected = decoder(target, memory, tgt_mask=mask)
    assert float(tt.max(tt.abs(expected - other(target, memory, tgt_mask=mask)))) > 0.01
    with tt.textbook() if textbook else contextlib.nullcontext():
        cache = decoder.start(memory)
        steps = [decoder.step(target[:, t : t + 1], cache) for t in range(TARGET)]
    found = tt.concat(steps, axis=1)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), **CLOSE)


def test_the_layout_of_steps_does_not_depend_on_batch_first():
    target, memory, _ = inputs()
    results = []
    for batch_first in (False, True):
        decoder = make(batch_first=batch_first)
        cache = decoder.start(memory)
        results.append([decoder.step(target[:, t : t + 1], cache).detach().numpy() for t in range(3)])
    np.testing.assert_array_equal(results[0], results[1])


def test_gradients_through_the_cache_are_those_of_forward():
    decoder = make()
    target, memory, padding = inputs()
    decoder(target, memory, F.causal_mask(TARGET), memory_key_padding_mask=padding).sum().backward()
    expected = {name: p.grad.numpy().copy() for name, p in decoder.named_parameters()}
    decoder.zero_grad()
    cache, total = decoder.start(memory, padding), 0.0
    places = tt.asarray(np.roll(np.arange(BATCH), 1))
    for t in range(TARGET):
        total = total + decoder.step(target[:, t : t + 1], cache).sum()
        cache.reorder(places, tt.zeros((BATCH, 1), dtype=tt.int64))
        target = target[places]
    total.backward()
    for name, parameter in decoder.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), expected[name], rtol=0, atol=1e-9, err_msg=name)


@tt.no_grad()
def test_branches_that_divide_end_and_leave_are_sequences_of_their_own(device):
    """Random reorderings, 12 steps long; every branch beside `forward` of its own history."""
    decoder = make(device)
    _, memory, padding = inputs(device)
    rng = np.random.default_rng(0)
    cache = decoder.start(memory, padding)
    items, histories = np.arange(BATCH), np.zeros((BATCH, 1, 0, SIZE))
    for width in [1, 3, 3, 2, 4, 4, 1, 2, 2, 5, 3, 3]:
        last = rng.normal(size=(*histories.shape[:2], 1, SIZE))
        histories = np.concatenate([histories, last], axis=2)
        out = decoder.step(tt.asarray(last[:, :, 0], device=device), cache)
        count, branches, length, _ = histories.shape
        expected = decoder(
            tt.asarray(histories.reshape(-1, length, SIZE), device=device),
            tt.repeat(memory[tt.asarray(items, device=device)], branches, axis=0),
            tgt_mask=F.causal_mask(length, device=device),
            memory_key_padding_mask=tt.repeat(padding[tt.asarray(items, device=device)], branches, axis=0),
        )[:, -1]
        np.testing.assert_allclose(out.numpy().reshape(-1, SIZE), expected.numpy(), **CLOSE)
        kept = rng.permutation(count)[: max(1, count - (rng.random() < 0.2))]
        parents = rng.integers(0, branches, (len(kept), width))
        cache.reorder(tt.asarray(kept, device=device), tt.asarray(parents, device=device))
        items, histories = items[kept], histories[kept[:, None], parents]


@tt.no_grad()
def test_an_item_can_be_taken_more_than_once():
    decoder = make()
    target, memory, padding = inputs()
    target, everyone = target[:, 0:1], np.arange(BATCH)
    for items in ([*everyone, 0, 1], [1] * BATCH, [1, 1], [BATCH - 1, 0, BATCH - 1]):
        cache = decoder.start(memory, padding)
        first = decoder.step(target, cache)
        cache.reorder(tt.asarray(items), tt.zeros((len(items), 1), dtype=tt.int64))
        found = decoder.step(first[tt.asarray(items)], cache)
        cache = decoder.start(memory, padding)
        decoder.step(target, cache)
        expected = decoder.step(first, cache)
        np.testing.assert_allclose(found.numpy(), expected.numpy()[items], **CLOSE)


@tt.no_grad()
def test_buffers_double_rather_than_grow_by_one():
    decoder = make()
    target, memory, _ = inputs()
    cache, buffers = decoder.start(memory), set()
    for t in range(TARGET):
        for _ in range(5):
            decoder.step(target[:, t : t + 1], cache)
            buffers.add(cache.layers[0].buffer.shape[1])
    assert sorted(buffers) == [16, 32, 64, 128]


@tt.no_grad()
def test_the_memory_is_projected_once():
    decoder = make()
    target, memory, padding = inputs()
    cache = decoder.start(memory, padding)
    kept = [each.buffer for each in cache.memories]
    for t in range(3):
        decoder.step(target[:, t : t + 1], cache)
    assert [each.places for each in cache.memories] == [SOURCE] * 2
    assert all(each.buffer is buffer for each, buffer in zip(cache.memories, kept))


def test_other_branches_than_before_are_refused():
    decoder = make()
    target, memory, _ = inputs()
    cache = decoder.start(memory)
    with pytest.raises(ValueError, match=r"expected \(batch, branches\) \(3, 2\), got \(2, 2\)"):
        decoder.step(target[:2, :2], cache)
    decoder.step(target[:, :2], cache)
    with pytest.raises(ValueError, match=r"\(3, 2\), got \(3, 1\); see reorder"):
        decoder.step(target[:, :1], cache)
    assert cache.length == 1


def test_positions_from_a_start_on():
    encoding = nn.PositionalEncoding(4, dropout=0.0, max_len=6, batch_first=True)
    x = tt.zeros((2, 6, 4))
    for start in range(6):
        np.testing.assert_array_equal(encoding(x[:, start:], start=start).numpy(), encoding(x).numpy()[:, start:])
    with pytest.raises(ValueError, match="length 7 is longer than max_len 6"):
        encoding(x[:, :1], start=6)
