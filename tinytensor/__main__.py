"""`python -m tinytensor`: print what this machine computes with, and what would make it faster."""

from .doctor import describe, examine
from .machine.speed import speed_up

machine = examine()  # first: what NumPy's BLAS does by itself
print(describe(machine, speed_up()))
