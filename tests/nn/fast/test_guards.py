"""Loops that know arrays by their addresses write only into what was made for them."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.language_model import GPT2, LLAMA, LanguageModel
from tinytensor.models.transformer import Transformer

pytest.importorskip("numba")
GUARD = 1024  # elements before and behind each array
PATTERN = 12345.5


@pytest.fixture
def guarded(monkeypatch, loops):
    """Arrays of the loops, each between guards; calling it looks at them."""
    from tinytensor.fast import decoding, feed_forward, multi_head, residual, sublayers, threads

    monkeypatch.setattr(threads, "_blas_is_single", True)
    made = []

    def empty(shape, dtype=np.float64):
        count = int(np.prod(shape))
        whole = np.full(count + 2 * GUARD, PATTERN, dtype)
        made.append((shape, whole))
        return whole[GUARD : GUARD + count].reshape(shape)

    for room in (decoding, feed_forward, multi_head, residual, sublayers):
        monkeypatch.setattr(room, "empty", empty)

    def look():
        broken = [
            shape for shape, whole in made if (whole[:GUARD] != PATTERN).any() or (whole[-GUARD:] != PATTERN).any()
        ]
        assert broken == []
        return len(made)

    return look


def translator(**options):
    tt.manual_seed(0)
    return Transformer(13, d_model=10, num_heads=2, num_layers=1, max_length=24, dropout=0.0, **options)


@pytest.mark.parametrize("d_ff", [3, 40])
@pytest.mark.parametrize("norm_first", [False, True])
def test_training(guarded, d_ff, norm_first):
    model = translator(d_ff=d_ff, norm_first=norm_first)
    ids = np.random.default_rng(0).integers(3, 13, (2, 5, 7))
    model(ids[0], ids[1]).sum().backward()
    assert guarded() > 20


@pytest.mark.parametrize("d_ff", [3, 40])
@pytest.mark.parametrize("beam", [1, 3, 9])
def test_decoding(guarded, d_ff, beam):
    """Sentences end one after the other, so that rows become fewer."""
    from tinytensor.models.decoding import beam_search

    model = translator(d_ff=d_ff)
    with tt.no_grad():
        model.projection.weight[model.eos_id] *= 3.0
    source = np.random.default_rng(1).integers(3, 13, (7, 9))
    beam_search(model.eval(), source, beam=beam, max_length=20)
    assert guarded() > 5


@pytest.mark.parametrize("kind", [GPT2, LLAMA], ids=["gpt2", "llama"])
def test_a_language_model(guarded, kind):
    tt.manual_seed(0)
    model = LanguageModel(13, **{**kind, "d_model": 12, "num_heads": 3, "num_layers": 2, "d_ff": 7, "max_length": 30})
    ids = np.random.default_rng(0).integers(3, 13, (3, 11))
    model.train()(ids).sum().backward()
    with tt.no_grad():
        model.eval().generate(ids, 15)
    assert guarded() > 10


def test_two_threads_at_the_same_time(guarded):
    """Each has a plan of its own."""
    model = translator(d_ff=16).eval()
    source = np.random.default_rng(1).integers(3, 13, (40, 9))
    found = nn.parallel.threads.side_by_side([lambda half=half: model.generate(half) for half in (source, source)])
    np.testing.assert_array_equal(found[0].numpy(), found[1].numpy())
    guarded()
