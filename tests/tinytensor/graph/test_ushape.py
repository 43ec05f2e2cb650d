"""The layout of U-Nets: their skips are level, and what reads the innermost one goes up. Only they have it."""

import itertools
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.graph import render
from tinytensor.nn import functional as F

from .test_faces import encoder_layer, head, loop

pytest.importorskip("graphviz")


def larger(x):
    return tt.repeat(tt.repeat(x, 2, axis=2), 2, axis=3)


class Twice(nn.Sequential):
    def __init__(self, before, after):
        super().__init__(nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.Conv2d(after, after, 3, padding=1))


class UNet(nn.Module):
    """Of any depth, with skips that are joined by a function."""

    def __init__(self, join, channels=(2, 4, 6), time=0):
        super().__init__()
        self.join, self.pool = join, nn.MaxPool2d(2)
        self.down = nn.ModuleList([Twice(a, b) for a, b in zip((1, *channels), channels)])
        self.fit = nn.ModuleList([nn.Conv2d(b, a, 1) for a, b in itertools.pairwise(channels)])
        self.up = nn.ModuleList([Twice(2 * a if join is joined else a, a) for a in channels[:-1]])
        self.time = nn.Linear(time, channels[-1]) if time else None

    def forward(self, x, t=None):
        kept = []
        for i, block in enumerate(self.down):
            kept.append(block(self.pool(kept[-1]) if i else x))
        x = kept.pop()
        if t is not None:
            x = x + self.time(t)[:, :, None, None]
        for fit, block in zip(reversed(list(self.fit)), reversed(list(self.up))):
            x = block(self.join(kept.pop(), larger(fit(x))))
        return x


def joined(skip, x):
    return tt.concat([skip, x], axis=1)


def drawn(model, *arguments):
    with tt.record() as graph:
        model(*arguments)
    return graph


def places(picture_of, **options):
    """The middle of each vertex, from the lower left corner."""
    laid = json.loads(render(picture_of.to_dot(**options), "json"))
    return {x["name"]: tuple(map(float, x["pos"].split(","))) for x in laid["objects"] if "pos" in x}


@pytest.mark.parametrize("join", [joined, tt.add], ids=["concat", "add"])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_u_net_looks_like_a_u(join, depth, graphviz_here):
    graph = drawn(UNet(join, (2, 4, 6, 8)), tt.ones((1, 1, 16, 16)))
    picture = graph.picture(depth=depth)
    at = places(graph, depth=depth)
    shapes = {v.id: v.shape for v in picture.vertices}
    assert [shapes[start][2:] for start, _ in picture.levels] == [(16, 16), (8, 8), (4, 4)]
    for start, end in picture.levels:
        assert shapes[start][2:] == shapes[end][2:]
        assert at[start][1] == at[end][1]
        assert at[start][0] < at[end][0]  # down on the left, up on the right
    heights = [at[start][1] for start, _ in picture.levels]
    assert heights == sorted(heights, reverse=True)
    for edge in picture.edges:
        if (edge.tail, edge.head) not in picture.levels:
            assert (at[edge.head][1] > at[edge.tail][1]) == edge.rises
    assert sum(edge.rises for edge in picture.edges) > 6


def test_it_is_lower_than_a_column(graphviz_here, monkeypatch):
    graph = drawn(UNet(joined, (2, 4, 6, 8)), tt.ones((1, 1, 16, 16)))
    low = max(y for _, y in places(graph).values())
    monkeypatch.setattr("tinytensor.graph.graph.as_u", lambda picture: picture)
    assert low < 0.75 * max(y for _, y in places(graph).values())


def test_what_comes_from_beside_does_not_rise(graphviz_here):
    graph = drawn(UNet(tt.add, time=3), tt.ones((1, 1, 8, 8)), tt.ones((1, 3)))
    picture = graph.picture(depth=1)
    kinds = {v.id: v.title for v in picture.vertices}
    assert len(picture.levels) == 2
    assert all(not edge.rises for edge in picture.edges if kinds[edge.tail] in ("x", "t", "Linear"))


def test_arrows_still_lead_to_where_an_array_goes(graphviz_here):
    graph = drawn(UNet(joined), tt.ones((1, 1, 8, 8)))
    rising = [edge for edge in graph.picture().edges if edge.rises]
    text = graph.to_dot()
    for edge in rising:
        assert re.search(rf"{edge.head} -> {edge.tail} \[.*dir=back", text)
    titles = [t.text for t in ElementTree.fromstring(graph.to_svg()).iter("{http://www.w3.org/2000/svg}title")]
    assert all(titles)
    assert graph.to_tikz().count(", <-]") == len(rising)


def test_the_film_finds_the_edges_that_rise(graphviz_here, tmp_path):
    with tt.record() as graph:
        loss = UNet(joined)(tt.ones((1, 1, 8, 8))).sum()
    loss.backward()
    graph.player(tmp_path / "film.html", direction="TB", depth=2, fold=True)
    data = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "film.html").read_text())[1])
    rising = [e for e in graph.picture(direction="TB", depth=2, fused="folded").edges if e.rises]
    assert rising
    assert {f"{e.tail}->{e.head} data" for e in rising} <= set(data["edges"])


class Residual(nn.Module):
    """Images that shrink, with a residual connection at each size, and no way up."""

    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv2d(2, 2, 3, padding=1) for _ in range(6)])
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        for i, convolution in enumerate(self.convolutions):
            x = x + F.relu(convolution(x))
            x = self.pool(x) if i % 2 else x
        return x


class Squeezed(nn.Module):
    """Each size has a skip around an image of one pixel; none is within another."""

    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList([nn.Conv2d(2, 2, 1) for _ in range(3)])

    def forward(self, x):
        for gate in self.gates:
            x = x * tt.sigmoid(gate(tt.mean(x, axis=(2, 3), keepdims=True)))
            x = F.max_pool2d(x, 2)
        return x


@pytest.mark.parametrize(
    "make",
    [
        head,
        encoder_layer,
        loop,
        lambda: drawn(Residual(), tt.ones((1, 2, 16, 16))),
        lambda: drawn(Squeezed(), tt.ones((1, 2, 16, 16))),
        lambda: drawn(UNet(lambda skip, x: x, (2, 2, 2)), tt.ones((1, 1, 8, 8))),
    ],
    ids=["head", "layer", "loop", "residual", "squeezed", "without skips"],
)
def test_all_others_stay_as_they_are(make, monkeypatch):
    graph = make()
    options = [{}, {"direction": "TB"}, {"direction": "TB", "depth": 1}, {"direction": "BT", "fold": False}]
    given = [graph.to_dot(**chosen) for chosen in options]
    monkeypatch.setattr("tinytensor.graph.graph.as_u", lambda picture: picture)
    assert given == [graph.to_dot(**chosen) for chosen in options]
