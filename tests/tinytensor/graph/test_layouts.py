"""Layouts by the tested version of graphviz-pure: the boxes of all vertices, to a point.

After a change of layouts, look at the pictures, then write the file: `python -m tests.tinytensor.graph.test_layouts`.
"""

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.graph import svg

from .test_faces import encoder_layer, head, loop

TESTED = "0.2.2"
FILE = Path(__file__).with_name("layouts.json")


def transformer():
    """The graph of a folded encoder and decoder, upward like Figure 1 of the paper."""
    tt.random.manual_seed(0)
    model = nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True)
    with tt.record() as graph:
        model(tt.ones((1, 4, 8)), tt.ones((1, 3, 8)))
    return graph


PICTURES = {
    "head": lambda: head().to_dot(),
    "encoder layer, heat": lambda: encoder_layer().to_dot(heat="bytes", direction="LR"),
    "encoder layer, backward": lambda: encoder_layer().to_dot(backward=True, saved=True),
    "loop": lambda: loop().to_dot(),
    "transformer": lambda: transformer().to_dot(direction="BT", apart=True),
}


def boxes(dot):
    """Return x, y, width and height in points of each vertex, by its id."""
    found = {}
    for item in json.loads(svg.render(dot, "json"))["objects"]:
        if "pos" in item:
            sides = [72 * float(item[side]) for side in ("width", "height")]
            found[item["name"]] = [round(x) for x in (*map(float, item["pos"].split(",")), *sides)]
    return found


def version():
    """Return the version of graphviz-pure that draws, or None."""
    try:
        return importlib.metadata.version("graphviz-pure") if svg.find_program("graphviz-pure") else None
    except importlib.metadata.PackageNotFoundError:
        return None


@pytest.mark.skipif(version() != TESTED, reason=f"graphviz-pure {TESTED} is not installed")
@pytest.mark.parametrize("name", PICTURES)
def test_boxes_are_at_the_recorded_positions(name):
    expected, found = json.loads(FILE.read_text(encoding="utf-8"))[name], boxes(PICTURES[name]())
    assert list(found) == list(expected)
    np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=0, atol=1)


if __name__ == "__main__":
    assert version() == TESTED
    laid_out = {name: boxes(make()) for name, make in PICTURES.items()}
    rows = [f' "{name}": {json.dumps(found)}' for name, found in laid_out.items()]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
