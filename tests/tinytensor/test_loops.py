"""Pictures of compiled functions: their formulas compute what the function computes."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F

pytest.importorskip("llvmlite")


def normal(*shape):
    return tt.asarray(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


class Sublayer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 24), nn.Linear(24, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Attention(nn.Module):
    """By hand, with two heads and a causal mask."""

    def __init__(self, width=16):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", tt.tril(tt.ones((8, 8))))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (part.reshape(b, n, 2, d // 2).transpose(1, 2) for part in tt.split(self.qkv(x), 3, axis=-1))
        scores = q @ k.transpose(-2, -1) * 0.3
        scores = tt.where(self.mask[:n, :n] == 0, -math.inf, scores)
        return self.out((F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(b, n, d))


FUNCTIONS = {"exp": np.exp, "erf": np.vectorize(math.erf), "where": np.where, "log": np.log, "copy": np.copy}
SIGNS = {
    "+": np.add, "−": np.subtract, "·": np.multiply, "/": np.divide, "@": np.matmul, "=": np.equal, "<": np.less,
    "≤": np.less_equal, ">": np.greater, "≥": np.greater_equal, "≠": np.not_equal,
}  # fmt: skip
TOKEN = re.compile(r"\s*(\d[\d.]*(?:e[−+]?\d+)?|[^\Wᵀ]+|[^\s])")


class Reader:
    """Computes a formula of a picture, in its own grammar."""

    def __init__(self, text, arrays):
        self.arrays = {f"array{i}": array for i, array in enumerate(arrays.values())}
        for i, name in sorted(enumerate(arrays), key=lambda pair: -len(pair[1])):
            text = re.sub(rf"(?<![\w./∂]){re.escape(name)}(?![^\Wᵀ])", f"array{i}", text)
        self.tokens = TOKEN.findall(text)

    def next(self, *expected):
        return self.tokens.pop(0) if self.tokens and (not expected or self.tokens[0] in expected) else None

    def value(self):
        return self.binary("=<≤>≥≠", lambda: self.binary("+−", self.term))

    def binary(self, signs, part):
        found = part()
        while sign := self.next(*signs):
            found = SIGNS[sign](found, part())
        return found

    def term(self):
        if self.next("−"):
            return -self.product()
        if reduced := re.fullmatch("(Σ|max)([₀₁₂₃])?", self.tokens[0]):
            self.next()
            axes = [reduced[2]] if reduced[2] else []
            while self.tokens[0][0] in ",₀₁₂₃":
                axes += self.next().strip(",")
            reduce = np.sum if reduced[1] == "Σ" else np.max
            return reduce(self.product(), axis=tuple(map("₀₁₂₃".index, axes)), keepdims=True)
        return self.product()

    def product(self):
        return self.binary("·/@", self.atom)

    def listed(self, item, end):
        found = [item()]
        while self.next(","):
            found.append(item())
        assert self.next(end)
        return found

    def atom(self):
        token = self.next()
        if token == "(":
            (found,) = self.listed(self.value, ")")
        elif token == "√":
            found = np.sqrt(self.atom())
        elif token == "inf":
            found = np.float32(math.inf)
        elif token[0].isdigit():
            found = np.float32(token.replace("−", "-"))
        elif self.next("("):
            found = FUNCTIONS[token](*self.listed(self.value, ")"))
        else:
            found = self.arrays[token]
        while follows := self.next(".", "[", "ᵀ"):
            if follows == "ᵀ":
                found = np.swapaxes(found, -1, -2)
            elif follows == "[":
                found = found[tuple(self.listed(self.slice, "]"))]
            else:
                method = {"reshape": np.reshape, "permute_dims": np.transpose}[self.next()]
                assert self.next("(")
                found = method(found, [int(n) for n in self.listed(self.next, ")")])
        return found

    def slice(self):
        start = None if self.tokens[0] == ":" else int(self.next())
        assert self.next(":")
        return slice(start, None if self.tokens[0] in ",]" else int(self.next()))


def read(picture, arrays):
    """Compute what a picture says, box by box; an array has the shape of the box that reads it."""
    for vertex in picture.vertices:
        shape = tuple(map(int, re.findall(r"\d+", vertex.lines[0]))) if vertex.numbers else ()

        def shaped(array, shape=shape):
            return array.reshape(shape) if array.size == math.prod(shape) else array

        for row in vertex.numbers:
            name, _, text = row.partition(" = ")
            reader = Reader(text, {n: shaped(a) for n, a in arrays.items()} if vertex.kind == "op" else arrays)
            arrays[name] = shaped(np.asarray(reader.value()))
            assert not reader.tokens, row
    return arrays


@pytest.mark.parametrize("make", [Sublayer, Attention])
def test_the_formulas_of_the_picture_compute_the_result(make):
    model, x = make(), normal(3, 5, 16)
    compiled = tt.compile(model)
    result = compiled(x)
    assert compiled.why_not is None
    picture = compiled.loops().picture()
    arrays = {name: p.detach().numpy() for name, p in [*model.named_parameters(), *model.named_buffers()]}
    arrays = read(picture, {**arrays, "x": x.numpy()})
    (out,) = [vertex.title for vertex in picture.vertices if vertex.kind == "output"]
    np.testing.assert_allclose(arrays[out].reshape(result.shape), result.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_the_formulas_of_gradients_compute_them():
    model, x = Sublayer(), normal(3, 5, 16)
    compiled = tt.compile(model)
    result = compiled(x)
    g = normal(3, 5, 16) * 2
    result.backward(g)
    arrays = {name: p.detach().numpy() for name, p in model.named_parameters()} | {"x": x.numpy()}
    arrays = read(compiled.loops().picture(), arrays)
    picture = compiled.loops(backward=True).picture()
    (out,) = [v.title for v in compiled.loops().picture().vertices if v.kind == "output"]
    arrays[f"∂L/∂{out}"] = g.numpy()
    arrays = read(picture, arrays)
    given = {v.title.partition(" = ")[0]: v.title.partition(" = ")[2] for v in picture.vertices if v.kind == "output"}
    assert given.keys() == {f"∂L/∂{name}" for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        found = Reader(given[f"∂L/∂{name}"], arrays).value()
        np.testing.assert_allclose(found.reshape(parameter.shape), parameter.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_what_is_written_has_an_arrow_to_its_name():
    norm = nn.BatchNorm1d(3)
    compiled = tt.compile(norm)
    compiled(normal(4, 3))
    outputs = [v.title for v in compiled.loops().picture().vertices if v.kind == "output"]
    assert any(title.startswith("running_mean ← ") for title in outputs)
    assert any(title.startswith("running_var ← ") for title in outputs)


def test_a_whole_step_shows_the_gradients_that_it_fills():
    layer = nn.Linear(4, 3)

    @tt.compile
    def step(x):
        layer.zero_grad()
        tt.sum(layer(x)).backward()

    for _ in range(2):
        step(normal(5, 4))
    outputs = {v.title.partition(" = ")[0] for v in step.loops().picture().vertices if v.kind == "output"}
    assert outputs == {"layer.weight.grad", "layer.bias.grad"}


def test_each_arrow_begins_and_ends_at_a_vertex():
    compiled = tt.compile(Attention())
    compiled(normal(2, 4, 16))
    for backward in (False, True):
        picture = compiled.loops(backward=backward).picture()
        places = [v.id for v in picture.vertices]
        assert len({*places}) == len(places)
        assert {end for e in picture.edges for end in (e.tail, e.head)} <= {*places}


def test_it_is_saved_in_the_forms_of_other_pictures(tmp_path):
    compiled = tt.compile(lambda x: tt.exp(x) * 2)
    with pytest.raises(RuntimeError, match="was not called yet"):
        compiled.loops()
    compiled(normal(2, 3))
    picture = compiled.loops()
    for ending in ("svg", "dot", "mmd", "txt"):
        picture.save(tmp_path / f"loops.{ending}")
    ElementTree.parse(tmp_path / "loops.svg")
    assert "exp(x) · 2" in (tmp_path / "loops.txt").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"ends in '\.jpg'"):
        picture.save(tmp_path / "loops.jpg")
    with pytest.raises(TypeError, match="no options"):
        picture.to_svg(depth=3)
    with pytest.raises(RuntimeError, match="no gradients"):
        compiled.loops(backward=True)


def test_without_a_program_the_reason_is_told():
    compiled = tt.compile(lambda x: x * x[0].item())
    compiled(normal(3))
    with pytest.raises(RuntimeError, match="it asks for a number"):
        compiled.loops()
