"""The engine room of `models`: training steps and decoding on several threads, or launched at once on a GPU.

To import it is to register them. Everything works without it.
"""

from . import decoding, training
