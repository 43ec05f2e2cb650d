"""examples/chat.py as its user meets it: a message in, an answer as it comes; and mistakes in one line."""

import sys
from pathlib import Path

import pytest

import tinytensor as tt
from tests import processes
from tests.models.test_gguf import smollm2, written
from tinytensor import models

SCRIPT = Path(__file__).parents[2] / "examples" / "chat.py"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("chat") / "model.gguf"
    written(path)
    return path


def run(*arguments, lines=b""):
    result = processes.run([sys.executable, str(SCRIPT), *map(str, arguments)], cwd=SCRIPT.parent, input=lines)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def answer(model, messages, **options):
    """The same by the library."""
    made = models.load(model)
    return made.tokenizer.decode(made.generate([made.tokenizer.chat(messages)], **options)[0].tolist())


def test_an_answer(model):
    code, out, err = run("--model", model, "--max-new-tokens", 5, "the river")
    assert (code, out) == (0, answer(model, "the river", max_new_tokens=5) + "\n")
    assert err.count("\n") == 1
    assert " tokens, " in err


def test_a_conversation(model):
    lines = ["the river", "is cold"]
    options = ("--system", "cold", "--max-new-tokens", 4, "--model", model)
    code, out, _ = run(*options, lines="".join(line + "\n" for line in lines).encode())
    messages = [{"role": "system", "content": "cold"}]
    expected = ""
    for line in lines:
        messages.append({"role": "user", "content": line})
        messages.append({"role": "assistant", "content": answer(model, messages, max_new_tokens=4)})
        expected += messages[-1]["content"] + "\n"
    assert (code, out) == (0, expected)


def test_draws_follow_from_the_seed(model):
    options = ("--model", model, "--max-new-tokens", 8, "--temperature", 2, "--top-p", 0.9)
    said = [run(*options, "--seed", seed, "the river")[1] for seed in (1, 1, 2)]
    tt.manual_seed(1)
    drawn = answer(model, "the river", max_new_tokens=8, temperature=2.0, top_p=0.9)
    assert said[0] == said[1] == drawn + "\n"
    assert said[0] != said[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "nowhere", "hello"), "there is no folder 'nowhere', and nothing is fetched: download it first"),
        (("--top-p", "0.5", "hello"), "--top-p must be above 0, and is for drawing: add --temperature"),
        (("--temperature", "-1", "hello"), "must be from 0 to 100"),
        (("--max-new-tokens", "0", "hello"), "must be at least 1"),
    ],
)
def test_mistakes(arguments, message):
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_model_that_nobody_talks_with(tmp_path):
    models.LanguageModel(11, d_model=8, num_heads=2, num_layers=1).save_pretrained(tmp_path)
    assert "no model to talk with: it has no chat template" in run("--model", tmp_path, "hello")[2]


def test_a_conversation_that_is_too_long(model):
    code, _, err = run("--model", model, "the small river is cold " * 20)
    assert (code, err.count("\n")) == (2, 1)
    assert "longer than max_length 80" in err


def test_the_words_of_the_readme():
    smollm2()
    assert run("What is the capital of France?")[:2] == (0, "The capital of France is Paris.\n")
