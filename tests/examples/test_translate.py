"""examples/translate.py as its user meets it: a folder and lines in, lines and pictures out."""

import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

import tinytensor as tt
from tests import processes
from tinytensor import nn
from tinytensor.models import Seq2Seq, Transformer, Translator
from tinytensor.models.data.languages import ToyText
from tinytensor.models.training.evaluation import clearest_layer

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
    result = processes.run(command, cwd=cwd, input=text)
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
    found = expected(folder, num_beams=3, num_return_sequences=2, length_penalty=0.5)
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


def test_how_every_line_was_decoded_is_drawn(folder, tmp_path):
    options = ["--beam", 3, "--length-penalty", 0.5, "--decoding"]
    assert run(tmp_path, folder, *options, "tree.svg")[0] == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tree-3.svg", "tree-4.svg", "tree.svg"]
    (best,) = expected(folder, LINES[:1], num_beams=3, length_penalty=0.5)[0]
    assert f"with score {best.score:.3f};" in (tmp_path / "tree.svg").read_text()
    assert (tmp_path / "tree.svg").read_text().count(", score") <= 3  # hypotheses that ended


@pytest.mark.parametrize("options", [["--beam", 1], ["--sample", "--temperature", 2, "--top-k", 7]])
def test_what_else_could_have_been_said_is_drawn(folder, tmp_path, options):
    code, out, _ = run(tmp_path, folder, *options, "--decoding", "steps.svg", "--attention", "a.svg", lines=LINES[:1])
    assert code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.svg", "steps.svg"]
    (said,) = re.findall("Said, with its probability: (.*)[.]</desc>", (tmp_path / "steps.svg").read_text())
    words = [step.rpartition(" ")[0] for step in said.split(", ")]
    for word in words[:5]:
        assert word.rstrip("'") in out or word.startswith("&lt;")


def colours(picture):
    """Of the lines: one for each head."""
    return re.findall(r'<g [^>]*class="head', picture)


def opacities(picture):
    """Of the lines, head by head."""
    return [float(x) for x in re.findall(r'stroke-opacity="([\d.]+)"', picture)]


def test_a_word_and_what_it_looked_at(folder, tmp_path):
    """As in Figures 3 to 5 of Vaswani et al. 2017."""
    seen = Translator.from_pretrained(folder).sentence_attention(LINES[0], expected(folder)[0][0])
    encoder = ["--kind", "encoder", "--layer", 0, "--token", "cat"]
    assert run(tmp_path, folder, "--attention", "cat.svg", *encoder, lines=LINES[:1])[0] == 0
    picture = (tmp_path / "cat.svg").read_text()
    assert "What “cat” looked at (encoder, layer 0)" in picture
    assert len(colours(picture)) == 2
    weights = seen.layers["encoder"][0].weights[0, :, 2]
    assert opacities(picture) == pytest.approx(weights[weights >= 0.02].tolist(), abs=1e-3)
    assert run(tmp_path, folder, "--attention", "one.svg", *encoder, "--head", 1, lines=LINES[:1])[0] == 0
    assert len(colours((tmp_path / "one.svg").read_text())) == 1
    word = seen.said[1]
    place = seen.said.index(word)
    token = f"{word}:1" if seen.said.count(word) > 1 else word
    for kind in ("cross", "decoder"):
        assert run(tmp_path, folder, "--attention", "o.svg", "--kind", kind, "--token", token, lines=LINES[:1])[0] == 0
        picture = (tmp_path / "o.svg").read_text()
        assert f"What “{word}” looked at (" in picture
        layers = [call.weights[0] for call in seen.layers[kind]]
        weights = layers[clearest_layer(layers)[0]][:, place]
        assert opacities(picture) == pytest.approx(weights[weights >= 0.02].tolist(), abs=1e-3)
        assert ("&lt;begin&gt;" in picture) == (kind == "decoder")


def test_each_kind_as_a_heat_map(folder, tmp_path):
    for arguments, title in (
        (["--kind", "encoder"], r"What each word looked at \(encoder, layer [01], mean of its heads\)"),
        (["--kind", "decoder", "--layer", 1], r"What each word looked at \(decoder, layer 1, mean of its heads\)"),
        (["--layer", 0, "--head", 1], r"What each word looked at \(layer 0, head 1\)"),
        ([], r"What each word looked at \(layer [01], mean of its heads\)"),
    ):
        assert run(tmp_path, folder, "--attention", "out.svg", *arguments, lines=LINES[:1])[0] == 0
        picture = (tmp_path / "out.svg").read_text()
        assert re.search(title, picture)
        assert ("masked" in picture) == ("decoder" in arguments)


def test_the_page_has_every_kind(folder, tmp_path):
    assert run(tmp_path, folder, "--attention", "out.html", lines=LINES[:1])[0] == 0
    data = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "out.html").read_text(), re.DOTALL)[1])
    assert [view["name"].split()[0] for view in data["views"]] == ["cross", "encoder", "decoder"]
    cross, encoder, decoder = data["views"]
    assert encoder["source"] == encoder["target"] == cross["source"]
    assert decoder["target"] == cross["target"]
    assert decoder["source"] == ["<begin>", *cross["target"][:-1]]
    assert cross["target"][-1] != "<begin>"


@pytest.fixture(scope="module", params=["bahdanau", "local-p"])
def recurrent(request, tmp_path_factory):
    tt.manual_seed(0)
    codec = ToyText("en-fr")
    made = Seq2Seq(len(codec.source), len(codec.target), attention=request.param, d_model=8, max_length=30, window=2)
    path = tmp_path_factory.mktemp("recurrent")
    Translator(made, codec).save_pretrained(path)
    return path


def test_a_recurrent_model_looks_at_the_source_only(recurrent, tmp_path):
    line = LINES[3:]
    said = Translator.from_pretrained(recurrent).translate(line)[0][0]
    word = Translator.from_pretrained(recurrent).attention(line[0], said)[2][0]
    for arguments in ([], ["--token", f"{word}:1"], ["--layer", 0, "--head", 0, "--kind", "cross"]):
        assert run(tmp_path, recurrent, "--attention", "out.svg", *arguments, lines=line)[0] == 0
        assert "looked at (layer 0" in (tmp_path / "out.svg").read_text()
    assert run(tmp_path, recurrent, "--attention", "out.html", lines=line)[0] == 0
    for arguments, message in (
        (["--kind", "encoder"], "--kind encoder: this model has no such attention; it has cross"),
        (["--layer", 1], "--layer 1: the model has one layer of this kind, 0"),
        (["--head", 1], "--head 1: the model has one head of this kind, 0"),
    ):
        code, out, errors = run(tmp_path, recurrent, "--attention", "new.svg", *arguments, lines=line)
        assert (code, out, len(errors.splitlines())) == (2, "", 1)
        assert message in errors
    assert not (tmp_path / "new.svg").exists()


def test_a_line_without_the_word_is_told_and_the_others_are_drawn(folder, tmp_path):
    lines = [LINES[0], "I sleep.", "the cat eats the cat.", "the cat sleeps."]
    code, out, errors = run(
        tmp_path, folder, "--attention", "a.svg", "--kind", "encoder", "--token", "cat", lines=lines
    )
    assert code == 2
    assert len(out.splitlines()) == 4
    assert errors.splitlines() == [
        "translate.py: line 2: --token: 'cat' is not in the sentence, which has I sleep . <end>",
        "translate.py: line 3: --token: 'cat' is there 2 times; say which: cat:1 to cat:2",
    ]
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["a-4.svg", "a.svg"]
    code, _, errors = run(
        tmp_path, folder, "--attention", "b.svg", "--kind", "encoder", "--token", "cat:3", lines=lines[2:3]
    )
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "'cat:3' is not in the sentence" in errors
    second = ["--kind", "encoder", "--token", "cat:2"]
    assert run(tmp_path, folder, "--attention", "b.svg", *second, lines=lines[2:3])[0] == 0
    assert f'<rect x="4" y="{66 + 4 * 24}"' in (tmp_path / "b.svg").read_text()  # behind the fifth word


def test_a_terminal_is_asked_line_by_line(folder, tmp_path):
    controller, terminal = pty.openpty()
    command = [sys.executable, SCRIPT, folder, "--beam", "2"]
    streams = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    process = processes.start(command, cwd=tmp_path, prelude="import os; os.environ['TERM'] = 'dumb'", **streams)
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
    assert expected(folder, ["I sleep."], num_beams=2)[0][0].text in seen
    assert "cannot translate this: 'zebra' is no word of this toy language" in seen


@pytest.mark.parametrize(
    ("arguments", "lines", "message"),
    [
        (["--n-best", 6], LINES, "--n-best 6 needs --beam 6 at least"),
        (["--top-k", 6], LINES, "--temperature, --top-k and --top-p are for drawing: add --sample"),
        (["--sample", "--n-best", 2], LINES, "--n-best is for beam search; it does not go with --sample"),
        (["--sample", "--length-penalty", 2], LINES, "--length-penalty is for beam search; it does not go with"),
        (["--length-penalty", "nan"], LINES, "must be from -10 to 10, got nan"),
        (["--decoding", "out.html"], LINES, "--decoding out.html: expected a name that ends in .svg"),
        (["--decoding", "a.svg", "--attention", "./a.svg"], LINES, "--decoding and --attention: two pictures need two"),
        (["--decoding", "nowhere/out.svg"], LINES, "cannot write nowhere/out.svg: "),
        (["--attention", "out.png"], LINES, "--attention out.png: expected a name that ends in .svg or .html"),
        (["--attention", "nowhere/out.svg"], LINES, "cannot write nowhere/out.svg: "),
        (["--token", "cat"], LINES, "--token is for a picture: add --attention FILE.svg"),
        (["--layer", 0], LINES, "--layer is for a picture: add --attention FILE.svg"),
        (["--attention", "a.html", "--kind", "encoder"], LINES, "--kind is for an .svg; in the page of an .html you"),
        (["--attention", "a.svg", "--kind", "self"], LINES, "argument --kind: invalid choice: 'self'"),
        (["--attention", "a.svg", "--layer", 2], LINES, "--layer 2: the model has 2 layers of this kind, 0 to 1"),
        (["--attention", "a.svg", "--head", 2], LINES, "--head 2: the model has 2 heads of this kind, 0 to 1"),
        (["--attention", "a.svg", "--head", -1], LINES, "argument --head: must be at least 0, got -1"),
        (["--attention", "a.svg", "--token", "zebra"], LINES[:1], "line 1: --token: 'zebra' is not in its translation"),
        ([], ["I sleep.", "the zebra sleeps."], "line 2: 'zebra' is no word of this toy language"),
        (["--batch-lines", 2], [*LINES, "the zebra sleeps."], "line 5: 'zebra' is no word of this toy language"),
        ([], b"I sleep.\n\xff\nthe dog sleeps.\n", "line 2: not UTF-8 (byte 1 of it)"),
        ([], ["I sleep.", "The dog sleeps."], "line 2: 'The' is no word of this toy language; it has 'the'"),
        ([], ["the " * 40], "line 1: 40 ids, but the model takes at most 29 of a sentence"),
    ],
)
def test_mistakes_end_in_one_line(folder, tmp_path, arguments, lines, message):
    code, _, errors = run(tmp_path, folder, *arguments, lines=lines)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert message in errors


def test_a_line_that_is_not_utf8_costs_no_other(folder, tmp_path):
    lines = b"I sleep.\n\xff\xfe\n\nthe dog sleeps.\nthe caf\xe9\nI sleep.\n"
    code, output, errors = run(tmp_path, folder, "--batch-lines", 2, lines=lines)
    said = output.split("\n")[:-1]
    assert (code, len(said)) == (2, 6)
    assert said[0] == said[5] != "" != said[3]
    assert (said[1], said[2], said[4]) == ("", "", "")
    assert [error.split(": ", 1)[1] for error in errors.splitlines()] == [
        "line 2: not UTF-8 (byte 1 of it)", "line 5: not UTF-8 (byte 8 of it)",
    ]  # fmt: skip


def test_folders_without_a_trained_model(tmp_path):
    code, _, errors = run(tmp_path, "nowhere")
    assert code == 2
    train = "python examples/train_translation.py --out nowhere"
    assert errors == f"translate.py: no run in nowhere; train a model first: {train}\n"
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
    odd = processes.environment() | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run(command, cwd=tmp_path, env=odd, capture_output=True, input=text, timeout=120)
    assert result.returncode == 0, result.stderr
    texts = [found[0].text if found else "" for found in expected(folder)]
    assert result.stdout.decode() == "\n".join(texts) + "\n"


def test_closed_streams(folder, tmp_path):
    for redirection, code, message in (("<&-", 2, "it is closed"), ("</dev/null >&-", 0, "")):
        command = f'"{sys.executable}" "{SCRIPT}" "{folder}" {redirection}'
        environment = processes.environment()
        result = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
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
