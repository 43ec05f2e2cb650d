"""Recording what is computed: `record` for pictures, `named_scope` for boxes in them, `detect_anomaly` for faults."""

from __future__ import annotations

import contextlib
import inspect
import sys
from typing import TYPE_CHECKING

from ..grad_mode import Mode
from ..modes import Modes, Stage, state
from ..tensor import Tensor
from ..tracing import Recording, Scope, calling_frame, trace

if TYPE_CHECKING:
    from ..graph import Graph


class record(Mode):
    """Within it, every op is remembered with its inputs, its module and its source line: for pictures.

        with tt.record() as graph:
            loss = model(x).sum()
        graph.save("loss.svg")

    Ops without a gradient are remembered as well. `graph` is a `tinytensor.graph.Graph` of all that was computed, and
    `draw` takes any Tensor with a gradient computed within. The arrays live as long as the graph or the Tensors. It
    nests, and is a decorator as well.
    """

    def _modes(self) -> Modes:
        return {"recording": Recording(state.recording, state.scopes), "observer": trace}

    def __enter__(self) -> Graph:
        from ..graph import Graph  # first, or the first op's time would include it

        super().__enter__()
        assert state.recording is not None
        return Graph(state.recording.nodes)

    def __exit__(self, *exception: object) -> None:
        recording = state.recording
        super().__exit__(*exception)
        assert recording is not None
        frame = calling_frame()
        variables = frame.f_locals
        for name, value in list(variables.items()):
            recording.hold(value)
            if isinstance(value, Tensor):
                recording.name(value, name)
            if hasattr(value, "named_parameters") and not isinstance(value, type):
                recording.name_module(value, name)
        if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            variables.clear()  # a copy that the function would hold until it returns, and with it what it computed
        if state.recording is not None:
            state.recording.nodes += recording.nodes


class named_scope(contextlib.ContextDecorator):
    """Within it, ops belong to a stage of this name: pictures draw it as they draw a module. A decorator as well."""

    def __init__(self, name: str) -> None:
        self.name = Stage(name)

    def __enter__(self) -> None:
        state.scopes.append(self.name)
        if state.recording is not None:
            state.recording.scope = Scope(self.name, "", state.recording.scope)

    def __exit__(self, *exception: object) -> None:
        state.scopes.pop()
        if state.recording is not None:
            state.recording.leave()


class detect_anomaly(Mode):
    """Find the first op that makes a number which is not finite, forward or backward.

    Within it every recorded op remembers the source line and the modules it was called from. An op whose inputs are
    finite and whose result is not raises FloatingPointError; so does a gradient rule. Slow: for finding a fault.
    """

    def _modes(self) -> Modes:
        return {"anomaly": True, "observer": trace}
