"""Tokenizers of folders: what the files say of special tokens, names of pieces, and ids that no token has."""

import json

import numpy as np
import pytest

from tinytensor.models import LanguageModel, folder_tokenizer
from tinytensor.models.folder_tokenizer import BYTES, FolderTokenizer
from tinytensor.models.pretrained import PretrainedError

from . import test_huggingface as folders

tokenizers = pytest.importorskip("tokenizers")
END = "<|endoftext|>"
TEXTS = ["the small river is cold", "größe und café", "我们 说"] * 9


def pairs(folder, specials=(END,), whole=False, **files):
    """A folder with byte pairs, and other files of JSON."""
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(TEXTS, 300, min_frequency=2, special_tokens=list(specials), show_progress=False)
    if whole:
        made.save(str(folder / "tokenizer.json"))
    else:
        made.save_model(str(folder))
    for name, entries in files.items():
        (folder / f"{name}.json").write_text(json.dumps(entries))
    return made.get_vocab_size()


def loaded(folder, *arguments, **files):
    return pairs(folder, *arguments, **files), FolderTokenizer.load(folder)


# ---- padding


def test_without_a_padding_token_no_word_is_padding(tmp_path):
    _, tokenizer = loaded(tmp_path, ())
    long, short = tokenizer("the small river", "river").tolist()
    assert short == [*tokenizer.encode("river"), *[-1] * (len(long) - len(tokenizer.encode("river")))]
    assert tokenizer.decode(short) == "river"
    assert "".join(tokenizer.pieces(short)) == "river"


@pytest.mark.parametrize(
    "config", [{}, {"pad_token_id": 2, "eos_token_id": 2}, {"pad_token_id": 1}, {"pad_token_id": 0}]
)
@pytest.mark.parametrize(
    "named", [{}, {"pad_token": END}, {"pad_token": "the", "eos_token": "the"}, {"pad_token": "<pad>"}]
)
def test_a_row_of_a_batch_goes_on_as_it_does_alone(named, config, tmp_path):
    count = pairs(tmp_path, (END, "<pad>"), tokenizer_config=named | {"eos_token": END})
    sizes = {"model.embed_tokens.weight": (count, 8), "lm_head.weight": (count, 8)}
    folders.written(tmp_path, folders.weights(**sizes), vocab_size=count, **config)
    tokenizer, model = FolderTokenizer.load(tmp_path), LanguageModel.from_pretrained(tmp_path)
    texts = ["the small river is", "river", "a café"]
    for options in ({}, {"num_beams": 3}):
        together = model.generate(tokenizer(*texts), 5, **options).tolist()
        for text, row in zip(texts, together, strict=True):
            (alone,) = model.generate([tokenizer.encode(text)], 5, **options).tolist()
            assert row[: len(alone)] == alone


@pytest.mark.parametrize("file", ["tokenizer_config", "special_tokens_map"])
def test_a_padding_token_fills_rows(file, tmp_path):
    count, tokenizer = loaded(tmp_path, **{file: {"pad_token": {"content": "<pad>", "lstrip": False}}})
    assert (tokenizer.pad_id, len(tokenizer)) == (count, count + 1)
    assert tokenizer("the river", "the")[1, -1] == count
    assert tokenizer.encode("the<pad>")[-1] == count
    assert tokenizer.decode([count]) == ""


def test_null_is_no_token(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    assert FolderTokenizer.load(tmp_path)("cat", "a cat")[0, -1] == 0
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": null}')
    assert FolderTokenizer.load(tmp_path)("cat", "a cat")[0, -1] == -1


# ---- other tokens


@pytest.mark.parametrize("whole", [False, True])
def test_the_end_of_a_text_is_one_id(whole, tmp_path):
    _, tokenizer = loaded(tmp_path, whole=whole)
    assert tokenizer.encode(f"the river{END}") == [*tokenizer.encode("the river"), 0]
    assert tokenizer.decode([0]) == ""
    assert tokenizer.special["eos_token"] == 0


def test_added_tokens(tmp_path):
    count = pairs(tmp_path)
    table = {str(count + 1): {"content": "<b>", "special": True}, str(count): {"content": "<a>", "special": False}}
    for file, entries in (
        ("tokenizer_config", {"added_tokens_decoder": table}),
        ("added_tokens", {"<b>": count + 1, "<a>": count}),
    ):
        pairs(tmp_path, **{file: entries, "special_tokens_map": {"additional_special_tokens": ["<b>"]}})
        tokenizer = FolderTokenizer.load(tmp_path)
        assert tokenizer.encode("<b><a>") == [count + 1, count]
        assert tokenizer.pieces([count]) == ["<a>"]
        assert tokenizer.decode([count]) == "<a>"
        (tmp_path / f"{file}.json").unlink()


def test_begin_and_end_are_put_around_texts(tmp_path):
    said = {"add_bos_token": True, "add_eos_token": True, "bos_token": "<s>"}
    count, tokenizer = loaded(tmp_path, tokenizer_config=said)
    assert tokenizer("the").tolist() == [[count, *tokenizer.encode("the"), 0]]


@pytest.mark.parametrize(
    ("file", "entries", "message"),
    [
        ("added_tokens", {"<a>": 7}, "'<a>' has id 7 in one file and [0-9]+ by the vocabulary"),
        ("added_tokens", {"<a>": []}, "added tokens .*; expected an id and a token of each"),
        ("tokenizer_config", {"added_tokens_decoder": {"x": {"content": "<a>"}}}, "expected an id and a token of each"),
        ("tokenizer_config", {"pad_token": 5}, "the tokenizer's pad_token is 5; expected a text or null"),
        ("special_tokens_map", {"eos_token": ["</s>"]}, "eos_token is .*; expected a text or null"),
        ("special_tokens_map", [], r"special_tokens_map\.json: holds \[\]; expected an object"),
        ("tokenizer", {"model": 3}, "no tokenizer that can be read"),
    ],
)
def test_what_cannot_be_read(file, entries, message, tmp_path):
    pairs(tmp_path, **{file: entries})
    with pytest.raises(PretrainedError, match=message) as caught:
        FolderTokenizer.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_settings_for_training_are_not_tried(tmp_path):
    """Rows of 4 billion ids end the process."""
    pairs(tmp_path, whole=True)
    said = json.loads((tmp_path / "tokenizer.json").read_text())
    told = {"strategy": "BatchLongest", "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": END}
    said["padding"] = told | {"pad_to_multiple_of": 2**32}
    said["truncation"] = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    tokenizer = FolderTokenizer.load(tmp_path)
    assert tokenizer("the river").tolist() == [tokenizer.encode("the river")]
    assert len(tokenizer.encode("the river")) > 1


def test_a_panic_is_an_error_that_names_the_folder(tmp_path):
    pairs(tmp_path, whole=True)
    said = json.loads((tmp_path / "tokenizer.json").read_text())
    empty = {"type": "Replace", "pattern": {"String": "a"}, "content": ""}
    said["decoder"] = {
        "type": "Sequence",
        "decoders": [empty, {"type": "Strip", "content": " ", "start": 1, "stop": 2**31}],
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    with pytest.raises(PretrainedError, match="no tokenizer that can be read"):
        FolderTokenizer.load(tmp_path)


# ---- names of pieces


@pytest.mark.parametrize("text", ["café", "größe", "我们", "naïve\tß\n", "🙂", "a ▁ b"])
def test_pieces_show_letters(text, tmp_path):
    _, tokenizer = loaded(tmp_path)
    found = []
    for piece in tokenizer.pieces(tokenizer.encode(text)):
        for mark, shown in (("▁", " "), ("↵", "\n"), ("⇥", "\t")):
            piece = piece.replace(mark, shown)
        while "<0x" in piece:
            before, _, after = piece.partition("<0x")
            found += [before.encode(), bytes.fromhex(after[:2])]
            piece = after[3:]
        found.append(piece.encode())
    assert b"".join(found).decode() == text


def test_no_two_pieces_have_one_name(tmp_path):
    _, tokenizer = loaded(tmp_path)
    names = tokenizer.pieces(range(len(tokenizer)))
    assert len(set(names)) == len(names)
    assert len(BYTES) == len(set(BYTES.values())) == 256
    assert all(name.isprintable() for name in names)


def test_an_added_token_is_written_as_it_is(tmp_path):
    count = pairs(tmp_path)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<é>": count}))
    tokenizer = FolderTokenizer.load(tmp_path)
    assert tokenizer.pieces([count]) == ["<é>"]


@pytest.mark.parametrize("wrong", [-2, 10**6, 2**40])
def test_an_id_that_no_token_has(wrong, tmp_path):
    _, tokenizer = loaded(tmp_path)
    for call in (tokenizer.decode, tokenizer.pieces):
        with pytest.raises(ValueError, match=f"no token has the id {wrong}; expected ids below {len(tokenizer)}"):
            call(np.array([5, wrong]))


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ 'no' if tools is none and documents is none else 'some' }} tools", "no tools"),
        ("{{ messages | tojson(separators=(',', ':')) }}", '[{"role":"user","content":"größe"}]'),
        ("{{ messages[0].content | tojson(ensure_ascii=True) }}", '"gr\\u00f6\\u00dfe"'),
        ("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", '{"a": 2, "b": 1}'),
        ("{{ 'thinks' if enable_thinking else 'answers' }}", "thinks"),
        ("{% for i in range(3) %}{{ i }}{{ loop.length }}{% endfor %}", "031323"),
    ],
)
def test_a_template_has_what_transformers_gives_it(template, text):
    given = {"messages": [{"role": "user", "content": "größe"}], "enable_thinking": True}
    rendered = folder_tokenizer._rendered(template, {"tools": None, "documents": None, **given})
    assert rendered == text


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "more than 1,000,000 elements",
        ),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{{ messages.missing.name }}", "no attribute"),
        ("{{ 1 | tojson(nothing=1) }}", "nothing"),
        ("{% if %}", "Expected an expression"),
    ],
)
def test_whatever_a_template_does_ends_in_one_error(template, why):
    with pytest.raises(ValueError, match=rf"chat: the model's template does not take these messages: .*{why}"):
        folder_tokenizer._rendered(template, {"messages": []})
