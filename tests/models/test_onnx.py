"""Models in ONNX: at other lengths and on other numbers, ONNX Runtime computes what they do."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Encoder, LanguageModel, Transformer
from tinytensor.models.image_classifier import ImageClassifier
from tinytensor.models.language_model import GPT2, LLAMA

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from ..tinytensor.test_onnx import check, exported

TEXTS = {0: "batch", 1: "length"}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(autouse=True)
def seeded():
    tt.manual_seed(0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def texts(batch, length):
    """Ids (batch, length), the first text with padding at its end."""
    ids = np.random.default_rng(length).integers(3, 30, (batch, length))
    ids[0, max(1, length - 2) :] = 0
    return tt.asarray(ids)


LANGUAGE_MODELS = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "interleaved": {**LLAMA, "pairing": "interleaved", "rotary_stretch": (8.0, 32)},
    "alibi": {**GPT2, "positions": "alibi"},
    "window": {**LLAMA, "window": 3},
    "alibi and window": {**LLAMA, "positions": "alibi", "window": 4},
    "grouped heads": {**LLAMA, "num_kv_heads": 2},
    "qk_norm": {**LLAMA, "qk_norm": True},
    "no positions": {**GPT2, "positions": None, "tie_weights": False},
}


@pytest.mark.parametrize("kind", LANGUAGE_MODELS)
def test_a_language_model(kind, path):
    model = LanguageModel(
        30, d_model=16, num_heads=4, num_layers=2, max_length=40, dropout=0.1, **LANGUAGE_MODELS[kind]
    )
    tt.onnx.export(model, texts(2, 6), path, dynamic_shapes={"ids": TEXTS})
    check(path, model.eval(), *[(texts(*size),) for size in ((2, 6), (3, 9), (1, 1), (1, 17))], **CLOSE)


@pytest.mark.parametrize(
    "options",
    [{}, {"positions": "learned", "tie_weights": True, "share_embeddings": True, "norm_first": True}],
    ids=["of the paper", "tied"],
)
def test_the_transformer(options, path):
    model = Transformer(30, d_model=16, num_heads=2, num_layers=2, **options)
    free = {"source": {0: "batch", 1: "source_length"}, "target": {0: "batch", 1: "target_length"}}
    tt.onnx.export(model, (texts(2, 6), texts(2, 6)), path, dynamic_shapes=free)
    calls = [(texts(n, a), texts(n, b)) for n, a, b in ((2, 6, 6), (3, 9, 4), (1, 2, 1))]
    check(path, model.eval(), *calls, **CLOSE)


@pytest.mark.parametrize("way", ["head", "segments", "mean", "max", "first", "pooler"])
def test_an_encoder(way, path):
    has_head = way in ("head", "segments")
    model = Encoder(30, d_model=16, num_heads=2, num_layers=2, max_length=40, head=has_head, pooler=way == "pooler")
    function, more = (model, ()) if has_head else (model.pooled, (way,))

    def example(*size):
        return (texts(*size), texts(*size) % 2) if way == "segments" else (texts(*size), *more)

    free = {"ids": TEXTS} | ({"segments": TEXTS} if way == "segments" else {})
    tt.onnx.export(function, example(2, 6), path, dynamic_shapes=free)
    model.eval()
    check(path, function, *[example(*size) for size in ((2, 6), (3, 9), (1, 1))], **CLOSE)


def test_padding_masks(path):
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()

    def model(x, mask):
        return layers(x, src_key_padding_mask=mask)

    def example(batch, length, seen):
        return tt.random.randn(batch, length, 8), tt.asarray(np.arange(length) >= np.full((batch, 1), seen))

    free = {"x": TEXTS, "mask": TEXTS}  # a text that is all padding gives no NaN
    exported(path, model, example(2, 6, 4), example(3, 4, 1), example(1, 7, 0), free=free)


def test_images(path):
    exported(
        path,
        ImageClassifier(8).eval(),
        (tt.random.randn(2, 1, 8, 8),),
        (tt.random.randn(5, 1, 8, 8),),
        free={"input": {0: "n"}},
    )
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2, padding=1),
        nn.Conv2d(4, 6, 3, groups=2, dilation=2, padding="same"), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(6, 3),
    ).eval()  # fmt: skip
    free = {"input": {0: "batch", 2: "height", 3: "width"}}
    exported(path, model, (tt.random.randn(2, 3, 9, 11),), (tt.random.randn(5, 3, 14, 8),), free=free)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_recurrent_layers(kind, dtype, path):
    def draw(*shape):
        return tt.random.randn(*shape).astype(dtype)

    model = kind(5, 7).to(dtype)
    exported(
        path, model, (draw(4, 3, 5),), (draw(6, 2, 5),), (draw(1, 1, 5),), free={"input": {0: "length", 1: "batch"}}
    )
    model = kind(5, 7, 2, bidirectional=True, batch_first=True).to(dtype)
    exported(path, model, (draw(4, 3, 5),), (draw(2, 6, 5),), free={"input": TEXTS})
    exported(path, lambda x: model(x, lengths=[3, 1, 2, 3]), (draw(4, 3, 5),), (draw(4, 3, 5),))


def test_initial_states_are_inputs(path):
    def example(length, batch):
        states = tt.random.randn(1, batch, 7), tt.random.randn(1, batch, 7)
        return tt.random.randn(length, batch, 5), states

    free = {"input": {0: "length", 1: "batch"}, "hx_0": {1: "batch"}, "hx_1": {1: "batch"}}
    exported(path, nn.LSTM(5, 7), example(4, 3), example(6, 2), free=free)
