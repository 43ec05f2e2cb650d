"""Folders that `transformers` writes, with random weights: the same states, logits, generated ids and vectors."""

import json
import os

import pytest

from tests.models.test_folder_tokenizer import pairs
from tinytensor import models
from tinytensor.models import Encoder, LanguageModel, Translator
from tinytensor.models.data.tokenizer import Tokenizer
from tinytensor.models.huggingface import FolderTokenizer
from tinytensor.models.pretrained import PretrainedError

from .huggingface import (
    ENCODERS,
    FAMILIES,
    IDS,
    LANGUAGE_MODELS,
    apart,
    bert,
    gpt2,
    in_the_dtype_of_the_model,
    llama,
    made,
    marian,
    of_encoder,
    of_language_model,
    of_marian,
    same_ids,
)

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")
transformers = pytest.importorskip("transformers")

OF_TODAY = {"mistral of today": lambda: llama("Mistral", num_attention_heads=16, num_key_value_heads=8)}
TOLERANCES = {"float32": 1e-5, "float64": 1e-12}


@pytest.fixture(autouse=True)
def in_one_dtype():
    with in_the_dtype_of_the_model():
        yield


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_language_models(name, dtype, tmp_path):
    differences, same = of_language_model(LANGUAGE_MODELS[name], dtype, tmp_path)
    assert max(differences.values()) < TOLERANCES[dtype]
    assert ("logits" in differences) == (name != "gpt2, alone")
    assert same == [True] * (3 if "logits" in differences else 0)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertModel", "BertForPreTraining"])
def test_bert(kind, dtype, tmp_path):
    differences, ours = of_encoder(lambda: bert(kind), dtype, tmp_path)
    assert max(differences.values()) < TOLERANCES[dtype]
    assert (ours.head is None, ours.pooler is None) == (kind == "BertModel", kind == "BertForMaskedLM")
    expected = {"logits": ours.head, "pooled, pooler": ours.pooler}
    assert {name: name in differences for name in expected} == {n: part is not None for n, part in expected.items()}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", ENCODERS)
def test_encoders(name, dtype, tmp_path):
    differences, ours = of_encoder(ENCODERS[name], dtype, tmp_path)
    assert max(differences.values()) < TOLERANCES[dtype]
    assert ("logits" in differences) == (ours.head is not None) == ("MaskedLM" in type(ENCODERS[name]()).__name__)
    assert ("pooled, pooler" in differences) == (ours.pooler is not None)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("options", [{}, {"decoder_layers": 2, "activation_function": "relu"}], ids=["swish", "relu"])
def test_marian(options, dtype, tmp_path):
    difference, same = of_marian(lambda: marian(**options), dtype, tmp_path)
    assert difference < TOLERANCES[dtype]
    assert same == [True] * 6
    models.load(tmp_path).save_pretrained(tmp_path / "ours")
    assert models.load(tmp_path / "ours").config == models.load(tmp_path).config


@pytest.mark.parametrize("name", ["scale_embedding", "share_encoder_decoder_embeddings"])
def test_a_marian_that_is_another_model_is_refused(name, tmp_path):
    made(marian, "float32", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {name: False}))
    with pytest.raises(PretrainedError, match=f"{name} is False; expected True"):
        models.load(tmp_path)


@pytest.mark.parametrize("name", FAMILIES)
def test_written_as_the_family_that_it_came_from(name, tmp_path):
    theirs = made(FAMILIES[name], "float32", tmp_path / "there")
    ours = models.load(tmp_path / "there")
    ours.save_pretrained(tmp_path / "back", format="huggingface")
    again, report = type(theirs).from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not any(report.values())
    own, back = theirs.state_dict(), again.state_dict()
    assert own.keys() == back.keys()
    unused = {"roberta": 2, "xlm-roberta": 2, "camembert": 2}.get(theirs.config.model_type, 0)
    for key, value in own.items():
        rows = unused if key.endswith("position_embeddings.weight") else 0
        torch.testing.assert_close(back[key][rows:], value[rows:], rtol=0, atol=0)
    first = type(theirs).from_pretrained(tmp_path / "there")
    assert again.config.to_dict() | {"_name_or_path": ""} == first.config.to_dict() | {"_name_or_path": ""}


def test_what_no_family_can_hold(tmp_path):
    made(lambda: llama("Qwen2", num_key_value_heads=2), "float32", tmp_path)
    ours = models.load(tmp_path)
    ours.layers[1].self_attn.out_proj.bias.data[:] = 1
    with pytest.raises(ValueError, match=r"a qwen2 has no place for layers\.1\.self_attn\.out_proj\.bias"):
        ours.save_pretrained(tmp_path / "back", format="huggingface")
    assert not (tmp_path / "back").exists()
    with pytest.raises(ValueError, match="was not read from a folder of Hugging Face"):
        LanguageModel(9, d_model=8, num_heads=2, num_layers=1).save_pretrained(tmp_path / "x", format="huggingface")
    with pytest.raises(ValueError, match="unknown format 'pt'; expected 'tinytensor' or 'huggingface'"):
        ours.save_pretrained(tmp_path / "x", format="pt")


SENTENCES = [
    "the small river is cold",
    "a river, größer than ours!",
    ">>fra<< the cold",
    "xyz",
    "",
    "the  small\triver",
]


def test_a_marian_without_its_tokenizer_translates_no_lines(tmp_path):
    made(marian, "float32", tmp_path)
    with pytest.raises(PretrainedError, match=r"without its tokenizer; add vocab\.json, source\.spm, target\.spm"):
        Translator.from_pretrained(tmp_path)


def test_pieces_of_marian(tmp_path):
    pytest.importorskip("sentencepiece")
    codecs = [Tokenizer.train(SENTENCES * 5, size) for size in (40, 44)]
    for codec, name in zip(codecs, ("source", "target")):
        codec.save(tmp_path / f"{name}.spm")
    words = {codec.pieces([i])[0] for codec in codecs for i in range(4, len(codec))}
    pieces = ["</s>", "<unk>", *sorted(words), ">>fra<<", "<pad>"]
    (tmp_path / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    ends = {"pad_token_id": len(pieces) - 1, "decoder_start_token_id": len(pieces) - 1}
    made(lambda: marian(vocab_size=len(pieces), **ends), "float32", tmp_path)
    ours, theirs = models.load(tmp_path).tokenizer, transformers.MarianTokenizer.from_pretrained(tmp_path)
    for text in SENTENCES:
        assert ours(text).tolist() == [theirs.encode(text)]
        assert ours.decode(ours.encode(text)) == theirs.decode(ours.encode(text), skip_special_tokens=True)
    translator = Translator.from_pretrained(tmp_path)
    (found,) = translator.translate(SENTENCES[:1], num_beams=2)
    models.load(tmp_path).save_pretrained(tmp_path / "back", format="huggingface")
    assert transformers.MarianTokenizer.from_pretrained(tmp_path / "back").get_vocab() == theirs.get_vocab()
    translator.save_pretrained(tmp_path / "ours")
    assert Translator.from_pretrained(tmp_path / "ours").translate(SENTENCES[:1], num_beams=2) == [found]
    assert models.load(tmp_path / "ours").tokenizer.encode(SENTENCES[1]) == ours.encode(SENTENCES[1])


def test_a_bert_that_is_another_model_is_refused(tmp_path):
    """A decoder sees what stands before a word alone; and a head may have a matrix of its own."""
    for options, message in (
        ({"is_decoder": True}, "is_decoder is True; expected False"),
        ({"tie_word_embeddings": False}, "differs from another weight that stands for the same"),
    ):
        made(lambda options=options: bert("BertForMaskedLM", **options), "float32", tmp_path)
        with pytest.raises(PretrainedError, match=message):
            Encoder.from_pretrained(tmp_path)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("make", [llama, gpt2, bert])
def test_weights_of_16_bits_become_float32(make, dtype, tmp_path):
    theirs = type(made(make, dtype, tmp_path)).from_pretrained(tmp_path, dtype=torch.float32)
    ours = (Encoder if make is bert else LanguageModel).from_pretrained(tmp_path)
    with torch.no_grad():
        found = theirs(torch.tensor(IDS))
    assert apart(ours(IDS), found.prediction_logits if make is bert else found.logits) < 1e-5


def test_weights_in_several_files(tmp_path):
    torch.manual_seed(0)
    theirs = llama().eval()
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    with torch.no_grad():
        assert apart(LanguageModel.from_pretrained(tmp_path)(IDS), theirs(torch.tensor(IDS)).logits) < 1e-5


def test_beam_search_and_a_whole_small_model(tmp_path):
    """Sizes as they are, of a model that is told what to say by its scores alone."""
    theirs = made(lambda: llama(hidden_size=128, intermediate_size=344, num_hidden_layers=4), "float64", tmp_path)
    ours = LanguageModel.from_pretrained(tmp_path)
    assert same_ids(ours, theirs, beam=4) == [True] * 3


@pytest.mark.parametrize("ends", [[5, 6, 2], [2, 5, 6], 7, None])
@pytest.mark.parametrize("pad", [None, 0, 2])
def test_texts_end_where_theirs_do(ends, pad, tmp_path):
    theirs = made(lambda: llama(eos_token_id=ends, pad_token_id=pad), "float32", tmp_path)
    ours = LanguageModel.from_pretrained(tmp_path)
    own = set(ends if isinstance(ends, list) else [ends])
    for row in IDS:
        with torch.no_grad():
            ids = torch.tensor(row[None])
            said = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False)
        assert ours.generate(row[None], 20).tolist()[0] == said[0, len(row) :].tolist()
    assert own >= set(ours.eos_id if isinstance(ours.eos_id, list) else [ours.eos_id])


TEXT = "the small river<|endoftext|> is <x> cold <y><|endoftext|> größe"
NAMED = {
    "nothing": {},
    "padding": {"tokenizer_config": {"pad_token": "<x>"}},
    "a map": {"special_tokens_map": {"pad_token": "<x>", "eos_token": {"content": "<|endoftext|>", "lstrip": False}}},
    "more": {"special_tokens_map": {"additional_special_tokens": ["<x>", "<y>"]}},
    "a table": {"tokenizer_config": {"added_tokens_decoder": {"@0": {"content": "<x>", "special": True}}}},
    "added": {"added_tokens": {"<x>": "@0", "<y>": "@1"}, "special_tokens_map": {"pad_token": "<y>"}},
    "around": {"tokenizer_config": {"add_bos_token": True, "bos_token": "<x>"}},
}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("whole", [False, True])
def test_ids_of_texts(whole, name, tmp_path):
    count = pairs(tmp_path)
    for file, entries in NAMED[name].items():
        text = json.dumps(entries)
        for place in range(2):
            text = text.replace(f': "@{place}"', f": {count + place}").replace(f"@{place}", str(count + place))
        (tmp_path / f"{file}.json").write_text(text)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    if whole:
        pairs(tmp_path, whole=True)
        (tmp_path / "vocab.json").unlink()
        (tmp_path / "merges.txt").unlink()
    ours, theirs = FolderTokenizer.load(tmp_path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert ours.encode(TEXT) == theirs.encode(TEXT, add_special_tokens=False)
    assert ours(TEXT).tolist() == [theirs.encode(TEXT)]
    assert len(ours) == len(theirs)
    assert ours.pad_id == (-1 if theirs.pad_token_id is None else theirs.pad_token_id)
    assert ours.special.get("eos_token") == theirs.eos_token_id
    (tmp_path / "back").mkdir()
    ours.save(tmp_path / "back")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert (again.encode(TEXT), again.pad_token_id) == (theirs.encode(TEXT), theirs.pad_token_id)
    assert ours.decode(ours.encode(TEXT)).split() == theirs.decode(ours.encode(TEXT), skip_special_tokens=True).split()


# ---- conversations

TEMPLATES = {
    "chat": "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] | trim }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "blocks": """
{%- if messages[0]['role'] == 'system' %}
    {{- 'be ' + messages[0]['content'] }}
    {%- set messages = messages[1:] %}
{%- endif %}
{% for m in messages if m.role != 'tool' %}
    {% if loop.index0 > 1 %}{% break %}{% endif %}
    {{ m | tojson }}
{% endfor %}
""",
    "strict": "{% if messages[0].role != 'user' %}{{ raise_exception('the user begins') }}{% endif %}{{ bos_token }}",
    "spaces": "{{ strftime_now('%Y') }} {{ messages | length }}{# a word #}\n\n {%- for m in messages %} ö{% endfor %}",
}
CONVERSATIONS = [
    [{"role": "user", "content": " the small river <x> "}],
    [{"role": "system", "content": "cold"}, {"role": "user", "content": "größe \"und\" 'café' <b>"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c\nd"}],
]


@pytest.mark.parametrize("where", ["file", "config", "named"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_conversations(name, where, tmp_path):
    pytest.importorskip("jinja2")
    pairs(tmp_path, whole=True)
    template = TEMPLATES[name]
    said = {"bos_token": "<x>", "eos_token": "<|endoftext|>"}
    if where == "file":
        (tmp_path / "chat_template.jinja").write_text(template)
    else:
        named = [{"name": "default", "template": template}, {"name": "tool_use", "template": "no"}]
        said["chat_template"] = template if where == "config" else named
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(said))
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    ours, theirs = FolderTokenizer.load(tmp_path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    for messages in CONVERSATIONS:
        for answer in (True, False):
            if name == "strict" and messages[0]["role"] != "user":
                with pytest.raises(ValueError, match="does not take these messages: the user begins"):
                    ours.chat(messages, answer=answer)
                continue
            found = theirs.apply_chat_template(messages, add_generation_prompt=answer, tokenize=True)
            assert ours.chat(messages, answer=answer) == found["input_ids"]
    ours.save(tmp_path)
    assert FolderTokenizer.load(tmp_path).template == ours.template


def test_a_template_reads_nothing_else(tmp_path):
    pytest.importorskip("jinja2")
    pairs(tmp_path, whole=True, tokenizer_config={"chat_template": "{{ messages.__class__.__mro__ }}"})
    with pytest.raises(ValueError, match="unsafe"):
        FolderTokenizer.load(tmp_path).chat("the")
    pairs(tmp_path, whole=True, tokenizer_config={"chat_template": "{% include 'config.json' %}"})
    with pytest.raises(ValueError, match="does not take these messages"):
        FolderTokenizer.load(tmp_path).chat("the")
    pairs(tmp_path, whole=True, tokenizer_config={})
    with pytest.raises(ValueError, match="no template for it, as it was trained to continue texts"):
        FolderTokenizer.load(tmp_path).chat("the")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["gpt2", "llama", "mistral of today", "qwen2", "qwen3", "roberta", "distilbert", "bert", "marian"]
)
def test_an_entry_that_a_config_lacks_has_their_default_or_is_asked_for(name, tmp_path):
    """A config may leave out what equals a default of its family."""
    theirs = made(OF_TODAY.get(name) or FAMILIES[name], "float32", tmp_path)
    file, of = tmp_path / "config.json", type(theirs)
    full = json.loads(file.read_text())
    decoded = {"decoder_input_ids": torch.tensor(IDS)} if name == "marian" else {}
    compared = []
    for key in full.keys() - {"architectures", "model_type"}:
        file.write_text(json.dumps({entry: value for entry, value in full.items() if entry != key}))
        try:
            ours = models.load(tmp_path)
        except PretrainedError:
            continue
        theirs = of.from_pretrained(tmp_path, dtype=torch.float32).eval()
        with torch.no_grad():
            expected = theirs(torch.tensor(IDS), **decoded).logits
        assert apart(ours(IDS, IDS) if decoded else ours(IDS), expected) < 1e-4, key
        compared.append(key)
    assert len(compared) > 10
