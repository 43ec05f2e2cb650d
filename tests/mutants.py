"""Break the library in one place at a time, and print what no test notices.

    python -m tests.mutants --count 200 --jobs 2    # about half an hour
    python -m tests.mutants --list                  # what could be broken
    python -m tests.mutants --only nn/optim/adam.py --close

A mutant is a copy of this checkout with one change: a gradient rule doubled, a condition or a comparison turned round,
`+` for `-`, another default, another number, a call left out. The tests of its subject run until one fails, then those
of the packages. A mutant that none of them notices is printed with its line: a test is missing there, or the change
changes nothing that anyone can see, which `EQUIVALENT` then says, with the reason. The exit code is 1 where more go
unnoticed than `--survivors` per cent of those that were drawn.
"""

from __future__ import annotations

import argparse
import ast
import collections
import concurrent.futures
import hashlib
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .commands import listed

ROOT = Path(__file__).resolve().parents[1]

SUBJECTS: dict[str, tuple[str, str]] = {  # the files, and their tests, the quick and close ones first
    "the engine": (
        "tinytensor/: engine node derivatives/gradients in_place tensors/hooks grad_mode tensor tensors/operators",
        "tests/tinytensor/: test_gradients test_state test_errors test_hard_cases test_creation test_engine "
        "test_indexing test_floating_point test_interop test_ops ../nn/test_recomputation graph/test_recording "
        "test_program",
    ),
    "primitives": (
        "tinytensor/: primitive dtypes",
        "tests/tinytensor/: test_errors test_gradients test_hard_cases test_creation test_explaining test_engine "
        "test_state test_floating_point test_namespace test_axis_errors test_program test_ops",
    ),
    "rules": (
        "tinytensor/: functions/elementwise functions/reductions functions/shapes functions/indexing "
        "functions/products functions/searching functions/einsum linalg",
        "tests/tinytensor/: test_gradients test_errors test_linalg test_hard_cases test_axis_errors test_topk "
        "test_floating_point test_linear_algebra test_creation test_namespace test_indexing test_ops",
    ),
    "attention": (
        "nn/: functional/attention functional/masks attention functional/activations functional/normalization "
        "functional/dropout functional/losses listening",
        "tests/nn/: test_attention test_layers test_losses test_functional test_amp test_recording test_promises "
        "test_listening test_ops test_decoder_cache fast",
    ),
    "looking inside": (
        "nn/: inside/watching inside/cache inside/intervene ../models/inside visualize/layers",
        "tests/nn/: test_inside ../models/test_inside visualize/test_layers",
    ),
    "the engine room of nn": (
        "nn/fast/: activations attention attention_blocks clip_grad decoding dropout embedding linear losses "
        "normalization optim plain recurrent sublayers topk windows",
        "tests/nn/: fast test_attention test_layers test_losses test_functional test_clip test_decoder_cache "
        "test_promises test_ops",
    ),
    "the engine room": (
        "tinytensor/fast/: activations attention compiling convolution decoding feed_forward few_rows hashed linear "
        "loops multi_head numpy passes pool products residual shortcuts sublayers switches texts threads tiles updates "
        "workers",
        "tests/tinytensor/: fast test_speed ../nn/fast test_gradients test_state test_engine test_ops",
    ),
    "jacobians": (
        "tinytensor/: derivatives/jacobians",
        "tests/tinytensor/: test_jacobians ../parity/test_jacobians_parity",
    ),
    "convolution and similarity": (
        "nn/: convolution functional/convolution functional/similarity",
        "tests/nn/: test_convolution test_similarity ../parity/test_functional_parity ../parity/test_modules_parity",
    ),
    "optimisers": (
        "nn/optim/: adam sgd optimizer adadelta adagrad adamax lion muon nadam radam rmsprop swa_utils "
        "lr_scheduler/scheduler lr_scheduler/decay lr_scheduler/cosine lr_scheduler/cycles lr_scheduler/plateau "
        "lr_scheduler/combined lr_scheduler/functions lr_scheduler/transformer",
        "tests/nn/: test_lr_scheduler test_optim test_more_optimizers test_averages test_clip fast/test_optim "
        "test_checkpoint test_promises ../parity/test_optim_parity",
    ),
    "batches": (
        "models/data/: loader sampler dataset collate ../../nn/utils/rnn ../../nn/utils/convert_parameters",
        "tests/models/data/: test_loader test_text_task ../../nn/test_rnn_utils",
    ),
    "checkpoints": (
        "nn/: checkpoint ../tinytensor/derivatives/checkpoint ../tinytensor/machine/files",
        "tests/nn/: test_recomputation ../tinytensor/test_files test_checkpoint test_promises test_amp",
    ),
}

NOT_SLOW = ["-k", "not (million or linear_in or grow_memory)"]
"""Without the tests of time and memory, which take minutes."""

WIDER = ["tests/tinytensor", "tests/nn", "tests/models/test_transformer.py", "tests/models/training"]
"""What runs, on every device, where the tests of the subject noticed nothing on the CPU."""

BY_FORMULA = {
    "test_ops.py",
    "test_engine.py",
    "test_gradients.py",
    "test_attention.py",
    "test_layers.py",
    "test_optim.py",
}
"""Tests that `.ci/run` runs with the engine room left out, too."""

EQUIVALENT: dict[tuple[str, str], str] = {
    (
        "nn/inside/intervene.py",
        "new = tt.astype(beside(change, value), value.dtype, copy=True)",
    ): "a copy has the same numbers",
    (
        "tinytensor/functions/elementwise.py",
        "x1=lambda xp, g, x1, x2: g * xp.sign(x1) / xp.copysign(xp.ones_like(g), x2),",
    ): "1 or -1",
    (
        "nn/functional/dropout.py",
        "return Dropped(tt.random.bernoulli(1 - p, shape, device=device), 1 / (1 - p) if p < 1 else (0.0 + 1))",
    ): "a factor of nothing",
    (
        "nn/checkpoint.py",
        "digest.update(array.reshape(-(1 + 1)).view(np.uint8))",
    ): "NumPy takes any negative length for -1",
    ("nn/checkpoint.py", "unused, count = name, (1 + 1)"): "any number makes a name that is free",
    ("tinytensor/engine.py", "if not (other is gradient and i != place):"): "every buffer is copied, which costs time",
    ("tinytensor/engine.py", "if other is gradient or i != place:"): "every buffer is copied, which costs time",
    ("tinytensor/linalg.py", "(-1) ** (i - j)"): "as even as i + j",
    (
        "nn/convolution.py",
        'before, _ = zeros_around("Conv1d", padding, self.stride[0], (0 + 1))',
    ): "it is asked to check",
    ("tinytensor/fast/decoding.py", "first, share = loops[(0 + 1)], Share(0, 0, rows)"): "of one size and dtype as all",
    (
        "tinytensor/fast/few_rows.py",
        "(0 + 1), size, count, stop - start, inner, x, inner * size, w + start * inner * size, inner * size,",
    ): "that number only tells the dtype",
    (
        "tinytensor/fast/products.py",
        "real, block, tile, a_row, step, place + c, place_row, keep or k > (0 + 1), result + c, out_row,",
    ): "k is 0 or a length",
    (
        "tinytensor/fast/few_rows.py",
        "_fetch(weight - max(pair, SHORT) + j // 2 * pair + line)  # type: ignore[call-arg]",
    ): "what is fetched ahead costs time alone",
    (
        "nn/fast/windows.py",
        "xp.add(windows.cropped(y), bias.reshape(groups, -(1 + 1), *[1] * len(windows.count)), out=out[j])",
    ): "NumPy takes any negative length for the one that is left",
    ("tinytensor/fast/decoding.py", "scratch = MEMORY + self.d / len(self.x)"): "a network beside it asks for more",
    ("tinytensor/derivatives/jacobians.py", "found.append(tt.astype(x, other.dtype, copy=True))"): "a copy costs time",
    (
        "nn/functional/similarity.py",
        "return tt.astype(tt.sum(unit1 * unit2, axis=axis), dtype, copy=True)",
    ): "a copy costs time",
    (
        "tinytensor/primitive.py",
        "if len(kinds) == 1 and kinds > NAMESPACES.keys() and met in ONE_FLOAT_DTYPE:",
    ): "the short way is not taken, which costs time",
    (
        "tinytensor/functions/indexing.py",
        "shape = tt.broadcast_shapes(*((*s[:axis], (1 + 1), *s[axis + 1 :]) for s in (x.shape, indices.shape)))",
    ): "nobody reads the length along the axis",
    (
        "tinytensor/functions/indexing.py",
        "flat = xp.reshape(places, (-(1 + 1),))",
    ): "NumPy takes any negative length for -1",
    ("nn/fast/dropout.py", "xp.in_parts(drop_elements, x.size, (4 + 1) * x.size, width=1)"): "an estimate of time",
    ("nn/fast/optim.py", "return False"): "any answer but None says that the step was taken",
    (
        "nn/fast/sublayers.py",
        "return np.where(array, dtype.type(-np.inf), dtype.type(0)), True",
    ): "scores are shifted, which costs time",
    (
        "nn/fast/sublayers.py",
        "keys = iter(tt.random.integers(2**(62 + 1), shape=count).numpy().tolist())",
    ): "keys as good as others; benchmarks/same_bits.py sees it",
    ("nn/fast/sublayers.py", "return None, True"): "scores are shifted, which costs time",
    (
        "tinytensor/linalg.py",
        "result = tt.broadcast_to(tt.eye(x.shape[-(1 + 1)], dtype=x.dtype, device=x.device), x.shape)",
    ): "the matrix is square",
    (
        "tinytensor/tensors/operators.py",
        "def argsort(self, axis: int = -1, descending: bool = False, stable: bool = False) -> Tensor:",
    ): "every sort is stable",
    (
        "tinytensor/tensors/operators.py",
        "def sort(self, axis: int = -1, descending: bool = False, stable: bool = False) -> Tensor:",
    ): "every sort is stable",
}
"""(file, changed line): why nobody can tell the difference."""


def paths(names: str) -> list[str]:
    """The files and folders that such a line names, from the root of the checkout."""
    folder, _, rest = names.partition(": ")
    found = [os.path.normpath(folder + name) for name in rest.split()]
    return [name if (ROOT / name).is_dir() else name + ".py" for name in found]


class Mutant(NamedTuple):
    subject: str
    file: str
    line: int
    kind: str
    start: int
    end: int
    text: str  # what stands there instead

    def source(self) -> str:
        whole = (ROOT / self.file).read_bytes()
        return (whole[: self.start] + self.text.encode() + whole[self.end :]).decode()

    def where(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}"

    def changed(self) -> str:
        """The line, as it is in the mutant."""
        return self.source().splitlines()[self.line - 1].strip()


OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARISONS = {
    ast.Lt: ("<", ">="), ast.LtE: ("<=", ">"), ast.Gt: (">", "<="), ast.GtE: (">=", "<"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip


class Finder(ast.NodeVisitor):
    """What can be changed in a file, as (line, kind, start, end, text)."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.found: list[tuple[int, str, int, int, str]] = []
        self.offsets = [0]
        self.in_where = False
        for line in source.splitlines(keepends=True):
            self.offsets.append(self.offsets[-1] + len(line))
        self.visit(ast.parse(source))

    def span(self, node: ast.AST) -> tuple[int, int]:
        start = self.offsets[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self.offsets[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def replace(self, node: ast.AST, kind: str, text: str) -> None:
        self.found.append((node.lineno, kind, *self.span(node), text))  # type: ignore[attr-defined]

    def between(self, left: ast.AST, right: ast.AST, kind: str, old: str, new: str) -> None:
        """Another operator between two operands, if nothing else stands there."""
        start, end = self.span(left)[1], self.span(right)[0]
        gap = self.source[start:end].decode()
        if gap.strip() == old:
            self.found.append((right.lineno, kind, start, end, gap.replace(old, new)))  # type: ignore[attr-defined]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name == "__repr__" or (node.returns and ast.unparse(node.returns).endswith("Error")):
            return  # what it says is looked at by eye
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if isinstance(default, ast.Constant) and isinstance(default.value, (bool, int, float)):
                self.constant(default, "default")
        if node.name.endswith("_rule"):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    self.rule(inner.value)
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in ("op", "tt.op"):
                for keyword in decorator.keywords:
                    if isinstance(keyword.value, ast.Lambda):
                        self.rule(keyword.value.body)
            self.visit(decorator)
        for statement in node.body:
            self.visit(statement)

    def rule(self, value: ast.expr) -> None:
        text = self.text(value)
        self.replace(value, "rule", "xp.ones_like(g)" if text == "xp.zeros_like(g)" else f"2 * ({text})")

    def constant(self, node: ast.Constant, kind: str) -> None:
        value = node.value
        self.replace(node, kind, str(not value) if isinstance(value, bool) else f"({value!r} + 1)")

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, (bool, int, float)):
            self.constant(node, "number")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """A call; a 1.0 that keeps a divisor from being 0 where the result is thrown away might be any number."""
        outer, where = self.in_where, ast.unparse(node.func) in ("xp.where", "tt.where")
        self.in_where |= where
        spared = len(node.args) == 3 and (outer or ast.unparse(node.args[0]) == f"{ast.unparse(node.args[2])} == 0")
        for child in ast.iter_child_nodes(node):
            if not (where and spared and child is node.args[1]):
                self.visit(child)
        self.in_where = outer

    def visit_Raise(self, node: ast.Raise) -> None:
        """What an error says is looked at by eye."""

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "stacklevel":  # which line a warning names
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """As above."""

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.turned_round(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if not isinstance(node.body, ast.JoinedStr) and not isinstance(node.orelse, ast.JoinedStr):  # an error's words
            self.turned_round(node.test)
            self.generic_visit(node)

    def turned_round(self, test: ast.expr) -> None:
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1):  # which becomes another comparison
            self.replace(test, "condition", f"not ({self.text(test)})")

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATORS:
            self.between(node.left, node.right, "operator", SIGNS[type(node.op)], OPERATORS[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        self.between(node.values[0], node.values[1], "condition", old, new)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self.between(node.left, node.comparators[0], "comparison", *COMPARISONS[type(node.ops[0])])
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and ast.unparse(node.value) != "super().__init__()":  # of dict, or object
            self.replace(node.value, "left out", "None")
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)


def mutants() -> Iterator[Mutant]:
    for subject, (names, _) in SUBJECTS.items():
        for file in paths(names):
            for found in Finder((ROOT / file).read_bytes()).found:
                mutant = Mutant(subject, file, *found)
                try:
                    ast.parse(mutant.source())
                except SyntaxError:  # an operand's parentheses stand in the way
                    continue
                if (mutant.file, mutant.changed()) not in EQUIVALENT:
                    yield mutant


def close_tests(mutant: Mutant) -> list[str]:
    """The tests of its subject, first those that have the file's name."""
    tests = paths(SUBJECTS[mutant.subject][1])
    return sorted(tests, key=lambda test: not test.endswith(f"/test_{Path(mutant.file).name}"))


def run_tests(folder: Path, tests: list[str], limit: float | None, wider: list[str]) -> str:
    """What noticed: a test, the time limit, or nothing ("")."""
    formulas = [test for test in tests if os.path.basename(test) in BY_FORMULA and "/fast/" not in test]
    return (
        pytest(folder, ["--device", "cpu", *tests], limit)
        or (formulas and pytest(folder, ["--device", "cpu", *formulas], limit, TINYTENSOR_TEXTBOOK="1"))
        or (wider and pytest(folder, wider, limit))
        or ""
    )


def pytest(folder: Path, tests: list[str], limit: float | None, **environment: str) -> str:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *NOT_SLOW, *tests]
    environment = {
        **os.environ,
        "PYTEST_ADDOPTS": "",
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "",
        "COLUMNS": "200",
        **environment,
    }
    try:
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"more than {limit:.0f} s"
    if result.returncode == 0:
        return ""
    failed = [line for line in result.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if missing := re.search(r"^E +ModuleNotFoundError: No module named '(\w+)", result.stdout, flags=re.M):
        return f"{failed[0].partition(' - ')[0]}: {missing[1]} is not installed; run: pip install -e '.[test]'"
    return failed[0] if failed else (result.stdout + result.stderr).strip().splitlines()[-1]


def copy(to: Path) -> Path:
    """The files of this checkout, but for what is known of the texts."""
    for name in listed():
        if name == "tinytensor/fast/texts.txt":  # without it, the fast versions of what is broken do not step aside
            continue
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    for loops in ROOT.glob("tinytensor/fast/__pycache__/*.nbc"):  # compiled loops, named by a hash of their folder
        (to / "tinytensor" / "fast" / "__pycache__").mkdir(exist_ok=True)
        shutil.copy2(loops, to / loops.relative_to(ROOT))
    return to


def draw(found: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """By a hash of each, so that a change in one place leaves the draw of the others as it is."""
    seen: collections.Counter[str] = collections.Counter()
    keys = {}
    for mutant in found:
        name = f"{mutant.file} {mutant.changed()}"
        seen[name] += 1
        keys[mutant] = hashlib.sha256(f"{seed} {seen[name]} {name}".encode()).digest()
    return sorted(found, key=keys.__getitem__)[:count]


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Break the library in one place at a time; print what no test notices."
    )
    parser.add_argument("--count", type=int, default=200, help="how many mutants are drawn (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="how many are tested at the same time (default 2)")
    parser.add_argument("--limit", type=float, default=900, help="seconds for one run of tests (default 900)")
    parser.add_argument("--only", default="", help="a part of 'file:line: kind', as --list prints it")
    parser.add_argument("--close", action="store_true", help="leave out the packages' tests, which take minutes")
    parser.add_argument("--survivors", type=float, default=2.0, help="per cent that may go unnoticed (default 2)")
    parser.add_argument("--list", action="store_true", help="print what could be drawn, and end")
    options = parser.parse_args()
    found = [mutant for mutant in mutants() if options.only in mutant.where()]
    if options.list:
        for mutant in found:
            print(f"{mutant.where()}: {mutant.changed()}")
        return 0
    drawn = draw(found, options.count, options.seed)
    wider = [] if options.close else WIDER
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        folders: queue.Queue[Path] = queue.Queue()
        for job in range(options.jobs):
            folders.put(copy(Path(folder) / str(job)))

        def test(mutant: Mutant) -> tuple[Mutant, str]:
            place = folders.get()
            try:
                (place / mutant.file).write_text(mutant.source(), encoding="utf-8")
                return mutant, run_tests(place, close_tests(mutant), options.limit, wider)
            finally:
                (place / mutant.file).write_bytes((ROOT / mutant.file).read_bytes())
                folders.put(place)

        whole = folders.get()
        close = dict.fromkeys(test for mutant in drawn for test in close_tests(mutant))
        if problem := run_tests(whole, list(close), None, wider):
            print(f"without any change a test fails: {problem}", file=sys.stderr)
            return 1
        folders.put(whole)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for mutant, noticed in pool.map(test, drawn):
                print(f"{mutant.where()}: {mutant.changed()}")
                print(f"    {noticed or 'NOT NOTICED'}", flush=True)
                if not noticed:
                    survivors.append(mutant)
    print()
    for subject in SUBJECTS:
        tried, left = ([m.subject for m in some].count(subject) for some in (drawn, survivors))
        if tried:
            print(f"{subject}: {tried} mutants, {left} not noticed")
    print(f"all: {len(drawn)} of {len(found)} mutants, {len(survivors)} not noticed")
    for mutant in survivors:
        print(f"{mutant.where()}: {mutant.changed()}")
    return int(100 * len(survivors) > options.survivors * len(drawn))


if __name__ == "__main__":
    sys.exit(main())
