"""generation_config.json of a folder, compared with `transformers`: a call without options gives the same ids."""

import json
import os

import numpy as np
import pytest

from tinytensor import models
from tinytensor.models import LanguageModel
from tinytensor.models.generation_config import OPTIONS

from .huggingface import llama, made, marian
from .test_generation_parity import until_end

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

PROMPTS = np.random.default_rng(1).integers(3, 48, (12, 5))
SETTINGS = {
    "max_length": 11,
    "max_new_tokens": 4,
    "min_length": 9,
    "min_new_tokens": 7,
    "do_sample": False,
    "temperature": 0.3,
    "top_k": 7,
    "top_p": 0.4,
    "min_p": 0.2,
    "num_beams": 3,
    "num_return_sequences": 2,
    "early_stopping": True,
    "length_penalty": 2.5,
    "repetition_penalty": 1.4,
    "no_repeat_ngram_size": 2,
    "sequence_bias": [[[20], 4.0], [[20, 20], -9.0], [[30], -4.0]],
    "bad_words_ids": [[4], [21, 7], [2], *([i] for i in range(30, 40))],
    "suppress_tokens": [*range(10, 30), 99],
    "begin_suppress_tokens": list(range(5, 45)),
    "forced_eos_token_id": 2,
    "renormalize_logits": True,
}
BESIDE = {
    "num_return_sequences": {"num_beams": 3},
    "early_stopping": {"num_beams": 3},
    "length_penalty": {"num_beams": 3},
    "renormalize_logits": {"num_beams": 4, "bad_words_ids": SETTINGS["bad_words_ids"]},
}
QUIET = {
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "renormalize_logits",
}  # of which some change nothing here
KINDS = {"llama": (llama, {"eos_token_id": [2, 5]}), "marian": (marian, {"eos_token_id": 0})}


@pytest.fixture(scope="module", params=KINDS)
def folder(request, tmp_path_factory):
    """A folder with a model, and the ids that end a text."""
    make, ends = KINDS[request.param]
    path = tmp_path_factory.mktemp(request.param)
    made(lambda: make(**ends), "float64", path)
    return path


def ids_of_both(path, settings, **options):
    """The ids after each prompt, up to the first end, by ours and by theirs, for a folder with these settings."""
    file = path / "generation_config.json"
    former = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({name: value for name, value in former.items() if name not in OPTIONS} | settings))
    ours = models.load(path)
    of = transformers.AutoModelForCausalLM if isinstance(ours, LanguageModel) else transformers.MarianMTModel
    theirs = of.from_pretrained(path, dtype=torch.float64)
    ids = torch.tensor(PROMPTS)
    with torch.no_grad():
        expected = theirs.generate(ids, attention_mask=torch.ones_like(ids), **options)
    ends = ours.eos_id if isinstance(ours.eos_id, list) else [ours.eos_id]
    expected = expected[:, PROMPTS.shape[1] if ours.continues else 1 :].tolist()
    return until_end(ours.generate(PROMPTS, **options).tolist(), ends), until_end(expected, ends)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting(folder, name):
    beside = {} if name in ("max_length", "max_new_tokens") else {"max_new_tokens": 10, **BESIDE.get(name, {})}
    ours, theirs = ids_of_both(folder, beside | {name: SETTINGS[name]})
    assert ours == theirs
    assert name in QUIET or ours != ids_of_both(folder, beside)[0]


def test_all_settings_but_texts():
    assert SETTINGS.keys() == OPTIONS.keys() - {"stop_strings"}


def test_the_call_counts_more(folder):
    told = {"repetition_penalty": 1.4, "num_beams": 3, "max_new_tokens": 4}
    for options in ({"num_beams": 1}, {"max_new_tokens": 9}, {"repetition_penalty": 1.0, "num_beams": 2}):
        ours, theirs = ids_of_both(folder, told, **options)
        assert ours == theirs
