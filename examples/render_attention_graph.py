"""Draw the computation of attention: one head, several, a layer of the encoder, the whole Transformer, or its
predecessors: two steps of Bahdanau's decoder, or of Luong's.

    python examples/render_attention_graph.py head --out head.svg
    python examples/render_attention_graph.py transformer --out transformer.svg --saved
    python examples/render_attention_graph.py head --out film.html

The ending of --out chooses the format: svg, png, pdf (pictures), dot, mmd (Mermaid), txt (a tree), json (the data),
html (a film of the backward pass, or with --explore a page to explore the graph).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import tinytensor as tt
from tinytensor.graph import DrawingError
from tinytensor.models.scripts import command_line
from tinytensor.models.scripts.attention_graphs import GRAPHS


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="render_attention_graph.py", description="Draw the graph of attention.", trains=False)
    p.add_argument("graph", choices=GRAPHS, help="what to draw")
    p.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to; the ending chooses the format")
    p.add_argument("--explore", action="store_true", help="with FILE.html: a page to look around in, not the film")
    p.add_argument("--depth", type=command_line.non_negative_int, help="boxes inside each other, 2 by default")
    p.add_argument("--backward", action="store_true", help="draw the gradients beside the computation")
    p.add_argument("--saved", action="store_true", help="say what is kept in memory until the backward pass")
    p.add_argument("--heat", choices=("time", "bytes", "flops", "grad"), help="colour by a measurement")
    p.add_argument("--direction", choices=("LR", "TB", "BT"), help="to the right, down, or up as in the paper")
    p.add_argument("--apart", action="store_true", help="an arrow each for query, key and value")
    p.add_argument("--fused", choices=("formula", "folded"), help="fused ops as their formula, or as one vertex each")
    p.add_argument("--seed", type=command_line.non_negative_int, default=0, help="the numbers follow from it")
    return p


def main() -> int:
    arguments = parser().parse_args()
    tt.manual_seed(arguments.seed)
    names = ("depth", "backward", "saved", "heat", "direction", "apart", "fused")
    options: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    options = {name: value for name, value in options.items() if value is not None and value is not False}
    try:
        graph = GRAPHS[arguments.graph]()
        if arguments.explore:
            graph.explore(arguments.out, **options)
        else:
            graph.save(arguments.out, **options)
    except (ValueError, DrawingError) as error:
        raise command_line.UsageError(str(error)) from None
    except OSError as error:
        raise command_line.UsageError(f"cannot write {arguments.out}: {error.strerror or error}") from None
    print(f"wrote {arguments.out}: {graph.description(**options)}", file=sys.stderr)
    return command_line.EXIT_OK


if __name__ == "__main__":
    command_line.run(main)
