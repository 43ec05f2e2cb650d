"""What a user writes, with mistakes in the lines marked `# error`: type checkers must find these and no others."""

import tinytensor as tt
from tinytensor.typing import ArrayLike


@tt.op(x=lambda xp, g, x: g * (1 - xp.tanh(x) ** 2))
def squash(xp, x: ArrayLike, *, scale: float = 1.0) -> tt.Tensor:
    return scale * xp.tanh(x)
