"""The pages of the API, by subject: whatever is public is on one of them, found by the module that defines it.

A name that no subject claims is an error, so that a new module finds its place.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from links import ROOT

SPACES = {  # where names are public, and how a program writes what is in front of them
    "tinytensor": "tt",
    "tinytensor.linalg": "tt.linalg",
    "tinytensor.fft": "tt.fft",
    "tinytensor.derivatives.complex_gradients": "tt.complex_gradients",
    "tinytensor.random": "tt.random",
    "tinytensor.special": "tt.special",
    "tinytensor.nn": "nn",
    "tinytensor.nn.functional": "F",
    "tinytensor.nn.init": "nn.init",
    "tinytensor.nn.optim": "nn.optim",
    "tinytensor.nn.optim.lr_scheduler": "nn.optim.lr_scheduler",
    "tinytensor.nn.optim.swa_utils": "nn.optim.swa_utils",
    "tinytensor.nn.amp": "nn.amp",
    "tinytensor.nn.distributed": "nn.distributed",
    "tinytensor.nn.listening": "nn.listening",
    "tinytensor.nn.parallel": "nn.parallel",
    "tinytensor.nn.utils": "nn.utils",
    "tinytensor.nn.utils.rnn": "nn.utils.rnn",
    "tinytensor.nn.visualize": "visualize",
    "tinytensor.graph": "tt.graph",
    "tinytensor.onnx": "tt.onnx",
    "tinytensor.testing": "tt.testing",
    "tinytensor.models": "models",
    "tinytensor.models.attribution": "models.attribution",
    "tinytensor.models.data": "models.data",
    "tinytensor.models.inside": "models.inside",
}
SUBJECTS = {  # page: title, and the names of a space (all, or those that these modules define)
    "tensor": ("Tensor", [("tinytensor", "tensor")]),
    "creation": ("Making Tensors", [("tinytensor", "functions.creation")]),
    "dtypes": ("Dtypes and constants", [("tinytensor", "dtypes backend functions.info <values>")]),
    "elementwise": ("Element by element", [("tinytensor", "functions.elementwise")]),
    "comparisons": ("Comparisons and bits", [("tinytensor", "functions.comparisons")]),
    "reductions": (
        "Sums, means and what else goes over an axis",
        [("tinytensor", "functions.reductions functions.nans functions.quantiles")],
    ),
    "products": ("Products", [("tinytensor", "functions.products functions.einsum functions.matrices")]),
    "shapes": ("Shapes", [("tinytensor", "functions.shapes")]),
    "indexing": ("Indexing, sorting and searching", [("tinytensor", "functions.indexing functions.searching")]),
    "linalg": ("Linear algebra", [("tinytensor.linalg", "*")]),
    "fft": ("Fourier transforms", [("tinytensor.fft", "*")]),
    "special": ("Special functions", [("tinytensor.special", "*")]),
    "random": ("Random numbers", [("tinytensor", "random"), ("tinytensor.random", "*")]),
    "gradients": ("Gradients", [("tinytensor", "grad_mode derivatives")]),
    "ops": (
        "Ops and their checks",
        [
            ("tinytensor", "primitive node testing"),
            ("tinytensor.testing", "*"),
            ("tinytensor.derivatives.complex_gradients", "*"),
        ],
    ),
    "recording": (
        "Graphs, programs and errors",
        [("tinytensor", "recording program graph"), ("tinytensor.graph", "*"), ("tinytensor.onnx", "*")],
    ),
    "speed": ("Speed", [("tinytensor", "machine record")]),
    "modules": ("Modules", [("tinytensor.nn", "module parameter containers shapes model_summary")]),
    "layers": ("Layers", [("tinytensor.nn", "layers activations feed_forward positional similarity utils.low_rank")]),
    "convolution": (
        "Convolution, pooling and normalisation of channels",
        [("tinytensor.nn", "convolution pooling channel_normalization channel_dropout")],
    ),
    "attention": (
        "Attention and the Transformer",
        [("tinytensor.nn", "attention self_attention transformer recording inside"), ("tinytensor.nn.listening", "*")],
    ),
    "recurrent": (
        "Recurrent layers, and sequences of different lengths",
        [("tinytensor.nn", "recurrent"), ("tinytensor.nn.utils.rnn", "*")],
    ),
    "losses": ("Losses", [("tinytensor.nn", "losses")]),
    "functional": ("Functions behind the layers", [("tinytensor.nn.functional", "*")]),
    "optim": (
        "Optimisers, schedules and averages of weights",
        [
            ("tinytensor.nn.optim", "*"),
            ("tinytensor.nn.optim.lr_scheduler", "*"),
            ("tinytensor.nn.optim.swa_utils", "*"),
        ],
    ),
    "init": ("First weights", [("tinytensor.nn.init", "*")]),
    "training": (
        "Gradients in training: a step at once, clipping, recomputation, half precision, threads",
        [
            ("tinytensor.nn", "compiled_step"),
            ("tinytensor.nn.utils", "*"),
            ("tinytensor.nn.amp", "*"),
            ("tinytensor.nn.parallel", "*"),
        ],
    ),
    "distributed": ("Many processes and machines", [("tinytensor.nn.distributed", "*")]),
    "checkpoints": ("Checkpoints", [("tinytensor.nn", "checkpoint")]),
    "visualize": ("Pictures", [("tinytensor.nn.visualize", "*")]),
    "models": (
        "Models",
        [("tinytensor.models", "*"), ("tinytensor.models.attribution", "*"), ("tinytensor.models.inside", "*")],
    ),
    "data": ("Datasets and batches", [("tinytensor.models.data", "*")]),
}
VALUES = {
    "HOLOMORPHIC": "Names of ops whose rules hold for complex numbers as they are. Add that of an op of your own.",
    "e": "Euler's number.",
    "inf": "Infinity.",
    "nan": "Not a number.",
    "newaxis": "``None``: in an index, a new axis.",
    "ops": "Every declared op by its name, as the record (a ``Primitive``) that it is.",
    "pi": "Half a turn, in radians.",
}


def public(space: str) -> Iterator[tuple[str, Any]]:
    """Names and objects of a module: those of `__all__`, or those that it defines itself; modules are no names here."""
    module = importlib.import_module(space)
    names = getattr(module, "__all__", None)
    if names is None:
        names = [n for n, o in vars(module).items() if n[0] != "_" and getattr(o, "__module__", None) == space]
    for name in sorted(names, key=str.lower):
        thing = getattr(module, name)
        if not isinstance(thing, ModuleType):
            yield name, thing


def pages() -> dict[str, str]:
    """The pages, by their names."""
    written = {}
    described: set[int] = set()
    left = {(space, name) for space in SPACES for name, _ in public(space)}
    for page, (title, sources) in SUBJECTS.items():
        parts = []
        for space, wanted in sources:
            chosen = [(name, thing) for name, thing in public(space) if _is_of(thing, space, wanted.split())]
            left -= {(space, name) for name, _ in chosen}
            if chosen:
                parts.append(f"{SPACES[space]}\n{'-' * len(SPACES[space])}\n")
            parts += [_described(space, name, thing, described) for name, thing in chosen]
        written[f"api/{page}.rst"] = f"{title}\n{'=' * len(title)}\n\n" + "\n".join(parts)
    if left:
        raise LookupError(f"docs/site/api.py has no subject for {sorted(left)}")
    rows = "\n".join(f"   {page}" for page in SUBJECTS)
    intro = "Every public name, by subject. Programs write what is above each list in front of its names, after\n\n"
    intro += ".. code-block:: python\n\n   import tinytensor as tt\n   from tinytensor import models, nn\n"
    intro += "   from tinytensor.nn import functional as F\n   from tinytensor.nn import visualize\n"
    written["api/index.rst"] = f"API\n===\n\n{intro}\n.. toctree::\n\n{rows}\n"
    return written


def _is_of(thing: Any, space: str, wanted: list[str]) -> bool:
    module = getattr(thing, "__module__", None)
    if wanted == ["*"]:
        return True
    if module is None or not module.startswith("tinytensor") or not callable(thing):
        return "<values>" in wanted
    inside = module.removeprefix(space).lstrip(".")
    return any(inside == each or inside.startswith(each + ".") for each in wanted)


def _described(space: str, name: str, thing: Any, described: set[int]) -> str:
    full = f"{space}.{name}"
    if callable(thing) and id(thing) in described:
        return f".. py:data:: {name}\n   :module: {space}\n\n   The same as `{thing.__name__}` above.\n"
    described.add(id(thing))
    if inspect.isclass(thing):
        bases = "   :show-inheritance:\n" if any(_is_public(base) for base in thing.__bases__) else ""
        return f".. autoclass:: {full}\n   :members:\n{bases}"
    if callable(thing):
        return f".. autofunction:: {full}\n"
    said = VALUES.get(name) or (thing.__doc__ if "tinytensor" in type(thing).__module__ else f"``{thing!r}``.")
    return f".. py:data:: {name}\n   :module: {space}\n\n   {said}\n"


def _is_public(thing: Any) -> bool:
    return any(thing is each for space in SPACES for _, each in public(space))


def line_of(module: str, name: str) -> str | None:
    """The page and line of the source of a documented name, seen from a page of the API."""
    thing: Any = importlib.import_module(module)
    for part in name.split("."):
        thing = inspect.getattr_static(thing, part, None) if inspect.isclass(thing) else getattr(thing, part, None)
    thing = getattr(thing, "fget", None) or getattr(thing, "__func__", thing)
    thing = inspect.unwrap(thing) if callable(thing) else thing
    try:
        path, (_, line) = Path(inspect.getsourcefile(thing)).resolve(), inspect.getsourcelines(thing)
    except (TypeError, OSError):
        return None
    if not path.is_relative_to(ROOT):
        return None
    return f"../source/{path.relative_to(ROOT).as_posix()}.html#L-{max(line, 1)}"
