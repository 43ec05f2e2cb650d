"""Options of `generate` that a folder sets; test_generation_config_parity.py compares ids with `transformers`."""

import json

import pytest

from tinytensor import models
from tinytensor.models import LanguageModel
from tinytensor.models.generation_config import NEUTRAL
from tinytensor.models.pretrained import PretrainedError

from .test_generation import Letters
from .test_huggingface import written

PROMPT = [[1, 5, 6]]
LLAMA = {"eos_token_id": None, "bos_token_id": 1}


def folder(path, config=LLAMA, **settings):
    path.mkdir(exist_ok=True)
    written(path, **config)
    (path / "generation_config.json").write_text(json.dumps(settings))
    return path


def test_they_hold_where_a_call_says_nothing_else(tmp_path):
    model = LanguageModel.from_pretrained(folder(tmp_path, max_new_tokens=5, suppress_tokens=[3, 4]))
    free = LanguageModel.from_pretrained(folder(tmp_path))
    said = model.generate(PROMPT).tolist()
    assert said == free.generate(PROMPT, 5, suppress_tokens=[3, 4]).tolist()
    for call in (model.generate, free.generate):
        assert (
            call(PROMPT, 7, suppress_tokens=()).tolist() == call(PROMPT, max_new_tokens=7, suppress_tokens=[]).tolist()
        )
    assert model.generate(PROMPT, 7, suppress_tokens=None)[:, :5].tolist() == said  # None sets nothing
    model.generation_config["max_new_tokens"] = 2
    assert model.generate(PROMPT).shape == (1, 2)


def test_a_folder_that_draws(tmp_path):
    model = LanguageModel.from_pretrained(folder(tmp_path, do_sample=True, temperature=3.0))
    assert model.generation_config == {"top_k": 50, "do_sample": True, "temperature": 3.0}  # as theirs draws
    assert len({tuple(row) for row in model.generate(PROMPT, 9, num_return_sequences=20).tolist()}) > 1
    for greedy in ({"do_sample": False}, {"temperature": 0}):
        assert len({tuple(model.generate(PROMPT, 9, **greedy).tolist()[0]) for _ in range(5)}) == 1
    with pytest.raises(ValueError, match="do_sample"):
        model.generate(PROMPT, 9, num_beams=3)
    narrow = LanguageModel.from_pretrained(folder(tmp_path, do_sample=True, top_k=1))
    assert narrow.generate(PROMPT, 9).tolist() == narrow.generate(PROMPT, 9, do_sample=False).tolist()
    wide = narrow.generate(PROMPT, 9, top_k=0, temperature=5.0, num_return_sequences=20)
    assert len({tuple(row) for row in wide.tolist()}) > 1


def test_without_the_file_config_json_has_them(tmp_path):
    written(tmp_path, num_beams=3, max_length=7, typical_p=1.0, **LLAMA)
    model = LanguageModel.from_pretrained(tmp_path)
    assert model.generation_config == {"num_beams": 3, "max_length": 7}
    assert model.generate(PROMPT).shape == (1, 4)  # theirs counts the prompt
    folder(tmp_path, {"num_beams": 3, **LLAMA}, length_penalty=2)
    assert LanguageModel.from_pretrained(tmp_path).generation_config == {"length_penalty": 2}


def test_they_go_with_the_model(tmp_path):
    model = LanguageModel.from_pretrained(
        folder(tmp_path / "a", num_beams=3, eos_token_id=[2, 3], use_cache=True, max_length=9)
    )
    said = model.generate(PROMPT).tolist()
    model.save_pretrained(tmp_path / "ours")
    model.save_pretrained(tmp_path / "theirs", format="huggingface")
    for name in ("ours", "theirs"):
        again = LanguageModel.from_pretrained(tmp_path / name)
        assert again.generation_config == {"num_beams": 3, "max_length": 9}
        assert again.generate(PROMPT).tolist() == said
    former, back = (json.loads((tmp_path / name / "generation_config.json").read_text()) for name in ("a", "theirs"))
    assert back == former


def test_a_text_that_ends(tmp_path):
    model = LanguageModel.from_pretrained(folder(tmp_path, max_new_tokens=9))
    model.tokenizer = Letters()
    said = model.generate(PROMPT).tolist()[0]
    ending = LanguageModel.from_pretrained(folder(tmp_path, max_new_tokens=9, stop_strings=[chr(97 + said[2])]))
    ending.tokenizer = Letters()
    assert ending.generate(PROMPT).tolist()[0] == said[: said.index(said[2]) + 1]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        *(({name: 3}, f"{name} is 3; expected {value}") for name, value in NEUTRAL.items()),
        ({"forced_bos_token_id": 3}, "forced_bos_token_id is 3; expected no such entry: remove it to go"),
        ({"exponential_decay_length_penalty": [3, 1.1]}, "exponential_decay_length_penalty is"),
        ({"num_beans": 3}, "num_beans is 3; expected no such entry"),
        ({"num_beams": "3"}, "num_beams is '3'; expected int"),
        ({"num_beams": 10**9}, "num_beams is 1000000000; expected 1 to 1000"),
        ({"bad_words_ids": [3]}, r"bad_words_ids is \[3\]; expected Sequence\[Sequence\[int\]\]"),
        ({"temperature": [1]}, "temperature is"),
    ],
)
def test_what_is_not_known_is_refused_by_name(settings, says, tmp_path):
    with pytest.raises(PretrainedError, match=rf"generation_config\.json: {says}"):
        models.load(folder(tmp_path, **settings))
    neutral = {name: NEUTRAL.get(name) for name in settings}
    assert models.load(folder(tmp_path, **neutral)).generation_config == {}


def test_of_ones_own():
    options = {"d_model": 16, "num_heads": 2, "num_layers": 1, "generation_config": {"max_new_tokens": 3}}
    assert LanguageModel(20, **options).generate(PROMPT).shape == (1, 3)
    with pytest.raises(ValueError, match="generation_config: unknown option 'beam'; expected max_length, "):
        LanguageModel(20, **options | {"generation_config": {"beam": 3}})
