"""Pictures for lessons about attention; they need no library, no program and no network.

    from tinytensor.nn import visualize

    with nn.record_attention() as attention:
        model(source, target)
    visualize.attention_lines(attention.cross, source_tokens, target_tokens, token=2).save("cross.svg")
    visualize.attention_explorer(attention, source_tokens, target_tokens).save("attention.html")

A notebook shows their results; `save` writes them. The same input gives the same bytes.
"""

from .blocks import blocks, neurons
from .curves import curves, learning_rate_schedule, loss_curve
from .decoding import BeamNode, beam_tree, decoding_steps
from .explorer import attention_explorer
from .grid import attention_difference, attention_grid, attention_heads, head_scores
from .layers import layer_map, logit_lens
from .lines import attention_lines
from .live import live
from .masks import attention_mask
from .matrices import attention_matrices
from .matrix import attribution, matrix, positional_encoding
from .recurrence import recurrence
from .steps import attention_steps
from .vectors import vectors

__all__ = [
    "BeamNode",
    "attention_difference",
    "attention_explorer",
    "attention_grid",
    "attention_heads",
    "attention_lines",
    "attention_mask",
    "attention_matrices",
    "attention_steps",
    "attribution",
    "beam_tree",
    "blocks",
    "curves",
    "decoding_steps",
    "head_scores",
    "layer_map",
    "learning_rate_schedule",
    "live",
    "logit_lens",
    "loss_curve",
    "matrix",
    "neurons",
    "positional_encoding",
    "recurrence",
    "vectors",
]
