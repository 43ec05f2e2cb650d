"""`generate` beside that of `transformers`: the same ids, scores and distributions, under the same names."""

import os

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.models import LanguageModel
from tinytensor.models.decoding import Rules, beam_search, next_probabilities

from .huggingface import gpt2, llama, made

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = {"vocab_size": 37, "eos_token_id": [2, 5, 11]}
KINDS = {
    "gpt2": lambda: gpt2(n_embd=30, n_head=3, n_layer=3, n_positions=60, n_inner=50, **SIZES),
    "llama": lambda: llama(
        hidden_size=36, intermediate_size=50, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        max_position_embeddings=60, **SIZES,
    ),
}  # fmt: skip
PROMPTS = np.random.default_rng(1).integers(12, 37, (20, 7))


@pytest.fixture(scope="module", params=KINDS)
def both(request, tmp_path_factory):
    """Our model and theirs, of the same weights."""
    folder = tmp_path_factory.mktemp(request.param)
    theirs = made(KINDS[request.param], "float64", folder)
    return LanguageModel.from_pretrained(folder), theirs


def said(theirs, prompts=PROMPTS, **options):
    """The ids that theirs puts behind each prompt, up to the first end, and the scores of a beam search."""
    ids = torch.tensor(prompts)
    how = {"do_sample": False, "attention_mask": torch.ones_like(ids), "pad_token_id": 0, **options}
    with torch.no_grad():
        found = theirs.generate(ids, return_dict_in_generate=True, output_scores=True, **how)
    scores = getattr(found, "sequences_scores", None)
    return until_end(found.sequences[:, ids.shape[1] :].tolist()), scores


def until_end(rows, ends=(2, 5, 11)):
    return [row[: min([row.index(i) + 1 for i in ends if i in row], default=len(row))] for row in rows]


RULES = [
    {},
    {"repetition_penalty": 1.4},
    {"repetition_penalty": 0.8},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"repetition_penalty": 1.2, "no_repeat_ngram_size": 3},
]


@pytest.mark.parametrize("rules", RULES)
def test_greedy(both, rules):
    ours, theirs = both
    expected, _ = said(theirs, max_new_tokens=17, **rules)
    assert until_end(ours.generate(PROMPTS, max_new_tokens=17, **rules).tolist()) == expected
    assert len({len(row) for row in expected}) > 1


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("length_penalty", [-0.5, 0.0, 1.0, 2.5])
@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("num_beams", [2, 5])
def test_beam_search(both, num_beams, early_stopping, length_penalty, rules):
    ours, theirs = both
    options = {"num_beams": num_beams, "early_stopping": early_stopping, "length_penalty": length_penalty}
    options |= {"num_return_sequences": num_beams, "max_new_tokens": 9, **rules}
    expected, scores = said(theirs, **options)
    assert until_end(ours.generate(PROMPTS, **options).tolist()) == expected
    found = beam_search(
        ours, PROMPTS, beam=num_beams, early_stopping=early_stopping, length_penalty=length_penalty, max_length=9,
        rules=Rules(**rules, with_source=True),
    )  # fmt: skip
    np.testing.assert_allclose([one.score for row in found for one in row], scores.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ends", [3, [4], [20, 21, 22, 23, 24, 25], -1])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_other_ends(both, ends, num_beams):
    ours, theirs = both
    options = {"eos_token_id": ends, "num_beams": num_beams, "max_new_tokens": 12}
    own = ends if isinstance(ends, list) else [ends]
    ids = torch.tensor(PROMPTS)
    with torch.no_grad():
        found = theirs.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, **options)
    assert until_end(ours.generate(PROMPTS, **options).tolist(), own) == until_end(found[:, 7:].tolist(), own)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_prompts_of_different_lengths(both, num_beams):
    """Theirs are padded in front, and a mask says so; ours are lists."""
    ours, theirs = both
    lists = [row[: 1 + i % 7].tolist() for i, row in enumerate(PROMPTS)]
    ids = torch.tensor([[0] * (7 - len(row)) + row for row in lists])
    options = {"max_new_tokens": 9, "num_beams": num_beams, "repetition_penalty": 1.3, "pad_token_id": 0}
    with torch.no_grad():
        expected = theirs.generate(ids, attention_mask=(ids > 0).long(), do_sample=False, **options)[:, 7:]
    found = ours.generate(lists, **options)
    assert until_end(found.tolist()) == until_end(expected.tolist())
    padded = [row + [0] * (7 - len(row)) for row in lists]
    assert ours.generate(padded, **options).tolist() == found.tolist()


@pytest.mark.parametrize(
    "narrowing",
    [
        {},
        {"temperature": 0.6},
        {"top_k": 5},
        {"top_p": 0.7},
        {"min_p": 0.2},
        {"temperature": 1.7, "top_k": 9, "top_p": 0.8, "min_p": 0.3},
    ],
)
def test_the_distribution_to_draw_from(both, narrowing):
    """Logits that theirs leaves to draw from, by its own functions."""
    ours, theirs = both
    options = {"top_k": 0, **narrowing, "do_sample": True, "max_new_tokens": 1, "repetition_penalty": 1.3}
    ids = torch.tensor(PROMPTS)
    with torch.no_grad():
        found = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), pad_token_id=0, return_dict_in_generate=True, output_scores=True,
            **options,
        )  # fmt: skip
    logits = Rules(repetition_penalty=1.3).changed(ours(PROMPTS)[:, -1].detach(), PROMPTS.tolist())
    expected = torch.softmax(found.scores[0].double(), dim=-1).numpy()
    np.testing.assert_allclose(next_probabilities(logits, **narrowing).numpy(), expected, atol=1e-5)


def test_draws_are_of_the_exact_distribution(both):
    """Pearson's chi-squared statistic of 20,000 draws stays below its quantile of 99.99 %."""
    stats = pytest.importorskip("scipy.stats")
    ours, _ = both
    tt.manual_seed(0)
    how = {"temperature": 0.9, "top_k": 12, "top_p": 0.95, "min_p": 0.02}
    drawn = ours.generate(PROMPTS[:1], max_new_tokens=1, do_sample=True, num_return_sequences=20000, **how)
    p = next_probabilities(ours(PROMPTS[:1])[0, -1].detach(), **how).numpy()
    counts = np.bincount(drawn.numpy()[:, 0], minlength=37)
    kept = p > 0
    assert counts[~kept].sum() == 0
    statistic = ((counts - 20000 * p)[kept] ** 2 / (20000 * p[kept])).sum()
    assert statistic < stats.chi2.ppf(0.9999, kept.sum() - 1)


def test_their_streamer_is_told_what_theirs_is(both):
    ours, theirs = both

    class Tokenizer:
        def decode(self, ids, **kwargs):
            return "".join(f"<{i}>" for i in ids)

    class Kept(transformers.TextStreamer):
        def on_finalized_text(self, text, stream_end=False):
            self.heard = [*getattr(self, "heard", []), (text, stream_end)]

    heard = []
    for model, ids in ((ours, PROMPTS[:1]), (theirs, torch.tensor(PROMPTS[:1]))):
        streamer = Kept(Tokenizer(), skip_prompt=True)
        model.generate(ids, max_new_tokens=6, do_sample=False, streamer=streamer)
        heard.append(streamer.heard)
    assert heard[0] == heard[1]
    assert heard[0][-1][1]
