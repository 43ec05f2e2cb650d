"""The live page beside Python: the same numbers, under every lever; the same texts; and what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
from tests.marks import slow_after
from tinytensor import nn
from tinytensor.models import LanguageModel, Seq2Seq, Transformer, decoding
from tinytensor.models.data.languages import ToyText, TranslationTask, written
from tinytensor.models.data.units import Bytes, Characters
from tinytensor.models.language_model import GPT2, LLAMA
from tinytensor.models.training.presets import PRESETS, make_model
from tinytensor.nn import visualize
from tinytensor.nn.visualize.live import page, writing

from .javascript import run

FOLDER = Path(page.__file__).parent
LETTERS = Characters("abcdefghijklmnopq")  # 20 ids
SCRIPTS = "".join((FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in ("machine", "decoding", "levers"))
NUMBERS = "const plain = (x) => [x.shape, Array.from(x.data, (y) => (Number.isFinite(y) ? y : String(y)))];"

LANGUAGE_MODELS = {
    "gpt2": GPT2,
    "llama": LLAMA | {"num_kv_heads": 2, "num_heads": 4},
    "alibi in a window": {"positions": "alibi", "window": 3, "activation": "gelu", "num_heads": 3, "d_model": 24},
    "no positions": {"positions": None, "activation": "silu", "tie_weights": False, "bias": False},
    "window": {"window": 2, "activation": "relu", "attention_bias": False, "num_layers": 3},
    "qk norm": {"positions": "rotary", "qk_norm": True, "pairing": "interleaved", "head_dim": 10},
    "geglu": {"activation": "geglu", "positions": "rotary", "num_layers": 1},
    "stretched": {"positions": "rotary", "rotary_stretch": (4.0, 8), "activation": "glu", "num_kv_heads": 1},
    "others": {"positions": "rotary", "rotary_stretch": (2.0,), "activation": "bilinear", "norm_eps": 1e-3, "d_ff": 9},
    "reglu": {"activation": "reglu", "norm": "rms", "num_heads": 1},
    "geglu tanh": {"activation": "geglu_tanh", "eos_id": [2, 5], "pad_id": None, "bos_id": None},
}
TRANSFORMERS = {
    "the paper's": {},
    "norm first": {"norm_first": True, "positions": "learned", "tie_weights": True},
    "set": {"positions": None, "num_heads": 4, "d_ff": 7},
    "unscaled": {"scale": 1.0, "share_embeddings": True, "num_layers": 1},
    "no dropout inside": {"inner_dropout": 0.0, "num_heads": 1},
}


def drawn(model, seed=0):
    """A model with weights that are not small, so that differences show."""
    rng = np.random.default_rng(seed)
    with tt.no_grad():
        for name, parameter in model.named_parameters():
            spread = 1.5 / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 0.3
            middle = 0.8 if parameter.ndim == 1 and name.endswith("weight") else 0.0
            parameter[...] = tt.asarray(rng.normal(middle, spread, parameter.shape), dtype=parameter.dtype)
    return model.eval()


def language_model(**options):
    return drawn(LanguageModel(20, **{"d_model": 16, "num_heads": 2, "num_layers": 2, "max_length": 40} | options))


def transformer(**options):
    return drawn(Transformer(20, **{"d_model": 16, "num_heads": 2, "num_layers": 2, "max_length": 40} | options))


def every_model():
    for make, kinds in ((language_model, LANGUAGE_MODELS), (transformer, TRANSFORMERS)):
        yield from (pytest.param(make, options, id=f"{make.__name__}: {name}") for name, options in kinds.items())


each_model = pytest.mark.parametrize(("make", "options"), slow_after(3, every_model()))


def inputs_of(model, *lengths):
    rng = np.random.default_rng(len(lengths) + sum(lengths))
    return [rng.integers(3, 20, (1, length)) for length in lengths[: 1 if model.continues else 2]]


def in_page(tmp_path, model, script):
    """The result of a script that has the page's `data`, `machine`, and all its functions."""
    data = visualize.live(model, LETTERS).data
    return run(
        tmp_path,
        f"const data = {json.dumps(data)};\n{SCRIPTS}{NUMBERS}\nconst machine = new Machine(data.program);\n{script}",
    )


def given(model, inputs):
    names = ("ids",) if model.continues else ("source", "target")
    return json.dumps({name: ids[0].tolist() for name, ids in zip(names, inputs)})


def assert_same(found, expected):
    shape, numbers = found
    assert shape == list(expected.shape)
    x, y = np.array([float(number) for number in numbers]).reshape(shape), expected.numpy()
    np.testing.assert_array_equal(np.isfinite(x), np.isfinite(y))
    finite = np.isfinite(y)
    np.testing.assert_allclose(x[finite], y[finite], rtol=0, atol=1e-4 * max(1.0, np.abs(y[finite]).max(initial=0)))


def variables(model):
    return [
        name for name in nn.inside.watching.places(model) if name.rpartition(".")[2] in nn.inside.watching.VARIABLES
    ]


@each_model
def test_all_numbers_are_those_of_python_at_any_length(make, options, tmp_path):
    model = make(**options)
    texts = [inputs_of(model, *lengths) for lengths in ((1, 1), (9, 4), (4, 13), (9, 13), (40, 40))]
    names = variables(model)
    script = f"""return [{", ".join(given(model, inputs) for inputs in texts)}].map((inputs) => [
        plain(machine.run(inputs)), ...{names}.map((name) => plain(machine.named(name)))]);"""
    for inputs, (logits, *others) in zip(texts, in_page(tmp_path, model, script), strict=True):
        with tt.no_grad(), nn.cache(model) as values:
            assert_same(logits, model(*inputs))
        for name, found in zip(names, others, strict=True):
            assert_same(found, values[name])


def unmasked(mask):
    return tt.zeros_like(mask) if mask.dtype.kind == "b" else tt.where(mask == -tt.inf, 0.0, mask)


def with_weight(weights):
    """Half of the first head's attention of its second query to the first key."""
    found = weights.numpy().copy()
    row = found[0, 0, 1]
    row[1:] *= 0.5 / row[1:].sum()
    row[0] = 0.5
    return tt.asarray(found)


def layers_of(model):
    return [name for name, module in model.named_modules() if hasattr(module, "self_attn")]


def without_layer(model, name):
    """Changes for `nn.intervene` after which a layer returns what it read."""
    read = []
    first = next(key for key in ("x", "src", "tgt") if f"{name}.{key}" in nn.inside.watching.places(model))
    return {f"{name}.{first}": lambda x: read.append(x) or x, name: lambda _: read[-1]}


def without_positions(model):
    if not model.continues:
        read = []
        return {"positions.x": lambda x: read.append(x) or x, "positions": lambda _: read[-1]}
    return {
        "learned": {"positions": 0.0},
        "rotary": {"layers.*.rotation": lambda pair: (tt.ones_like(pair[0]), tt.zeros_like(pair[1]))},
        "alibi": {"layers.*.mask": lambda mask: tt.where(mask == -tt.inf, mask, 0.0)},
    }[model.kind_of_positions]


@each_model
def test_levers_are_those_of_intervene(make, options, tmp_path):
    model = make(**options)
    inputs = inputs_of(model, 9, 7)
    attentions = [name.removesuffix(".q") for name in variables(model) if name.endswith(".q")]
    last, layer = attentions[-1], layers_of(model)[0]
    masks = "layers.*.mask" if model.continues else "transformer.decoder.tgt_mask"
    levers = {
        "factor: 2.5": {"*.q": lambda q: q * 2.5},
        "mask: false": {masks: unmasked},
        f"headsOut: ['{last} 0']": {f"{last}.z": {0: 0.0}},
        f"layersOut: ['{layer}']": without_layer(model, layer),
        f"weight: {{name: '{last}', at: [0, 1, 0], to: 0.5}}": {f"{last}.weights": with_weight},
    }
    if options.get("positions", "some") is not None:
        levers["positions: false"] = without_positions(model)
    script = f"""const inputs = {given(model, inputs)};
    return [{", ".join(f"{{...AS_TRAINED, {lever}}}" for lever in levers)}].map((levers) => [
        plain(machine.run(inputs, changesOf(levers))), plain(machine.run(inputs))]);"""
    with tt.no_grad():
        before = model(*inputs)
        for changes, (logits, back) in zip(levers.values(), in_page(tmp_path, model, script), strict=True):
            with nn.intervene(model, changes):
                changed = model(*inputs)
            assert_same(logits, changed)
            assert_same(back, before)
            assert (np.abs(changed.numpy() - before.numpy()) > 1e-3).any(), changes


DECODING = """
    const { model: { bos, pad }, ends } = data;
    const answers = "source" in data.program.inputs;
    const inputsFor = (given, said) =>
      answers ? { source: given, target: [bos, ...said] } : { ids: [...given, ...said] };
    const next = (given) => (said) => {
      const inputs = inputsFor(given, said);
      return logSoftmax(machine.run(inputs), inputs[answers ? "target" : "ids"].length - 1, pad);
    };
    const last = (steps) => { for (;;) { const { done, value } = steps.next(); if (done) return value; } };
"""


@each_model
def test_texts_are_those_of_python(make, options, tmp_path):
    model = make(**options)
    sources = [np.random.default_rng(seed).integers(3, 20, (1, 3 + seed)) for seed in range(4)]
    numbers = np.random.default_rng(0).uniform(size=12).tolist()
    script = f"""{DECODING}
    return {[source[0].tolist() for source in sources]}.map((given) => {{
      const numbers = {numbers};
      return [
        last(oneByOne(next(given), likeliest, 12, ends)), last(beamSearch(next(given), 3, 12, ends)),
        last(oneByOne(next(given), drawing(1.7, 0.8, () => numbers.shift()), 12, ends))];
    }});"""
    for source, found in zip(sources, in_page(tmp_path, model, script), strict=True):
        greedy, beam = (decoding.beam_search(model, source, beam=n, max_length=12)[0][0].ids for n in (1, 3))
        sampled = decoding.sample(model, source, temperature=1.7, top_p=0.8, max_length=12, generator=Given(numbers))
        assert found == [greedy, beam, sampled[0].ids]


class Given:
    """A generator of these numbers, one after the other."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def uniform(self, shape, dtype):
        return tt.full(shape, next(self.numbers), dtype=dtype)


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.1, 0.05), (3.0, 0.9), (0.7, 0.5)])
def test_what_is_drawn_from_is_next_probabilities(temperature, top_p, tmp_path):
    logits = np.random.default_rng(1).normal(size=30)
    log_p = (logits - np.log(np.exp(logits).sum())).tolist()
    found = run(
        tmp_path, f"{SCRIPTS} return [...nextProbabilities(Float64Array.from({log_p}), {temperature}, {top_p})];"
    )
    expected = decoding.next_probabilities(tt.asarray(logits), temperature, top_p=top_p)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-12)


# ---- texts


def toy(pair):
    text = ToyText(pair)
    words = [written(pair.source, "en") for pair in TranslationTask(pair).test_pairs(40)]
    ids = [[*text.target.ids(pair.target), 2] for pair in TranslationTask(pair).test_pairs(40)]
    return text, words, ids


@pytest.mark.parametrize("kind", ["en-fr", "en-ko", "characters", "bytes"])
def test_texts_become_the_same_ids_and_back(kind, tmp_path):
    if kind in ("characters", "bytes"):
        text = Bytes() if kind == "bytes" else Characters("abc é한")
        lines = ["", "abc", "é한 c  b"]
        said = [[*text.encode(line), 2] for line in lines]
        model = LanguageModel(len(text), d_model=4, num_heads=1, num_layers=1, max_length=16)
    else:
        text, lines, said = toy(kind)
        model = Transformer(*text.sizes, d_model=4, num_heads=1, num_layers=1, max_length=30)
    data = json.dumps({"text": visualize.live(model, text).data["text"]})
    script = (FOLDER / "texts.js").read_text(encoding="utf-8")
    found = run(tmp_path, f"const data = {data};\n{script}\nreturn [{lines}.map(encode), {said}.map(decode)];")
    assert found == [[text.encode(line) for line in lines], [text.decode(ids) for ids in said]]


def test_unknown_words_are_named(tmp_path):
    text = ToyText("en-fr")
    data = json.dumps(
        {"text": visualize.live(Transformer(*text.sizes, d_model=4, num_heads=1, num_layers=1), text).data["text"]}
    )
    script = (FOLDER / "texts.js").read_text(encoding="utf-8")
    told = "try { encode('the zebra and the zebra quack .'); } catch (error) { return error.message; }"
    assert run(tmp_path, f"const data = {data};\n{script}\n{told}") == "The model has no id for “zebra”, “quack”"


# ---- the page, and what is refused


def test_the_table_of_ops_is_that_of_the_writer(tmp_path):
    assert sorted(run(tmp_path, f"{SCRIPTS} return Object.keys(OPS);")) == sorted(writing.OPS.split())


def test_a_page_is_one_file_without_addresses(tmp_path):
    page = visualize.live(language_model(), LETTERS, tmp_path / "page.html", text="abc</script>", title="<b>")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text == str(page)
    assert "<title>&lt;b&gt;</title>" in text
    assert re.findall(r"https?://[^\s\"'<]+", text) == ["http://www.w3.org/2000/svg"]
    assert repr(page) == "<live page: <b>>"
    with pytest.raises(ValueError, match=r"expected \.html"):
        page.save(tmp_path / "page.svg")


def test_the_page_of_the_toy_translator_is_small():
    text = ToyText("en-fr")
    model = make_model("transformer", *text.sizes, PRESETS["toy"], max_length=21, joint=False)
    assert len(str(visualize.live(model, text))) < 12e6


def test_a_model_keeps_its_mode(tmp_path):
    model = language_model(dropout=0.5).train()
    visualize.live(model, LETTERS)
    assert all(module.training for module in model.modules())


class Doubled(nn.Module):
    def forward(self, x):
        return tt.cumulative_sum(x, axis=-1)


class Halves(nn.Module):
    def forward(self, x):
        return x + tt.zeros((x.shape[1] // 2, 1)).sum() + x[:, : x.shape[1] // 2].sum()


@pytest.mark.parametrize(
    ("refused", "error", "words"),
    [
        (lambda: (nn.Linear(2, 2), LETTERS), TypeError, "expected a models.LanguageModel or a .*, got a Linear"),
        (lambda: (Seq2Seq(20, d_model=8), LETTERS), ValueError, "the model computes otherwise"),
        (lambda: (language_model(max_length=6), LETTERS), ValueError, "max_length is 6; expected at least 7"),
        (lambda: (language_model().to(tt.float16), LETTERS), ValueError, "no numbers of float16; write model.to"),
        (lambda: (language_model(), object()), TypeError, "no tokenizer like object; expected ToyText"),
        (lambda: (language_model(), Characters("abc")), ValueError, r"has \[20\] ids and the tokenizer \[6\]"),
        (lambda: (replaced(Doubled()), LETTERS), ValueError, "the page cannot compute cumulative_sum at .*test_live"),
        (lambda: (replaced(Halves()), LETTERS), ValueError, "computes otherwise at other lengths"),
    ],
)  # fmt: skip
def test_what_the_page_does_not_have_is_refused(refused, error, words):
    with pytest.raises(error, match=f"live: .*{words}"):
        visualize.live(*refused())


def replaced(module):
    model = language_model()
    model.norm = module
    return model


def test_a_page_holds_so_many_weights(monkeypatch):
    monkeypatch.setattr(writing, "MOST", 2**20)
    with pytest.raises(ValueError, match="live: a page holds at most 1 MB of weights"):
        visualize.live(language_model(d_model=512), LETTERS)
