"""`generate` and `stream` under the names of `transformers`; test_generation_parity.py compares ids."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.models import LanguageModel, Transformer
from tinytensor.models.decoding import Rules, greedy, next_probabilities, stop_at
from tinytensor.models.writer import Writer

from .test_language_model import made as made_model

PROMPT = [[1, 5, 6, 7]]


def made(**options):
    return made_model(**{"pad_id": None, "eos_id": None, **options})


class Letters:
    """Ids as letters, from "a" on; the last is half a letter, as of bytes."""

    def encode(self, text):
        return [ord(letter) - 97 for letter in text]

    def decode(self, ids):
        return "".join("\ufffd" if i == 19 else chr(97 + i) for i in ids).replace("\ufffd\ufffd", "é")


def test_the_two_names_of_the_most_ids_and_both():
    model = made()
    said = model.generate(PROMPT, 5).tolist()
    assert model.generate(PROMPT, max_length=5).tolist() == said
    assert model.generate(PROMPT, max_new_tokens=5).tolist() == said
    assert len(said[0]) == 5
    with pytest.raises(ValueError, match="both the most ids after the prompt; give max_new_tokens alone, got 9 and 5"):
        model.generate(PROMPT, max_length=9, max_new_tokens=5)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"beam": 3}, "got beam=; write num_beams, as transformers does"),
        ({"attention_mask": [[1]]}, "got attention_mask=; leave it out: prompts may be lists of different lengths"),
        ({"stop_strings": ["a"]}, r"got stop_strings=; write stop=\["),
        ({"logits_processor": []}, "got logits_processor=; write repetition_penalty="),
        ({"use_cache": True}, "got use_cache=; leave it out"),
        ({"nonsense": 1}, "got nonsense=; it takes prompt, max_length, max_new_tokens, do_sample"),
    ],
)
def test_arguments_that_it_does_not_take(given, says):
    for call in (made().generate, made().stream, Transformer(9, d_model=8, num_heads=2, num_layers=1).generate):
        with pytest.raises(TypeError, match=f"^generate: {says}"):
            call(PROMPT, 3, **given)


def test_drawing():
    model = made()

    def drawn(**options):
        return model.generate(PROMPT * 3, 6, generator=tt.random.Generator(2), **options).tolist()

    assert drawn(do_sample=True) == drawn(temperature=1.0) != drawn()
    assert drawn(do_sample=True, top_k=1) == drawn() == drawn(do_sample=False) == drawn(temperature=0.0)
    assert drawn(do_sample=True, min_p=1.0) == drawn()
    several = model.generate([*PROMPT, [3]], 6, do_sample=True, num_return_sequences=5)
    assert several.shape == (10, 6)
    assert len({tuple(row) for row in several.tolist()}) == 10
    with pytest.raises(ValueError, match="num_return_sequences is at least 1, and at most num_beams .* got 2 with"):
        model.generate(PROMPT, 6, num_return_sequences=2)
    with pytest.raises(ValueError, match="min_p must be from 0 to 1, got 1.5"):
        drawn(do_sample=True, min_p=1.5)


def test_the_least_share_of_the_likeliest():
    logits = tt.asarray(np.log([[0.5, 0.26, 0.14, 0.1]]))
    np.testing.assert_allclose(next_probabilities(logits, min_p=0.25).numpy(), [[5 / 9, 2.6 / 9, 1.4 / 9, 0]])
    np.testing.assert_allclose(next_probabilities(logits, top_k=2, min_p=0.1).numpy(), [[50 / 76, 26 / 76, 0, 0]])


def test_other_ends_for_a_call():
    model = made()
    free = model.generate(PROMPT, 12).tolist()[0]
    for end in (free[4], [free[4], 99], np.int64(free[4])):
        assert model.generate(PROMPT, 12, eos_token_id=end).tolist() == [free[: free.index(free[4]) + 1]]
    assert model.eos_id is None
    model.eos_id = free[4]
    assert model.generate(PROMPT, 12, eos_token_id=-1).tolist() == [free]
    with pytest.raises(TypeError, match="^generate: eos_token_id must be"):
        model.generate(PROMPT, 12, eos_token_id="2")


def test_what_fills_rows():
    model, rows = made(kind="llama"), [[1, 5, 6, 7], [3, 4]]
    free = model.generate(rows, 9).tolist()
    ends = [next(i for i in free[0] if i not in free[1])]
    found = model.generate(rows, 9, eos_token_id=ends, pad_token_id=0).tolist()
    assert found[1] == free[1]
    place = free[0].index(ends[0]) + 1
    assert found[0] == free[0][:place] + [0] * (9 - place)
    assert model.generate(rows, 9, eos_token_id=ends).tolist()[0] == free[0][:place] + ends * (9 - place)
    assert model.generate([[1, 5, 6, 7], [3, 4, 0, 0]], 9, eos_token_id=ends, pad_token_id=0).tolist() == found
    inside = model.generate([[1, 0, 6, 0]], 3, eos_token_id=0, pad_token_id=0)  # as ends they are words of the prompt
    assert inside.tolist() == model.generate([[1, 0, 6, 0]], 3, eos_token_id=0).tolist()


def test_a_text_that_ends_with_others():
    model = made()
    free = model.generate(PROMPT, 12).tolist()[0]
    run = free[3:5]
    first = next(i for i in range(11) if free[i : i + 2] == run)
    assert model.generate(PROMPT, 12, stop=[run, [77]]).tolist() == [free[: first + 2]]
    text = Letters().decode(free)
    assert model.generate(PROMPT, 12, stop=text[3:5], tokenizer=Letters()).tolist() == [free[: first + 2]]
    model.tokenizer = Letters()
    assert model.generate(PROMPT, 12, stop=["zz", text[3:5]]).tolist() == [free[: first + 2]]
    assert model.generate(PROMPT, 12, stop=lambda ids: len(ids) == 4).tolist() == [free[:4]]
    (searched,) = model.generate(PROMPT, 12, stop=lambda ids: len(ids) == 4, num_beams=3).tolist()
    assert len(searched) == 4


@pytest.mark.parametrize("stop", [[5, 6], "", [""], [[]], [], 5, [None]])
def test_ends_that_are_none(stop):
    with pytest.raises(TypeError, match="stop: expected a text, or a list of texts or of lists of ids, got"):
        stop_at(stop, Letters())


def test_a_text_needs_a_tokenizer():
    with pytest.raises(ValueError, match="stop: the text 'end' needs a tokenizer; write tokenizer="):
        made().generate(PROMPT, 3, stop="end")
    with pytest.raises(ValueError, match="stream: a text needs a tokenizer"):
        made().stream("end", 3)


def test_ids_as_they_come():
    model = made()
    free = model.generate(PROMPT, 9).tolist()[0]
    heard = []
    assert model.generate(PROMPT, 9, streamer=heard.append).tolist() == [free]
    assert heard == free
    found = model.train().stream(PROMPT, 9, repetition_penalty=1.0)
    assert next(found) == free[0]
    assert model.training
    assert tt.is_grad_enabled()
    assert list(found) == free[1:]
    tt.manual_seed(1)
    drawn = model.generate(PROMPT, 9, do_sample=True, top_k=9).tolist()[0]
    tt.manual_seed(1)
    assert list(model.stream(PROMPT, 9, do_sample=True, top_k=9)) == drawn


def test_texts_as_they_come():
    model = made()
    model.tokenizer = Letters()
    ids = model.generate([Letters().encode("bfgh")], 25).tolist()[0]
    pieces = list(model.stream("bfgh", 25))
    assert "".join(pieces) == Letters().decode(ids)
    assert len(pieces) > 10
    assert list(model.stream("bfgh", 25, tokenizer=Letters())) == pieces


def test_a_text_is_no_ids():
    with pytest.raises(TypeError, match=r"expected ids, got a text; write tokenizer\(text\), or stream"):
        made().generate("abc", 3)


def test_one_prompt_at_a_time():
    for options in ({"prompt": PROMPT * 2}, {"prompt": PROMPT, "num_beams": 2}):
        with pytest.raises(ValueError, match="ids come one by one for one prompt that is not searched with beams, got"):
            made().stream(**options)
    with pytest.raises(TypeError, match="a streamer is a function, or has put and end, got 3"):
        made().generate(PROMPT, 3, streamer=3)


def test_an_object_that_is_told():
    class Kept:
        def __init__(self):
            self.heard = []

        def put(self, ids):
            self.heard.append(ids.tolist())

        def end(self):
            self.heard.append("end")

    kept = Kept()
    (said,) = made().generate(PROMPT, 3, streamer=kept).tolist()
    assert kept.heard == [PROMPT, *[[i] for i in said], "end"]


def test_nothing_is_said_twice():
    model = made()
    (said,) = model.generate(PROMPT, 14, no_repeat_ngram_size=1).tolist()
    assert len({*said, *PROMPT[0]}) == 14 + 4
    with pytest.raises(ValueError, match="no id can follow: .* a no_repeat_ngram_size that leaves no id"):
        model.generate(PROMPT, 25, no_repeat_ngram_size=1)
    ids = greedy(model, PROMPT, max_length=14, rules=Rules(no_repeat_ngram_size=1))[0].ids
    assert set(ids) & set(PROMPT[0])  # a source, unless with_source, was not said
    for bad, says in (({"repetition_penalty": 0.0}, "must be positive"), ({"no_repeat_ngram_size": -1}, "at least 0")):
        with pytest.raises(ValueError, match=says):
            model.generate(PROMPT, 3, **bad)


def test_a_model_that_translates_takes_the_same():
    tt.manual_seed(0)
    model = Transformer(12, d_model=16, num_heads=2, num_layers=1, max_length=20).eval()
    source = np.random.default_rng(0).integers(3, 12, (3, 6))
    assert model.generate(source, max_new_tokens=4).tolist() == model.generate(source, 4).tolist()
    assert model.generate(source, 7, num_beams=4, num_return_sequences=3).shape[0] == 9
    assert model.generate(source, 7, do_sample=True, num_return_sequences=2).shape[0] == 6
    for row in model.generate(source, 8, no_repeat_ngram_size=1, eos_token_id=-1).tolist():
        assert len(set(row)) == 8
    assert list(model.stream(source[:1], 5)) == model.generate(source[:1], 5).tolist()[0]


def test_a_writer_takes_the_same():
    class Units(Letters):
        def __len__(self):
            return 20

    model: LanguageModel = made(max_length=12)
    writer = Writer(model, Units())
    free = writer.write("abc", 40)
    assert len(free) > 30
    for start in (1, 4, 5, 6, 11, 12):  # across the pieces that are generated at once
        end = free[start : start + 3]
        assert writer.write("abc", 40, stop=end) == free[: free.index(end) + 3]
    assert writer.write("abc", 20, num_beams=2, num_return_sequences=1)
    with pytest.raises(ValueError, match="write: num_return_sequences must be 1"):
        writer.write("abc", 20, do_sample=True, num_return_sequences=2)
    end = Letters().encode(free[5])[0]
    assert writer.write("abc", 40, eos_token_id=end) == free[: free.index(free[5]) + 1]
