"""`nn.compile_step` on a GPU: the kernels of a step, recorded for inputs of one shape and launched at once.

The recorded kernels read inputs from arrays of their own, into which those of each call are copied, and leave what they
find in arrays of their own, which are copied out, all gradients in one piece. So nothing that a caller holds changes
with the next call.
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import NAMESPACES, for_device
from tinytensor.modes import state
from tinytensor.random import Generator, using
from tinytensor.tensor import wrap

from ..amp import GradScaler
from ..compiled_step import CompiledStep, as_tuple
from ..functional.precision import autocast
from .step_watch import CannotReplay, Watched

MOST = 32  # recordings of a step; inputs of further shapes go op by op
REMEMBERED = 1000  # kinds of inputs
MOVES = 3  # calls, one after another, that replace something, after which no recording is tried
RENEWALS = 5  # calls in a row with something replaced before each, after which a warning says so
ALIGNMENT = 64  # elements, at a multiple of which each gradient begins
CONSTANTS = (type(None), bool, int, float, complex, str, bytes, type, np.dtype)


class Place(NamedTuple):
    """Where the gradient of a parameter lies in memory that all of one dtype share."""

    dtype: Any
    start: int
    end: int
    shape: tuple[int, ...]

    def of(self, memory: dict[Any, Any]) -> Any:
        return memory[self.dtype][self.start : self.end].reshape(self.shape)


class RecordedStep:
    """The recordings of one `CompiledStep`.

    Attributes:
        moved: how many calls op by op, one after another, have themselves replaced something.
        renewed: before how many calls, one after another, something was replaced.
        mover: what was replaced last.
        gradients: where all recordings leave the gradients, by their dtype, of each parameter at its place.
        seen: what the inputs of former calls were like, with their recordings; None after the first call, or the
            reason why there is none.
        told: reasons that were warned of.
    """

    def __init__(self, step: CompiledStep) -> None:
        self.xp = for_device("gpu")
        self.watched = Watched(step)
        self.parameters = [p for p in step.model.parameters() if p.requires_grad]
        self.places: list[Place] = []
        sizes: Counter[Any] = Counter()
        for p in self.parameters:
            start = sizes[p.dtype]
            self.places.append(Place(p.dtype, start, start + p.size, p.shape))
            sizes[p.dtype] += -(-p.size // ALIGNMENT) * ALIGNMENT
        self._sizes = sizes
        self.moved = self.renewed = 0
        self.mover: str | None = None
        self.seen: dict[Hashable, Recorded | str | None] = {}
        self.told: set[str] = set()

    @functools.cached_property
    def gradients(self) -> dict[Any, Any]:
        return {dtype: self.xp.empty(size, dtype=dtype) for dtype, size in self._sizes.items()}

    @functools.cached_property
    def memory(self) -> Any:
        return self.xp.memory_to_record()


class Recorded:
    """One recording, with the arrays that it reads and writes.

    Args:
        inputs: of the call that is recorded.
    """

    def __init__(self, of: RecordedStep, step: CompiledStep, inputs: tuple[Any, ...]) -> None:
        xp = self.xp = of.xp
        self.gradients = of.gradients
        given = tuple(wrap(xp.copy(x._data), None) if isinstance(x, Tensor) else x for x in inputs)
        self.inputs = [x._data for x in given if isinstance(x, Tensor)]
        tensors = [*of.parameters, *[held.tensor for held in of.watched.held]]
        before = [x.grad for x in tensors]
        for x in tensors:
            x.grad = None
        generator = tt.random.current_generator()
        drawn, settings = generator.get_state(), of.watched.settings()
        why_not: str | None = "it was interrupted"
        try:
            with using(stand_in := OnTheGpu(generator)):
                self.recording, found = xp.record(lambda: self._compute(of, step, given), of.memory)
            moved = of.watched.changed(step) or of.watched.set_by_itself(settings)
            if self.recording is None:
                why_not = found
            elif any(x.grad is not None for x in tensors):
                why_not = "it fills .grad itself; return the loss, and leave backward() to the step"
            elif moved is not None:
                why_not = _puts_another(moved)
            else:
                why_not = None if stand_in.is_untouched() else "it sets a seed"
        finally:  # nothing stays where the graph alone writes to, and of a failed recording nothing at all
            of.watched.put_back(None if why_not is None else settings)
            for x, gradient in zip(tensors, before):
                x.grad = gradient
            if why_not is not None:
                generator.set_state(drawn)
        if why_not is not None:
            raise CannotReplay(why_not)
        self.is_tuple, self.results, self.places = found

    def _compute(self, of: RecordedStep, step: CompiledStep, inputs: tuple[Any, ...]) -> Any:
        """The step, with its gradients in one piece of memory."""
        results = as_tuple(given := step.function(*inputs))
        gradients = tt.grad(results[0], of.parameters, allow_unused=True)
        places = []
        for parameter, place, gradient in zip(of.parameters, of.places, gradients):
            if gradient is not None:
                place.of(of.gradients)[...] = gradient._data
                places.append((parameter, place))
        return isinstance(given, tuple), [result.detach()._data for result in results], places

    def launch(self, inputs: tuple[Any, ...]) -> Any:
        """The results for inputs of the same shapes; their gradients are added to `.grad`."""
        xp = self.xp
        for own, x in zip(self.inputs, [x for x in inputs if isinstance(x, Tensor)]):
            own[...] = x._data
        self.recording.launch()
        gradients = {dtype: xp.copy(array) for dtype, array in self.gradients.items()}
        for parameter, place in self.places:
            gradient = wrap(place.of(gradients), None)
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        results = tuple(wrap(xp.copy(array), None) for array in self.results)
        return results if self.is_tuple else results[0]


# ---- a call


def replay(step: CompiledStep, *inputs: Any) -> Any:
    """The results of a call, from a recording where there can be one; None where none is wanted."""
    step.why_not = None
    if not any(isinstance(x, Tensor) and x.device == "gpu" for x in inputs):
        return None
    xp = for_device("gpu")
    xp.refuse("another compiled step is called within it")
    if not _is_plain() or not xp.can_record():
        return None
    own = _up_to_date(step)
    try:
        own.watched.look_at_hooks()
        if own.moved >= MOVES:
            raise CannotReplay(_puts_another(own.mover))
        if own.renewed >= RENEWALS:
            raise CannotReplay(f"another {own.mover} is put in place before each call; make it an input")
        kind = _kind(inputs)
        found = _found(own, step, inputs, kind)
    except CannotReplay as reason:
        step.why_not = str(reason)
        before = own.watched.settings()
        results = step.op_by_op(*inputs)  # which raises what is wrong with the function itself
        if own.watched.changed(step) is None and own.watched.set_by_itself(before) is None:
            own.moved = 0
        if (step.warn or "cudaError" in step.why_not) and step.why_not not in own.told:  # CUDA's own are never expected
            own.told.add(step.why_not)
            warnings.warn(f"compile_step: computed op by op, since {reason}", UserWarning, stacklevel=3)
        return results
    if found is not None:
        own.renewed = 0
        return found.launch(inputs)
    before = own.watched.settings()
    results = step.op_by_op(*inputs)  # which compiles whatever kernels are not compiled yet
    if changed := own.watched.changed(step) or own.watched.set_by_itself(before):
        own = _renewed(step, own, changed)
        own.moved += 1
    else:
        own.moved = 0
    own.seen.setdefault((own.watched.key(), kind))
    return results


def _up_to_date(step: CompiledStep) -> RecordedStep:
    """The recordings of a step; none of them if something was replaced since."""
    own: RecordedStep | None = step.recorded
    if own is None:
        own = step.recorded = RecordedStep(step)
    elif changed := own.watched.changed(step):
        own = _renewed(step, own, changed)
        own.renewed += 1
    else:
        own.renewed = 0
    return own


def _renewed(step: CompiledStep, former: RecordedStep, changed: str) -> RecordedStep:
    own = step.recorded = RecordedStep(step)
    own.moved, own.renewed, own.mover, own.told = former.moved, former.renewed, changed, former.told
    return own


def _puts_another(name: str | None) -> str:
    return f"it puts another {name} in place; write to it with copy_()"


def _found(own: RecordedStep, step: CompiledStep, inputs: tuple[Any, ...], kind: Hashable) -> Recorded | None:
    """The recording for such inputs, made in their second call; None in the first."""
    key = own.watched.key(), kind
    if key not in own.seen:
        if len(own.seen) >= REMEMBERED:
            own.seen = {known: found for known, found in own.seen.items() if isinstance(found, Recorded)}
            step.why_not = f"its last {REMEMBERED} calls or more had inputs of other shapes, or other constants"
        return None
    if own.seen[key] is None:
        if sum(isinstance(known, Recorded) for known in own.seen.values()) == MOST:
            step.why_not = f"inputs of {MOST} shapes are recorded already; pad batches to fewer lengths"
            return None
        try:
            own.seen[key] = Recorded(own, step, inputs)
        except CannotReplay as reason:
            own.seen[key] = str(reason)
    found = own.seen[key]
    if isinstance(found, str):
        raise CannotReplay(found)
    return found


def _is_plain() -> bool:
    """True if ops are computed with gradients, and nobody listens, observes or records."""
    watched = state.anomaly or state.recording is not None or state.observer is not None or state.told is not None
    return state.grad_enabled and not watched


def _kind(inputs: tuple[Any, ...]) -> Hashable:
    """The key of a recording: its inputs, but for numbers on the GPU. Raises CannotReplay for inputs without one."""
    parts: list[Hashable] = [autocast.get(), tt.get_default_dtype(), tt.get_float32_matmul_precision()]
    for place, x in enumerate(inputs):
        if isinstance(x, Tensor):
            if x.device != "gpu":
                raise CannotReplay(f"input {place} is on the CPU; move it with .to('gpu')")
            if x.requires_grad:
                raise CannotReplay(f"input {place} requires a gradient, which parameters of the model alone get")
            parts.append((x.shape, x.dtype))
        else:
            parts.append(_constant(x, place))
    return tuple(parts)


def _constant(x: Any, place: int) -> Hashable:
    if isinstance(x, tuple):
        return tuple(_constant(part, place) for part in x)
    if not isinstance(x, CONSTANTS):
        raise CannotReplay(f"input {place} is or has a {type(x).__name__}; expected Tensors and constants")
    return type(x), x if isinstance(x, type) else repr(x)


CompiledStep.__call__.faster = replay  # type: ignore[attr-defined]


# ---- what the step's function meets while it is recorded

ON_CPU = "it draws random numbers on the CPU"


class OnTheGpu(Generator):
    """The generator of a thread that records: masks of dropout, which each launch draws anew, are all that it gives."""

    def __init__(self, source: Generator) -> None:
        self._source, self._source_stream = source, source._stream

    def is_untouched(self) -> bool:
        """True if the generator that it stands for was not seeded meanwhile."""
        return self._source._stream is self._source_stream

    def bernoulli(self, p: float, shape: Any = (), *, device: Any = None) -> Tensor:
        if device != "gpu":
            for_device("gpu").refuse(ON_CPU)
        return super().bernoulli(p, shape, device=device)

    def origin(self) -> Generator:
        """The generator to draw from: the thread's, now or when a recording is launched."""
        current = tt.random.current_generator()
        return self._source if current is self else current

    def get_state(self) -> dict[str, Any]:
        """For recomputation, which goes back to it."""
        return {"drawn": for_device("gpu").drawn()}

    def set_state(self, state: dict[str, Any]) -> None:
        for_device("gpu").drawn(state["drawn"])

    @property
    def _generator(self) -> Any:
        return for_device("gpu").refuse(ON_CPU)


def _refuse(name: str, *args: Any) -> None:
    """Within a step, refuse a method whose number changes from step to step; elsewhere it computes."""
    for namespace in NAMESPACES.values():
        if namespace.device == "gpu" and hasattr(namespace, "refuse"):
            namespace.refuse(f"GradScaler.{name} has a number that changes; make get_scale() an input")


GradScaler.scale.faster = functools.partial(_refuse, "scale")  # type: ignore[attr-defined]
GradScaler.get_scale.faster = functools.partial(_refuse, "get_scale")  # type: ignore[attr-defined]
