"""When an op fails: its operands' shapes axis by axis, and the graph so far with the failing op in red."""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..modes import failure_listeners, state
from ..node import Node
from ..tracing import Recording, TracedNode, call_site
from .record import record

if TYPE_CHECKING:
    from ..primitive import Primitive

LAST = 200
"""If a graph is too large to draw, this many ops before the failure are drawn."""


class explain_errors(record):
    """Within it, an error comes with a picture: the graph so far, and in red the op or module that failed.

        with tt.explain_errors("error.svg"):
            loss = model(x).sum()

    The error is raised as usual, with a note that says where the picture is. In a notebook the picture is shown as
    well; there, an op that fails outside of this context shows what led to its operands. The first number that is not
    finite in `detect_anomaly` is shown the same way. Records what is computed, as `record` does, so it is slow.

    Args:
        path: where the picture goes (.svg, .png, .pdf, .tex, .dot, .mmd, .txt).
        **options: how it is drawn; see `tinytensor.graph.Options`.
    """

    def __init__(self, path: str | os.PathLike[str] = "error.svg", **options: Any) -> None:
        super().__init__()
        self.path = os.fspath(path)
        self.options = options

    def _clone(self) -> explain_errors:
        return explain_errors(self.path, **self.options)

    def __exit__(self, *exception: Any) -> None:
        recording = state.recording
        error = exception[1]
        if isinstance(error, Exception) and recording is not None:
            _blame(recording, error)
            _forget_names(recording, error)
        super().__exit__(*exception)
        if isinstance(error, Exception) and recording is not None:
            error.add_note(_show(recording, error, self.path, self.options))


def op_failed(
    primitive: Primitive,
    arrays: Sequence[Any],
    parents: Sequence[Node | None],
    error: BaseException,
    node: TracedNode | None = None,
) -> None:
    """Remember which op failed; in a notebook, show it. `node` is the op's own, if it gave a result."""
    recording = state.recording
    alone = recording is None and in_notebook() and any(parents)
    if alone:
        recording = _behind(parents)
    if recording is None:
        return
    if node is None or alone:
        failed = node or TracedNode(primitive, tuple(parents), {}, {}, _Nothing())
        recording.add(failed, tuple(parents), [*arrays, failed])
        failed.values = (*arrays, None)
        if node is None:
            failed.kept_before, failed.origin = {}, call_site()[0]
        node = recording.nodes.pop()  # if the caller catches the error, no picture shows it
    recording.failed = node, error
    if alone:
        _show(recording, error, None, {})


failure_listeners.append(op_failed)


def _behind(parents: Sequence[Node | None]) -> Recording:
    """The ops that led to the operands of an op, as if they had been recorded."""
    from ..graph.build import walk

    recording = Recording(None, [])
    known: list[Any] = walk([p for p in parents if p is not None and not p.freed])
    recording.nodes.extend(known)
    return recording


def module_failed(name: str, arguments: Sequence[Any]) -> None:
    """Remember which module failed, unless an op in it did."""
    recording, error = state.recording, sys.exc_info()[1]
    if recording is None or error is None:
        return
    _blame(recording, error)
    if recording.failed is None:
        _refused(error, name, dict(pair for i, x in enumerate(arguments, 1) for pair in _tensors(f"argument {i}", x)))


def _refused(error: BaseException, name: str, tensors: Mapping[str, Any]) -> None:
    """Remember a function or module that refused these Tensors, in the place of an op."""
    from ..primitive import Primitive

    def failure(xp: Any, *inputs: Any) -> Any: ...

    primitive = Primitive(failure, {}, floating=False, wide=False)
    primitive.name, primitive.inputs, primitive.variadic = f"{name}()", tuple(tensors), False  # no op has such a name
    given = tensors.values()
    op_failed(primitive, [x._data for x in given], [x._node for x in given], error)


def _blame(recording: Recording, error: BaseException) -> None:
    """If no op failed with this error, find what did: the op of a failed gradient, or the innermost public function."""
    from ..engine import _fit, op_vjp

    reasons = [error]
    while (reason := reasons[-1].__cause__ or reasons[-1].__context__) is not None and reason not in reasons:
        reasons.append(reason)
    if recording.failed is not None and recording.failed[1] not in reasons:
        recording.failed = None
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in frames:
        if frame.f_code in (_fit.__code__, op_vjp.__code__):
            recording.failed = frame.f_locals["node"], error
    for frame in reversed(frames):
        if recording.failed is not None:
            return
        code = frame.f_code
        names, rest, keywords = inspect.getargs(code)
        given = {word: frame.f_locals.get(word) for word in (*names, rest, keywords) if word}
        tensors = dict(pair for word, value in given.items() for pair in _tensors(word, value))
        if tensors and _is_public(code, str(frame.f_globals.get("__name__")), given.get("self")):
            _refused(error, code.co_name.strip("_"), tensors)


def _tensors(word: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The Tensors in an argument, which may be a container of containers, each with its name."""
    if hasattr(value, "_data"):
        yield word, value
    elif isinstance(value, (Mapping, list, tuple)):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _tensors(f"{word}[{key}]", part)


def _is_public(code: CodeType, module: str, owner: Any) -> bool:
    """True if a function of one of the library's files is also in its package, in the library, or a Tensor's method."""
    library = __name__.partition(".")[0]
    packages = [sys.modules.get(place) for place in (library, module.rpartition(".")[0])]
    places = packages if owner is None else [type(owner)] if hasattr(owner, "_data") else []
    found = [getattr(place, code.co_name, None) for place in places]
    bare = [inspect.unwrap(f, stop=lambda f: getattr(f, "__code__", None) is code) for f in found if f is not None]
    return module.startswith(f"{library}.") and code in [getattr(f, "__code__", None) for f in bare]


def _forget_names(recording: Recording, error: Exception) -> None:
    """The line that failed assigned nothing, so what it computed before has no name."""
    stack = traceback.extract_tb(error.__traceback__)
    lines = [f"{os.path.basename(f.filename)}:{f.lineno} in {f.name}" for f in stack]
    for node in reversed(recording.nodes):
        if not any((node.origin or "").startswith(line) for line in lines):
            return
        node.variable = ""


class _Nothing:
    """A placeholder for the result that was not computed."""

    shape = ()
    dtype = np.dtype(np.float32)


def _show(recording: Recording, error: BaseException, path: str | None, options: Mapping[str, Any]) -> str:
    """Draw what was recorded up to the failure; says where the picture is."""
    from ..graph import DrawingError, Graph

    text = str(error).partition("\n")[0]
    failed, _ = recording.failed or (None, error)
    nodes: list[Any] = list(dict.fromkeys([*recording.nodes, failed] if failed is not None else recording.nodes))
    note = ""
    for part in (nodes, nodes[-LAST:]):
        graph = Graph(part, title=text, failed=failed, misfits=_misfits(str(error)), **options)
        try:
            if path is not None:
                graph.save(path)
                red = any(vertex.failed for vertex in graph.picture().vertices)
                note = f"the graph so far{', with what failed in red' * red}: {path}"
            if in_notebook():
                from IPython.display import SVG, display

                display(SVG(graph.to_svg()))
            return note
        except DrawingError as problem:
            return f"{problem}\n{graph.to_text()}"
        except Exception as problem:  # of the picture: the user's own error goes on
            note = f"no picture of this error: {problem}"
    return note


def _misfits(text: str) -> dict[tuple[int, ...], str]:
    """The shapes with an axis in brackets, of those that a message has under each other (`messages.aligned`)."""
    rows = re.findall(r"^  \w+ +((?:\[?\d+\]? *)+)$", text, flags=re.M)
    shapes = [re.findall(r"\[?\d+\]?", row) for row in rows]
    times = "\N{MULTIPLICATION SIGN}"
    return {tuple(int(n.strip("[]")) for n in shape): times.join(shape) for shape in shapes if "[" in "".join(shape)}


def in_notebook() -> bool:
    """True if code runs in a Jupyter notebook, which shows pictures."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and hasattr(running, "kernel")
