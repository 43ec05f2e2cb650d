"""`tt.compile`: compute a function of Tensors, or a module, in few passes over memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..grad_mode import Fuser

if TYPE_CHECKING:
    from .loops import Loops

OBJECTS = 16  # whose compiled methods are kept
OWN = {"function", "why_not", "programs", "_methods"}


def compile(function: Callable[..., Any]) -> Compiled:
    """Compile a function of Tensors or a module, with its gradients. Also a decorator.

        fast = tt.compile(model)
        for x, target in batches:
            loss = F.cross_entropy(fast(x), target)
            loss.backward()

    The first call for some shapes runs the function once on arrays that record operations, and compiles the recorded
    list: element-wise operations and sums become loops, matrix products use BLAS. Later calls run the compiled
    program. Results and gradients equal those of the function up to rounding. Dropout draws new masks in each call,
    and batch norm updates its running statistics in each call. A whole training step, with `zero_grad()`, `backward()`
    and `optimizer.step()`, is one program too; the optimiser makes its step after it. Second derivatives, and gradients
    of further results than the first scalar, differentiate the function's own lines.

    The program is recorded again if anything that it depends on changes: shapes, dtypes, training mode, arguments that
    are Python numbers, and every setting, function and module that the function reaches through its closure, globals,
    attributes, lists and dictionaries. A branch on a Tensor (`if loss > 1`) is checked in each call.

    The function runs as it is, without a program, if it cannot be recorded. `why_not` then names the reason, with file
    and line: it asks for a number (`item()`), makes a Tensor from a list or a NumPy array, prints, reads a clock or a
    file, assigns attributes, or has a hook; `tt.record`, `nn.cache`, `tt.detect_anomaly` or `tt.textbook` is on; a
    Tensor is on a GPU; llvmlite is missing.

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
        self._methods: dict[int, tuple[Any, Compiled]] = {}  # by object, if the function was compiled in a class
        if not hasattr(function, "parameters"):
            functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if Fuser.whole is None:
            self.why_not = "the fast paths are switched off, or not there"
        elif (found := Fuser.whole(self, args, kwargs)) is not None:
            return found[0]
        return self.function(*args, **kwargs)

    def listing(self) -> str:
        """Describe the program of the last call: its loops with their lines, products and other calls."""
        return "" if self.why_not or self.programs is None else str(self.programs)

    def loops(self, *, backward: bool = False) -> Loops:
        """Draw the program of the last call, or that of its gradients: its loops, and the calls between them.

            fast = tt.compile(layer)
            fast(x)
            fast.loops().save("loops.svg")

        A rounded box is a loop, which computes its rows for one element after another; a square box is a call, such as
        a matrix product. An arrow is an array in memory. v1, v2, ... are arrays, t1, t2, ... numbers within a loop; Σ₂
        is a sum over axis 2. A notebook shows the picture.

        Raises RuntimeError if the last call ran no program, or has no gradients.
        """
        from .loops import Loops  # only pictures need it

        whole = None if self.why_not or self.programs is None else self.programs.last
        if whole is None:
            raise RuntimeError(f"loops: the last call ran no program: {self.why_not or 'it was not called yet'}")
        if backward and whole.backward is None:
            raise RuntimeError("loops: it computes no gradients; set requires_grad=True on an input")
        return Loops(whole, backward)

    def __get__(self, thing: Any, kind: Any = None) -> Any:
        """Return the compiled method of an object; those of the last few objects are kept."""
        if thing is None or not hasattr(type(self.function), "__get__"):
            return self
        owner, method = self._methods.get(id(thing), (None, None))
        if owner is not thing:
            if len(self._methods) >= OBJECTS:
                del self._methods[next(iter(self._methods))]
            method = Compiled(functools.partial(self.function, thing))
            self._methods[id(thing)] = thing, method
        return method

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in OWN:
            raise AttributeError(name)
        return getattr(self.function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or name in OWN or not hasattr(self.function, "parameters"):
            object.__setattr__(self, name, value)
        else:  # of a module
            setattr(self.function, name, value)

    def __repr__(self) -> str:
        return f"compile({self.function!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "programs": None, "_methods": {}}  # a copy records again
