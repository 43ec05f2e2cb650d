"""LLVM's text of a function, instruction by instruction, and its compilation.

A `Value` is a register of the function that is being written; Python's operators on it write one instruction each.
No instruction has a flag by which NaN or infinity would be undefined; a sum along a row may be added up in the order of
the vectors.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import struct
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from ...machine.files import atomic_write

BITS = {"float": "i32", "double": "i64"}
"""The integers of the same width."""

MOST = 4096  # files of compiled code

SUFFIX = {"float": "f32", "double": "f64"}


class Text:
    """The instructions of a function, in the order in which they are written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self._count = 0

    def put(self, instruction: str) -> None:
        """Write an instruction, or a label."""
        self.lines.append(f"  {instruction}")

    def new(self, kind: str, instruction: str) -> Value:
        """Write an instruction that gives a register of a type."""
        self._count += 1
        self.put(f"%r{self._count} = {instruction}")
        return Value(self, kind, f"%r{self._count}")

    def constant(self, kind: str, number: float) -> Value:
        """A number of a type."""
        if kind not in BITS:
            return Value(self, kind, str(int(number)) if kind != "i1" else str(bool(number)).lower())
        number = ctypes.c_float(number).value if kind == "float" else number
        return Value(self, kind, f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}")

    def declare(self, name: str, *values: Value) -> str:
        """The text of a call of LLVM's own function `llvm.name`, on numbers of one type."""
        kind = values[0].kind
        full = f"@llvm.{name}.{SUFFIX[kind]}"
        self.declared.add(f"declare {kind} {full}({', '.join([kind] * len(values))})")
        return f"{full}({', '.join(f'{kind} {value.name}' for value in values)})"

    def call(self, name: str, *values: Value) -> Value:
        """The result of such a call; of 0 and -0 either may be the larger one."""
        kind, flag = values[0].kind, "nsz " if name in ("maximum", "minimum") else ""
        return self.new(kind, f"call {flag}{kind} {self.declare(name, *values)}")


class Value:
    """A register, or a constant."""

    __slots__ = ("kind", "name", "text")

    def __init__(self, text: Text, kind: str, name: str) -> None:
        self.text, self.kind, self.name = text, kind, name

    def of(self, number: Any) -> Value:
        """A number as a constant of this type."""
        return number if isinstance(number, Value) else self.text.constant(self.kind, number)

    def _do(self, instruction: str, other: Any, is_turned: bool = False) -> Value:
        left, right = (self.of(other), self) if is_turned else (self, self.of(other))
        word = f"f{instruction}" if self.kind in BITS else instruction
        return self.text.new(self.kind, f"{word} {self.kind} {left.name}, {right.name}")

    def _compare(self, condition: str, other: Any) -> Value:
        """A comparison of floats; with NaN it is false, unless it asks if they differ."""
        return self.text.new("i1", f"fcmp {condition} {self.kind} {self.name}, {self.of(other).name}")

    __add__, __radd__ = functools.partialmethod(_do, "add"), functools.partialmethod(_do, "add", is_turned=True)
    __sub__, __rsub__ = functools.partialmethod(_do, "sub"), functools.partialmethod(_do, "sub", is_turned=True)
    __mul__, __rmul__ = functools.partialmethod(_do, "mul"), functools.partialmethod(_do, "mul", is_turned=True)
    __truediv__, __rtruediv__ = functools.partialmethod(_do, "div"), functools.partialmethod(_do, "div", is_turned=True)
    __and__ = functools.partialmethod(_do, "and")
    __or__ = functools.partialmethod(_do, "or")
    __xor__ = functools.partialmethod(_do, "xor")
    __lshift__ = functools.partialmethod(_do, "shl")
    __rshift__ = functools.partialmethod(_do, "ashr")
    __lt__ = functools.partialmethod(_compare, "olt")
    __le__ = functools.partialmethod(_compare, "ole")
    __gt__ = functools.partialmethod(_compare, "ogt")
    __ge__ = functools.partialmethod(_compare, "oge")
    equals = functools.partialmethod(_compare, "oeq")
    differs = functools.partialmethod(_compare, "une")

    def times_plus(self, factor: Any, term: Any) -> Value:
        """self * factor + term, rounded once if the processor can."""
        return self.text.call("fmuladd", self, self.of(factor), self.of(term))

    def __neg__(self) -> Value:
        return self.text.new(self.kind, f"fneg {self.kind} {self.name}")

    def select(self, one: Any, other: Any) -> Value:
        """`one` if this condition holds, else `other`; at least one of them is a Value."""
        kind = one.kind if isinstance(one, Value) else other.kind
        values = [v if isinstance(v, Value) else self.text.constant(kind, v) for v in (one, other)]
        return self.text.new(kind, f"select i1 {self.name}, {kind} {values[0].name}, {kind} {values[1].name}")

    def bits(self) -> Value:
        """The integer of the same bits, or of an integer the number."""
        kind = BITS.get(self.kind) or {"i32": "float", "i64": "double"}[self.kind]
        return self.text.new(kind, f"bitcast {self.kind} {self.name} to {kind}")

    def to(self, kind: str) -> Value:
        """The same number in another type."""
        if kind == self.kind:
            return self
        if kind == "i1":
            return self.differs(0)
        word = {"i1": "uitofp", "float": "fpext", "double": "fptrunc"}.get(self.kind, "sitofp")
        return self.text.new(kind, f"{word} {self.kind} {self.name} to {kind}")


def machine() -> Any:
    """LLVM's compiler for this processor; an engine takes one for itself."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(llvm.get_host_cpu_name(), features, opt=3)


@functools.cache
def compile_text(text: str, name: str = "loop") -> tuple[int, Any]:
    """The address of a function of a text, and the engine that keeps it; from disk, if it is there."""
    host = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvm.llvm_version_info
    folder = cache_folder()
    path = folder / hashlib.sha256(f"{text}{host}".encode()).hexdigest()[:32] if folder else None
    code = b""
    with contextlib.suppress(OSError):
        code = path.read_bytes() if path else b""
    if hashlib.sha256(code[32:]).digest() != code[:32]:  # not there, or damaged
        found = compiled(text)
        code = hashlib.sha256(found).digest() + found
        with contextlib.suppress(OSError):  # a full disk, say: the next process compiles anew
            if path and folder:
                atomic_write(path, code)
                forget(folder)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code[32:]))
    engine.finalize_object()
    return engine.get_function_address(name), engine


def compiled(text: str) -> bytes:
    """The object code of a text."""
    module, target = llvm.parse_assembly(text), machine()
    options = llvm.PipelineTuningOptions(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = target.emit_object(module)
    return code


@functools.cache
def cache_folder() -> Path | None:
    """The folder of compiled code: next to this file, or in the user's cache; None if neither can be written."""
    for folder in (
        Path(__file__).parent / "__pycache__",
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "tinytensor",
    ):
        with contextlib.suppress(OSError, RuntimeError):  # also for a user without a home
            path = folder.expanduser() / "loops"
            path.mkdir(parents=True, exist_ok=True)
            if os.access(path, os.W_OK):
                return path
    return None


def forget(folder: Path) -> None:
    """Remove the oldest half of the files if there are too many."""
    files = [file for file in os.scandir(folder) if file.is_file()]
    if len(files) > MOST:
        for file in sorted(files, key=lambda file: file.stat().st_mtime)[: MOST // 2]:
            os.unlink(file)
