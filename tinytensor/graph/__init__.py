"""Graphs of computations: as data, and as pictures.

`tt.record` and `tt.draw` make a `Graph`. The way from there to a picture:

    structure   plain data: ops, values, calls of modules          (`build` makes it from nodes)
    plan, fold  which modules stand open; one of several alike
    picture     vertices, edges and boxes                          (`look` makes it from a structure)
    dot, svg, text                                                 (they only write it down)

`words` knows what papers call an op, `steps` finds the turns of loops, `label` how much room a vertex takes.
"""

from .compare import Comparison
from .course import Memory, Timeline
from .graph import Graph
from .options import Options
from .picture import Box, Edge, Picture, Vertex
from .structure import Op, Saved, Scope, Statistics, Step, Structure, Value
from .svg import DrawingError, lay_out_with, render

__all__ = [
    "Box",
    "Comparison",
    "DrawingError",
    "Edge",
    "Graph",
    "Memory",
    "Op",
    "Options",
    "Picture",
    "Saved",
    "Scope",
    "Statistics",
    "Step",
    "Structure",
    "Timeline",
    "Value",
    "Vertex",
    "lay_out_with",
    "render",
]
