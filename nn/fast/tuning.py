"""The constants that were tuned: each changes how long something takes, none what comes out.

Work is counted in element-wise operations, of which `xp.in_parts` must see enough before it divides it among cores.
"""

FLOPS = 16
"""Multiplications and additions of a matrix product that take the time of one element-wise operation."""

PRODUCTS = 4
"""Into how many products a large one is cut at most: each reads one of the two matrices anew."""

FEW_ROWS = 32
"""Rows below which a linear map is computed turned round: a BLAS copies the weight otherwise."""

SEQUENCES = 32
"""Sequences at least that a recurrence reads together: of fewer, a step is mostly the interpreter's."""

STEP_WORK = 8
"""Element-wise operations of a recurrent step for each element of its gates, beside its share of the product."""

ATTENTION_WORK = 12
"""Element-wise operations for each attention weight, the products included."""

WINDOWS_BLOCK = 1 << 17
"""Elements that windows hold for the samples of one matrix product on the CPU: few enough for the cache of a core."""

LOOPS_FROM = 1 << 13
"""Elements of a head's weights from which on attention goes through compiled loops, where they are switched on."""
