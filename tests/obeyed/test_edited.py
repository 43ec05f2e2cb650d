"""What you read is what runs: text that was edited computes, at every size, and one warning tells of it."""

import ast
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..engine_room import room
from .cases import CASES
from .test_replaced import entered

ROOT = Path(__file__).parents[2]
texts = room("fast.texts")
if texts is None:
    pytest.skip("the engine room is left out", allow_module_level=True)
from tinytensor.fast.digests import digests  # noqa: E402
from tinytensor.testing import renew  # noqa: E402

KNOWN = texts.known()
RUN = """
import json, sys, warnings
import numpy as np
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import tinytensor as tt
    from tests.obeyed.cases import CASES, SIZES, WHOLE_AND_STEPS, whole_and_steps
    apart = []
    def compare_steps(mode):
        for name in WHOLE_AND_STEPS:
            whole, steps = whole_and_steps(name, *SIZES["small"])
            if not np.allclose(whole, steps, rtol=1e-3, atol=1e-4):
                apart.append([name, mode])
    for name in sys.argv[1].split(","):
        for size in SIZES.values():
            found = CASES[name](*size)
            with tt.textbook():
                expected = CASES[name](*size)
            close = [np.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(found, expected, strict=True)]
            if not all(close):
                apart.append([name, *size])
    compare_steps("plain")
    with tt.textbook():
        compare_steps("textbook")
    report = str(tt.speed_up())
    compare_steps("switched on")
print(json.dumps([apart, [str(w.message) for w in told], report]))
"""


def source_of(module):
    return Path(texts.file_of(module)).read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_is_known_is_what_would_be_written_now():
    """Whoever changes a text looks at its fast version, and runs `python -m tinytensor.testing.renew`."""
    done = subprocess.run([sys.executable, "-m", "tinytensor.testing.renew", "--check"], cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
@pytest.mark.parametrize("module", KNOWN.files)
def test_an_edit_changes_the_digest_of_its_text_alone(module):
    source = source_of(module)
    before = digests(source)
    assert digests(ast.unparse(ast.parse(source))) == before  # comments and blanks say nothing
    for name, node in dict(renew.named(tree := ast.parse(source))).items():
        if not isinstance(node, ast.FunctionDef):
            continue
        whole, node.body = node.body, [*node.body[:-1], ast.parse("edited = 1").body[0], node.body[-1]]
        now = digests(ast.unparse(tree))
        node.body = whole
        assert {key for key in before if now[key] != before[key]} == {name}


def test_docstrings_comments_and_annotations_say_nothing():
    one = 'def f(x: int) -> int:\n    """Twice."""\n    return 2 * x  # or x + x\n'
    other = "def f(x):\n\n    return (2 * x)\n"
    assert digests(one) == digests(other) != digests("def f(x):\n    return 3 * x\n")


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b"", lambda b: b[: len(b) // 3 + 7], lambda b: b[: b.rindex(b"\n") // 2], lambda b: b + b"\n",
        lambda b: b.replace(b"\nfile\tengine", b"\n<<<<<<< HEAD\nfile\tengine"), lambda b: b.replace(b"\t", b" "),
        lambda b: b + b"\xe9\n", lambda b: bytes(range(256)),
    ],
    ids=["empty", "in a line", "in the middle", "an empty line", "a conflict", "blanks", "Latin-1", "binary"],
)  # fmt: skip
def test_in_a_damaged_list_everything_counts_as_edited(damage, tmp_path, monkeypatch):
    path = tmp_path / "texts.txt"
    path.write_bytes(damage(Path(texts.LIST).read_bytes()))
    monkeypatch.setattr(texts, "LIST", str(path))
    known = texts.known.__wrapped__()
    monkeypatch.setattr(texts, "known", lambda: known)
    texts.tell_damaged.cache_clear()
    lost = [name for name in texts.ways if name not in known.ways]
    assert known.is_there
    assert lost
    way = texts.Way.__new__(texts.Way)
    way.name, way._edited, way.off = lost[0], None, True
    with pytest.warns(UserWarning, match=r"texts\.txt is damaged, so formulas compute, slower; install"):
        assert not way.holds()


@pytest.mark.parametrize("source", [b"def half(x:\n", b"\x00\xff" * 9], ids=["half-written", "binary"])
def test_of_a_file_that_cannot_be_parsed_everything_counts_as_edited(source, tmp_path, monkeypatch):
    path = tmp_path / "linear.py"
    path.write_bytes(source)
    monkeypatch.setattr(texts, "file_of", lambda module: str(path))
    module = "nn.functional.linear"
    assert texts.edited_in.__wrapped__(module) == {name for of, name, _ in KNOWN.texts if of == module}


def test_a_byte_order_mark_is_no_edit(tmp_path, monkeypatch):
    path, module = tmp_path / "linear.py", "nn.functional.linear"
    path.write_bytes(b"\xef\xbb\xbf" + Path(texts.file_of(module)).read_bytes())
    monkeypatch.setattr(texts, "file_of", lambda module: str(path))
    assert texts.edited_in.__wrapped__(module) == frozenset()


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the library, to edit, with the loops that are compiled already."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("nn", "models"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc"))
    ignored = shutil.ignore_patterns("*.pyc", "nn", "models")
    shutil.copytree(ROOT / "tinytensor", folder / "tinytensor", ignore=ignored)
    for name in ("nn", "models"):
        (folder / "tinytensor" / name).symlink_to(folder / name)
    (folder / "tests" / "obeyed").mkdir(parents=True)
    for name in ("tests/__init__.py", "tests/obeyed/__init__.py", "tests/obeyed/cases.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


_seconds = itertools.count(int(time.time()))


def write(path, text):
    """With a second of its own: of two versions as long as each other Python compiles one, if they have the same."""
    path.write_text(text, encoding="utf-8")
    second = next(_seconds)
    os.utime(path, (second, second))


def run(copy, names):
    environment = {**os.environ, "PYTHONPATH": str(copy), "TINYTENSOR_TEXTBOOK": "0"}
    command = [sys.executable, "-c", RUN, ",".join(names)]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def edited(copy, file, old, new, names):
    """What comes of an edit: which cases go astray, the warnings, and the report of `tt.speed_up`."""
    path = copy / file
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1
    write(path, text.replace(old, new))
    try:
        return run(copy, names)
    finally:
        write(path, text)


EDITS = {
    "a layer's residual": (
        "nn/transformer.py", "return self.norm(x + self", "return self.norm(x - self", "Sublayer.__call__",
        ["encoder_layer_behind", "decoder", "decoder_steps"],
    ),
    "the order of norms in a decoder's step": (
        "nn/transformer.py", "Sublayer(ask, self.dropout2, self.norm2, self",
        "Sublayer(ask, self.dropout2, self.norm2, not self", "TransformerDecoderLayer.sublayers", ["decoder_steps"],
    ),
    "a language model's norms": (
        "nn/language_layer.py", "self.norm2, norm_first=True", "self.norm2, norm_first=False", "Layer.sublayers",
        ["gpt2", "llama"],
    ),
    "attention's memory": (
        "nn/transformer.py", "return self.attention(x, memory", "return self.attention(x, -memory", "Attend.__call__",
        ["decoder_steps", "transformer"],
    ),
    "attention's queries": (
        "nn/attention.py", "q = self._batch_first(query)", "q = 2 * self._batch_first(query)",
        "MultiheadAttention.forward", ["multi_head_attention", "decoder_steps", "transformer"],
    ),
    "attention's keys": (
        "nn/attention.py", "v = k if value", "k, v = 2 * k, k if value", "MultiheadAttention.forward",
        ["multi_head_attention", "decoder_steps", "transformer"],
    ),
    "heads": (
        "nn/functional/attention.py", "(split_heads(linear(x, w, b), num_heads) for x, w, b in projections)",
        "(split_heads((1 + i) * linear(x, w, b), num_heads) for i, (x, w, b) in enumerate(projections))", "multi_head",
        ["multi_head_attention", "decoder_steps"],
    ),
    "heads of keys and values": (
        "nn/functional/attention.py", "    k, v, mask = (k, v", "    k = 2 * k\n    k, v, mask = (k, v", "attend_heads",
        ["multi_head_attention", "decoder_steps", "gpt2", "llama"],
    ),
    "heads of self-attention": (
        "nn/self_attention.py", "        return q, k, v\n", "        return 2 * q, k, v\n", "SelfAttention.heads",
        ["gpt2", "llama"],
    ),
    "self-attention": (
        "nn/self_attention.py", "return self.out_proj(heads)", "return self.out_proj(2 * heads)",
        "SelfAttention.forward", ["gpt2", "llama"],
    ),
    "a language model's layer": (
        "nn/transformer.py", "return x + self.dropout(", "return x - self.dropout(", "Sublayer.__call__",
        ["gpt2", "llama"],
    ),
    "a bias": ("nn/functional/linear.py", "else y + bias", "else y - bias", "_linear", ["decoder", "layers"]),
    "attention": (
        "nn/functional/attention.py", "z = tt.matmul(kept, v)", "z = 2 * tt.matmul(kept, v)", "attention",
        ["attention", "decoder", "gpt2"],
    ),
    "a norm": (
        "nn/functional/normalization.py", "tt.sqrt(variance + eps)", "tt.sqrt(variance + eps + 1)", "_layer_norm",
        ["layer_norm_16", "decoder_steps"],
    ),
    "an op": (
        "tinytensor/functions/elementwise.py", "return xp.exp(x)", "return xp.exp(x / 2)", "exp",
        ["softmax_-1", "decoder"],
    ),
    "a gradient rule": (
        "tinytensor/functions/elementwise.py", "x=lambda xp, g, out: g * out)\ndef exp(",
        "x=lambda xp, g, out: g * out * 2)\ndef exp(", "exp", ["softmax_-1", "decoder"],
    ),
    "the chain rule": (
        "tinytensor/engine.py", "total = total + gradient", "total = total - gradient", "Arrived.add", ["gru"],
    ),
    "a method more": (
        "nn/layers.py", "    def extra_repr(self) -> str:\n        return f\"in_features",
        "    def __call__(self, x):\n        return super().__call__(x) * 2\n\n    def extra_repr(self) -> str:\n"
        "        return f\"in_features", "Linear", ["encoder_layer_behind"],
    ),
    "a statement at the end": (
        "nn/layers.py", "class Embedding(Module):",
        "Linear.forward = lambda self, x: 2 * F.linear(x, self.weight, self.bias)\n\n\nclass Embedding(Module):",
        "a statement", ["encoder_layer_behind"],
    ),
    "another import": (
        "tinytensor/backend/numpy.py", "import numpy as np\n", "import numpy as np\nfrom numpy import exp2 as exp\n",
        "exp", ["softmax_-1"],
    ),
    "a training step": (
        "models/training/loss.py", "* (batch.tokens / tokens)\n            loss",
        "* (2 * batch.tokens / tokens)\n            loss", "ForwardBackward.__call__", ["training_step"],
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_obeyed_and_told_once(copy, name):
    file, old, new, text, names = EDITS[name]
    apart, told, report = edited(copy, file, old, new, names)
    assert not apart
    (about,) = [line for line in told if "was edited" in line]  # one warning, whatever the text concerns
    assert f"{file.removeprefix('tinytensor/')}: {text} was edited" in about
    assert "python -m tinytensor.testing.renew" in about
    assert "text:" in report
    assert text in report or text == "a statement"


FOLLOWED = {
    "the order of a decoder's norms": (
        "nn/transformer.py", "Sublayer(ask, self.dropout2, self.norm2, self",
        "Sublayer(ask, self.dropout2, self.norm2, not self", ["decoder"], "TransformerDecoderLayer.sublayers",
    ),
    "an encoder layer without attention": (
        "nn/transformer.py",
        "Sublayer(attend, self.dropout1, self.norm1, self.norm_first),\n            Sublayer(feed, self.dropout2",
        "Sublayer(feed, self.dropout2", ["encoder_layer_behind", "encoder_layer_in_front"], None,
    ),
    "an optimiser": (
        "nn/optim/adam.py", 'theta - group["lr"] * direction, m', 'theta + group["lr"] * direction, m',
        ["adam", "adam_w"], "Adam.update",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLLOWED)
def test_an_edit_of_what_the_loops_read_is_followed(copy, name):
    """No warning: a list of sub-layers is data, an `update` is what is compiled. Only decoding in steps warns.

    The report names Adam's `update` as well, since a GPU has a kernel of it.
    """
    file, old, new, names, text = FOLLOWED[name]
    apart, told, report = edited(copy, file, old, new, names)
    assert not apart
    assert len(told) == (text not in (None, "Adam.update"))
    assert not told or f"{text} was edited" in told[0]
    assert ("text:" in report) == (text is not None)
    assert text is None or text in report


@pytest.mark.slow
def test_what_is_added_is_no_edit(copy):
    """A function of one's own, below those that are there."""
    more = "def my_own(x):\n    return x * tt.tanh(x)\n\n\n@summed\ndef softmax("
    apart, told, report = edited(
        copy, "nn/functional/activations.py", "@summed\ndef softmax(", more, ["softmax_-1", "relu"]
    )
    assert (apart, told) == ([], [])
    assert "text:" not in report


@pytest.mark.slow
def test_without_an_edit_nothing_is_told(copy):
    apart, told, report = run(copy, ["encoder_layer_behind", "softmax_-1", "decoder_steps", "sgd"])
    assert (apart, told) == ([], [])
    assert "text:" not in report


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.again) for part in range(1, 4))])
def test_texts_here_and_there(copy, part):
    """Every eighth text that a case enters has a statement more: it is told, and numbers are the formula's."""
    enters = {}
    for case, function in CASES.items():
        for code in entered(lambda function=function: function(2, 3)):
            enters.setdefault((code.co_filename, code.co_qualname), case)
    candidates = []
    for module, name, _ in KNOWN.texts:
        case = enters.get((texts.file_of(module), name))
        if case is not None:
            candidates.append((module, name, case))
    assert len(candidates) > 150
    for module, name, case in candidates[part * 2 :: 32]:
        source = source_of(module)
        tree = ast.parse(source)
        node = dict(renew.named(tree))[name]
        node.body.insert(len(node.body) - 1, ast.parse("edited = 1").body[0])
        file = Path(texts.file_of(module))
        place = file.relative_to(Path(texts.__file__).parents[1]).as_posix()
        path = copy / "tinytensor" / place
        write(path, ast.unparse(tree))
        try:
            apart, _, report = run(copy, [case])
        finally:
            write(path, source)
        assert not apart
        assert f"{module}: {name}" in report, (module, name, case, report)


@pytest.mark.slow
def test_without_the_list_everything_counts_as_it_was(copy):
    known = copy / "tinytensor" / "fast" / "texts.txt"
    text = known.read_bytes()
    known.unlink()
    try:
        apart, told, report = run(copy, ["softmax_-1", "sgd"])
    finally:
        known.write_bytes(text)
    assert (apart, told) == ([], [])
    assert "text:" not in report


@pytest.mark.slow
def test_the_doctor_lists_an_edit_of_what_it_does_not_load(copy):
    path = copy / "nn" / "transformer.py"
    text = path.read_text(encoding="utf-8")
    write(path, text.replace("x + self.dropout", "x - self.dropout"))
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        command = [sys.executable, "-m", "tinytensor"]
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    finally:
        write(path, text)
    assert done.returncode == 0
    assert "text:      no: formulas compute what was edited: nn.transformer: Sublayer.__call__" in (done.stdout)
    assert "- change the fast versions as well, then run: python -m tinytensor.testing.renew (text)" in done.stdout


RELOADED = """
import importlib, pathlib, sys, warnings
import numpy as np
import tinytensor as tt
from tinytensor import nn

x = tt.random.randn(24, 48, 16)
layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
layer(x)
module = sys.modules["tinytensor.nn.functional.linear"]
file = pathlib.Path(module.__file__)
text = file.read_text(encoding="utf-8")
file.write_text(text.replace("else y + bias", "else y - bias"), encoding="utf-8")
try:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        old = module._linear
        importlib.reload(module)
        old.op.function.__code__ = module._linear.op.function.__code__  # as %autoreload does
        found = layer(x).numpy()
finally:
    file.write_text(text, encoding="utf-8")
with tt.textbook():
    expected = layer(x).numpy()
print(np.allclose(found, expected, atol=1e-5), [str(w.message).split(" so ")[0] for w in told])
"""


@pytest.mark.slow
def test_a_module_that_is_edited_and_loaded_again_computes(copy):
    """What a notebook's `%autoreload` does after an edit."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", RELOADED], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith("True [")
    assert done.stdout.count("_linear was edited") == 1
