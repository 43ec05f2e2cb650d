"""`tt.vmap`: a function of one sample, applied to a batch. An honest loop: one call for each sample, and a stack.

It has the arguments and the results of PyTorch's `torch.func.vmap`, and gradients flow through it. It lacks the
speed: nothing is computed for all samples at once. A function that is written for a batch is faster; `vmap` shows what
it has to give.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import tinytensor as tt

from ..functions.reductions import normalize_axis
from ..tensor import Tensor

RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that maps `func` over a dimension of its arguments, by a loop, and stacks what it gives.

    Args:
        func: takes Tensors without that dimension and gives a Tensor or a tuple of them, of one shape for all samples.
        in_dims: the dimension of each argument to map over, or None for an argument that is the same for all; an
            integer or None for all arguments, or a tuple with one for each (a tuple again, for a tuple of Tensors).
        out_dims: the place of the dimension in the result; a tuple for several results.
        randomness: whether `func` may draw random numbers of the default generator: "error" raises RuntimeError,
            "different" draws new ones for each sample, "same" the same ones.

    Keyword arguments are passed on as they are.

        >>> tt.vmap(tt.sum)(tt.asarray([[1.0, 2.0], [3.0, 4.0]]))
        tensor([3., 7.])
    """
    if randomness not in RANDOMNESS:
        raise ValueError(f"vmap: randomness must be one of {', '.join(RANDOMNESS)}; got {randomness!r}")

    @functools.wraps(func)
    def mapped(*arguments: Any, **options: Any) -> Any:
        dims = in_dims if isinstance(in_dims, (tuple, list)) else (in_dims,) * len(arguments)
        if len(dims) != len(arguments):
            raise ValueError(f"vmap: in_dims has {len(dims)} entries for {len(arguments)} arguments: {in_dims}")
        lengths = {n for argument, dim in zip(arguments, dims) for n in _lengths(argument, dim)}
        if len(lengths) != 1 or lengths == {0}:
            met = f"samples of different number {sorted(lengths)}" if lengths - {0} else "nothing to map over"
            raise ValueError(f"vmap: got {met}; in_dims={in_dims} names the dimension of the samples")
        results = []
        state = tt.random.get_state()
        for i in range(lengths.pop()):
            if randomness == "same":
                tt.random.set_state(state)
            results.append(func(*[_sample(a, dim, i) for a, dim in zip(arguments, dims)], **options))
            if randomness == "error" and tt.random.get_state() != state:
                raise RuntimeError(
                    "vmap: the function drew random numbers; say randomness='different' (new ones for each sample) or "
                    "'same'"
                )
        if isinstance(results[0], (tuple, list)):
            places = out_dims if isinstance(out_dims, (tuple, list)) else (out_dims,) * len(results[0])
            return tuple(_stacked(parts, place) for parts, place in zip(zip(*results), places, strict=True))
        return _stacked(results, out_dims)

    return mapped


def _lengths(argument: Any, dim: Any) -> Iterator[int]:
    """The number of samples in an argument, for each Tensor in it."""
    if isinstance(argument, (tuple, list)):
        dims = dim if isinstance(dim, (tuple, list)) else (dim,) * len(argument)
        for part, each in zip(argument, dims, strict=True):
            yield from _lengths(part, each)
    elif dim is not None:
        if not isinstance(argument, Tensor):
            raise TypeError(f"vmap: in_dims is {dim} for a {type(argument).__name__}; expected a Tensor, or None")
        yield argument.shape[normalize_axis("vmap", dim, argument.shape, "in_dims")]


def _sample(argument: Any, dim: Any, i: int) -> Any:
    """The i-th sample of an argument."""
    if isinstance(argument, (tuple, list)):
        dims = dim if isinstance(dim, (tuple, list)) else (dim,) * len(argument)
        return type(argument)(_sample(part, each, i) for part, each in zip(argument, dims))
    if dim is None:
        return argument
    return argument[(slice(None),) * (dim % argument.ndim) + (i,)]


def _stacked(results: Any, place: int) -> Tensor:
    for result in results:
        if not isinstance(result, Tensor):
            raise TypeError(
                f"vmap: the function gave a {type(result).__name__}; expected a Tensor or a tuple of Tensors"
            )
    return tt.stack(results, axis=place)
