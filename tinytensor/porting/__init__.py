"""The lines to write in place of those of a program for PyTorch: `python -m tinytensor.porting script.py`.

Reads the program's syntax tree, runs nothing of it, and finds at once what errors would say one at a time, in the same
words. It cannot know the object of a method: `x.gather()` counts as a Tensor's unless a class of the program has such a
method.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import tinytensor as tt
from tinytensor.tensors import hints

PLACES = {
    "torch": "tinytensor",
    "torch.nn": "tinytensor.nn",
    "torch.nn.functional": "tinytensor.nn.functional",
    "torch.nn.init": "tinytensor.nn.init",
    "torch.nn.modules": "tinytensor.nn",
    "torch.nn.parallel": "tinytensor.nn.parallel",
    "torch.nn.parameter": "tinytensor.nn",
    "torch.nn.utils": "tinytensor.nn.utils",
    "torch.nn.utils.rnn": "tinytensor.nn.utils.rnn",
    "torch.amp": "tinytensor.nn.amp",
    "torch.distributed": "tinytensor.nn.distributed",
    "torch.optim": "tinytensor.nn.optim",
    "torch.optim.lr_scheduler": "tinytensor.nn.optim.lr_scheduler",
    "torch.optim.swa_utils": "tinytensor.nn.optim.swa_utils",
    "torch.utils.data": "tinytensor.models.data",
    "torch.fft": "tinytensor.fft",
    "torch.linalg": "tinytensor.linalg",
    "torch.special": "tinytensor.special",
}
"""PyTorch's modules, and ours with the same names."""

CORRECTION = "PyTorch divides by n - 1, tinytensor's function by n; write correction=1"
SILENT = {
    "torch.std": CORRECTION,
    "torch.var": CORRECTION,
    "torch.split": "a number of parts here, the length of a part in PyTorch; write a list of lengths",
    "torch.equal": "element by element here, one truth value in PyTorch; write bool((x == y).all())",
    "torch.nonzero": "a tuple of vectors here, a matrix in PyTorch; write tt.stack(tt.nonzero(x), axis=-1)",
    "torch.meshgrid": "one row for each of y here, for each of x in PyTorch; write indexing=",
    "torch.median": "values alone here, values and places in PyTorch",
    "torch.linalg.solve": "b of two dimensions is a matrix here, a batch of vectors in PyTorch; write b[..., None]",
    "max": "values alone here, values and places in PyTorch; write x.amax(axis) and x.argmax(axis)",
    "min": "values alone here, values and places in PyTorch; write x.amin(axis) and x.argmin(axis)",
    "sort": "values alone here, values and places in PyTorch; write x.sort(axis) and x.argsort(axis)",
}
"""Functions, and methods of Tensors, that run here and give something else (docs/silent-differences.md)."""

SAYS_WHICH = {"torch.std": "correction unbiased", "torch.var": "correction unbiased", "torch.meshgrid": "indexing"}
"""Arguments with which they mean the same."""

OF_OTHERS = {name for kind in (str, bytes, list, dict, set, tuple, Path) for name in dir(kind)}
"""Methods that Python's own values have: one counts as a Tensor's only with a number, or with dim=, in its brackets."""

WHOLE_MODEL = "torch.save(model)"
WHOLE = "torch.save writes no whole model, which would be a pickle that runs code when loaded; save state_dict()"

PROPERTIES = ("grad_fn", "is_cpu", "is_cuda", "mH", "retains_grad")


class Finding(NamedTuple):
    """A place of a program, and what to write there.

    Attributes:
        line, column: where it begins, from 1.
        code: what is written there.
        advice: in the words of the error that it would raise.
        silent: True if there is no error, but another number.
    """

    line: int
    column: int
    code: str
    advice: str
    silent: bool

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.code}: {'other numbers: ' * self.silent}{self.advice}"


def read(source: str) -> list[Finding]:
    """The places that a program for PyTorch has to change, in the order of its lines. Raises SyntaxError."""
    tree = ast.parse(source)
    places: dict[tuple[int, int, str, bool], dict[str, None]] = {}
    for line, column, code, advice, silent in _Program(tree).findings():
        places.setdefault((line, column, code, silent), {})[advice] = None
    return [Finding(*place[:3], "; ".join(said), place[3]) for place, said in sorted(places.items())]


def stops(source: str) -> list[str]:
    """The lines at which `python -m tinytensor.torch` stops, as far as names show it, and why. Raises SyntaxError.

    The names are looked up in another process, since a process that loads that package has PyTorch's meanings.
    """
    asked = dict(_Program(ast.parse(source)).asked())
    command = [sys.executable, "-m", f"{tt.__name__}.torch.has", *asked]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    lacking = {name: why for name, _, why in (line.partition(" ") for line in found)}
    lacking |= {name: WHOLE for name in asked if name == WHOLE_MODEL}
    return [
        f"line {line}: {lacking[name]}" for name, line in sorted(asked.items(), key=lambda p: p[1]) if name in lacking
    ]


class _Program:
    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.names: dict[str, str] = {}  # names of this program for PyTorch's modules, classes and functions
        self.strangers: set[str | None] = {""}  # names of other modules, and of what their functions gave
        self.methods = {
            inner.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for inner in node.body
            if isinstance(inner, ast.FunctionDef)
        }  # fmt: skip
        self.within: set[int] = set()  # nodes inside a dotted name that was looked up as a whole

    def findings(self) -> Iterator[Finding]:
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield from self._imports(node)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and _root(node.value) in self.strangers:
                self.strangers |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        for node in ast.walk(self.tree):  # from the outside in, so whole dotted names come before their parts
            if isinstance(node, ast.Call):
                yield from self._call(node)
            elif isinstance(node, ast.Attribute) and id(node) not in self.within:
                yield from self._attribute(node)

    def asked(self) -> Iterator[tuple[str, int]]:
        """PyTorch's names that the program uses, and `.name` for methods of Tensors, with the last line of each."""
        nodes, _ = [*ast.walk(self.tree)], [*self.findings()]  # which finds the program's names for PyTorch's
        models = {name for name, whole in self.names.items() if whole.startswith("torch.nn.")}
        models |= {node.name for node in nodes if isinstance(node, ast.ClassDef)}
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        made = [node for node in calls if _root(node.func) in models or self._is_of(node.func, "torch.nn.")]
        assigned = [node.targets[0] for node in nodes if isinstance(node, ast.Assign) and node.value in made]
        named = {ast.unparse(target) for target in assigned}
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names if alias.name.split(".")[0] == "torch")
            elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "torch":
                yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names if alias.name != "*")
            elif isinstance(node, ast.Attribute) and (whole := self._dotted(node)):
                yield whole, node.lineno
        for call in calls:
            method, first = call.func, call.args[0] if call.args else None
            if first and self._is_of(method, "torch.save") and (first in made or ast.unparse(first) in named):
                yield WHOLE_MODEL, call.lineno
            elif isinstance(method, ast.Attribute) and not self._dotted(method) and self._is_tensors(call, method):
                yield from [(f".{method.attr}", call.lineno)] if hints.hint("Tensor", method.attr) else []

    def _is_of(self, node: ast.expr, start: str) -> bool:
        return (self._dotted(node) or "").startswith(start)

    def _imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
        start = f"{'.' * node.level}{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
        taken: dict[str, list[str]] = {}  # names from our modules, by their module
        for alias in node.names:
            whole = start + alias.name
            if whole.split(".")[0] != "torch":
                self.strangers.add((alias.asname or alias.name).split(".")[0])
                if whole.startswith("torch"):
                    yield _at(node, ast.unparse(node), "it needs PyTorch itself", silent=False)
                continue
            self.names[alias.asname or alias.name.split(".")[0]] = whole if alias.asname or start else "torch"
            module, name = _split(whole)
            advice = _missing(module, name)
            if not advice:
                ours, _, last = f"{PLACES[module]}.{name}".strip(".").rpartition(".")
                called = alias.asname or (last if start else None)
                if not ours:
                    advice = f"write import tinytensor as {called or 'torch'}"
                elif start:
                    taken.setdefault(ours, []).append(last + f" as {called}" * (called != last))
                    continue
                else:
                    advice = f"write import {ours}.{last}" + (f" as {called}" if called else "")
            yield _at(node, ast.unparse(node), advice, silent=False)
        for ours, names in taken.items():
            yield _at(node, ast.unparse(node), f"write from {ours} import {', '.join(names)}", silent=False)

    def _dotted(self, node: ast.expr) -> str | None:
        """PyTorch's whole name of `F.softmax`, `torch.nn.Linear`; None if it is no name of PyTorch's."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute) and (start := self._dotted(node.value)):
            self.within.add(id(node.value))
            return f"{start}.{node.attr}"
        return None

    def _attribute(self, node: ast.Attribute) -> Iterator[Finding]:
        if whole := self._dotted(node):
            module, name = _split(whole)
            written = ast.unparse(node)
            if advice := _missing(module, name):
                yield _at(node, written, advice, silent=False)
            elif name and written.startswith("torch.") and module.replace("torch", "tinytensor") != PLACES[module]:
                ours = PLACES[module].replace("tinytensor", "tt")
                yield _at(node, written, f"tinytensor names it {ours}.{name}", silent=False)
        elif node.attr in PROPERTIES and node.attr not in self.methods:
            yield _at(
                node,
                ast.unparse(node),
                hints.hint("Tensor", node.attr) or "a Tensor here has no such attribute",
                silent=False,
            )

    def _call(self, node: ast.Call) -> Iterator[Finding]:
        written = ast.unparse(node.func)
        if whole := self._dotted(node.func):
            module, name = _split(whole)
            if not name or _missing(module, name):
                return  # the name itself is found elsewhere
            function = _looked_up(module, name)
            given = {keyword.arg for keyword in node.keywords}
            if whole in SILENT and not given & {*SAYS_WHICH.get(whole, "").split()} and _means_another(whole, node):
                yield _at(node, written, SILENT[whole], silent=True)
            yield from self._arguments(node, written, function, bound=False)
        elif isinstance(node.func, ast.Attribute) and self._is_tensors(node, node.func):
            name = node.func.attr
            if not hasattr(tt.Tensor, name):
                if advice := hints.hint("Tensor", name):
                    yield _at(node, written, advice, silent=False)
                return
            if name in ("std", "var") and not {k.arg for k in node.keywords} & {"correction", "unbiased"}:
                yield _at(node, written, "PyTorch divides by n - 1, NumPy by n; write correction=1", silent=False)
            elif name in SILENT and (node.args or node.keywords or name == "sort"):
                yield _at(node, written, SILENT[name], silent=True)
            yield from self._arguments(node, written, getattr(tt.Tensor, name), bound=True)

    def _is_tensors(self, node: ast.Call, method: ast.Attribute) -> bool:
        if (
            _root(method) in self.strangers
            or method.attr in self.methods
            or (isinstance(method.value, ast.Name) and method.value.id in ("self", "super"))
        ):
            return False
        first = node.args[0] if node.args else None
        is_number = isinstance(first, ast.Constant) and type(first.value) is int
        return method.attr not in OF_OTHERS or is_number or any(keyword.arg == "dim" for keyword in node.keywords)

    def _arguments(self, node: ast.Call, written: str, function: Any, bound: bool) -> Iterator[Finding]:
        """Arguments that a function of ours does not take."""
        try:
            known = [*inspect.signature(function).parameters.values()][bound:]
            written_out = inspect.signature(function, follow_wrapped=False).parameters.values()
        except (TypeError, ValueError):  # nothing to ask: a type of Python's or NumPy's own
            return
        if len(node.args) > 1 and any(p.name == "lengths" and p.kind is p.VAR_POSITIONAL for p in written_out):
            lengths = ", ".join(map(ast.unparse, node.args))
            yield _at(node, written, f"the shape is one argument: ({lengths})", silent=False)
        if any(p.kind is p.VAR_KEYWORD and p.name != "unknown" for p in known):
            return
        name = written.rpartition(".")[2]
        taken = ["*" * (p.kind is p.VAR_POSITIONAL) + p.name for p in known]
        for keyword, value in ((keyword.arg, keyword.value) for keyword in node.keywords):
            if keyword == "num_workers" and not (isinstance(value, ast.Constant) and value.value == 0):
                yield _at(node, written, "there are no workers; leave out num_workers=", silent=False)
            elif keyword and keyword not in taken and (not bound or keyword in hints.KEYWORDS):
                error = hints.unknown_keyword(name, {keyword: None}, taken)
                yield _at(node, written, str(error).partition(": ")[2], silent=False)


def _at(node: Any, code: str, advice: str, silent: bool) -> Finding:
    return Finding(node.lineno, node.col_offset + 1, code, advice, silent)


def _root(node: ast.expr) -> str | None:
    """The name that `a.b(c)[d].e` begins with, "" for a text or a number; None for anything else."""
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else "" if isinstance(node, ast.Constant) else None


def _split(whole: str) -> tuple[str, str]:
    """The longest module of PyTorch's that we have, and the first name behind it ("" for the module itself)."""
    parts = whole.split(".")
    length = max(i for i in range(1, len(parts) + 1) if ".".join(parts[:i]) in PLACES)
    return ".".join(parts[:length]), parts[length] if length < len(parts) else ""


def _looked_up(module: str, name: str) -> Any:
    return getattr(import_module(PLACES[module]), name, None)


def _missing(module: str, name: str) -> str | None:
    """The words about a name that ours lacks; None for one that is there."""
    if name in ("", "*") or _looked_up(module, name) is not None:
        return None
    return hints.hint(PLACES[module], name) or f"{PLACES[module]} has no {name}"


def _means_another(whole: str, node: ast.Call) -> bool:
    """True where the arguments are those that give another result."""
    if whole == "torch.split":
        return len(node.args) > 1 and not isinstance(node.args[1], (ast.List, ast.Tuple))
    return whole != "torch.median" or len(node.args) > 1 or bool(node.keywords)
