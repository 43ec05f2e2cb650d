"""The report card of an op: what is wrong is told on the right line, with the right words; what is right is green."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import tinytensor as tt
import tinytensor.nn
from tests.marks import slow_after
from tinytensor.backend import numpy as numpy_backend
from tinytensor.testing import report, report_lines
from tinytensor.testing.__main__ import main
from tinytensor.testing.files import FileError, ops_of
from tinytensor.testing.other_arrays import NotItsOwn, OtherArray, OtherNamespace
from tinytensor.testing.report_card import LINES

WRONG_OPS = Path(__file__).with_name("wrong_ops.py")
HALF = {"domain": (-0.9, 0.9)}
POSITIVE = {"domain": (0.3, np.inf)}


@pytest.fixture(autouse=True)
def own_ops():
    known = dict(tt.ops)
    yield
    tt.ops.clear()
    tt.ops.update(known)


@pytest.fixture(scope="module")
def wrong():
    """The reports of the wrong ops, by name."""
    known = dict(tt.ops)
    try:
        return {op.op.name: report(op, **options) for op, options in ops_of(WRONG_OPS)}
    finally:
        tt.ops.clear()
        tt.ops.update(known)


CAUGHT = {  # the op: the lines that fail, words of what came out, words of what to do
    "wrong_rule": (
        ["first order"],
        r"^d result\[(\d, \d)\] / d y\[\1\] is \S+ by the gradient, \S+ by differences$",
        "correct the rule for y (wrong_ops.py, line 11): g * x * 2.0",
    ),
    "wrong_unbroadcast": (
        ["broadcasting"],
        r"^d result\[\d, (\d)\] / d y\[\1\] is",
        "correct the rule for y (wrong_ops",
    ),
    "mutates": (["purity"], "^x was changed$", "make a new array"),
    "uses_np_in_forward": (
        ["xp"],
        r"^np\.exp was called instead of xp\.exp \(wrong_ops\.py, line \d+: return np\.exp\(x\)\)",
        "write xp. instead of np.",
    ),
    "uses_np_in_rule": (["second order", "xp"], r"convert a Tensor that|outside of xp made a NumPy array", "xp"),
    "naive_softplus": (
        ["large inputs"],
        "x = 1000 in float64 gives inf instead of 1000; x = 100 in float32 gives inf instead of 100",
        "subtract the largest",
    ),
    "naive_gradient": (["large inputs"], "x = 1000 in float64 gives the gradient of x as nan instead of 1;", "log1p"),
    "first_order_only": (["second order"], r"^d \(gradient of x\)\[(\d, \d)\] / d x\[\1\] is 0 by", "no .detach()"),
    "gives_float32": (["dtypes"], "^a result in float32, expected float64$", "keep the dtype"),
    "gives_float64": (["dtypes"], "^a result in float64, expected float32$", "no NumPy scalars"),
    "fails_on_empty": (
        ["empty arrays"],
        r"zero-size array .*wrong_ops\.py, line \d+: largest =",
        "give an answer for nothing",
    ),
    "memory_order": (
        ["strides"],
        r"^column-major inputs: element \[0, 1\] is .* \(10 of 12 elements",
        "order in memory",
    ),
    "keeps_for_nothing": (["saved"], r"^keeps_for_nothing\.x: kept until backward, and no gradient", "out of the rule"),
    "half_a_pair": (["fast pair"], "only half of a pair: it never runs", "other half with @half_a_pair.backward"),
    "wrong_pair": (["first order", "fast pair"], r"^gradient of x: element \[0, 0\] is|^d result\[", "correct"),
    "np_in_pair": (["xp"], r"^np\.exp was called instead of xp\.exp", "write xp. instead of np."),
    "remembers": (["purity"], "two calls with the same input give different results", "keep no state"),
    "rule_raises": (
        ["first order"],
        r"cannot reshape .*\(wrong_ops\.py, line \d+: @tt.op\(x=lambda xp",
        "what it says",
    ),
    "rule_of_another_shape": (
        ["first order"],
        r"a gradient of shape \(\); a gradient rule must give the",
        "what it says",
    ),
    "wrong_at_zero": (
        ["special values"],
        "^with some zeros a result's slope at 0 is 7; to both sides it is 0 and 1$",
        "say what the rule gives there, with xp.where",
    ),
    "nan_at_zero": (["special values"], "slope at 0 is nan; to both sides it is -1 and 1$", "say what"),
    "twice_at_ties": (
        ["special values"],
        "^with equal elements a result's slope with all elements is 2; to both sides it is 1 and 1$",
        "equal inputs may share the gradient",
    ),
    "nothing_at_ties": (["special values"], "^with equal elements .* is 0; to both sides it is 1 and 1$", "share"),
    "wrong_at_minus_zero": (["special values"], "slope at -0 is -3; to both sides it is -1 and 1$", "say what"),
    "int_only": ([], "", ""),
    "formula_alone": ([], "", ""),
    "lacks_a_rule": ([], "", ""),
}


def test_every_wrong_op_is_looked_at(wrong):
    assert set(wrong) == set(CAUGHT)


@pytest.mark.parametrize("name", CAUGHT)
def test_a_wrong_op_fails_on_its_line_and_on_no_other(wrong, name):
    lines, words, advice = CAUGHT[name]
    found = wrong[name]
    assert [line.name for line in found.failed] == lines
    assert found.passed == (not lines)
    for line in found.failed:
        assert line.on
        assert line.tried
        assert advice in line.advice
        assert re.search(words, line.found), line.found


def test_of_an_int_only_op_nothing_was_differentiated(wrong):
    for name in ("first order", "second order", "saved"):
        line = wrong["int_only"][name]
        assert (line.status, line.found) == ("skipped", "nothing was differentiated: no input is a float")
    assert "assumed: x is integers from 0 to 4" in wrong["int_only"]["forward"].found


def test_of_an_op_without_rules_nothing_was_differentiated():
    line = report(tt.floor_divide, domain=(3.1, 3.9), skip=["large inputs"])["first order"]
    assert line.status == "ok"

    @tt.op
    def doubled(xp, x):
        return x * 2.0

    line = report(doubled)["first order"]
    assert (line.status, line.found) == ("skipped", "nothing was differentiated: the op has no gradient rule")


def test_a_formula_without_its_pair_is_computed_by_its_formula(wrong):
    line = wrong["formula_alone"]["fast pair"]
    assert (line.status, line.found) == ("skipped", "it has none, and is computed by its formula")
    assert wrong["formula_alone"]["first order"].status == "ok"


def test_an_input_without_a_rule_is_told(wrong):
    assert wrong["lacks_a_rule"]["first order"].found.endswith("; y has no rule: a gradient through it is an error")


def test_what_would_be_found_twice_is_told_once(wrong):
    assert wrong["mutates"]["strides"].found == "not tried: correct purity first"
    assert all(
        wrong["rule_raises"][n].status == "skipped"
        for n in LINES
        if n not in ("forward", "purity", "first order", "fast pair")
    )
    assert wrong["wrong_rule"]["broadcasting"].found == "not tried: correct first order first"


# ---- what is right is green

RIGHT = {
    "abs": {}, "add": {}, "atan2": {}, "tanh": {}, "exp": {}, "expm1": {}, "softplus": {}, "sigmoid": {}, "erf": {},
    "maximum": {}, "minimum": {}, "logaddexp": {}, "hypot": {}, "where": {}, "masked_fill": {}, "divide": {},
    "floor": {}, "square": {}, "reciprocal": {}, "equal": {}, "logical_not": {}, "bitwise_and": {},
    "clip": {"skip": {"special values": "between two equal bounds the gradient passes, as in PyTorch"}},
    "log": {}, "sqrt": {}, "acosh": {}, "atanh": {}, "pow": {"domain": {"x1": (0.3, 3), "x2": (-2, 2)}},
    "sum": {"axis": (0,), "keepdims": False}, "inv": {}, "trace": {},
}  # fmt: skip


@pytest.mark.parametrize("name", slow_after(10, [name for name in RIGHT if name in tt.ops]))
def test_ops_of_the_library_have_a_green_report(name):
    found = report(tt.ops[name].call, **RIGHT[name])
    assert found.passed, str(found)


def test_the_selection_is_of_ops_that_there_are():
    assert len([name for name in RIGHT if name in tt.ops]) >= 28


FUSED = {
    "relu": {},
    "gelu": {},
    "softmax": {"axis": -1},
    "linear": {"samples": [(np.linspace(-1, 1, 6).reshape(2, 3), np.linspace(0, 2, 12).reshape(4, 3), np.ones(4))]},
}


@pytest.mark.skipif("tinytensor.nn.fast" not in sys.modules, reason="the fast pairs are left out")
@pytest.mark.parametrize("name", FUSED)
def test_fused_ops_have_a_green_report(name):
    found = report(tt.ops[name].call, **FUSED[name])
    assert found.passed, str(found)
    assert found["fast pair"].status == "ok"
    assert "by its formula" in found["speed"].found


def softmax_of(xp, s, axis, highest):
    e = xp.exp(s - xp.max(s, axis=highest, keepdims=True))
    return e / xp.sum(e, axis=axis, keepdims=True)


def rule_of(axis):
    return lambda xp, g, out: out * (g - xp.sum(g * out, axis=axis, keepdims=True))


@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_a_softmax_is_tried_along_an_axis_that_there_is(axis):
    @tt.op(s=rule_of(axis))
    def soft(xp, s):
        return softmax_of(xp, s, axis, axis)

    card = report(soft)
    assert card.passed, str(card)
    assert "(3, 4)" in card["second order"].on
    assert "()" not in card["second order"].on
    line = card["empty arrays"]
    assert (line.status, line.on) == ("ok", f"s {(3, 0) if axis == 0 else (0, 4)}")
    assert line.found.endswith(f"; nothing is shared out along axis {axis % 2} where it has length 0")


@pytest.mark.parametrize(
    ("rule", "highest", "failed"),
    [
        (rule_of(0), -1, ["first order"]),
        (lambda xp, g, out: g * out * (1 - out), -1, ["first order"]),
        (rule_of(-1), None, ["empty arrays"]),  # a batch without rows has no largest score
    ],
)
def test_a_wrong_softmax_is_red(rule, highest, failed):
    @tt.op(s=rule)
    def soft(xp, s):
        return softmax_of(xp, s, -1, highest)

    assert [line.name for line in report(soft).failed] == failed


def test_a_sum_along_an_axis_is_tried_where_there_is_one():
    @tt.op(x=lambda xp, g, shape: xp.broadcast_to(xp.expand_dims(g, axis=-1), shape))
    def total(xp, x):
        return xp.sum(x, axis=-1)

    card = report(total)
    assert card.passed, str(card)
    assert card["empty arrays"].on == "x (0, 0), (0, 4), (3, 0)"  # of nothing the sum is 0


def test_softmax_with_its_parameter_and_a_reference():
    from scipy.special import softmax

    found = report(tt.ops["softmax"].call, axis=-1, reference=softmax)
    assert found.passed, str(found)
    assert found["forward"].found == "(3, 4) float64, the same as the reference"


def test_a_reference_that_is_another_function_is_told():
    found = report(tt.tanh, reference=np.sinh)
    assert "forward against the reference: element [0, 0] is" in found["forward"].found
    assert found["first order"].found == "not tried: correct forward first"


# ---- arrays that are not NumPy's

x = np.array([[1.0, 2.0], [3.0, 4.0]])
REFUSED = {
    r"np\.maximum was called instead of xp\.maximum": lambda xp, a: np.maximum(a, 0.0),
    r"np\.sum was called instead of xp\.sum": lambda xp, a: np.sum(a),
    "expit of another library was called": lambda xp, a: scipy.special.expit(a),
    "a function outside of xp made a NumPy array": lambda xp, a: np.asarray(a),
    "a NumPy array met an array of xp$": lambda xp, a: x * a,
    r"a NumPy array met an array of xp; make arrays with xp": lambda xp, a: xp.where(a > 2.0, a, x),
    "met an array of xp; make": lambda xp, a: a + x,
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_not_xps_is_refused(message):
    with pytest.raises(NotItsOwn, match=message):
        REFUSED[message](OtherNamespace(), OtherArray(x))


COMPUTED = {
    "operators": lambda xp, a: 2.0 * a - a**2 / 3 + abs(-a) @ a,
    "functions": lambda xp, a: xp.where(a > 2.0, xp.exp(a), xp.sum(a, axis=0)),
    "NumPy's scalars": lambda xp, a: np.float64(2.0) * a + a * np.sqrt(2.0),
    "methods": lambda xp, a: a.sum(axis=1).astype("float32"),
    "several results": lambda xp, a: xp.linalg.slogdet(a)[1],
    "parts": lambda xp, a: xp.concat([a[:1], a[a[:, 0] > 1.0]]),
    "arrays that are made": lambda xp, a: xp.asarray(x) + xp.zeros((2, 2)) + a.T,
    "a list of them": lambda xp, a: xp.stack(list(a)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_xps_gives_numpys_numbers(name):
    compute, xp = COMPUTED[name], OtherNamespace()
    found, expected = compute(xp, OtherArray(x.copy())), compute(numpy_backend, x.copy())
    assert type(found) is OtherArray
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.values, expected)


def test_a_change_in_place_of_one_of_them():
    a = OtherArray(x.copy())
    a += 1.0
    a[0] = 0.0
    assert (a.tolist(), len(a)) == ([[0.0, 0.0], [4.0, 5.0]], 2)


# ---- on which inputs


def test_numbers_outside_of_a_domain_are_not_tried():
    @tt.op(x=lambda xp, g, x: g / (2.0 * xp.sqrt(x)))
    def root(xp, x):
        if (x <= 0.0).any():
            raise ValueError("root: a number is not positive")
        return xp.sqrt(x)

    assert report(root)["first order"].status == "ok"
    found = report(root, domain=(0.1, 50.0))
    assert found.passed, str(found)
    assert found["large inputs"].on == "x = 10"
    assert report(root, domain=(0.1, 5.0))["large inputs"].found == "numbers from 10 on are outside of its domain"


def test_of_a_log_it_is_said_which_numbers_were_taken():
    found = report(tt.log)
    assert found.passed
    assert "assumed: x is from 0.3 to 3.0, since with -2 to 2 not every result is a number" in found["forward"].found


def test_an_op_may_refuse_what_is_empty_with_an_error_of_its_own():
    @tt.op(x=lambda xp, g, x, out: xp.where(x == out, g, 0.0))
    def largest(xp, x):
        if not x.size:
            raise ValueError("largest: nothing has no largest element")
        return xp.max(x)

    line = report(largest)["empty arrays"]
    assert line.status == "ok"
    assert "; it refuses x (3, 0): largest: nothing has no largest element" in line.found


def test_of_empty_arrays_only_those_are_tried_whose_lengths_fit():
    rng = np.random.default_rng(0)
    found = report(tt.ops["layer_norm"].call, eps=1e-5, samples=[(rng.normal(size=(4, 5)), np.ones(5), np.ones(5))])
    assert found["empty arrays"].status == "ok"
    line = report(tt.ops["matmul"].call)["empty arrays"]
    assert (line.status, line.on) == ("ok", "x1 and x2 (0, 0)")


def test_samples_replace_what_would_be_guessed():
    matrix, vector = np.eye(3) * 2.0, np.arange(3.0)

    @tt.op(
        a=lambda xp, g, v: g[:, None] * v[None, :],
        v=lambda xp, g, a: xp.matmul(xp.matrix_transpose(a), g),
    )
    def apply(xp, a, v):
        if a.ndim != 2 or v.ndim != 1:
            raise ValueError("expected a matrix and a vector")
        return xp.matmul(a, v)

    guessed = report(apply)
    assert guessed["forward"].status == "failed"
    assert "it computes with no inputs that could be guessed; with a (3, 4), v (3, 4): " in guessed["forward"].found
    assert "samples=" in guessed["forward"].advice
    found = report(apply, samples=[(matrix, vector)])
    assert found.passed, str(found)
    assert found["first order"].on == "a (3, 3), v (3,)"
    assert found["broadcasting"].on == "a (1, 3), v (3,)"


def test_a_line_may_be_skipped_with_a_reason():
    line = report(tt.tanh, skip={"second order": "nobody asks for it"})["second order"]
    assert (line.status, line.found) == ("skipped", "nobody asks for it")
    assert report(tt.tanh, skip="strides")["strides"].found == "it was not asked for"


def test_samples_may_be_tensors_lists_numbers_and_empty():
    found = report(tt.multiply, samples=[(tt.ones((2, 3)), 2.0), ([1.0, 2.0], tt.ones(2)), (np.ones((0, 2)), 1.5)])
    assert found.passed, str(found)
    assert found["first order"].on == "x1 (2, 3), x2 = 2.0; x1 and x2 (2,); x1 (0, 2), x2 = 1.5"
    assert report(tt.multiply, samples=[(np.ones((0, 2)), np.ones((0, 2)))]).passed


def test_no_warning_comes_out_of_a_report(recwarn):
    report(tt.log, samples=[np.array([-1.0, 0.0])])
    assert not recwarn.list


def test_integers_and_masks_are_a_domain_too():
    @tt.op(x=lambda xp, g, i, shape: xp.scatter(g, (i,), shape))
    def rows(xp, x, i):
        return x[i]

    found = report(rows, domain={"i": range(3)})
    assert found["first order"].status == "ok", str(found)
    assert "i (3, 4) int64" in found["first order"].on


def test_large_numbers_are_judged_where_no_float_is_wider(monkeypatch, wrong):
    monkeypatch.setattr(report_lines, "WIDE", np.dtype(np.float64))
    (naive,) = [op for op, _ in ops_of(WRONG_OPS) if op.op.name == "naive_softplus"]
    assert report(naive)["large inputs"].found == "x = 100 in float32 gives inf instead of 100"
    assert report(tt.exp).passed


MISTAKES = {
    "expected a function declared by @tt.op": lambda: report(np.exp),
    "needs axis=, which has no default": lambda: report(tt.ops["softmax"].call),
    "tanh has no parameter 'axis'; it has no parameters": lambda: report(tt.tanh, axis=0),
    "no line 'second' to skip; lines: forward, purity": lambda: report(tt.tanh, skip=["second"]),
    "domain of 'y', which is no input; inputs: x": lambda: report(tt.tanh, domain={"y": (0, 1)}),
    r"expected \(low, high\) with low < high": lambda: report(tt.tanh, domain=(1, 0)),
    "a sample has 2 inputs; expected a tuple of 1": lambda: report(tt.tanh, samples=[(1.0, 2.0)]),
    "samples is empty": lambda: report(tt.tanh, samples=[]),
    r"expected \.html": lambda: report(tt.tanh).save("card.txt"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_arguments_that_do_not_fit(message):
    with pytest.raises((TypeError, ValueError), match=message):
        MISTAKES[message]()


# ---- the page and the command


def test_a_report_is_a_page_of_the_terminal(wrong):
    text = str(wrong["wrong_rule"])
    assert text.startswith("wrong_rule: 9 ok, 1 failed, 3 skipped\n")
    assert "  FAILED  first order     gradients against differences, on x and y (3, 4)\n" in text
    assert max(map(len, text.splitlines())) <= 120
    assert [line.name for line in wrong["wrong_pair"].lines] == list(LINES)
    with pytest.raises(KeyError, match="lines: forward"):
        wrong["wrong_rule"]["first"]


def test_a_report_is_a_page_that_asks_nothing_of_a_network(wrong, tmp_path):
    from tinytensor.testing.report_card import save_page

    save_page([wrong["wrong_rule"], wrong["int_only"]], tmp_path / "card.html")
    text = (tmp_path / "card.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")  # a name, no address
    assert text.count('<tr class="failed">') == 1
    assert "<b>To do:</b> correct the rule for y" in text
    assert "nothing was differentiated: no input is a float" in text


def test_what_is_in_a_name_is_shown_and_not_run(tmp_path):
    @tt.op(x=lambda xp, g: g)
    def shown(xp, x):
        raise ValueError("<script>alert(1)</script>")

    report(shown).save(tmp_path / "card.html")
    text = (tmp_path / "card.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


GOOD = """
import tinytensor as tt

@tt.op(x=lambda xp, g, x, base: g / (x * xp.log(xp.asarray(base, dtype=x.dtype))))
def log_to(xp, x, *, base):
    return xp.log(x) / xp.log(xp.asarray(base, dtype=x.dtype))

@tt.op(x=lambda xp, g, out: g * (1 - out * out))
def squash(xp, x):
    return xp.tanh(x)

REPORT = {log_to: {"base": 3.0, "domain": (0.1, 1e6)}}
"""


def run(tmp_path, capsys, text, *arguments):
    path = tmp_path / "my_ops.py"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    try:
        code = main([str(path), *arguments])
    except SystemExit as stop:
        code = stop.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_command_reports_every_op_of_a_file(tmp_path, capsys):
    code, out, err = run(tmp_path, capsys, GOOD, "--html", str(tmp_path / "card.html"))
    assert (code, err) == (0, "")
    assert out.index("log_to: ") < out.index("squash: ")
    assert out.endswith("\n2 ops, 0 with mistakes\n")
    assert 'href="#op-1">squash</a>' in (tmp_path / "card.html").read_text(encoding="utf-8")


def test_the_command_ends_with_1_where_something_failed(tmp_path, capsys):
    code, out, _ = run(tmp_path, capsys, GOOD.replace("1 - out * out", "1 - out"))
    assert code == 1
    assert out.endswith("\n2 ops, 1 with mistakes: squash\n")


def test_an_op_that_takes_the_name_of_the_librarys_is_found(tmp_path):
    (tmp_path / "mine.py").write_text(GOOD.replace("squash", "tanh"), encoding="utf-8")
    assert [op.op.name for op, _ in ops_of(tmp_path / "mine.py")] == ["log_to", "tanh"]


USAGE = {
    "no file": (None, [], "my_ops.py: expected a Python file, and there is none"),
    "no op": ("x = 1\n", [], "declares no op; write @tt.op above a function"),
    "it fails": ("import math\n\nmath.sqrt(-1)\n", [], r"my_ops.py, line 3: ValueError: "),
    "it ends": ("raise SystemExit('done')\n", [], "my_ops.py, line 1: SystemExit: done"),
    "no Python": ("def (:\n", [], r"my_ops.py, line 1: SyntaxError: "),
    "no parameter": (GOOD.replace('"base": 3.0, ', ""), [], "log_to needs base=, which has no default"),
    "REPORT": (GOOD.replace("REPORT = {log_to", 'REPORT = {"log"'), [], "REPORT must be a dictionary from ops of this"),
    "no page": (GOOD, ["--html", "card.txt"], "expected .html"),
    "no folder": (GOOD, ["--html", "missing/card.html"], "missing/card.html: the folder of the file does not exist"),
    "unknown": (GOOD, ["--htm5", "x"], "unrecognized arguments"),
}


@pytest.mark.parametrize("case", USAGE)
def test_a_mistake_in_the_command_is_one_line_and_exit_code_2(case, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, arguments, words = USAGE[case]
    code, _, err = run(tmp_path, capsys, text, *arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert words in err


def test_a_file_error_is_one_of_its_own(tmp_path):
    with pytest.raises(FileError):
        ops_of(tmp_path / "none.py")


def test_it_is_run_as_a_module(tmp_path):
    (tmp_path / "my_ops.py").write_text(GOOD, encoding="utf-8")
    command = [sys.executable, "-W", "error", "-m", "tinytensor.testing", "my_ops.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert "2 ops, 0 with mistakes" in result.stdout
