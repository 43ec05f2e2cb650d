"""`tt.compile`: compute a function of Tensors, or a module, in few passes over memory."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from ..grad_mode import Fuser


def compile(function: Callable[..., Any]) -> Compiled:
    """Compile a function of Tensors or a module, with its gradients. Also a decorator.

        fast = tt.compile(model)
        for x, target in batches:
            loss = F.cross_entropy(fast(x), target)
            loss.backward()

    The first call for some shapes runs the function once on arrays that record operations, and compiles the recorded
    list: element-wise operations and sums become loops, matrix products use BLAS. Later calls run the compiled
    program. Results and gradients equal those of the function up to rounding. Dropout draws new masks in each call,
    and batch norm updates its running statistics in each call. Second derivatives, and gradients of further results
    than the first scalar, differentiate the function's own lines.

    The program is recorded again if anything that it depends on changes: shapes, dtypes, training mode, arguments that
    are Python numbers, and every setting, function and module that the function reaches through its closure, globals,
    attributes, lists and dictionaries. A branch on a Tensor (`if loss > 1`) is checked in each call.

    The function runs as it is, without a program, if it cannot be recorded. `why_not` then names the reason, with file
    and line: it asks for a number (`item()`), makes a Tensor from a list or a NumPy array, prints, assigns attributes,
    calls `backward()`, or has a hook; `tt.record`, `nn.cache`, `tt.detect_anomaly` or `tt.textbook` is on; a Tensor is
    on a GPU; llvmlite is missing. Other side effects, such as writing to a log, are not repeated.

    Args:
        function: called with Tensors and constants, which tuples, lists and dictionaries may contain; returns the same
            kinds of values.
    """
    return Compiled(function)


class Compiled:
    """A compiled function or module. Other attributes are those of the function or module.

    Attributes:
        function: the original.
        why_not: why the last call ran without a program; None if it ran one.
        programs: cache of programs, managed by the compiler.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(f"compile: expected a function or a module, got a {type(function).__name__}")
        self.function = function
        self.why_not: str | None = None
        self.programs: Any = None
        self._methods: Any = None  # by object, if the function was compiled in a class
        if not hasattr(function, "parameters"):
            functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if Fuser.whole and (found := Fuser.whole(self, args, kwargs)) is not None:
            return found[0]
        return self.function(*args, **kwargs)

    def listing(self) -> str:
        """Describe the program of the last call: its loops with their lines, products and other calls."""
        return "" if self.why_not or self.programs is None else str(self.programs)

    def __get__(self, thing: Any, kind: Any = None) -> Any:
        """Return the compiled method of an object."""
        if thing is None:
            return self
        self._methods = weakref.WeakKeyDictionary() if self._methods is None else self._methods
        if thing not in self._methods:
            self._methods[thing] = Compiled(functools.partial(self.function, thing))
        return self._methods[thing]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "function":
            raise AttributeError(name)
        return getattr(self.function, name)

    def __repr__(self) -> str:
        return f"compile({self.function!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "programs": None, "_methods": None}  # a copy records again
