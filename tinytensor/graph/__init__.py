"""Graphs of computations: as data, and as pictures.

`tt.record` and `tt.draw` make a `Graph`. The way from there to a picture:

    structure   plain data: ops, values, calls of modules          (`build` makes it from nodes)
    plan, fold  which modules are open; one of several identical
    picture     vertices, edges and boxes                          (`Look` makes it from a structure)
    dot, svg, text                                                 (they only write it down)

`words` knows what papers call an op, `steps` finds the iterations of loops, `label` measures the size of a vertex.
"""

from .align import Match, Part
from .comparison import Comparison, compare
from .graph import Graph
from .memory import Alive, Memory, Moment
from .options import Options
from .picture import Box, Edge, Falsehood, Picture, Vertex
from .structure import Op, Saved, Scope, Statistics, Step, Structure, Value
from .svg import DrawingError, lay_out_with, render
from .timeline import Bar, Timeline

__all__ = [
    "Alive", "Bar", "Box", "Comparison", "DrawingError", "Edge", "Falsehood", "Graph", "Match", "Memory", "Moment",
    "Op", "Options", "Part", "Picture", "Saved", "Scope", "Statistics", "Step", "Structure", "Timeline", "Value",
    "Vertex", "compare", "lay_out_with", "render",
]  # fmt: skip
