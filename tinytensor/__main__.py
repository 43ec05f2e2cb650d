"""`python -m tinytensor`: what this machine computes with, and what would make it faster."""

from .doctor import describe, examine

print(describe(examine()))
