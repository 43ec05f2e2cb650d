"""GGUF files, written here by the package `gguf`: the model that they hold, or one error that names the file."""

import importlib.metadata
import io
import itertools
import json

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import models
from tinytensor.models import LanguageModel
from tinytensor.models.language_model import LLAMA
from tinytensor.models.pretrained import PretrainedError
from tinytensor.nn import functional as F

from .test_folder_tokenizer import END, pairs

gguf = pytest.importorskip("gguf")
tokenizers = pytest.importorskip("tokenizers")

HEADS, SHARED, SIZE, INNER, LENGTH = 6, 3, 96, 64, 80
IDS = [[1, 5, 6, 7, 9, 4, 3]]
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
)
PARTS = {
    "norm1": "attn_norm", "norm2": "ffn_norm", "self_attn.out_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "feed_forward.gate": "ffn_gate", "feed_forward.up": "ffn_up",
    "feed_forward.down": "ffn_down",
}  # fmt: skip


def made(kind, count, **options):
    more = {"llama": {}, "qwen2": {"attention_bias": True}, "qwen3": {"qk_norm": True}}[kind]
    tt.manual_seed(0)
    model = LanguageModel(
        count, d_model=SIZE, num_heads=HEADS, num_kv_heads=SHARED, num_layers=2, d_ff=INNER, max_length=LENGTH,
        pad_id=None, **LLAMA | more | options,
    )  # fmt: skip
    with tt.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("out_proj.bias"):  # which no such file has
                parameter.copy_(tt.random.normal(parameter.shape) * 0.3)
    return model.eval()


def turned(w, heads):
    """Queries or keys as files of Llama have them: the halves of a head that turn together, interleaved."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def tensors(model, kind):
    found = {}
    for name, parameter in model.named_parameters():
        w = parameter.numpy()
        *path, last = name.split(".")
        if path[0] != "layers":
            stem = {"embedding": "token_embd", "norm": "output_norm", "projection": "output"}[path[0]]
            found[f"{stem}.{last}"] = w
        elif path[2:] == ["self_attn", "in_proj"]:
            sizes = np.cumsum([HEADS, SHARED]) * (SIZE // HEADS)
            for letter, part, heads in zip("qkv", np.split(w, sizes), (HEADS, SHARED, None)):
                found[f"blk.{path[1]}.attn_{letter}.{last}"] = (
                    turned(part, heads) if kind == "llama" and heads else part
                )
        elif not name.endswith("out_proj.bias"):
            found[f"blk.{path[1]}.{PARTS['.'.join(path[2:])]}.{last}"] = w
    return found


def written(
    path,
    kind="llama",
    *,
    said=None,
    quantise=None,
    pre="gpt-2",
    words=None,
    kinds=None,
    scores=None,
    more=None,
    **options,
):
    """A file of a random model, and the model."""
    count = pairs(path.parent)
    vocabulary = json.loads((path.parent / "vocab.json").read_text())
    own = sorted(vocabulary, key=vocabulary.get)
    assert len(own) == count
    merges = [line for line in (path.parent / "merges.txt").read_text().split("\n") if line and line[0] != "#"]
    begin, end = (vocabulary[END],) * 2 if words is None else (1, 2)
    words = own if words is None else words
    count = len(words)
    model = made(kind, count, **options)
    writer = gguf.GGUFWriter(path, kind)
    entries = {"block_count": 2, "embedding_length": SIZE, "feed_forward_length": INNER, "context_length": LENGTH,
               "attention.head_count": HEADS, "attention.head_count_kv": SHARED}  # fmt: skip
    if kind == "qwen3":
        entries["attention.key_length"] = SIZE // HEADS
    for name, value in entries.items():
        writer.add_uint32(f"{kind}.{name}", value)
    writer.add_float32(f"{kind}.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32(f"{kind}.rope.freq_base", 10000.0)
    writer.add_tokenizer_model("gpt2" if scores is None else "llama")
    writer.add_tokenizer_pre(pre if scores is None else "default")
    writer.add_token_list(words)
    if scores is None:
        writer.add_token_merges(merges)
    else:
        writer.add_token_scores(scores)
    writer.add_token_types([3 if word == END else (kinds or {}).get(word, 1) for word in words])
    writer.add_bos_token_id(begin)
    writer.add_eos_token_id(end)
    writer.add_chat_template(TEMPLATE)
    for name, (add, value) in (said or {}).items():
        getattr(writer, f"add_{add}")(name, value)
    for name, w in (tensors(model, kind) | (more or {})).items():
        if quantise is not None and w.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(w, quantise), raw_dtype=quantise)
        else:
            writer.add_tensor(name, w)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_the_same_model(kind, tied, tmp_path):
    path = tmp_path / "model.gguf"
    model, found = written(path, kind, tie_weights=tied), models.load(path)
    np.testing.assert_allclose(found(IDS).numpy(), model(IDS).numpy(), rtol=1e-5, atol=1e-5)
    for (name, theirs), (other, ours) in zip(found.named_parameters(), model.named_parameters(), strict=True):
        assert name == other
        np.testing.assert_array_equal(theirs.numpy(), ours.numpy())
    assert not found.training
    assert (found.config["tie_weights"], found.max_length) == (tied, LENGTH)


@pytest.mark.parametrize("quantise", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_weights_of_a_few_bits(quantise, tmp_path, monkeypatch):
    monkeypatch.setattr(models.weights, "AT_ONCE", 1000)  # rows at a time, the last time fewer
    kind = gguf.GGMLQuantizationType[quantise]
    path = tmp_path / "model"
    model, found = written(path, quantise=kind), models.load(path)
    for name in ("embedding", "layers.1.feed_forward.down", "layers.0.self_attn.in_proj"):
        w = model.get_submodule(name).weight.numpy()
        rounded = gguf.quants.dequantize(gguf.quants.quantize(w, kind), kind)
        np.testing.assert_array_equal(found.get_submodule(name).weight.numpy(), rounded)


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K", "Q2_K", "Q3_K", "Q5_K"])
def test_blocks_of_256(kind, tmp_path):
    """A kind that the package cannot write: a file of random blocks, read row by row and as a whole."""
    kind = gguf.GGMLQuantizationType[kind]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = np.random.default_rng(0).integers(0, 60, (5, 2 * size), dtype=np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_tensor("token_embd.weight", blocks, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tensor,) = gguf.GGUFReader(tmp_path / "x.gguf").tensors
    weight = models.gguf_file._weight(tmp_path / "x.gguf", gguf, tensor)
    assert weight.shape == (5, 512)
    np.testing.assert_array_equal(np.asarray(weight), gguf.quants.dequantize(blocks, kind))


def test_the_tokenizer_and_a_conversation(tmp_path):
    path = tmp_path / "model.gguf"
    written(path, kinds={"Ġthe": 4})
    tokenizer = models.load(path).tokenizer
    folder = models.folder_tokenizer.FolderTokenizer.load(tmp_path)  # the same vocabulary in a folder
    for text in ("the small river is cold", "größer, than 123 rivers", f"a{END}b", ""):
        assert tokenizer.encode(text) == folder.encode(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text.replace(END, "")
    assert (tokenizer.pad_id, tokenizer.special["eos_token"]) == (-1, folder.special["eos_token"])
    said = [{"role": "system", "content": "cold"}, {"role": "user", "content": "the river"}]
    assert tokenizer.chat(said) == tokenizer.encode("<system>cold<user>the river>")
    assert tokenizer.chat("the river", answer=False) == tokenizer.encode("<user>the river")
    with pytest.raises(ValueError, match="the model's template does not take these messages"):
        tokenizer.chat(3)


@pytest.mark.parametrize(
    ("pre", "text", "pieces"),
    [
        ("gpt-2", "in 123", ["in", "Ġ123"]),
        ("smollm", "in 123", ["in", "Ġ", "1", "2", "3"]),
        ("llama-bpe", "in 12345", ["in", "Ġ", "123", "45"]),
        ("qwen2", "in 123", ["in", "Ġ", "1", "2", "3"]),
    ],
)
def test_how_a_text_is_cut(pre, text, pieces, tmp_path):
    """Before any pair is joined: numbers whole, of three digits, or of one."""
    path = tmp_path / "model.gguf"
    written(path, pre=pre)
    cut = models.load(path).tokenizer.tokenizer.pre_tokenizer.pre_tokenize_str(text)
    assert [piece for piece, _ in cut] == pieces


@pytest.mark.parametrize(
    ("kind", "said", "message"),
    [
        ("gemma2", {}, "a model of architecture 'gemma2'; expected llama, qwen2, qwen3"),
        ("llama", {"llama.expert_count": ("uint32", 8)}, "expert_count is 8; expected 0"),
        (
            "llama",
            {"llama.attention.sliding_window": ("uint32", 4)},
            "attention.sliding_window is 4; expected 0",
        ),
        ("llama", {"llama.attention.causal": ("bool", False)}, "attention.causal is False; expected True"),
        ("llama", {"llama.logit_scale": ("float32", 0.5)}, "logit_scale is 0.5; expected 0"),
        ("llama", {"llama.rope.scale_linear": ("float32", 4.0)}, "rope.scale_linear is 4.0; expected 1"),
        (
            "llama",
            {"llama.residual_scale": ("float32", 2.0)},
            "llama.residual_scale is 2.0, an entry that is not known",
        ),
        ("llama", {"tokenizer.ggml.add_eos_token": ("bool", True)}, "add_eos_token is True; expected False"),
        ("llama", {"split.no": ("uint16", 1), "split.count": ("uint16", 3)}, "part 2 of a file in 3 parts; merge them"),
        ("llama", {"llama.rope.dimension_count": ("uint32", 8)}, "rope.dimension_count is 8; expected 16"),
        ("llama", {"llama.rope.scaling.type": ("string", "yarn")}, "rope.scaling.type is 'yarn'; expected 'none' or"),
    ],
)
def test_what_is_refused(kind, said, message, tmp_path):
    path = tmp_path / "model.gguf"
    if kind == "llama":
        written(path, said=said)
    else:
        writer = gguf.GGUFWriter(path, kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    with pytest.raises(PretrainedError, match=message) as caught:
        models.load(path)
    assert str(path) in str(caught.value)


def test_a_file_of_a_big_endian_machine_is_refused(tmp_path):
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama", endianess=gguf.GGUFEndian.BIG)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(PretrainedError, match="a GGUF file for big-endian machines; expected a little-endian one"):
        models.load(path)


def number(value, width=8):
    return value.to_bytes(width, "little")


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (b"", "it ends within its header"),
        (number(0) + number(2**60), "with 0 weights and 1,152,921,504,606,846,976 entries"),
        (number(0) + number(1) + number(2**40) + b"name", "1,099,511,627,776 values of kind 0"),
        (number(0) + number(1) + number(1) + b"a" + number(9, 4) + number(4, 4) + number(2**62), "values of kind 4"),
        (number(0) + number(1) + number(1) + b"a" + number(9, 4) + number(8, 4) + number(2**62), "values of kind 8"),
        (number(0) + number(1) + number(1) + b"a" + number(99, 4), "1 values of kind 99"),
        (number(0) + number(3) + number(1) + b"a" + number(4, 4) + number(7, 4), "1 values of kind 8"),
    ],
)
def test_no_size_is_trusted(rest, message, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + number(3, 4) + rest)
    with pytest.raises(PretrainedError, match=message):
        models.load(path)


def test_an_end_of_turn_ends_texts(tmp_path):
    path = tmp_path / "model.gguf"
    written(path, said={"tokenizer.ggml.eot_token_id": ("uint32", 5)})
    assert 5 in models.gguf_file.read_file(path)[0]["eos_token_id"]


def test_slower_angles(tmp_path):
    path = tmp_path / "model.gguf"
    said = {"llama.rope.scaling.type": ("string", "linear"), "llama.rope.scaling.factor": ("float32", 4.0)}
    model = written(path, said=said, rotary_stretch=(4.0,))
    np.testing.assert_allclose(models.load(path)(IDS).numpy(), model(IDS).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_the_angles_of_llama_3(factor, tmp_path):
    """A file holds by how much each angle is slower."""
    stretch = (factor, 8192, 1.0, 4.0)
    angles = 10000.0 ** (-np.arange(SIZE // HEADS // 2) / (SIZE // HEADS // 2))
    slower = (angles / F.RotaryStretch(*stretch).slowed(angles)).astype(np.float32)
    path = tmp_path / "model.gguf"
    model = written(path, rotary_stretch=stretch, more={"rope_freqs.weight": slower})
    assert models.load(path).config["rotary_stretch"] == stretch
    np.testing.assert_allclose(models.load(path)(IDS).numpy(), model(IDS).numpy(), rtol=1e-5, atol=1e-5)
    written(path, more={"rope_freqs.weight": slower * 1.5})
    with pytest.raises(PretrainedError, match="rope_freqs.weight is not as in Llama 3.1 or 3.2"):
        models.load(path)


@pytest.mark.parametrize("prefix", [True, False])
def test_pieces_by_their_scores(prefix, tmp_path):
    """Those of Llama 1 and 2, TinyLlama and Mistral: sentencepiece itself is the judge."""
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    texts = ["the small river is cold", "größe und café", "a river, and 123 more rivers"] * 9
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, model_type="bpe", vocab_size=330, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix, minloglevel=2,
    )  # fmt: skip
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    count = theirs.vocab_size()
    words = [theirs.id_to_piece(i) for i in range(count)]
    kinds = [2 if theirs.is_unknown(i) else 3 if theirs.is_control(i) else 6 if theirs.is_byte(i) else 1
             for i in range(count)]  # fmt: skip
    path = tmp_path / "model.gguf"
    written(path, words=words, kinds=dict(zip(words, kinds)), scores=[theirs.get_score(i) for i in range(count)],
            said={"tokenizer.ggml.add_space_prefix": ("bool", prefix)})  # fmt: skip
    tokenizer = models.load(path).tokenizer
    for text in [*texts[:3], "größer", "x  y", "河 is water", "Unseen Words!", "a\nb"]:
        assert tokenizer.encode(text) == theirs.encode(text)
        assert tokenizer.decode(tokenizer.encode(text)) == theirs.decode(theirs.encode(text))
    assert tokenizer("the").tolist() == [[theirs.bos_id(), *theirs.encode("the")]]


def test_a_tokenizer_of_another_kind(tmp_path):
    path = tmp_path / "model.gguf"
    written(path, pre="viking")
    with pytest.raises(
        PretrainedError, match="a tokenizer of kind gpt2, viking; expected llama, or gpt2 with gpt-2, smollm"
    ):
        models.load(path)


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_file_is_one_error_or_a_model(tmp_path):
    path = tmp_path / "model.gguf"
    written(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for size in (0, 2, 4, 8, 24, 100, 1000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(PretrainedError, match=path.name):
            models.load(path)
    for place in itertools.chain(range(4, 60, 3), rng.integers(60, 4000, 40).tolist()):
        path.write_bytes(whole[:place] + bytes([rng.integers(256)]) + whole[place + 1 :])
        try:
            models.load(path)(IDS)
        except PretrainedError as error:
            assert path.name in str(error)  # noqa: PT017


# ---- a real one


def smollm2():
    from tinytensor.models.scripts.real_models import SMOLLM2

    try:
        return importlib.metadata.distribution(SMOLLM2[0]).locate_file(SMOLLM2[2])
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"the package {SMOLLM2[0]} is not installed")


def test_smollm2_knows_the_capital_of_france():
    model = models.load(smollm2())
    ids = model.tokenizer.chat("What is the capital of France?")
    assert model.tokenizer.decode(model.generate([ids], 20)[0].tolist()) == "The capital of France is Paris."
