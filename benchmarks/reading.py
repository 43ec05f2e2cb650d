"""How much code there is to read: the functions that a debugger steps through, and the files before the first rule.

    python benchmarks/reading.py [--functions] [--json FILE]
    python benchmarks/reading.py --against FOLDER    # another checkout of tinytensor beside this one

It traces one warm call of each row (`sys.settrace`), on scalars and tiny shapes, without the engine room. It counts the
library's functions that the call enters, their files, their lines from `def` to the last, and their statements.
Docstrings do not count, blank lines and comments do. A lambda or an inner function counts as a function of its own, a
comprehension belongs to the function around it; a line that belongs to two counts once.

The core is the modules in CORE and the modules of tinytensor that their import loads, without the functions, the
backends and the dtypes: whole files.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from checkout import Checkout
from command_line import Parser, write_json
from interleaved import Side, print_blas

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tinytensor", "nn", "models")
CORE = ("tensor", "primitive", "engine", "node", "modes")
OUTSIDE = ("backend", "dtypes", "functions")  # not in the core: read them when needed


# ---- what a call enters


class Reading(NamedTuple):
    """The amount of code to read for a call.

    Attributes:
        functions, files, lines, statements: the number of each.
        places: each function, as `tinytensor/engine.py:122 backward, 71 lines`, the longest first.
    """

    functions: int
    files: int
    lines: int
    statements: int
    places: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.functions} / {self.files} / {self.lines:,} / {self.statements:,}"


Place = tuple[int, int]  # line and column


class Function(NamedTuple):
    """A function or lambda in its file; `start` and `end` are those of its body."""

    name: str
    first: int
    lines: frozenset[int]
    statements: frozenset[Place]
    start: Place
    end: Place


def measure(function: Callable[[], object], folders: Iterable[str | Path]) -> Reading:
    """Trace one call, which should not be the first: count the functions that it enters in files below the folders.

    Args:
        function: called once, without arguments.
        folders: the folders of the files to count; links are resolved.
    """
    roots = tuple(os.path.join(os.path.realpath(folder), "") for folder in folders)
    entered: dict[CodeType, str] = {}

    def see(frame: FrameType, event: str, argument: Any) -> None:
        if frame.f_code not in entered:
            entered[frame.f_code] = _file_of(frame)

    former = sys.gettrace()
    sys.settrace(see)
    try:
        function()
    finally:
        sys.settrace(former)
    owners = {(file, _function_of(code, file)) for code, file in entered.items() if file.startswith(roots)}
    read = [(file, owner) for file, owner in owners if owner is not None]
    read.sort(key=lambda item: (-len(item[1].lines), item[0], item[1].start))
    return Reading(
        len(read),
        len({file for file, _ in read}),
        len({(file, line) for file, owner in read for line in owner.lines}),
        len({(file, place) for file, owner in read for place in owner.statements}),
        tuple(f"{_short(file, roots)}:{owner.first} {owner.name}, {_lines(len(owner.lines))}" for file, owner in read),
    )


def _lines(number: int) -> str:
    return "1 line" if number == 1 else f"{number} lines"


def _file_of(frame: FrameType) -> str:
    """The file of a function's source; for generated code, the file of the module that generated it."""
    file = frame.f_code.co_filename
    return os.path.realpath(file if os.path.exists(file) else frame.f_globals.get("__file__") or file)


def _short(file: str, roots: tuple[str, ...]) -> str:
    root = next(root for root in roots if file.startswith(root))
    return os.path.relpath(file, os.path.dirname(os.path.dirname(root)))


def _function_of(code: CodeType, file: str) -> Function | None:
    """The function of a code object: the innermost one whose body holds it; None for a module's code."""
    if not os.path.exists(code.co_filename):
        return _generated(code)
    spans = [span for span in code.co_positions() if None not in span and span[::2] != span[1::2]]
    if spans:
        start, end = (
            min((line, column) for line, _, column, _ in spans),
            max((line, column) for _, line, _, column in spans),
        )
        owners = [owner for owner in _functions(file) if owner.start <= start and end <= owner.end]
    else:  # only `pass`
        owners = [owner for owner in _functions(file) if owner[:2] == (code.co_name, code.co_firstlineno)]
    return max(owners, key=lambda owner: owner.start, default=None)


def _generated(code: CodeType) -> Function:
    """A function without a file: each of its lines counts as a statement."""
    lines = frozenset(line for *_, line in code.co_lines() if line)
    first = code.co_firstlineno
    places = frozenset((line, 0) for line in lines)
    return Function(f"{code.co_qualname} (generated)", first, lines, places, (first, 0), (max(lines), 0))


@cache
def _functions(file: str) -> list[Function]:
    """The functions and lambdas of a file."""
    functions = []
    for node in ast.walk(ast.parse(Path(file).read_bytes())):
        if isinstance(node, ast.Lambda):
            lines = frozenset(range(node.lineno, _end(node)[0] + 1))
            start = _start(node.body)
            functions.append(Function("<lambda>", node.lineno, lines, frozenset([start]), start, _end(node)))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstrings = [text for inner in ast.walk(node) for text in _docstring(inner)]
            silent = {line for text in docstrings for line in range(text.lineno, _end(text)[0] + 1)}
            lines = frozenset(range(node.lineno, _end(node)[0] + 1)) - silent
            inside = [inner for inner in ast.walk(node) if isinstance(inner, ast.stmt) and inner is not node]
            places = frozenset((inner.lineno, inner.col_offset) for inner in inside if inner not in docstrings)
            functions.append(Function(node.name, _start(node)[0], lines, places, _start(node.body[0]), _end(node)))
    return functions


def _docstring(node: ast.AST) -> list[ast.stmt]:
    """The statement that is the docstring of a function or class, if it has one."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    first = node.body[0]
    value = first.value if isinstance(first, ast.Expr) else None
    return [first] if isinstance(value, ast.Constant) and isinstance(value.value, str) else []


def _start(node: Any) -> Place:
    """The start of a node, with its decorators, as the interpreter sees it."""
    return min((one.lineno, one.col_offset) for one in (node, *getattr(node, "decorator_list", ())))


def _end(node: Any) -> Place:
    return node.end_lineno, node.end_col_offset


# ---- the rows: each a function that prepares everything, and gives the call that is traced


def tanh_forward(checkout: Checkout) -> Callable[[], object]:
    tt = checkout.tt
    x = tt.tensor([0.5], requires_grad=True)
    return lambda: tt.tanh(x)


def tanh_backward(checkout: Checkout) -> Callable[[], object]:
    tt = checkout.tt
    return tt.tanh(tt.tensor([0.5], requires_grad=True)).backward


def attention_forward(checkout: Checkout) -> Callable[[], Any]:
    tt, F = checkout.tt, checkout.nn.functional
    ones = tt.ones((1, 2, 2, 3))  # (batch, heads, length, head_dim)
    query, key, value = (tt.tensor(ones, requires_grad=True) for _ in range(3))
    return lambda: F.scaled_dot_product_attention(query, key, value)


def attention_backward(checkout: Checkout) -> Callable[[], object]:
    return attention_forward(checkout)().sum().backward


def training_step(checkout: Checkout) -> Callable[[], object]:
    """The loop of `examples/first_transformer.py`, once: the same lines, on a Transformer of one layer each."""
    tt, nn, F = checkout.tt, checkout.nn, checkout.nn.functional
    vocabulary, sentences, length = 12, 4, 6
    tt.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 32, "dropout": 0.0, "max_length": length}
    model = checkout.models.Transformer(vocabulary, **sizes)
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-3)
    ids = tt.arange(sentences * length) % (vocabulary - 3) + 3
    source = target_in = tt.reshape(ids, (sentences, length))

    def step() -> None:
        logits = model(source, target_in)
        loss = F.cross_entropy(logits.reshape(-1, vocabulary), ids, ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step()
    return step


ROWS: dict[str, Callable[[Checkout], Callable[[], object]]] = {
    "tanh forward": tanh_forward,
    "tanh backward": tanh_backward,
    "attention forward": attention_forward,
    "attention backward": attention_backward,
    "one training step": training_step,
}


def readings(checkout: Checkout) -> dict[str, Reading]:
    """The rows of a checkout, by formulas if it has a textbook mode."""
    folders = [checkout.folder / name for name in PACKAGES]
    table = {}
    with checkout.textbook() or nullcontext():
        for name, prepare in ROWS.items():
            prepare(checkout)()  # warm up: a first call may import and cache
            table[name] = measure(prepare(checkout), folders)
    return table


# ---- the core


def core(folder: Path) -> dict[str, int]:
    """The lines of each file of the core, by its path below `tinytensor/`."""
    package = folder / "tinytensor"
    todo = [package / f"{name}.py" for name in CORE]
    lines: dict[str, int] = {}
    while todo:
        file = todo.pop(0)
        name = file.relative_to(package).as_posix()
        if name not in lines:
            lines[name] = len(file.read_text(encoding="utf-8").splitlines())
            todo += _imported(file, package)
    return lines


def _imported(file: Path, package: Path) -> Iterator[Path]:
    """The files of a package that the import of a file loads, without OUTSIDE and the package's own `__init__.py`."""
    for node in _module_level(ast.parse(file.read_bytes()).body):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        else:
            base = node.module.split(".") if node.module else []
            if node.level:
                here = (package.name, *file.relative_to(package).parts[:-1])
                base = [*here[: len(here) - node.level + 1], *base]
            names = [[*base, alias.name] for alias in node.names]
        for first, *parts in names:
            if first == package.name and parts and parts[0] not in OUTSIDE:
                for end in range(1, len(parts) + 1):
                    path = package.joinpath(*parts[:end])
                    yield from (known for known in (path.with_suffix(".py"), path / "__init__.py") if known.is_file())


def _module_level(nodes: Iterable[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run with the module, without those in functions and those for type checkers."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from _module_level(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _module_level(ast.iter_child_nodes(node))


# ---- the table


def reader(folder: Path) -> tuple[Callable[[], tuple[dict[str, Reading], dict[str, int]]], str]:
    """The side of a checkout, with a text that says how fused ops are computed."""
    checkout = Checkout(folder)
    how = "as it runs (it has no textbook mode)" if checkout.textbook() is None else "by formulas"
    return lambda: (readings(checkout), core(folder)), how


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--functions", action="store_true", help="list the functions of each row, and the core's files")
    parser.add_against()
    parser.add_json()
    arguments = parser.parse_args()
    folders = {"ours": ROOT} | ({"other": arguments.against} if arguments.against else {})
    sides = {name: Side(reader, {"TINYTENSOR_TEXTBOOK": "1"}, folder) for name, folder in folders.items()}
    rows, cores = {}, {}
    for name, side in sides.items():
        rows[name], cores[name] = side.ask()
        side.close()
    print("functions / files / lines / statements")
    print(f"{'':28}" + "".join(f"{name:>26}" for name in sides))
    for row in ROWS:
        print(f"{row:28}" + "".join(f"{rows[name][row]!s:>26}" for name in sides))
    print(f"{'core, lines before a rule':28}" + "".join(f"{sum(cores[name].values()):>26,}" for name in sides))
    for name, side in sides.items():
        print(f"{name}: {folders[name]}, {side.greeting}")
    if arguments.functions:
        for name in sides:
            for row in ROWS:
                print(f"\n{name}, {row}", *rows[name][row].places, sep="\n  ")
            print(f"\n{name}, core", *(f"{file}, {_lines(lines)}" for file, lines in cores[name].items()), sep="\n  ")
    print_blas(used := {name: side.blas for name, side in sides.items()})
    figures = {
        name: {"mode": side.greeting, "core": cores[name]} | {row: rows[name][row]._asdict() for row in ROWS}
        for name, side in sides.items()
    }
    write_json(arguments.json, {"blas": used} | figures)


if __name__ == "__main__":
    main()
