"""examples/translate.py as its user meets it: a folder and lines in, lines and pictures out."""

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Seq2Seq, Transformer, Translator
from tinytensor.models.data.languages import ToyText

from .test_train_copy_task import environment

SCRIPT = Path(__file__).parents[2] / "examples" / "translate.py"
LINES = ["the black cat eats the fresh bread.", "", "Marie buys a red hat.", "I sleep."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tt.manual_seed(0)
    codec = ToyText("en-fr")
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 16, "max_length": 30}
    made = Transformer(len(codec.source), len(codec.target), **sizes)
    path = tmp_path_factory.mktemp("trained")
    Translator(made, codec).save_pretrained(path)
    return path


def run(cwd, *arguments, lines=LINES):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    text = lines if isinstance(lines, bytes) else "".join(line + "\n" for line in lines).encode()
    result = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, input=text, timeout=120)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def expected(folder, lines=LINES, **options):
    return Translator.from_pretrained(folder).translate(lines, **options)


def test_lines_in_lines_out(folder, tmp_path):
    texts = [found[0].text if found else "" for found in expected(folder)]
    assert run(tmp_path, folder) == (0, "\n".join(texts) + "\n", "")
    assert run(tmp_path, folder, "--batch-lines", 2)[:2] == (0, "\n".join(texts) + "\n")
    assert run(tmp_path, folder, lines=[]) == (0, "", "")


def test_n_best_with_scores(folder, tmp_path):
    code, out, _ = run(tmp_path, folder, "--n-best", 2, "--beam", 3, "--length-penalty", 0.5)
    assert code == 0
    found = expected(folder, beam=3, n_best=2, length_penalty=0.5)
    rows = [(i, t.score, t.text) for i, translations in enumerate(found, 1) for t in translations]
    printed = [line.split("\t") for line in out.splitlines()]
    assert [(int(number), text) for number, _, text in printed] == [(i, text) for i, _, text in rows]
    assert [float(score) for _, score, _ in printed] == pytest.approx([score for _, score, _ in rows], abs=1e-3)


def test_drawn_translations_follow_from_the_seed(folder, tmp_path):
    options = ["--sample", "--temperature", 0.9, "--top-k", 50, "--top-p", 0.9, "--seed"]
    first, again, other = (run(tmp_path, folder, *options, seed) for seed in (1, 1, 2))
    assert first == again
    assert first[1] != other[1]
    assert first[0] == other[0] == 0


def test_attention_is_drawn_for_every_line(folder, tmp_path):
    assert run(tmp_path, folder, "--attention", "out.svg")[0] == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out-3.svg", "out-4.svg", "out.svg"]
    assert "bread" in (tmp_path / "out.svg").read_text()
    assert run(tmp_path, folder, "--attention", "out.HTML", lines=LINES[:1])[0] == 0
    assert "bread" in (tmp_path / "out.HTML").read_text()


def test_a_terminal_is_asked_line_by_line(folder, tmp_path):
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), "--beam", "2"],
        cwd=tmp_path, env=environment() | {"TERM": "dumb"}, stdin=terminal, stdout=terminal, stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    seen = ""
    try:
        for prompts, answer in enumerate((b"I sleep.\n", b"the zebra sleeps.\n", b"\n", b"\x04"), 1):
            while seen.count("\n> ") < prompts:
                assert select.select([controller], [], [], 60)[0], seen
                seen += os.read(controller, 4096).decode().replace("\r\n", "\n")
            os.write(controller, answer)
        assert process.wait(60) == 0
    finally:
        process.kill()
        os.close(controller)
    assert seen.startswith("one line at a time; Ctrl-D ends\n> ")
    assert expected(folder, ["I sleep."], beam=2)[0][0].text in seen
    assert "cannot translate this: 'zebra' is no word of this toy language" in seen


@pytest.mark.parametrize(
    ("arguments", "lines", "message"),
    [
        (["--n-best", 6], LINES, "--n-best 6 needs --beam 6 at least"),
        (["--top-k", 6], LINES, "--temperature, --top-k and --top-p are for drawing: add --sample"),
        (["--sample", "--n-best", 2], LINES, "--n-best is for beam search; it does not go with --sample"),
        (["--sample", "--length-penalty", 2], LINES, "--length-penalty is for beam search; it does not go with"),
        (["--length-penalty", "nan"], LINES, "must be from -10 to 10, got nan"),
        (["--attention", "out.png"], LINES, "--attention out.png: expected a name that ends in .svg or .html"),
        (["--attention", "nowhere/out.svg"], LINES, "cannot write nowhere/out.svg: "),
        ([], ["I sleep.", "the zebra sleeps."], "line 2: 'zebra' is no word of this toy language"),
        (["--batch-lines", 2], [*LINES, "the zebra sleeps."], "line 5: 'zebra' is no word of this toy language"),
        ([], b"I sleep.\n\xff\n", "line 2: not UTF-8 (byte 1 of it)"),
        ([], ["I sleep.", "The dog sleeps."], "line 2: 'The' is no word of this toy language; it has 'the'"),
        ([], ["the " * 40], "line 1: 40 ids, but the model takes at most 29 of a sentence"),
    ],
)
def test_mistakes_end_in_one_line(folder, tmp_path, arguments, lines, message):
    code, _, errors = run(tmp_path, folder, *arguments, lines=lines)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert message in errors


def test_folders_without_a_trained_model(tmp_path):
    code, _, errors = run(tmp_path, "nowhere")
    assert code == 2
    assert "nowhere/config.json: No such file or directory" in errors
    code, _, errors = run(tmp_path, "n" * 300)
    assert (code, len(errors.splitlines())) == (2, 1)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"")
    code, _, errors = run(tmp_path, ".")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "checkpoint.safetensors" in errors
    nn.save({"arguments": {"train_source": None}, "log_bytes": 0}, tmp_path / "checkpoint.safetensors")
    code, _, errors = run(tmp_path, ".")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "end it with: python examples/train_translation.py --resume --out ." in errors
    nn.save({"arguments": {"task": "copy"}, "log_bytes": 0}, tmp_path / "checkpoint.safetensors")
    code, _, errors = run(tmp_path, ".")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "holds a run that trains no translator" in errors
    unfinished = tmp_path / ".checkpoint.safetensors.0123abcd.tmp"  # of a run that is writing at this moment
    unfinished.write_bytes(b"")
    assert run(tmp_path, ".")[0] == 2
    assert unfinished.exists()
    Transformer(10, d_model=8, num_heads=2, num_layers=1).save_pretrained(tmp_path / "model")
    code, _, errors = run(tmp_path, "model")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "holds a model without a codec for text" in errors


def test_what_comes_before_a_line_that_is_no_text_is_translated(folder, tmp_path):
    best = expected(folder, LINES[:1])[0][0].text
    code, out, errors = run(tmp_path, folder, lines=LINES[0].encode() + b"\n\xff\n")
    assert (code, out, len(errors.splitlines())) == (2, best + "\n", 1)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_a_line_that_cannot_be_translated_is_told_and_the_others_are_translated(folder, tmp_path, batch):
    given = [LINES[0], "the zebra eats a xylophone.", LINES[2], "The cat sleeps.", "the " * 40, LINES[0]]
    first, third = (found[0].text for found in expected(folder, [LINES[0], LINES[2]]))
    code, out, errors = run(tmp_path, folder, "--batch-lines", batch, "--attention", "a.svg", lines=given)
    assert code == 2
    assert out.split("\n") == [first, "", third, "", "", first, ""]
    several = "'zebra', 'xylophone' are no words of this toy language; Vocabulary.words has those that are"
    assert errors.splitlines() == [
        f"translate.py: line 2: {several}",
        "translate.py: line 4: 'The' is no word of this toy language; it has 'the'",
        "translate.py: line 5: 40 ids, but the model takes at most 29 of a sentence",
    ]
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["a-3.svg", "a-6.svg", "a.svg"]
    code, out, _ = run(tmp_path, folder, "--n-best", 1, lines=given)
    assert [row.split("\t")[0] for row in out.splitlines()] == ["1", "3", "6"]


def test_output_is_utf_8_and_a_mark_of_it_is_no_word(folder, tmp_path):
    text = ("\N{ZERO WIDTH NO-BREAK SPACE}" + "".join(line + "\n" for line in LINES)).encode()
    command = [sys.executable, str(SCRIPT), str(folder)]
    odd = environment() | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run(command, cwd=tmp_path, env=odd, capture_output=True, input=text, timeout=120)
    assert result.returncode == 0, result.stderr
    texts = [found[0].text if found else "" for found in expected(folder)]
    assert result.stdout.decode() == "\n".join(texts) + "\n"


def test_closed_streams(folder, tmp_path):
    for redirection, code, message in (("<&-", 2, "it is closed"), ("</dev/null >&-", 0, "")):
        command = f'"{sys.executable}" "{SCRIPT}" "{folder}" {redirection}'
        result = subprocess.run(command, shell=True, cwd=tmp_path, env=environment(), capture_output=True, text=True)
        assert result.returncode == code
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == (1 if message else 0)


def test_a_model_without_attention(tmp_path):
    codec = ToyText("en-fr")
    made = Seq2Seq(len(codec.source), len(codec.target), attention=None, d_model=8, max_length=20)
    Translator(made, codec).save_pretrained(tmp_path)
    assert run(tmp_path, ".", lines=["I sleep."])[0] == 0
    code, _, errors = run(tmp_path, ".", "--attention", "out.svg", lines=["I sleep."])
    assert code == 2
    assert "this model has no attention" in errors
