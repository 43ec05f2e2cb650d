"""Random numbers from generators of our own, never NumPy's global one.

One seed repeats everything: `manual_seed(0)` for the generator that the library uses by default, or a
`Generator(0)` of your own. A generator's state is a dictionary of plain numbers, so it can be saved as JSON and set
again. Numbers are drawn on the CPU and moved, so that every device sees the same ones, except the masks of
dropout (`bernoulli`), which are too many to move.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Never

import numpy as np

import tinytensor as tt

from . import dtypes
from .backend import for_device
from .modes import Replaceable
from .tensor import Tensor, wrap
from .typing import ArrayLike, Device, DType, Shape

_making = threading.Lock()


class Generator(metaclass=Replaceable):
    """A stream of random numbers (PCG64, O'Neill 2014) that starts from a seed.

    Args:
        seed: any non-negative integer; None takes one from the operating system.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._stream: np.random.Generator | None = None

    @property
    def _generator(self) -> np.random.Generator:
        if self._stream is None:  # made when first used: loading numpy.random costs more than all of tinytensor
            with _making:
                if self._stream is None:  # by another thread, meanwhile
                    self._stream = np.random.Generator(np.random.PCG64(self._seed))
        return self._stream

    def manual_seed(self, seed: int) -> Generator:
        """Start again from a seed; returns self."""
        if not isinstance(seed, int) or seed < 0:
            raise ValueError(f"manual_seed: expected a non-negative integer, got {seed!r}")
        self._seed, self._stream = seed, None
        return self

    def get_state(self) -> dict[str, Any]:
        """Everything the next numbers depend on, as plain numbers in a dictionary."""
        return dict(self._generator.bit_generator.state)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that `get_state` gave."""
        try:
            self._generator.bit_generator.state = state
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError(f"set_state: this is no state of a PCG64 generator ({error})") from None

    def _tensor(self, values: Any, dtype: Any, device: str | None) -> Tensor:
        return wrap(for_device(device).from_numpy(np.asarray(values, dtype=dtype)), None)

    def uniform(
        self,
        shape: Shape = (),
        low: float = 0.0,
        high: float = 1.0,
        *,
        dtype: DType = None,
        device: Device = None,
        **unknown: Never,
    ) -> Tensor:
        """Numbers from [low, high), all equally likely."""
        dtype = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        kind = np.float32 if dtype == np.float32 else np.float64
        values = self._generator.random(_shape("uniform", shape, unknown), dtype=kind)
        return self._tensor(values * kind(high - low) + kind(low), dtype, device)

    def normal(
        self,
        shape: Shape = (),
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: DType = None,
        device: Device = None,
        **unknown: Never,
    ) -> Tensor:
        """Numbers from the normal distribution."""
        dtype = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        kind = np.float32 if dtype == np.float32 else np.float64
        values = self._generator.standard_normal(_shape("normal", shape, unknown), dtype=kind)
        return self._tensor(values * kind(std) + kind(mean), dtype, device)

    def integers(
        self,
        low: int,
        high: int | None = None,
        shape: Shape = (),
        *,
        dtype: DType = None,
        device: Device = None,
        **unknown: Never,
    ) -> Tensor:
        """Integers from low to high - 1 (with one bound: from 0), all equally likely."""
        values = self._generator.integers(
            low, high, size=tt.functions.creation.as_shape("integers", shape, (), unknown)
        )
        return self._tensor(values, dtypes.int64 if dtype is None else dtype, device)

    def bernoulli(self, p: float, shape: Shape = (), *, device: Device = None) -> Tensor:
        """Booleans that are true with probability p.

        Each takes 16 random bits, a number in [0, 1), and compares them with the first 16 of p; where they are equal,
        53 more decide. That is p to 69 bits, at a quarter of the price of one float32 each. On a GPU
        they are drawn there, p to 32 bits, from a seed that this generator gives.
        """
        shape = tt.functions.creation.as_shape("bernoulli", shape)
        count = math.prod(shape)
        xp = for_device(device)
        on_gpu = device == "gpu" and hasattr(xp, "bernoulli")
        if count and on_gpu and (mask := xp.bernoulli(p, shape, self)) is not None:
            return wrap(mask, None)
        words = -(-count // 4)
        bits = self._generator.integers(2**64, size=words, dtype=np.uint64).view(np.uint16)
        first, rest = divmod(p * 2**16, 1)
        values = bits < int(first)
        equal = (bits == int(first)).view(np.uint32)  # checked four at a time, since they are rare
        four = np.flatnonzero(equal)
        undecided = (4 * four[:, None] + np.arange(4))[equal[four].view(np.bool_).reshape(-1, 4)]
        undecided = undecided[undecided < count]
        values[undecided] = self._generator.random(len(undecided)) < rest
        return self._tensor(values[:count].reshape(shape), dtypes.bool_, device)

    def categorical(self, logits: ArrayLike, shape: Shape = ()) -> Tensor:
        """Indices of the last axis, each drawn with probability softmax(logits): (*shape, *logits.shape[:-1]).

        The largest of logits + Gumbel noise is drawn so (Gumbel 1954). A row without a finite logit is a ValueError.
        """
        logits = tt.asarray(logits).detach()
        if logits.ndim == 0 or not bool(tt.all(tt.max(logits, axis=-1) > -math.inf)):
            raise ValueError(
                f"categorical: expected logits (..., choices) with a choice in each row, got shape {logits.shape}"
            )
        many = (*tt.functions.creation.as_shape("categorical", shape), *logits.shape)
        uniform = self._generator.random(many)
        noise = -np.log(-np.log(np.where(uniform > 0, uniform, np.finfo(np.float64).tiny)))
        return tt.argmax(tt.astype(logits, tt.float64) + tt.asarray(noise, device=logits.device), axis=-1)

    def permutation(self, n: int, *, device: Device = None) -> Tensor:
        """The integers from 0 to n - 1 in random order."""
        return self._tensor(self._generator.permutation(n), dtypes.int64, device)


default_generator = Generator()
"""The generator that is used where none is given."""

_thread = threading.local()


@contextmanager
def using(generator: Generator) -> Iterator[None]:
    """Within it, this thread draws from a generator of its own by default.

    If several threads drew from one generator, their numbers would depend on which comes first.
    """
    former = getattr(_thread, "generator", None)
    _thread.generator = generator
    try:
        yield
    finally:
        _thread.generator = former


def current_generator() -> Generator:
    """The generator that this thread draws from where none is given."""
    return getattr(_thread, "generator", None) or default_generator


def manual_seed(seed: int) -> Generator:
    """Start the default generator from a seed; returns it."""
    return default_generator.manual_seed(seed)


def get_state() -> dict[str, Any]:
    """The state of the default generator."""
    return current_generator().get_state()


def set_state(state: dict[str, Any]) -> None:
    """Set the default generator to a state that `get_state` gave."""
    current_generator().set_state(state)


def uniform(
    shape: Shape = (),
    low: float = 0.0,
    high: float = 1.0,
    *,
    generator: Generator | None = None,
    dtype: DType = None,
    device: Device = None,
    **unknown: Never,
) -> Tensor:
    """`Generator.uniform` of the default generator, or of the one given."""
    return (generator or current_generator()).uniform(shape, low, high, dtype=dtype, device=device, **unknown)


def normal(
    shape: Shape = (),
    mean: float = 0.0,
    std: float = 1.0,
    *,
    generator: Generator | None = None,
    dtype: DType = None,
    device: Device = None,
    **unknown: Never,
) -> Tensor:
    """`Generator.normal` of the default generator, or of the one given."""
    return (generator or current_generator()).normal(shape, mean, std, dtype=dtype, device=device, **unknown)


def integers(
    low: int,
    high: int | None = None,
    shape: Shape = (),
    *,
    generator: Generator | None = None,
    dtype: DType = None,
    device: Device = None,
    **unknown: Never,
) -> Tensor:
    """`Generator.integers` of the default generator, or of the one given."""
    return (generator or current_generator()).integers(low, high, shape, dtype=dtype, device=device, **unknown)


def bernoulli(p: float, shape: Shape = (), *, generator: Generator | None = None, device: Device = None) -> Tensor:
    """`Generator.bernoulli` of the default generator, or of the one given."""
    return (generator or current_generator()).bernoulli(p, shape, device=device)


def categorical(logits: ArrayLike, shape: Shape = (), *, generator: Generator | None = None) -> Tensor:
    """`Generator.categorical` of the default generator, or of the one given."""
    return (generator or current_generator()).categorical(logits, shape)


def permutation(n: int, *, generator: Generator | None = None, device: Device = None) -> Tensor:
    """`Generator.permutation` of the default generator, or of the one given."""
    return (generator or current_generator()).permutation(n, device=device)


def rand(
    *shape: int | Sequence[int],
    generator: Generator | None = None,
    dtype: DType = None,
    device: Device = None,
    **unknown: Never,
) -> Tensor:
    """Uniform numbers from [0, 1), under PyTorch's name: `rand(3, 4)`."""
    return uniform(_lengths(shape), generator=generator, dtype=dtype, device=device, **unknown)


def randn(
    *shape: int | Sequence[int],
    generator: Generator | None = None,
    dtype: DType = None,
    device: Device = None,
    **unknown: Never,
) -> Tensor:
    """Standard normal numbers, under PyTorch's name: `randn(3, 4)`."""
    return normal(_lengths(shape), generator=generator, dtype=dtype, device=device, **unknown)


def _shape(name: str, shape: Any, unknown: Any) -> tuple[int, ...]:
    """The shape to draw; TypeError if a number that is no length shows that another order was meant."""
    if isinstance(shape, (int, float)) and (shape < 1 or shape != int(shape)):
        raise TypeError(
            f"{name}: the shape comes first, got {shape!r}; write tt.random.{name}((2, 3), ...), or (0,) for no numbers"
        )
    return tt.functions.creation.as_shape(name, shape, (), unknown)


def _lengths(shape: tuple[Any, ...]) -> Any:
    """The lengths that were passed as arguments, or as one tuple."""
    return shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape


if not TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
