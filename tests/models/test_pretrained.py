"""Folders of trained models: what goes in comes out, whole or not at all, and nothing in them is run."""

import hashlib
import json
import os
import signal
import sys
from dataclasses import replace

import numpy as np
import pytest

import tinytensor as tt
from tests import processes
from tinytensor import nn
from tinytensor.models import Seq2Seq, Transformer, Translator, pretrained
from tinytensor.models.data.languages import ToyText
from tinytensor.models.pretrained import PretrainedError
from tinytensor.models.translator import Translation

SOURCE = np.array([[5, 6, 7, 2], [8, 2, 0, 0]])
TARGET = np.array([[1, 4, 5], [1, 6, 0]])


def make(kind="transformer", seed=0, **options):
    tt.manual_seed(seed)
    if kind == "transformer":
        sizes = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 16, "max_length": 30, "dropout": 0.1}
        return Transformer(433, 667, **{**sizes, **options}).eval()
    return Seq2Seq(433, 667, attention=None if kind == "none" else kind, d_model=8, max_length=30, **options).eval()


def bits(model):
    return {name: (value.dtype, value.numpy().tobytes()) for name, value in model.state_dict().items()}


@pytest.mark.parametrize("kind", ["transformer", "bahdanau", "local-p", "none"])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_a_model_comes_back_as_it_was(tmp_path, kind, dtype):
    model = make(kind).to(dtype=dtype)
    model.save_pretrained(tmp_path / "new" / "folder")
    state = tt.random.get_state()
    again = type(model).from_pretrained(tmp_path / "new" / "folder")
    assert tt.random.get_state() == state
    assert bits(again) == bits(model)
    assert again.config == model.config
    assert not again.training
    np.testing.assert_array_equal(again(SOURCE, TARGET).numpy(), model(SOURCE, TARGET).numpy())


def test_the_scale_of_the_attention_comes_back(tmp_path):
    model, usual = make(scale=1.0), make()
    model.save_pretrained(tmp_path)
    again = Transformer.from_pretrained(tmp_path)
    assert bits(again) == bits(usual)
    np.testing.assert_array_equal(again(SOURCE, TARGET).numpy(), model(SOURCE, TARGET).numpy())
    assert (again(SOURCE, TARGET).numpy() != usual(SOURCE, TARGET).numpy()).any()


@pytest.mark.parametrize("options", [{"tie_weights": True}, {"tie_weights": True, "share_embeddings": True}])
def test_shared_weights_stand_once_and_are_shared_again(tmp_path, options):
    from safetensors.numpy import load_file

    model = Transformer(50, **options, d_model=8, num_heads=2, num_layers=1)
    model.save_pretrained(tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    assert set(load_file(file)) == set(dict(model.named_parameters()))
    again = Transformer.from_pretrained(tmp_path)
    assert again.projection.weight is again.target_embedding.weight
    assert (again.source_embedding is again.target_embedding) == ("share_embeddings" in options)
    assert bits(again) == bits(model)


def test_saving_again_replaces_all_and_leaves_nothing_behind(tmp_path):
    make(seed=0).save_pretrained(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    later = make(seed=1, norm_first=True)
    later.save_pretrained(tmp_path)
    later.save_pretrained(tmp_path)
    assert bits(Transformer.from_pretrained(tmp_path)) == bits(later)
    assert len(list(tmp_path.iterdir())) == 3


KILL = """
import os, signal, sys
import tinytensor as tt
from tinytensor.models import Transformer
calls = 0
def killing(function):
    def call(*args, **kwargs):
        global calls
        calls += 1
        if calls == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call
os.fsync, os.replace, os.unlink = killing(os.fsync), killing(os.replace), killing(os.unlink)
tt.manual_seed(1)
Transformer(433, 667, d_model=8, num_heads=2, num_layers=1, d_ff=16, max_length=30).save_pretrained(sys.argv[1])
"""


def test_killed_while_it_writes_the_folder_holds_the_old_model_or_the_new(tmp_path):
    old, new = bits(make(seed=0)), bits(make(seed=1))
    (program := tmp_path / "killed.py").write_text(KILL)
    found = []
    for nth in range(1, 9):
        folder = tmp_path / str(nth)
        make(seed=0).save_pretrained(folder)
        result = processes.run([sys.executable, program, folder, nth], cwd=tmp_path)
        state = bits(Transformer.from_pretrained(folder))
        found.append(state == new)
        assert state in (old, new)
        assert result.returncode == (-signal.SIGKILL if nth < 8 else 0)
        make(seed=2).save_pretrained(folder)
        assert len(list(folder.glob("*"))) == 2  # nothing that the killed process left
    assert found == sorted(found)
    assert set(found) == {True, False}


def test_a_reader_gets_the_new_model_where_the_old_one_is_replaced_meanwhile(tmp_path, monkeypatch):
    make(seed=0).save_pretrained(tmp_path)
    later, get = make(seed=1), pretrained._get

    def replaced_first(folder, entry):
        monkeypatch.setattr(pretrained, "_get", get)
        later.save_pretrained(tmp_path)
        return get(folder, entry)

    monkeypatch.setattr(pretrained, "_get", replaced_first)
    assert bits(Transformer.from_pretrained(tmp_path)) == bits(later)


def test_a_full_disk_leaves_the_old_model(tmp_path, monkeypatch):
    model = make(seed=0)
    model.save_pretrained(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        make(seed=1).save_pretrained(tmp_path)
    assert bits(Transformer.from_pretrained(tmp_path)) == bits(model)


def change(key, value):
    """An edit by hand: without the checksum, as the error of one that is left says."""

    def apply(folder):
        config = json.loads((folder / "config.json").read_text())
        target = config
        *path, last = key.split(".")
        for name in path:
            target = target[name]
        target[last] = value
        config.pop("checksum", None)
        (folder / "config.json").write_text(json.dumps(config))

    return apply


def damage(folder):
    (file,) = folder.glob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: (d / "config.json").unlink(), "config.json: No such file or directory; expected a folder"),
        (lambda d: (d / "config.json").write_text("{"), "config.json: not JSON"),
        (lambda d: (d / "config.json").write_text("[" * 100_000), "config.json: not JSON"),
        (change("surprise", 1), "config.json: damaged: 'surprise' stands in no config"),
        (lambda d: (d / "config.json").write_text("[]"), r"config.json: holds \[\]; expected an object"),
        (change("format", "other"), "config.json: format 'other', expected 'tinytensor model 1'"),
        (change("model", "Evil"), "holds a Evil, expected Transformer"),
        (change("model", 3), "'model' is missing or of the wrong kind"),
        (change("arguments.surprise", 1), "Transformer has no argument surprise"),
        (change("arguments.num_heads", 3), "num_heads"),
        (change("arguments.num_heads", "x"), "config.json says num_heads 'x'; expected int"),
        (change("arguments.d_model", 8.0), "config.json says d_model 8.0; expected int"),
        (
            change("arguments.d_model", 9),
            "config.json says d_model 9, but the weights are .* a Transformer with 8",
        ),
        (change("arguments.d_model", "x"), "config.json says d_model 'x'; expected int"),
        (change("arguments.pad_id", None), r"says pad_id None; expected int"),
        (change("arguments.bos_id", 1_000_000), r"bos_id must be an id below \d+, got 1000000"),
        (change("arguments.d_ff", 9), "says d_ff 9, but the weights are those of a Transformer with 16"),
        (change("arguments.source_vocabulary", 432), "says source_vocabulary 432, but .* with 433"),
        (change("arguments.target_vocabulary", 432), "says target_vocabulary 432, but .* with 667"),
        (change("arguments.tie_weights", True), "the weights do not fit the config"),
        (change("weights.file", "../elsewhere.safetensors"), "does not name a file of this folder"),
        (change("weights.file", "missing.safetensors"), "missing.safetensors: No such file"),
        (damage, "damaged: it is not the file that config.json describes"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told(tmp_path, spoil, message):
    make().save_pretrained(tmp_path)
    spoil(tmp_path)
    with pytest.raises(PretrainedError, match=message):
        Transformer.from_pretrained(tmp_path)


@pytest.mark.parametrize("positions", ["learned", None])
def test_positions_come_back(tmp_path, positions):
    tt.random.manual_seed(0)
    model = Transformer(50, positions=positions, d_model=8, num_heads=2, num_layers=1, max_length=9).eval()
    model.save_pretrained(tmp_path)
    again = Transformer.from_pretrained(tmp_path)
    assert again.config["positions"] == positions
    assert bits(again) == bits(model)
    source, target = [[4, 5, 6]], [[1, 7]]
    np.testing.assert_array_equal(again(source, target).numpy(), model(source, target).numpy())
    if positions == "learned":
        change("arguments.max_length", 10**12)(tmp_path)
        with pytest.raises(PretrainedError, match="says max_length 1000000000000, but the weights are .* with 9"):
            Transformer.from_pretrained(tmp_path)


def test_a_config_from_before_there_were_kinds_of_positions_is_read(tmp_path):
    model = make("transformer")
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    del config["arguments"]["positions"], config["checksum"]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    again = Transformer.from_pretrained(tmp_path)
    np.testing.assert_array_equal(again(SOURCE, TARGET).numpy(), model(SOURCE, TARGET).numpy())


SIZES = ["num_layers", "d_model", "source_vocabulary", "target_vocabulary", "max_length"]


@pytest.mark.parametrize(
    ("kind", "size"),
    [("none", size) for size in SIZES] + [("transformer", size) for size in [*SIZES, "d_ff", "num_heads"]],
)
def test_a_config_cannot_ask_for_more_than_the_weights_have(tmp_path, kind, size):
    """At once, before anything is made. No weight depends on the longest sequence, but it has its limit."""
    model = make(kind)
    model.save_pretrained(tmp_path)
    change(f"arguments.{size}", 10**12)(tmp_path)
    if size == "max_length" and kind == "none":  # for which it is only a number
        assert bits(type(model).from_pretrained(tmp_path)) == bits(model)
        return
    with pytest.raises(PretrainedError, match=rf"{size.removesuffix('gth')}.* 1000000000000"):
        type(model).from_pretrained(tmp_path)


class Linear(pretrained.Pretrained, nn.Linear):
    def __init__(self):
        super().__init__(2, 3, bias=False)
        self.config = {}


def test_weights_of_something_else_are_told(tmp_path):
    Linear().save_pretrained(tmp_path)
    assert Linear.from_pretrained(tmp_path).weight.shape == (3, 2)
    change("model", "Transformer")(tmp_path)
    with pytest.raises(PretrainedError, match="the weights are not those of a Transformer .'source_embedding.weight'"):
        Transformer.from_pretrained(tmp_path)


@pytest.mark.parametrize(("dtype", "value"), [("BF16", 1.5), ("F8_E4M3", None)])
def test_weights_of_few_bits(dtype, value, tmp_path):
    """bfloat16 becomes float32, of the same values; other dtypes that NumPy does not have are named."""
    Linear().save_pretrained(tmp_path)
    content = np.full(6, 0x3FC0, "<u2").tobytes()[: 12 if value else 6]  # the upper half of 1.5
    header = json.dumps({"weight": {"dtype": dtype, "shape": [3, 2], "data_offsets": [0, len(content)]}}).encode()
    (file,) = tmp_path.glob("*.safetensors")
    file.write_bytes(len(header).to_bytes(8, "little") + header + content)
    change("weights.sha256", hashlib.sha256(file.read_bytes()).hexdigest())(tmp_path)
    if value is None:
        with pytest.raises(PretrainedError, match=r"safetensors: weight is of dtype F8_E4M3; expected F64, F32"):
            Linear.from_pretrained(tmp_path)
    else:
        assert Linear.from_pretrained(tmp_path).weight.tolist() == [[value] * 2] * 3


@pytest.mark.slow
def test_no_flipped_bit_of_a_folder_is_accepted(tmp_path):
    """All 8 bits of each byte of the config, one of each byte of the weights.

    Before the config had a checksum, 3 of 725 bytes could be flipped in a translator's config unnoticed, one bit each.
    """
    Transformer(6, d_model=2, num_heads=1, num_layers=1, d_ff=2, max_length=4).save_pretrained(tmp_path)
    original, generator = pretrained.read_folder(tmp_path), np.random.default_rng(0)
    refused = 0
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        for place in range(len(content)):
            for bit in range(8) if path.name == pretrained.CONFIG else [int(generator.integers(8))]:
                changed = bytearray(content)
                changed[place] ^= 1 << bit
                path.write_bytes(changed)
                try:
                    found = pretrained.read_folder(tmp_path)
                except PretrainedError:
                    refused += 1
                else:  # a number may be written otherwise: 1e-5 and 1E-5
                    assert replace(found, weights={}) == replace(original, weights={}), (path.name, place, bit)
        path.write_bytes(content)
    assert refused > 5000


def test_a_config_without_a_checksum_is_read_and_one_that_was_edited_says_what_to_do(tmp_path):
    make().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config, indent=7))  # other line breaks mean the same
    Transformer.from_pretrained(tmp_path)
    config["arguments"]["dropout"] = 0.5
    path.write_text(json.dumps(config))
    with pytest.raises(PretrainedError, match="damaged: its checksum does not agree.*remove the line 'checksum'"):
        Transformer.from_pretrained(tmp_path)
    del config["checksum"]  # as in a folder from before there was one
    path.write_text(json.dumps(config))
    assert Transformer.from_pretrained(tmp_path).config["dropout"] == 0.5


def test_another_class_is_told(tmp_path):
    make("dot").save_pretrained(tmp_path)
    with pytest.raises(PretrainedError, match="holds a Seq2Seq, expected Transformer"):
        Transformer.from_pretrained(tmp_path)
    with pytest.raises(PretrainedError, match="holds a model without a codec for text"):
        Translator.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"kind": ["toy"], "pair": "en-fr"}, r"the codec of its text is \['toy'\], expected subwords or marian or toy"),
        ({"kind": "toy", "pair": "en-xx"}, "the codec of its text cannot be made"),
        ({"kind": "toy", "pair": "en-ko"}, r"the model has vocabularies of 433 and 667 ids, the codec .* 433 and 840"),
    ],
)
def test_a_codec_that_does_not_fit_is_told(tmp_path, translator, text, message):
    translator.save_pretrained(tmp_path)
    change("text", text)(tmp_path)
    with pytest.raises(PretrainedError, match=message):
        Translator.from_pretrained(tmp_path)


# ---- with a text codec


@pytest.fixture
def translator():
    return Translator(make(), ToyText("en-fr"))


LINES = ["the black cat eats the fresh bread.", "", "Marie buys a red hat .", "  I sleep. "]


@pytest.mark.parametrize("beam", [1, 3])
def test_a_translator_comes_back_as_it_was(tmp_path, translator, beam):
    translator.save_pretrained(tmp_path)
    again = Translator.from_pretrained(tmp_path)
    found = translator.translate(LINES, num_beams=beam, num_return_sequences=beam)
    assert again.translate(LINES, num_beams=beam, num_return_sequences=beam) == found
    assert [len(translations) for translations in found] == [beam, 0, beam, beam]
    alone = translator.translate(["I sleep ."], num_beams=beam, num_return_sequences=beam)[0]
    assert [t.text for t in found[3]] == [t.text for t in alone]


def test_a_translator_that_knows_everyday_words_comes_back(tmp_path):
    codec = ToyText("en-fr", everyday_too=True)
    model = Transformer(*codec.sizes, d_model=8, num_heads=2, num_layers=1, max_length=20)
    Translator(model, codec).save_pretrained(tmp_path)
    again = Translator.from_pretrained(tmp_path)
    assert again.encode("give me a second, please.") == codec.encode("give me a second, please.")


def test_subwords_come_back(tmp_path):
    pytest.importorskip("sentencepiece")
    from tinytensor.models.data.tokenizer import Tokenizer

    lines = ["the cat sees a dog", "a small dog sleeps here", "the big cat eats"]
    codec = Tokenizer.train(lines * 5, 40)
    model = Transformer(40, d_model=8, num_heads=2, num_layers=1, max_length=40, share_embeddings=True)
    translator = Translator(model, codec)
    translator.save_pretrained(tmp_path)
    again = Translator.from_pretrained(tmp_path)
    assert again.codec.encode(lines[0]) == codec.encode(lines[0])
    assert again.translate(lines) == translator.translate(lines)
    weights, source, target = again.attention(lines[0], again.translate(lines, num_beams=1)[0][0])
    assert "".join(source) == "▁the▁cat▁sees▁a▁dog<end>"
    assert weights[0].shape == (2, len(target), len(source))


def test_lines_that_cannot_be_translated_are_named(translator):
    with pytest.raises(ValueError, match=r"^line 2: 'zebra' is no word of this toy language"):
        translator.translate(["the cat sleeps.", "the zebra sleeps."])
    with pytest.raises(ValueError, match=r"^line 1: 30 ids, but the model takes at most 29 of a sentence"):
        translator.translate(["the " * 30])
    with pytest.raises(ValueError, match="num_return_sequences must be from 1 to num_beams = 2, got 3"):
        translator.translate(["the cat sleeps."], num_beams=2, num_return_sequences=3)


def test_attention_belongs_to_the_words(translator):
    (best,) = translator.translate([LINES[0]])[0]
    weights, source, target = translator.attention(LINES[0], best)
    assert source == ["the", "black", "cat", "eats", "the", "fresh", "bread", ".", "<end>"]
    assert len(target) == len(best.ids)
    assert [w.shape for w in weights] == [(2, len(target), 9)]
    np.testing.assert_allclose(weights[0].sum(axis=-1), 1, rtol=1e-5)
    said = Translation("", [7, 2], 0.0)
    assert translator.attention(LINES[0], said)[2] == [translator.codec.target.words[7], "<end>"]
