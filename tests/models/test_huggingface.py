"""Hugging Face's folders, made by hand: what is read, and that a fault is one clear error."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import tinytensor as tt
from tinytensor import models
from tinytensor.models import Encoder, LanguageModel
from tinytensor.models.huggingface import INDEX, WHOLE, FolderTokenizer
from tinytensor.models.pretrained import PretrainedError
from tinytensor.models.weights import weights_in

CONFIG = {
    "model_type": "llama", "vocab_size": 11, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16, "hidden_act": "silu",
    "bos_token_id": 1, "eos_token_id": [2, 3],
}  # fmt: skip
SHAPES = {
    "model.embed_tokens.weight": (11, 8), "model.norm.weight": (8,), "lm_head.weight": (11, 8),
    "model.layers.0.input_layernorm.weight": (8,), "model.layers.0.post_attention_layernorm.weight": (8,),
    "model.layers.0.self_attn.q_proj.weight": (8, 8), "model.layers.0.self_attn.k_proj.weight": (4, 8),
    "model.layers.0.self_attn.v_proj.weight": (4, 8), "model.layers.0.self_attn.o_proj.weight": (8, 8),
    "model.layers.0.mlp.gate_proj.weight": (12, 8), "model.layers.0.mlp.up_proj.weight": (12, 8),
    "model.layers.0.mlp.down_proj.weight": (8, 12),
}  # fmt: skip
IDS = [[1, 5, 6]]


def weights(**changed):
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in (SHAPES | changed).items()}


def written(folder, arrays=None, **config):
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    save_file(weights() if arrays is None else arrays, folder / WHOLE)
    return folder


def sharded(folder, **places):
    """The same in two files."""
    written(folder)
    (folder / WHOLE).unlink()
    arrays = weights()
    halves = {"a.safetensors": list(arrays)[:5], "b.safetensors": list(arrays)[5:]}
    for file, names in halves.items():
        save_file({name: arrays[name] for name in names}, folder / file)
    places = {name: file for file, names in halves.items() for name in names} | places
    (folder / INDEX).write_text(json.dumps({"weight_map": places}))
    return folder


def test_it_is_the_model_of_the_formula(tmp_path):
    model = LanguageModel.from_pretrained(written(tmp_path))
    arrays = weights()
    layer = "model.layers.0.self_attn"
    parts = [arrays[f"{layer}.{part}_proj.weight"] for part in "qkv"]
    np.testing.assert_array_equal(model.layers[0].self_attn.in_proj.weight.numpy(), np.concatenate(parts))
    np.testing.assert_array_equal(model.projection.weight.numpy(), arrays["lm_head.weight"])
    assert (model.bos_id, model.eos_id, model.pad_id) == (1, [2, 3], None)
    assert not model.training
    assert model.generate(IDS, 4).shape[1] <= 4


def test_from_there_to_ours_and_back(tmp_path):
    model = LanguageModel.from_pretrained(written(tmp_path))
    model.save_pretrained(tmp_path / "ours")
    np.testing.assert_array_equal(LanguageModel.from_pretrained(tmp_path / "ours")(IDS).numpy(), model(IDS).numpy())


def test_several_files_are_one_model(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = (LanguageModel.from_pretrained(make(tmp_path / n)) for make, n in ((written, "one"), (sharded, "two")))
    np.testing.assert_array_equal(one(IDS).numpy(), two(IDS).numpy())


def test_bfloat16_is_the_upper_half_of_float32(tmp_path, monkeypatch):
    values = np.array([[1.0, -2.5], [3.140625, np.inf], [0.0, 1e-30]], dtype=np.float32)
    values = (values.view(np.uint32) >> 16 << 16).view(np.float32)
    halves = (values.view(np.uint32) >> 16).astype("<u2")
    header = json.dumps({"x": {"dtype": "BF16", "shape": [3, 2], "data_offsets": [0, 12]}}).encode()
    (tmp_path / WHOLE).write_bytes(len(header).to_bytes(8, "little") + header + halves.tobytes())
    for at_once in (1, 4, 1 << 20):  # numbers that are converted at a time
        monkeypatch.setattr(models.weights, "AT_ONCE", at_once)
        np.testing.assert_array_equal(weights_in(tmp_path / WHOLE)["x"], values)
        np.testing.assert_array_equal(weights_in(tmp_path / WHOLE)["x"].T, values.T)
        np.testing.assert_array_equal(weights_in(tmp_path / WHOLE)["x"].rows(1), values[1:])


def test_tied_weights(tmp_path):
    arrays = weights()
    del arrays["lm_head.weight"]
    model = LanguageModel.from_pretrained(written(tmp_path, arrays, tie_word_embeddings=True))
    assert model.projection.weight is model.embedding.weight
    with pytest.raises(PretrainedError, match=r"holds no lm_head\.weight"):
        LanguageModel.from_pretrained(written(tmp_path, arrays))


@pytest.mark.parametrize(
    ("config", "generation", "ends"),
    [
        ({"eos_token_id": 2}, None, 2),
        ({"eos_token_id": [2, 3]}, None, [2, 3]),
        ({"eos_token_id": [2, 10**6, -1]}, None, 2),  # no text has the others
        ({"eos_token_id": None}, None, None),
        ({"eos_token_id": []}, None, None),
        ({"eos_token_id": 2}, {"eos_token_id": [3, 4]}, [3, 4]),
        ({"eos_token_id": 2}, {}, None),
    ],
)
def test_the_ids_that_end_a_text(config, generation, ends, tmp_path):
    written(tmp_path, **config)
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    model = LanguageModel.from_pretrained(tmp_path)
    assert model.eos_id == ends
    model.save_pretrained(tmp_path / "ours")
    assert LanguageModel.from_pretrained(tmp_path / "ours").eos_id == ends


def test_generation_stops_at_any_end(tmp_path):
    free = LanguageModel.from_pretrained(written(tmp_path, eos_token_id=None)).generate(IDS, 12)[0].tolist()
    assert len(free) == 12
    stop = next(i for i in free[1:] if i != free[0])
    for ends in ([0, stop], [stop, 0]) if free[0] != 0 else ([stop],):
        said = LanguageModel.from_pretrained(written(tmp_path, eos_token_id=ends)).generate(IDS, 12)[0].tolist()
        assert said == free[: len(said)]
        assert said[-1] in ends
        assert not set(said[:-1]) & set(ends)


@pytest.mark.parametrize(("pad", "found"), [(5, 5), (2, None), (1, None), (-1, None), (11, None), (None, None), (0, 0)])
def test_padding_is_no_id_that_texts_have(pad, found, tmp_path):
    written(tmp_path, pad_token_id=pad, eos_token_id=[3, 2], bos_token_id=1)
    assert LanguageModel.from_pretrained(tmp_path).pad_id == found


# ---- faults


def fails(folder, message, kind=LanguageModel):
    with pytest.raises(PretrainedError, match=message) as caught:
        kind.from_pretrained(folder)
    assert "\n" not in str(caught.value) or "weights do not fit" in str(caught.value)


def test_names(tmp_path):
    arrays = weights()
    del arrays["model.layers.0.mlp.up_proj.weight"]
    fails(written(tmp_path, arrays), r"the weights do not fit the config: [^\0]*layers\.0\.feed_forward\.up\.weight")
    arrays = weights()
    del arrays["model.layers.0.self_attn.k_proj.weight"]
    fails(written(tmp_path, arrays), r"of layers\.0\.self_attn\.in_proj\.weight not all parts are there")
    arrays = weights() | {"model.layers.0.extra.weight": np.zeros(3, np.float32)}
    fails(written(tmp_path, arrays), r"1 weights that such a model does not have: model\.layers\.0\.extra\.weight")
    fails(
        written(tmp_path, weights() | {"norm.weight": np.zeros(8, np.float32)}), r"norm\.weight .*differs from another"
    )
    arrays = weights() | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.zeros(2, np.float32)}  # of old versions
    LanguageModel.from_pretrained(written(tmp_path, arrays))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("model.layers.0.mlp.down_proj.weight", (8, 11)),
        ("model.norm.weight", (9,)),
        ("model.layers.0.self_attn.v_proj.weight", (5, 8)),
        ("model.layers.0.self_attn.v_proj.weight", (4, 7)),
        ("model.embed_tokens.weight", (12, 8)),
        ("model.embed_tokens.weight", ()),
        ("model.layers.0.self_attn.q_proj.weight", ()),
        ("model.layers.0.self_attn.o_proj.weight", (8,)),
    ],
)
def test_shapes(name, shape, tmp_path):
    fails(written(tmp_path, weights(**{name: shape})), r"fit|sizes|the weights are (not )?those")


def test_sizes_in_the_config_are_not_believed(tmp_path):
    """A config that asks for more than there is costs no memory: it is refused before a model is made."""
    fails(written(tmp_path, num_hidden_layers=10**9), "num_layers 1000000000, but the weights are those of")
    fails(written(tmp_path, vocab_size=10**12), "vocabulary 1000000000000, but")


def test_files(tmp_path):
    content = (written(tmp_path) / WHOLE).read_bytes()
    for broken in (content[:-1], content[: len(content) // 2], content[:4], b"", content + b"x"):
        (tmp_path / WHOLE).write_bytes(broken)
        fails(tmp_path, rf"{WHOLE}: no whole safetensors file")
    (tmp_path / WHOLE).unlink()
    fails(tmp_path, rf"{WHOLE}: No such file")


def test_an_index(tmp_path):
    sharded(tmp_path)
    content = (tmp_path / "b.safetensors").read_bytes()
    (tmp_path / "b.safetensors").write_bytes(content[:-5])
    fails(tmp_path, r"b\.safetensors: no whole safetensors file")
    (tmp_path / "b.safetensors").unlink()
    fails(tmp_path, r"b\.safetensors: No such file or directory; copy or download it again")
    fails(sharded(tmp_path, **{"model.other.weight": "a.safetensors"}), "no file holds the weights that .*model.other")
    LanguageModel.from_pretrained(sharded(tmp_path, **{"model.norm.weight": "b.safetensors"}))  # it is in the other
    for outside in ("../a.safetensors", "/etc/passwd", "sub/a.safetensors", "a.bin", ".."):
        fails(sharded(tmp_path, **{"model.norm.weight": outside}), "is no safetensors file of this folder")
    for damaged in ("", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}'):
        sharded(tmp_path)
        (tmp_path / INDEX).write_text(damaged)
        fails(tmp_path, r"not JSON|holds \[\]; expected|no index of weights|is no safetensors file")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "t5"}, "a model of type 't5': of encoder-decoders, those of Marian are read; expected bert, "),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'; expected 'silu'"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "of type 'yarn'; expected 'default', 'linear', 'llama3'"),
        ({"rope_scaling": {"type": "linear"}}, "rotary positions of type 'linear' lack factor"),
        ({"num_attention_heads": 3}, "num_heads must divide d_model, or head_dim be given; got d_model 8, num_heads 3"),
        ({"num_attention_heads": 10**12}, "num_heads must divide d_model, or head_dim be given"),
        ({"head_dim": 10**12}, r"num_heads \* head_dim 2000000000000, but the weights are those of a .* with 8"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0; expected a whole number above 0"),
        ({"hidden_size": "8"}, "hidden_size is '8'; expected a whole number above 0"),
        ({"hidden_size": None}, "hidden_size is None; expected a whole number above 0"),
        ({"max_position_embeddings": 1.5}, "max_position_embeddings is 1.5; expected a whole number above 0"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps is 'small'; expected a number of at least 0"),
        ({"rope_theta": -1}, "rope_theta is -1; expected a number of at least 0"),
        ({"rope_parameters": [1]}, r"rotary positions of \[1\]; expected an object"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor is 0.5; expected 1.0"),
        ({"pad_token_id": "none"}, "pad_token_id is 'none'; expected an id"),
        ({"attention_bias": "yes"}, "attention_bias is 'yes'; expected False or True"),
        ({"tie_word_embeddings": True}, "holds a lm_head.weight that is not the embedding, though"),
        ({"model_type": ["llama"]}, r"a model of type \['llama'\]; expected bert"),
        ({"model_type": "mistral", "sliding_window": 0}, "sliding_window is 0; expected a whole number above 0"),
    ],
)
def test_configs(config, message, tmp_path):
    fails(written(tmp_path, **config), message)


JUNK = [None, "x", -1, 0, 3, 1.5, [], {}, {"a": 1}, True, False, 10**13, [1, 2], float("nan")]


@pytest.mark.parametrize("entry", [*CONFIG, "head_dim", "rms_norm_eps", "rope_scaling", "sliding_window"])
def test_any_config_is_a_model_or_one_error(entry, tmp_path):
    for value in JUNK:
        written(tmp_path, **{entry: value})
        try:
            model = LanguageModel.from_pretrained(tmp_path)
        except PretrainedError as error:
            assert str(tmp_path) in str(error)  # noqa: PT017
        else:
            assert model(IDS).shape == (1, 3, 11)


def test_only_mistral_has_a_window(tmp_path):
    kinds = {"llama": (3, None), "mistral": (3, 3)}
    for kind, (told, window) in kinds.items():
        assert LanguageModel.from_pretrained(written(tmp_path, model_type=kind, sliding_window=told)).window == window
    assert LanguageModel.from_pretrained(written(tmp_path, model_type="mistral")).window == 4096


def test_an_entry_that_is_missing(tmp_path):
    written(tmp_path)
    config = dict(CONFIG)
    del config["hidden_size"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    fails(tmp_path, "'hidden_size' is missing")


def test_weights_of_pytorch(tmp_path):
    written(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    LanguageModel.from_pretrained(tmp_path)
    (tmp_path / WHOLE).unlink()
    fails(
        tmp_path,
        rf"{WHOLE}: No such file .*; the folder has pytorch_model.bin .*a pickle can run code.*: load it where",
    )
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "model-00001-of-00002.safetensors")
    fails(tmp_path, rf"{WHOLE}: No such file .*; the folder has model-00001-of-00002.safetensors .*: load it where")


def test_what_is_no_folder(tmp_path):
    fails(tmp_path / "gpt2", r"there is no folder '.*gpt2', and nothing is fetched: download it first")
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    fails(tmp_path / "m.gguf", r"models\.load reads a file of GGUF")


def test_an_index_that_names_a_tied_head(tmp_path):
    sharded(tmp_path)
    arrays = weights()
    names = [name for name in arrays if name != "lm_head.weight"]
    save_file({name: arrays[name] for name in names}, tmp_path / "a.safetensors")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(arrays, "a.safetensors")}))
    fails(tmp_path, r"holds no lm_head\.weight, which")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"tie_word_embeddings": True}))
    LanguageModel.from_pretrained(tmp_path)
    save_file(arrays | {"lm_head.weight": arrays["model.embed_tokens.weight"]}, tmp_path / WHOLE)
    LanguageModel.from_pretrained(tmp_path)  # by the whole file, whatever the index says


def test_a_weight_that_is_not_a_number(tmp_path):
    arrays = weights()
    arrays["model.norm.weight"][0] = np.nan
    fails(written(tmp_path, arrays), r"model\.norm\.weight holds NaN, so every result would be NaN; download it again")


def test_another_class(tmp_path):
    fails(written(tmp_path), "holds a LanguageModel, expected Encoder", Encoder)


# ---- text


def test_wordpiece(tmp_path):
    pytest.importorskip("tokenizers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "##s", "sat", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer = FolderTokenizer.load(tmp_path)
    assert tokenizer("A cat sat.", "cats").tolist() == [[2, 5, 6, 8, 9, 3], [2, 6, 7, 3, 0, 0]]
    assert tokenizer.encode("cats") == [6, 7]
    assert tokenizer.pieces([6, 7]) == ["cat", "##s"]
    assert len(tokenizer) == 10


def test_words_as_they_are_written(tmp_path):
    pytest.importorskip("tokenizers")
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "Cat"]))
    assert FolderTokenizer.load(tmp_path).encode("Cat cat") == [5, 5]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert FolderTokenizer.load(tmp_path).encode("Cat cat") == [6, 5]
    (tmp_path / "tokenizer_config.json").write_text("[")
    with pytest.raises(PretrainedError, match=r"tokenizer_config\.json: not JSON"):
        FolderTokenizer.load(tmp_path)


def test_a_folder_that_cuts_texts_and_fills_them(tmp_path):
    """As sentence encoders have it, whose tokenizer.json says how long their texts were in training."""
    tokenizers = pytest.importorskip("tokenizers")
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat"]))
    made = tokenizers.BertWordPieceTokenizer(str(tmp_path / "vocab.txt"))
    made.enable_truncation(4)
    made.enable_padding(length=8)
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = FolderTokenizer.load(tmp_path)
    assert tokenizer("cat " * 5, "cat").tolist() == [[2, 5, 5, 5, 5, 5, 3], [2, 5, 3, 0, 0, 0, 0]]
    assert tokenizer.encode("cat") == [5]


def test_byte_pairs(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(["the cat sat on the mat"] * 9, vocab_size=280, show_progress=False)
    made.save_model(str(tmp_path))
    made.save(str(tmp_path / "whole.json"))
    tokenizer = FolderTokenizer.load(tmp_path)
    ids = tokenizer.encode("the cat, naïve")
    assert tokenizer.decode(ids) == "the cat, naïve"
    assert ids == made.encode("the cat, naïve").ids
    (tmp_path / "whole.json").rename(tmp_path / "tokenizer.json")
    assert FolderTokenizer.load(tmp_path).encode("the cat, naïve") == ids


def test_no_tokenizer(tmp_path):
    pytest.importorskip("tokenizers")
    with pytest.raises(PretrainedError, match="expected tokenizer.json, vocab.txt"):
        FolderTokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(PretrainedError, match="no tokenizer that can be read"):
        FolderTokenizer.load(tmp_path)


def test_float64_stays(tmp_path):
    arrays = {name: array.astype(np.float64) for name, array in weights().items()}
    assert LanguageModel.from_pretrained(written(tmp_path, arrays)).embedding.weight.dtype == tt.float64
