"""What `nn.compile_step` does on a GPU: the kernels of a step, recorded for inputs of one shape and launched at once.

The recorded kernels read inputs from arrays of their own, into which those of each call are copied, and leave what they
find in arrays of their own, which are copied out, all gradients in one piece. So nothing that a caller holds changes
with the next call.
"""

from __future__ import annotations

import warnings
import weakref
from collections import Counter
from collections.abc import Hashable
from typing import Any, NamedTuple

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_device
from tinytensor.modes import state
from tinytensor.random import Generator, using
from tinytensor.tensor import wrap

from ..compiled_step import CompiledStep, as_tuple
from ..functional.attention import watch
from ..functional.precision import autocast

MOST = 32  # recordings of a step; inputs of further shapes go op by op
REMEMBERED = 1000  # kinds of inputs
ALIGNMENT = 64  # elements, at a multiple of which each gradient begins


class CannotReplay(Exception):
    """Why a call is computed op by op."""


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
        memory: where all recordings leave the gradients, by their dtype, of each parameter at its place.
        seen: what the inputs of former calls were like, with their recordings; None after the first call, or the
            reason why there is none.
        told: reasons that were warned of.
    """

    def __init__(self, step: CompiledStep) -> None:
        self.xp = for_device("gpu")
        self.pool = self.xp.new_pool()
        self.model = step.model
        self.parameters = [p for p in step.model.parameters() if p.requires_grad]
        self.modules = [(module, list(module._modules.values())) for module in step.model.modules()]
        self.held = [
            (name, own, tensor, tensor._data, tensor.requires_grad)
            for module, _ in self.modules
            for own in (module._parameters, module._buffers)
            for name, tensor in own.items()
            if tensor is not None
        ]
        self.count = self._count()
        sizes: Counter[Any] = Counter()
        self.places = []
        for p in self.parameters:
            start = sizes[p.dtype]
            self.places.append(Place(p.dtype, start, start + p.size, p.shape))
            sizes[p.dtype] += -(-p.size // ALIGNMENT) * ALIGNMENT
        self.memory = {dtype: self.xp.empty(size, dtype=dtype) for dtype, size in sizes.items()}
        self.seen: dict[Hashable, Recorded | str | None] = {}
        self.told: set[str] = set()

    def _count(self) -> int:
        return sum(len(module._parameters) + len(module._buffers) for module, _ in self.modules)

    def is_up_to_date(self) -> bool:
        """Whether the model has the same parts, and they are where the recordings find them."""
        return (
            self._count() == self.count
            and all(list(module._modules.values()) == inside for module, inside in self.modules)
            and all(
                own.get(name) is tensor and tensor._data is array and tensor.requires_grad == trained
                for name, own, tensor, array, trained in self.held
            )
        )

    def look_at_hooks(self) -> None:
        """Raise CannotReplay if a module or a parameter calls Python."""
        for module, _ in self.modules:
            if module._forward_hooks or module._forward_pre_hooks:
                raise CannotReplay(f"a {type(module).__name__} has a hook, which would not be called again")
        for name, _, tensor, _, _ in self.held:
            if tensor._node is not None and tensor._node.hooks:
                raise CannotReplay(f"{name} has a hook, which would not be called again")


class Recorded:
    """One recording, with the arrays that it reads and writes.

    Args:
        inputs: of the call that is recorded.
    """

    def __init__(self, of: RecordedStep, step: CompiledStep, inputs: tuple[Any, ...]) -> None:
        xp = self.xp = of.xp
        given = tuple(wrap(xp.copy(x._data), None) if isinstance(x, Tensor) else x for x in inputs)
        self.inputs = [x._data for x in given if isinstance(x, Tensor)]
        try:
            with using(OnTheGpu(tt.random.current_generator())):
                self.recording, found = xp.record(lambda: self._compute(of, step, given), of.pool)
        finally:
            moved = [name for name, _, tensor, array, _ in of.held if tensor._data is not array]
            for _, _, tensor, array, _ in of.held:
                tensor._data = array  # not where the graph alone writes to
        if moved:
            raise CannotReplay(f"it puts another array in place of {moved[0]}; write to it with copy_()")
        if self.recording is None:
            raise CannotReplay(found)
        self.memory = of.memory
        self.is_tuple, self.results, self.places = found

    def _compute(self, of: RecordedStep, step: CompiledStep, inputs: tuple[Any, ...]) -> Any:
        """The step, with its gradients in one piece of memory."""
        results = as_tuple(given := step.function(*inputs))
        gradients = tt.grad(results[0], of.parameters, allow_unused=True)
        places = []
        for parameter, place, gradient in zip(of.parameters, of.places, gradients):
            if gradient is not None:
                place.of(of.memory)[...] = gradient._data
                places.append((parameter, place))
        return isinstance(given, tuple), [result.detach()._data for result in results], places

    def launch(self, inputs: tuple[Any, ...]) -> Any:
        """The results for inputs of the same shapes; their gradients are added to `.grad`."""
        xp = self.xp
        for own, x in zip(self.inputs, [x for x in inputs if isinstance(x, Tensor)]):
            own[...] = x._data
        self.recording.launch()
        memory = {dtype: xp.copy(array) for dtype, array in self.memory.items()}
        for parameter, place in self.places:
            gradient = wrap(place.of(memory), None)
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        results = tuple(wrap(xp.copy(array), None) for array in self.results)
        return results if self.is_tuple else results[0]


ON_CPU = "it draws random numbers on the CPU"


class OnTheGpu(Generator):
    """The generator of a thread that records: masks of dropout, which each launch draws anew, are all that it gives."""

    def __init__(self, source: Generator) -> None:
        self._source = source

    def bernoulli(self, p: float, shape: Any = (), *, device: Any = None) -> Tensor:
        if device != "gpu":
            for_device("gpu").refuse(ON_CPU)
        return super().bernoulli(p, shape, device=device)

    def origin(self) -> Generator:
        """What it draws from: what the thread draws from, now or when a recording is launched."""
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


_recorded: weakref.WeakKeyDictionary[CompiledStep, RecordedStep] = weakref.WeakKeyDictionary()


def replay(step: CompiledStep, inputs: tuple[Any, ...]) -> Any:
    """The results of a call, from a recording where there can be one; None where there is none yet."""
    step.why_not = None
    on_gpu = any(isinstance(x, Tensor) and x.device == "gpu" for x in inputs)
    if not on_gpu or not _is_plain() or not for_device("gpu").can_record():
        return None
    own = _recorded.get(step)
    if own is None or own.model is not step.model or not own.is_up_to_date():
        own = _recorded[step] = RecordedStep(step)
    try:
        own.look_at_hooks()
        found = _found(own, step, inputs)
    except CannotReplay as reason:
        step.why_not = str(reason)
        results = step.op_by_op(*inputs)  # which raises what is wrong with the function itself
        if step.why_not not in own.told:
            own.told.add(step.why_not)
            warnings.warn(f"compile_step: computed op by op, since {reason}", UserWarning, stacklevel=3)
        return results
    return found and found.launch(inputs)


def _found(own: RecordedStep, step: CompiledStep, inputs: tuple[Any, ...]) -> Recorded | None:
    """The recording for such inputs, made in their second call: what a first call compiles cannot be recorded."""
    key = _key(own, inputs)
    if key not in own.seen:
        if len(own.seen) == REMEMBERED:
            own.seen = {known: found for known, found in own.seen.items() if isinstance(found, Recorded)}
            step.why_not = f"its last {REMEMBERED} calls or more had inputs of other shapes, or other constants"
        own.seen[key] = None
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
    """Whether ops are to be computed and nothing else: nobody watches, records, or wants no gradients."""
    watched = state.anomaly or state.recording is not None or state.observer is not None or watch.see is not None
    return state.grad_enabled and not watched


def _key(own: RecordedStep, inputs: tuple[Any, ...]) -> Hashable:
    """What a recording depends on beside numbers on the GPU. Raises CannotReplay for what it cannot be told from."""
    parts: list[Hashable] = [autocast.get(), tt.get_default_dtype(), *[_settings(module) for module, _ in own.modules]]
    for place, x in enumerate(inputs):
        if isinstance(x, Tensor):
            if x.device != "gpu":
                raise CannotReplay(f"input {place} is on the CPU; move it with .to('gpu')")
            if x.requires_grad:
                raise CannotReplay(f"input {place} requires a gradient, which parameters of the model alone get")
            parts.append((x.shape, x.dtype))
        else:
            try:
                hash(x)
            except TypeError:
                raise CannotReplay(f"input {place} is a {type(x).__name__}; expected Tensors and constants") from None
            parts.append((type(x), x))
    return tuple(parts)


def _settings(module: Any) -> tuple[Hashable, ...]:
    """The numbers and switches among a module's attributes, such as `training` and a dropout's p."""
    return tuple([value for value in vars(module).values() if type(value) in (bool, int, float, str)])


CompiledStep.replay = staticmethod(replay)
