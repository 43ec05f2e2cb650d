"""Write `texts.txt`: the text behind each fast way, the names that the text looks up, and a digest of each.

    python -m tinytensor.testing.renew            # after a fast version was changed along with its text
    python -m tinytensor.testing.renew --check    # exit code 1 where texts.txt is not what this would write

From its roots, a way's text is all that the code names: functions, methods, operators, tables. An attribute is looked
up in the module or class in front of the dot, or, if only a run would tell which that is, in every class that the code
names and in Tensor: too many names rather than too few. Parts of the library that compute no number are left out.
"""

from __future__ import annotations

import ast
import sys
import zlib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ..fast.digests import digest, named
from ..fast.texts import CORE, LIST, NOT_TEXT, PACKAGE, file_of, ways

WITHOUT_NUMBERS = (
    "backend.cupy", "backend.cupy_special", "checkpoint", "cores", "doctor", "drawing", "dtypes", "engine", "extras",
    "files", "grad_mode", "gradients", "hints", "info", "messages", "missing", "modes", "node", "notebook", "primitive",
    "recording", "speed", "tensor", "tensors.hints", "tensors.hooks", "tensors.missing", "tracing", "typing",
    "nn.functional.checks", "nn.functional.settings", "nn.init", "nn.recording", "nn.shapes", "nn.parallel",
    "nn.distributed", "nn.utils.rnn", "models",
)  # fmt: skip
"""Modules whose functions compute no number: they keep graphs and modes, check, tell and draw."""

OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.USub: "neg",
    ast.Invert: "invert", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Subscript: "getitem",
}  # fmt: skip

ARITHMETIC = {"add", "sub", "mul", "truediv", "pow", "matmul", "neg"}
"""Operators that count outside of `nn` as well, where others mostly meet sizes and axes."""


# ---- which text, and which places


def short(module: str) -> str:
    return module.partition(".")[2]


@cache
def texts_of(module: str) -> dict[str, ast.AST]:
    """The texts of one of our modules ("" is the package itself); none for parts that no way covers."""
    if module.startswith(NOT_TEXT):
        return {}
    found = sys.modules.get(f"{PACKAGE}.{module}" if module else PACKAGE)
    file = getattr(found, "__file__", None)
    return dict(named(ast.parse(Path(file).read_text(encoding="utf-8")))) if file else {}


class Closure:
    """The texts and places of one way."""

    def __init__(self, roots: tuple[str, ...], calls: tuple[str, ...]) -> None:
        self.calls = calls
        self.texts: set[tuple[str, str]] = set()
        self.places: set[tuple[str, str]] = set()
        self.core = {root.partition(":")[0] for root in CORE}
        self.follows_all = False  # from the core, only into the core: whatever else it calls makes no numbers
        for root in (*CORE, *[root for root in roots if root not in CORE]):
            module, _, name = root.partition(":")
            if name not in texts_of(module):
                raise SystemExit(f"renew: there is no {name} in {module}")
            self.follows_all = root not in CORE
            self.visit(module, name)

    def visit(self, module: str, name: str) -> None:
        """Add a text, and whatever its code names."""
        if (module, name) in self.texts or f"{module}:{name}" in self.calls:
            return
        self.texts |= {(module, name), (module, "")}
        node, here = texts_of(module)[name], sys.modules[f"{PACKAGE}.{module}" if module else PACKAGE]
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        met = {each: self.look_up(here, each) for each in sorted(names)}
        classes = [value for value in met.values() if isinstance(value, type) and _is_ours(value)]
        if (of := name.rpartition(".")[0]) and of in vars(here):
            classes.append(vars(here)[of])
            self.look_up(vars(here)[of], name.rpartition(".")[2])
            heads = [(short(base.__module__), base.__qualname__) for base in vars(here)[of].__mro__ if _is_ours(base)]
            self.texts |= {head for head in heads if head[1] in texts_of(head[0])}
        on_arrays = module.startswith("backend") or "xp" in {p.arg for p in ast.walk(node) if isinstance(p, ast.arg)}
        if not on_arrays:
            classes.append(import_module(PACKAGE).Tensor)
            for operator in sorted({f"__{way}{OPERATORS[kind]}__" for way in ("", "r") for kind in _operators(node)}):
                if module.startswith("nn.") or operator.strip("_").lstrip("r") in ARITHMETIC:
                    self.look_up_in([classes[-1]], operator)
        met["xp"] = import_module(f"{PACKAGE}.backend.numpy")
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute):
                owner = self.owner_of(part.value, met)
                self.look_up_in(classes if owner is None else [owner], part.attr)

    def owner_of(self, node: ast.expr, met: dict[str, Any]) -> Any:
        """The module or class that an attribute is looked up in; None if only its value would tell."""
        if isinstance(node, ast.Attribute):
            owner = self.owner_of(node.value, met)
            found = None if owner is None else getattr(owner, node.attr, None)
        else:
            found = met.get(node.id) if isinstance(node, ast.Name) else None
        return found if isinstance(found, (ModuleType, type)) else None

    def look_up_in(self, owners: list[Any], name: str) -> None:
        for owner in owners:
            if _is_ours(owner) and hasattr(owner, name):
                self.look_up(owner, name)

    def look_up(self, owner: Any, name: str) -> Any:
        """Add a place, and follow what is there."""
        if isinstance(owner, ModuleType):
            where = short(owner.__name__)
            if _is_without_numbers(where) and (self.follows_all or where not in self.core):
                return vars(owner).get(name)
            value = vars(owner).get(name)
        else:
            where, value = f"{short(owner.__module__)}:{owner.__qualname__}", getattr(owner, name, None)
        if f"{where}.{name}" in self.calls:
            return value
        self.places.add((where, name))
        if isinstance(owner, ModuleType) and isinstance(texts_of(where).get(name), (ast.Import, ast.ImportFrom)):
            self.texts.add((where, name))
        self.follow(owner, name, value)
        return value

    def follow(self, owner: Any, name: str, value: Any) -> None:
        """Visit the text of what was found in a place."""
        if isinstance(value, property):
            value = value.fget
        found = getattr(value, "__func__", value)
        module, text = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
        if callable(found) and not isinstance(found, type) and isinstance(module, str) and isinstance(text, str):
            candidates = [(short(module), text)] if module.startswith(f"{PACKAGE}.") else []
            if isinstance(owner, ModuleType):  # a function that the engine room has put over it
                candidates.append((short(owner.__name__), name))
        elif isinstance(found, type):
            if not issubclass(found, tuple) and _is_ours(found):
                self.visit_if_text(short(found.__module__), f"{found.__qualname__}.__init__")
            return
        else:
            found_in = [m for m in _assigning(name) if vars(sys.modules[f"{PACKAGE}.{m}"]).get(name) is value]
            candidates = [(m, name) for m in found_in]
        for candidate in candidates:
            self.visit_if_text(*candidate)

    def visit_if_text(self, module: str, name: str) -> None:
        known = not _is_without_numbers(module) if self.follows_all else module in self.core
        if known and name in texts_of(module):
            self.visit(module, name)


@cache
def _is_without_numbers(module: str) -> bool:
    return any(module == m or module.startswith(f"{m}.") for m in WITHOUT_NUMBERS)


@cache
def _assigning(name: str) -> list[str]:
    """The modules that assign a table, or anything else, to this name."""
    ours = [short(module) for module in sys.modules if module.startswith(f"{PACKAGE}.")]
    return [module for module in ours if isinstance(texts_of(module).get(name), (ast.Assign, ast.AnnAssign))]


def _is_ours(value: Any) -> bool:
    """True for modules and classes of this package that texts may name attributes of."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    is_namespace = isinstance(value, (ModuleType, type))
    return is_namespace and (name == PACKAGE or name.startswith(f"{PACKAGE}.")) and not short(name).startswith(NOT_TEXT)


def _operators(node: ast.AST) -> Iterator[type]:
    for part in ast.walk(node):
        if isinstance(part, (ast.BinOp, ast.UnaryOp, ast.AugAssign)):
            yield from {type(part.op)} & OPERATORS.keys()
        elif isinstance(part, ast.Compare):
            yield from {type(op) for op in part.ops} & OPERATORS.keys()
        elif isinstance(part, ast.Subscript):
            yield ast.Subscript


def content() -> str:
    """The text that `texts.txt` is to hold."""
    import_module(f"{PACKAGE}.models")  # its parts load everything else
    closures = {name: Closure(way.roots, way.calls) for name, way in sorted(ways.items())}
    named_texts = {text for closure in closures.values() for text in closure.texts}
    places = sorted({place for closure in closures.values() for place in closure.places})
    texts = sorted(named_texts.union((of, name) for of, name in places if ":" not in of and name in texts_of(of)))
    lines = []
    for module in sorted({module for module, _ in texts}):
        source = Path(file_of(module)).read_bytes()
        own = [part for of, name in texts if of == module for part in (name, digest(texts_of(module)[name]))]
        lines.append("\t".join(["file", module, str(zlib.crc32(source)), *own]))
    for owner in sorted({owner for owner, _ in places}):
        lines.append("\t".join(["owner", owner, *[name for of, name in places if of == owner]]))
    number_of_text, number_of_place = ({each: i for i, each in enumerate(all_)} for all_ in (texts, places))
    for name, closure in closures.items():
        numbers = sorted(number_of_text[text] for text in closure.texts)
        asked = sorted(number_of_place[place] for place in closure.places)
        lines.append(f"way\t{name}\t{' '.join(map(str, numbers))}\t{' '.join(map(str, asked))}")
    return "\n".join(lines) + "\n"


def main() -> None:
    new = content()
    if "--check" in sys.argv[1:]:
        if new != Path(LIST).read_text(encoding="utf-8"):
            raise SystemExit(f"{LIST} is not what the text says; run: python -m {PACKAGE}.testing.renew")
        return
    part = Path(LIST).with_suffix(".part")
    part.write_text(new, encoding="utf-8")
    part.replace(LIST)
    print(f"wrote {LIST}")


if __name__ == "__main__":
    main()
