"""`tt.compile`: a function of Tensors, or a module, computed in few passes over memory."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from ..grad_mode import Fuser


def compile(function: Callable[..., Any]) -> Compiled:
    """A function of Tensors, or a module, that computes the same in fewer passes over memory. Also a decorator.

        fast = tt.compile(model)
        for x, target in batches:
            loss = F.cross_entropy(fast(x), target)
            loss.backward()

    The first call with arguments of some shapes records what the function's own lines do to arrays, with their
    gradients, and compiles it: element-wise work and sums become loops, products stay BLAS's. Later calls run that.
    Results and gradients are those of the lines, up to rounding; `create_graph=True` and further results differentiate
    the lines themselves. Dropout draws anew in each call, and in-place changes of buffers are made in each.

    Nothing is taken for good that may change. Shapes, dtypes, modes and Python numbers that are arguments are part of
    the key; so are the settings, functions and modules that it reaches: in its closure, among its globals, in
    attributes, lists and dictionaries. With another one it is recorded anew. A branch on a Tensor is checked in each
    call.

    If a call cannot be recorded, the function's lines compute it, and `why_not` gives the file, the line and the
    reason: it reads numbers (`item()`), makes a Tensor of a list or a NumPy array, prints, assigns to what it reads,
    calls `backward()`, has a hook, or is recorded, watched or checked (`tt.record`, `nn.cache`, `tt.detect_anomaly`,
    `tt.textbook`). The same holds on a GPU and without llvmlite. Other effects of Python code, such as writing to a
    log, are not repeated.

    Args:
        function: is called with Tensors and constants, in tuples, lists and dictionaries, and returns such.
    """
    return Compiled(function)


class Compiled:
    """The result of `compile`; it has the attributes of the function or module as well.

    Attributes:
        function: as given.
        why_not: why the lines of the function computed the last call; None if a program did.
        programs: the state of its compiled version.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(f"compile: expected a function or a module, got a {type(function).__name__}")
        self.function = function
        self.why_not: str | None = None
        self.programs: Any = None
        self._of: Any = None  # the methods of objects, where the function was compiled in a class
        if not hasattr(function, "parameters"):
            functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if Fuser.whole and (found := Fuser.whole(self, args, kwargs)) is not None:
            return found[0]
        return self.function(*args, **kwargs)

    def __get__(self, thing: Any, kind: Any = None) -> Any:
        """The method of an object."""
        if thing is None:
            return self
        self._of = weakref.WeakKeyDictionary() if self._of is None else self._of
        if thing not in self._of:
            self._of[thing] = Compiled(functools.partial(self.function, thing))
        return self._of[thing]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "function":
            raise AttributeError(name)
        return getattr(self.function, name)

    def __repr__(self) -> str:
        return f"compile({self.function!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "programs": None, "_of": None}  # copies record for themselves
