"""The text of a loop: a function over some of its rows, with one pass over a row for each sum that later lines read."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...record.tape import SCANS, Line, Recorded
from .expressions import TABLE, divide_by_one, power
from .llvm import Text, Value
from .plan import ONE_BY_ONE, STARTS, Loop, exponent_of, kept_for_later, operand_type, phases

KIND = {"f": "float", "d": "double", "?": "i1"}
IN_MEMORY = {"f": "float", "d": "double", "?": "i8"}

FUNCTION = """\
define void @loop(i64 %first, i64 %end, ptr noalias %sizes, ptr noalias %numbers{pointers}) #0 {{
entry:
  %n = load i64, ptr %sizes
  %inner.at = getelementptr i64, ptr %sizes, i64 1
  %inner = load i64, ptr %inner.at
{constants}
  br label %row
row:
  %r = phi i64 [%first, %entry], [%r.next, %next]
  %outer.r = udiv i64 %r, %inner
  %start.r = mul i64 %outer.r, %inner
  %inner.r = sub i64 %r, %start.r
{offsets}
{passes}
  br label %next
next:
  %r.next = add i64 %r, 1
  %more = icmp slt i64 %r.next, %end
  br i1 %more, label %row, label %done
done:
  ret void
}}
attributes #0 = {{ "prefer-vector-width"="512" }}
"""
"""LLVM takes shorter vectors by itself, for the sake of programs that hardly use them."""

STRIDES = """\
  %outer.at{i} = getelementptr i64, ptr %sizes, i64 {outer}
  %outer{i} = load i64, ptr %outer.at{i}
  %inner.at{i} = getelementptr i64, ptr %sizes, i64 {inner}
  %inner{i} = load i64, ptr %inner.at{i}"""

OFFSET = """\
  %far{i} = mul i64 %outer.r, %outer{i}
  %near{i} = mul i64 %inner.r, %inner{i}
  %offset{i} = add i64 %far{i}, %near{i}
  %p{i} = getelementptr {kind}, ptr %b{i}, i64 %offset{i}"""

NUMBER = """\
  %number.at{i} = getelementptr double, ptr %numbers, i64 {i}
  %double{i} = load double, ptr %number.at{i}
  %float{i} = fptrunc double %double{i} to float"""


FLUSH = """\
  %last.r{phase} = sub i64 %end, 1
  %is.last{phase} = icmp eq i64 %r, %last.r{phase}
  %few.r{phase} = and i64 %r, 15
  %is.few{phase} = icmp eq i64 %few.r{phase}, 15
  %next.inner{phase} = add i64 %inner.r, 1
  %ends{phase} = icmp eq i64 %next.inner{phase}, %inner
{moves}
  br i1 {due}, label %flush{phase}, label %flushed{phase}
flush{phase}:
  %k{phase} = phi i64 [0, %after{phase}], [%k{phase}.next, %flush{phase}]
{sums}
  %k{phase}.next = add nuw nsw i64 %k{phase}, 1
  %rest{phase} = icmp slt i64 %k{phase}.next, %n
  br i1 %rest{phase}, label %flush{phase}, label %flushed{phase}
flushed{phase}:"""
"""Sums over rows add up 16 rows in their own dtype, then in float64: when there are 16, and before the place moves."""

MOVES = """\
  %moves.inner{i} = icmp ne i64 %inner{i}, 0
  %moves.outer{i} = icmp ne i64 %outer{i}, 0
  %moves.end{i} = and i1 %moves.outer{i}, %ends{phase}
  %moves{i} = or i1 %moves.inner{i}, %moves.end{i}
  %due{i} = or i1 {former}, %moves{i}"""

ADD = """\
  %few.at{i} = getelementptr inbounds float, ptr %few{i}, i64 %k{phase}
  %few.sum{i} = load float, ptr %few.at{i}
  %wide.at{i} = getelementptr inbounds double, ptr %p{i}, i64 %k{phase}
  %wide.sum{i} = load double, ptr %wide.at{i}
  %few.wide{i} = fpext float %few.sum{i} to double
  %all.sum{i} = fadd double %wide.sum{i}, %few.wide{i}
  store double %all.sum{i}, ptr %wide.at{i}
  store float 0.0, ptr %few.at{i}"""


class Written(NamedTuple):
    """A loop as text.

    Attributes:
        text: of the function `loop`: first row, end, sizes, numbers, then a pointer for each array.
        scratch: the arrays of which it keeps a row; their pointers come after those.
        few: how many rows of zeros in float32 it takes last, for sums over some rows.
        numbers: which ones of its lines it takes, as the place of a line and of an argument there.
    """

    text: str
    scratch: list[Recorded]
    few: int
    numbers: list[tuple[int, int]]


class Writer:
    """Writes a loop.

    Args:
        loop: the loop.
        wanted: the results that somebody else reads.
        strides: 0 for an argument that is the same along a row, else 1.
        is_long: sums along a row are kept in float64.
        over: the results that are written in the place of an argument, and that argument.
    """

    def __init__(
        self, loop: Loop, wanted: set[Recorded], strides: dict[Recorded, int], is_long: bool = False,
        over: dict[Recorded, Recorded] | None = None,
    ) -> None:  # fmt: skip
        self.loop, self.strides, self.is_long = loop, strides, is_long
        self.outputs, self.known = loop.outputs(wanted), phases(loop)
        self.kept = kept_for_later(loop, self.known, self.outputs)
        self.lines = {line.result: line for line in loop.lines}
        over = over or {}
        self.arrays = [*loop.arguments(), *[x for x in self.outputs if x not in over]]
        self.places = {x: f"%p{i}" for i, x in enumerate(self.arrays)}
        self.places |= {x: self.places[argument] for x, argument in over.items()}
        self.scratch = {x: None for x in self.kept if x not in self.outputs}
        self.places |= {x: f"%s{i}" for i, x in enumerate(self.scratch)}
        sums = [line.result for line in loop.lines if line.result in loop.columns and line.name == "sum"]
        self.narrow = {x: None for x in sums if x.dtype.char == "f"}
        self.order = {line.result: i for i, line in enumerate(loop.lines)}
        self.text, self.numbers = Text(), list[tuple[int, int]]()
        self.rows: dict[Recorded, Value] = {}  # numbers of the row, once known
        self.here: dict[Recorded, Value] = {}  # numbers of the element in this pass
        self.phase = -1

    def write(self) -> Written:
        """The text."""
        for x in self.loop.arguments():
            if self.strides[x] == 0:
                self.rows[x] = self._load(x, "")
        self._row_lines(-1)
        for phase in range(max(self.known.values()) + 1):
            self._pass(phase)
            self._row_lines(phase)
        arrays = self.arrays
        few = [self.places[x].replace("p", "few") for x in self.narrow]
        names = [f"%b{i}" for i in range(len(arrays))] + [f"%s{i}" for i in range(len(self.scratch))] + few
        strides = [STRIDES.format(i=i, outer=2 + 2 * i, inner=3 + 2 * i) for i in range(len(arrays))]
        offsets = [OFFSET.format(i=i, kind=self._memory(x)) for i, x in enumerate(arrays)]
        text = FUNCTION.format(
            pointers="".join(f", ptr noalias {name}" for name in names),
            constants="\n".join([*strides, *[NUMBER.format(i=i) for i in range(len(self.numbers))]]),
            offsets="\n".join(offsets),
            passes="\n".join(self.text.lines),
        )
        return Written("\n".join([*sorted(self.text.declared), text]), list(self.scratch), len(few), self.numbers)

    # ---- operands

    def _number(self, kind: str, line: Line, place: int) -> Value:
        """A number of a line: an argument of the function, so that the text is the same for others."""
        if kind == "i1":
            return self.text.constant("i1", line.arguments[place])
        self.numbers.append((self.order[line.result], place))
        return Value(self.text, kind, f"%{kind}{len(self.numbers) - 1}")

    def _memory(self, x: Recorded) -> str:
        """The type of the elements of an array; sums and products over rows are kept in float64."""
        is_wide = x in self.loop.columns and self.lines[x].name in ("sum", "prod")
        return "double" if is_wide else IN_MEMORY[x.dtype.char]

    def _at(self, x: Recorded, column: str) -> str:
        """A pointer to the element of a column, or to the row's own number."""
        place, memory = self.places[x], self._memory(x)
        address = f"getelementptr inbounds {memory}, ptr {place}, i64 {column}"
        return self.text.new("ptr", address).name if column else place

    def _load(self, x: Recorded, column: str) -> Value:
        memory = self._memory(x)
        value = self.text.new(memory, f"load {memory}, ptr {self._at(x, column)}")
        return self.text.new("i1", f"icmp ne i8 {value.name}, 0") if memory == "i8" else value

    def _store(self, x: Recorded, value: Value, column: str) -> None:
        memory = self._memory(x)
        if memory == "i8":
            value = self.text.new("i8", f"zext i1 {value.name} to i8")
        self.text.put(f"store {memory} {value.name}, ptr {self._at(x, column)}")

    def _value(self, x: Recorded) -> Value:
        """An operand: of the element in a pass, of the row elsewhere."""
        if x in self.rows:
            return self.rows[x]
        if x not in self.here:
            is_there = x in self.strides or (x in self.kept and self.known[x] < self.phase)
            self.here[x] = self._load(x, f"%j{self.phase}") if is_there else self._expression(self.lines[x])
        return self.here[x]

    def _expression(self, line: Line) -> Value:
        kind = KIND[operand_type(line).char]
        if line.name == "pow":
            return power(self._value(line.arguments[0]).to(kind), exponent_of(line))
        values = []
        for place, argument in enumerate(line.arguments):
            of = "i1" if line.name == "where" and place == 0 else kind
            is_array = isinstance(argument, Recorded)
            values.append(self._value(argument).to(of) if is_array else self._number(of, line, place))
        is_one = line.name == "divide" and self.loop.is_full(line.result) and not self._is_many(line.arguments[1])
        return (divide_by_one if is_one else TABLE[line.name])(*values).to(KIND[line.result.dtype.char])

    def _is_many(self, argument: Any) -> bool:
        """True for a number for each element, False for one that a row has in common."""
        return isinstance(argument, Recorded) and argument not in self.rows

    # ---- rows and passes over them

    def _is_row(self, x: Recorded) -> bool:
        return not self.loop.is_full(x) and x not in self.loop.columns

    def _row_lines(self, phase: int) -> None:
        """Lines with one number for the row, which are known after a pass; stored if somebody else reads them."""
        for line in self.loop.lines:
            x = line.result
            if self.known[x] == phase and self._is_row(x):
                if line.name in ONE_BY_ONE:
                    self.rows[x] = self._expression(line)
                if x in self.outputs:
                    self._store(x, self.rows[x], "")

    def _pass(self, phase: int) -> None:
        """One pass: sums along the row and over the rows, and results that are known in it."""
        text, self.here, self.phase = self.text, {}, phase
        lines = [line for line in self.loop.lines if self.known[line.result] == phase]
        columns = [line for line in lines if line.result in self.loop.columns]
        sums = [line for line in lines if line.name not in ONE_BY_ONE and line.result not in self.loop.columns]
        stores = [x for x in (line.result for line in lines) if self.loop.is_full(x) and x not in self.loop.columns]
        stores = [x for x in stores if x in self.outputs or x in self.kept]
        if not (sums or columns or stores):
            return
        column, totals = f"%j{phase}", list[Value]()
        for begin in ("br label %before{0}", "before{0}:", "br label %loop{0}", "loop{0}:"):
            text.put(begin.format(phase))
        text.put(f"{column} = phi i64 [0, %before{phase}], [{column}.next, %loop{phase}]")
        for i, line in enumerate(sums):
            is_wide = line.name in SCANS or (self.is_long and line.name not in ("max", "min"))
            kind = "double" if is_wide else KIND[line.result.dtype.char]
            totals.append(Value(text, kind, f"%sum{phase}.{i}"))
            start = text.constant(kind, STARTS[line.name]).name
            text.put(f"{totals[i].name} = phi {kind} [{start}, %before{phase}], [{totals[i].name}.next, %loop{phase}]")
        for line, total in sorted(zip(sums, totals), key=lambda pair: pair[0].name not in SCANS):
            term = self._value(line.arguments[0]).to(total.kind)
            found = Value(text, total.kind, f"{total.name}.next")
            text.put(f"{found.name} = {combined(line.name, total, term)}")
            if line.name in SCANS:  # the others are known behind the pass
                self.here[line.result] = found.to(KIND[line.result.dtype.char])
        for x, value in [(x, self._value(x)) for x in stores]:  # what is read is read before it is written over
            self._store(x, value, column)
        for line in columns:
            memory, at = self._memory(line.result), self._at(line.result, column)
            if line.result in self.narrow:
                few = self.places[line.result].replace("p", "few")
                memory, at = "float", text.new("ptr", f"getelementptr inbounds float, ptr {few}, i64 {column}").name
            total = text.new(memory, f"load {memory}, ptr {at}")
            found = text.new(memory, combined(line.name, total, self._value(line.arguments[0]).to(memory)))
            text.put(f"store {memory} {found.name}, ptr {at}")
        text.put(f"{column}.next = add nuw nsw i64 {column}, 1")
        text.put(f"%again{phase} = icmp slt i64 {column}.next, %n")
        text.put(f"br i1 %again{phase}, label %loop{phase}, label %after{phase}")
        text.put(f"after{phase}:")
        self._flush(phase, [line.result for line in columns if line.result in self.narrow])
        for line, total in zip(sums, totals):
            if line.name not in SCANS:
                found = Value(text, total.kind, f"{total.name}.next")
                self.rows[line.result] = found.to(KIND[line.result.dtype.char])

    def _flush(self, phase: int, columns: list[Recorded]) -> None:
        if not columns:
            return
        places = [self.places[x].removeprefix("%p") for x in columns]
        due, moves = f"%full{phase}", [f"  %full{phase} = or i1 %is.last{phase}, %is.few{phase}"]
        for i in places:
            moves.append(MOVES.format(i=i, phase=phase, former=due))
            due = f"%due{i}"
        sums = [ADD.format(i=i, phase=phase) for i in places]
        self.text.lines.append(FLUSH.format(phase=phase, moves="\n".join(moves), due=due, sums="\n".join(sums)))


def combined(name: str, total: Value, term: Value) -> str:
    """The instruction that adds a term to a total, or that takes the larger of them; NaN is the larger one."""
    if name in ("max", "min"):
        function = total.text.declare(f"{name}imum", total, term)
        return f"call reassoc nsz {total.kind} {function}"
    word = "fmul" if name in ("prod", "cumulative_prod") else "fadd"
    return f"{word} {'' if name in SCANS else 'reassoc '}{total.kind} {total.name}, {term.name}"
