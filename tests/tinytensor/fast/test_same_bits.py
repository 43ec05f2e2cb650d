"""The same seed gives the same bits on one thread, on two and on four: gradients and weights of every kind of model,
and what they decode.

Each way to compute has a process of its own, since what `tt.speed_up()` switches on stays on. This file is its program.
"""

import hashlib
import json
import os
import subprocess
import sys
from functools import partial

import pytest

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.decoding import beam_search, greedy
from tinytensor.models.image_classifier import ImageClassifier
from tinytensor.models.language_model import GPT2, LLAMA
from tinytensor.nn import functional as F

THREADS = (1, 2, 4)
STEPS = 2
CLASSES = 50
LONG = 1040  # positions, of which attention goes in blocks
WAYS = ("plain", "sped up", "plain without loops", "sped up without loops")


def samples(large):
    """By name: what makes a model, and what makes the loss of a batch from it."""
    batch, length, d = (64, 64, 256) if large else (16, 24, 64)

    def ids(*shape, classes=CLASSES):
        return tt.random.integers(3, classes, shape)

    def vectors(*shape):
        return tt.random.randn(*shape, d)

    def of_ids(model):
        text = ids(batch, length + 1)
        return F.cross_entropy(model(text[:, :-1]).reshape(-1, CLASSES), text[:, 1:].reshape(-1))

    def of_two_texts(model):
        text = ids(batch, length + 1)
        logits = model(ids(batch, length), text[:, :-1])
        return F.cross_entropy(logits.reshape(-1, CLASSES), text[:, 1:].reshape(-1), label_smoothing=0.1)

    def of_vectors(model):
        return (model(vectors(batch, length)) ** 2).mean()

    def of_steps(model):
        out, _ = model(vectors(length, 6 * batch), lengths=[length - i % 5 for i in range(6 * batch)])
        return (out**2).mean()

    def of_many_positions(model, mask):
        x = vectors(1, LONG)
        return (model(x, x, x, need_weights=False, attn_mask=mask)[0] ** 2).mean()

    def of_images(model):
        images = tt.random.randn(4 * batch, 1, 20, 20)
        return F.cross_entropy(model(images), tt.random.integers(0, 10, (4 * batch,)))

    def of_many_classes(model):
        return F.cross_entropy(model(vectors(4 * batch)), ids(4 * batch, classes=8000), label_smoothing=0.1)

    def encoder(activation):
        layer = nn.TransformerEncoderLayer(d, 4, 4 * d, 0.1, activation, batch_first=True)
        return nn.TransformerEncoder(layer, 2)

    def language_model(options):
        return models.LanguageModel(
            CLASSES, d_model=d, num_heads=4, num_layers=2, d_ff=4 * d + 10, max_length=length, dropout=0.1, **options
        )

    def translator():
        return models.Transformer(CLASSES, d_model=d, num_heads=4, num_layers=2)

    def classifier():
        return nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.LayerNorm(d), nn.Linear(d, 8000))

    def attention(dropout):
        return nn.MultiheadAttention(d, 4, dropout, batch_first=True)

    return {
        "encoder": (partial(encoder, "relu"), of_vectors),
        "encoder with GELU": (partial(encoder, "gelu"), of_vectors),
        "encoder and decoder": (translator, of_two_texts),
        "GPT-2": (partial(language_model, GPT2), of_ids),
        "Llama": (partial(language_model, LLAMA), of_ids),
        "LSTM": (partial(nn.LSTM, d, d), of_steps),
        "GRU": (partial(nn.GRU, d, d), of_steps),
        "RNN": (partial(nn.RNN, d, d), of_steps),
        "long attention": (partial(attention, 0.0), partial(of_many_positions, mask=None)),
        "long attention with a mask": (partial(attention, 0.1), partial(of_many_positions, mask=F.causal_mask(LONG))),
        "convolution": (partial(ImageClassifier, 20), of_images),
        "many classes": (classifier, of_many_classes),
    }


def train(make, loss_of):
    """All gradients and weights after some steps: a hash of each, by name."""
    tt.manual_seed(0)
    model = make()
    optimizer = nn.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    arrays = dict(model.named_parameters())
    arrays |= {f"{name}.grad": parameter.grad for name, parameter in model.named_parameters()}
    return {name: hashlib.sha256(array.numpy().tobytes()).hexdigest() for name, array in arrays.items()}


def decoded(large):
    """By name: the ids and log-probabilities that models decode, none of which was trained."""
    batch, length, d = (64, 64, 256) if large else (16, 24, 64)
    tt.manual_seed(0)
    translator = models.Transformer(CLASSES, d_model=d, num_heads=4, num_layers=2)
    language_model = models.LanguageModel(CLASSES, d_model=d, num_heads=4, num_layers=2, max_length=2 * length, **LLAMA)
    source = tt.random.integers(3, CLASSES, (batch, length))
    beams = [one for found in beam_search(translator, source, beam=3, max_length=9) for one in found]
    found = {"beams": beams, "greedy": greedy(translator, source, max_length=9)}
    found["text"] = greedy(language_model, source, max_length=9)
    return {name: [(one.ids, one.log_probabilities) for one in each] for name, each in found.items()}


def main(way, dtype, size):
    """Print, for each model, the names of arrays whose bits depend on the number of threads."""
    if way.startswith("sped up"):
        tt.speed_up()
    tt.set_default_dtype(getattr(tt, dtype))
    if size == "small":  # have little work divided as much is
        tt.fast.threads.GRAIN = tt.fast.threads.AWAKE = 1 << 12
    found = {}
    for kind, sample in samples(size == "large").items():
        hashes = []
        for threads in THREADS:
            tt.set_num_threads(threads)
            hashes.append(train(*sample))
        found[kind] = [name for name in hashes[0] if len({each[name] for each in hashes}) > 1]
    texts = []
    for threads in THREADS:
        tt.set_num_threads(threads)
        texts.append(decoded(size == "large"))
    found["decoding"] = [name for name in texts[0] if any(each[name] != texts[0][name] for each in texts)]
    print(json.dumps(found))


def what_differs(*arguments):
    settings = {"TINYTENSOR_COMPILE_LOOPS": "0"} if arguments[0].endswith("without loops") else {}
    command = [sys.executable, __file__, *arguments]
    result = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert len(found) == 13
    return {kind: names for kind, names in found.items() if names}


QUICK = (("sped up", "float64"), ("sped up without loops", "float32"))


@pytest.mark.slow
@pytest.mark.parametrize(("way", "dtype"), QUICK)
def test_no_bit_depends_on_the_number_of_threads(way, dtype):
    assert what_differs(way, dtype, "small") == {}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("way", WAYS)
def test_nor_in_any_other_way(way, dtype):
    assert what_differs(way, dtype, "small") == {}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["sped up", "sped up without loops"])
def test_nor_where_there_is_much_to_do(way):
    assert what_differs(way, "float32", "large") == {}


if __name__ == "__main__":
    main(*sys.argv[1:])
