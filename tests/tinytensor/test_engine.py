"""The engine's chores: long chains, shared sub-graphs, accumulation, hooks, and the nodes it leaves behind."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tinytensor as tt


def chain(length):
    """Forward, backward and freeing of a chain; returns the gradient."""
    x = tt.tensor([1.0, 2.0], dtype=tt.float64, requires_grad=True)
    y = x
    for _ in range(length):
        y = y + 1.0
    y.sum().backward()
    del y
    return x.grad.tolist()


@pytest.mark.parametrize("length", [50_000, pytest.param(1_000_000, id="a million", marks=pytest.mark.slow)])
def test_a_long_chain_needs_no_recursion(length):
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        assert chain(length) == [1, 1]
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("length", [50_000])
def test_a_long_chain_is_freed_without_backward(length):
    x = tt.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(length):
        y = y * 1.0
    del y
    assert x.item() == 1


def test_a_long_chain_with_create_graph():
    x = tt.tensor(1.0, dtype=tt.float64, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    first = tt.grad(y * y, x, create_graph=True)
    assert tt.grad(first, x).item() == 2


def test_time_is_linear_in_the_length():
    def seconds(length):
        best = np.inf
        for _ in range(3):
            start = time.process_time()
            chain(length)
            best = min(best, time.process_time() - start)
        return best

    chain(1000)
    assert seconds(40_000) < 8 * 3 * seconds(5_000)  # a quadratic engine would take 64 times as long


def test_shared_subgraphs_are_visited_once():
    calls = []

    @tt.op(x=lambda xp, g: (calls.append(1), g + g)[1])
    def doubled(xp, x):
        return x + x

    try:
        x = tt.tensor(1.0, dtype=tt.float64, requires_grad=True)
        y = doubled(x)
        for _ in range(60):
            y = y + y  # 2**60 paths
        y.backward()
    finally:
        tt.ops.pop("doubled")
    assert len(calls) == 1
    assert x.grad.item() == 2.0**61


def test_accumulation_does_not_write_into_what_others_hold():
    x = tt.tensor([1.0, 2.0], dtype=tt.float64, requires_grad=True)
    g = tt.tensor([10.0, 20.0], dtype=tt.float64)
    y = x * 1.0
    (y + y + y + x).backward(g)
    assert g.tolist() == [10, 20]
    assert x.grad.tolist() == [40, 80]


def test_a_gradient_that_is_a_saved_array_is_not_added_to_in_place():
    @tt.op(x=lambda xp, g, x: x)
    def half_square(xp, x):
        return xp.sum(x * x) / 2

    try:
        x = tt.tensor([1.0, 2.0], dtype=tt.float64, requires_grad=True)
        (half_square(x) + half_square(x)).backward()
        assert (x.tolist(), x.grad.tolist()) == ([1, 2], [2, 4])
    finally:
        del tt.ops["half_square"]


def test_gradients_of_views_accumulate():
    x = tt.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    (x[0] + x[1] + x.T[:, 0] + tt.reshape(x, (3, 2))[0, 0]).sum().backward()
    assert x.grad.tolist() == [[5, 2, 2], [1, 1, 1]]


def test_only_what_leads_to_a_wanted_input_is_computed():
    ran = []

    @tt.op(x=lambda xp, g: (ran.append(1), g)[1])
    def watched(xp, x):
        return x + 0

    try:
        x, y = tt.ones(2).requires_grad_(), tt.ones(2).requires_grad_()
        out = (watched(x) * y).sum()
        tt.grad(out, y, retain_graph=True)
        assert ran == []
        tt.grad(out, x)
        assert ran == [1]
    finally:
        tt.ops.pop("watched")


def test_only_what_the_rules_name_is_kept():
    x, y = tt.ones(3).requires_grad_(), tt.ones(3)
    assert len((x + y)._node.kept) == 0
    product = (x * y)._node
    assert len(product.kept) == 1
    assert product.kept["x2"] is y._data
    assert tt.exp(y * 1)._node is None


def test_retain_grad():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    z = y * y
    y.retain_grad()
    z.sum().backward()
    assert y.grad.tolist() == [6, 12]
    assert z.grad is None
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        tt.ones(1).retain_grad()


# ---- hooks


@pytest.mark.parametrize("create_graph", [False, True])
def test_hooks_see_and_replace_gradients(create_graph, device):
    x = tt.tensor([1.0, 2.0], device=device, requires_grad=True)
    y = x * 3
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    handle = y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    assert tt.grad((y * y).sum(), x, retain_graph=True, create_graph=create_graph).tolist() == [181, 361]
    assert seen == [[6, 12]]
    handle.remove()
    handle.remove()
    assert tt.grad((y * y).sum(), x, create_graph=create_graph).tolist() == [19, 37]


def test_hooks_do_not_change_the_incoming_gradient():
    x = tt.tensor([1.0], requires_grad=True)
    x.register_hook(lambda g: g * 2)
    g = tt.tensor([5.0])
    (x + 0.0).backward(g)
    assert (g.tolist(), x.grad.tolist()) == ([5], [10])


def test_a_hook_must_keep_the_shape():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(ValueError, match=r"hook: expected None or a Tensor of shape \(2,\), got \(\)"):
        x.sum().backward()
    with pytest.raises(RuntimeError, match="does not require"):
        tt.ones(1).register_hook(print)


# ---- rules that fail


def test_a_failing_rule_is_named_with_its_shapes():
    def fail(xp, g):
        raise ArithmeticError("sand in the gears")

    @tt.op(x=fail)
    def gears(xp, x):
        return x * 2

    try:
        x = tt.ones((2, 3)).requires_grad_()
        with pytest.raises(RuntimeError, match=r"gradient of gears \(result \(2, 3\) float32.*sand in the gears"):
            gears(x).sum().backward()
    finally:
        tt.ops.pop("gears")


def test_a_rule_of_the_wrong_shape_is_named():
    @tt.op(x=lambda xp, g: xp.concat([g, g]))
    def too_long(xp, x):
        return x * 2

    try:
        with pytest.raises(
            RuntimeError, match=r"too_long gave its input 0, of shape \(2,\), a gradient of shape \(4,\)"
        ):
            too_long(tt.ones(2).requires_grad_()).sum().backward()
    finally:
        tt.ops.pop("too_long")


# ---- declaring ops


def test_a_rule_must_name_what_exists():
    with pytest.raises(TypeError, match="op product: rule for 'z', which is no input; inputs: x, y"):

        @tt.op(z=lambda xp, g: g)
        def product(xp, x, y):
            return x * y

    with pytest.raises(TypeError, match="must take xp first"):

        @tt.op(x=lambda g, y: g * y)
        def product2(xp, x, y):
            return x * y

    with pytest.raises(TypeError, match="for 'x' takes xp, y; it must take xp first, g, which it multiplies, and may"):

        @tt.op(x=lambda xp, y: y)
        def product4(xp, x, y):
            return x * y

    with pytest.raises(TypeError, match="rules need a forward function whose first parameter is `xp`"):

        @tt.op(x=lambda xp, g: g)
        def product3(x, y):
            return x * y


@pytest.fixture
def cube():
    """A fused op as a student writes it: the formula, and beside it the fast pair."""

    @tt.op
    def cube(x):
        return x * x * x

    @cube.forward
    def _(xp, x):
        return x**3, (x,)

    @cube.backward
    def _(xp, g, kept, needs):
        (x,) = kept
        return (3 * g * x**2,)

    yield cube
    tt.ops.pop("cube")


def test_a_fused_op_and_its_formula(cube, device):
    from tinytensor.testing import check_op

    check_op(cube, np.random.default_rng(0).normal(size=(2, 3)), reference=lambda x: x**3, device=device)


def test_within_textbook_a_thread_computes_by_the_formula(cube):
    """It alone does, and afterwards it does no longer. The fast pair here gives something else on purpose."""
    cube.forward(lambda xp, x: (xp.zeros_like(x), (x,)))
    x = tt.tensor([2.0], requires_grad=True)

    def compute():
        return cube(x).item()

    with ThreadPoolExecutor(1) as other, tt.textbook():
        assert (compute(), other.submit(compute).result()) == (8.0, 0.0)
        (slope,) = tt.grad(cube(x), [x])
        assert slope.item() == 12
    assert (compute(), tt.textbook()(compute)(), compute()) == (0.0, 8.0, 0.0)


def test_check_op_finds_a_fast_pair_that_differs_from_its_formula(cube):
    from tinytensor.testing import check_op

    cube.backward(lambda xp, g, kept, needs: (g * kept[0] ** 2,))
    with pytest.raises(AssertionError):
        check_op(cube, np.array([1.0, 2.0]))
    cube.forward(lambda xp, x: (x**3 + 1e-6, (x,)))
    cube.backward(lambda xp, g, kept, needs: (3 * g * kept[0] ** 2,))
    with pytest.raises(AssertionError, match="fast pair against the formula"):
        check_op(cube, np.array([1.0, 2.0]))


WRONG = {
    "kept arrays: .*kept until backward, but not needed": (
        lambda xp, x: xp.multiply(x, 2.0),
        {"x": lambda xp, g, x: g * 2.0},
    ),
    "wrong: x was changed": (
        lambda xp, x: xp.multiply(x, 2.0, out=x) if hasattr(x, "fill") else x,
        {"x": lambda xp, g: g},
    ),
    "incoming gradient was changed": (lambda xp, x: x + 1.0, {"x": lambda xp, g: g.__imul__(1.5)}),
    "float32": (lambda xp, x: xp.astype(x, "float64") * 1, {"x": lambda xp, g: g}),
}


@pytest.mark.parametrize("message", WRONG)
def test_check_op_finds_what_is_wrong(message):
    from tinytensor.testing import check_op

    forward, rules = WRONG[message]

    def wrong(xp, x):
        return forward(xp, x)

    function = tt.op(**rules)(wrong)
    try:
        with pytest.raises(AssertionError, match=message):
            check_op(function, np.array([1.0, 2.0, 3.0]))
    finally:
        tt.ops.pop("wrong")


def test_check_op_names_the_op_the_input_and_the_element(own_ops):
    from tinytensor.testing import GradientError, check_op

    @tt.op(
        x=lambda xp, g, y: g * y,
        y=lambda xp, g, x: g * xp.where(x == 3.0, 0.0, x),  # wrong where x is 3
    )
    def times(xp, x, y):
        return x * y

    with pytest.raises(
        GradientError,
        match=r"^times: gradcheck: .*; d result\[1, 0\] / d y\[1, 0\] is 0 by the gradient, 3 by differences$",
    ) as caught:
        check_op(times, np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.5, 1.5], [2.5, 3.5]]))
    assert (caught.value.entry.input, caught.value.entry.element) == ("y", (1, 0))


def test_check_op_names_the_element_at_second_order(own_ops):
    from tinytensor.testing import check_op

    @tt.op(x=lambda xp, g, x: g * (x.detach() if isinstance(x, tt.Tensor) else x) * 2)
    def cut(xp, x):
        return x * x

    with pytest.raises(AssertionError, match=r"^cut: second order: .* d \(gradient of x\)\[(\d)\] / d x\[\1\] is 0 by"):
        check_op(cut, np.array([1.0, 2.0]))


def test_inputs_that_are_no_tensors():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    y = tt.multiply(np.array([3.0, 4.0], dtype=np.float32), x)
    y.sum().backward()
    assert x.grad.tolist() == [3, 4]
    with pytest.raises(TypeError, match="multiply: input 2 is a str"):
        x * "a"
    with pytest.raises(TypeError, match=r"multiply: input 2 is a list.*tt\.asarray"):
        tt.multiply(x, [1, 2])


# ---- ops that are declared wrongly


@pytest.fixture
def own_ops():
    known = set(tt.ops)
    yield
    for name in set(tt.ops) - known:
        del tt.ops[name]


def test_an_input_with_a_default_is_refused(own_ops):
    with pytest.raises(TypeError, match="op scaled: its inputs have default values.*keyword-only"):

        @tt.op(x=lambda xp, g, n: g * n)
        def scaled(xp, x, n=2):
            return x * n


@pytest.mark.parametrize("name", ["g", "out", "shape", "index"])
def test_an_input_that_is_called_as_what_rules_read_is_refused(name, own_ops):
    """Its rule would be given the other thing of that name, without an error."""
    namespace = {}
    exec(f"def rows(xp, x, {name}):\n    return x[{name}]", namespace)
    with pytest.raises(TypeError, match=f"op rows: '{name}' means something else in rules"):
        tt.op(x=lambda xp, g: g)(namespace["rows"])


def test_a_rule_reads_the_default_of_a_parameter(own_ops):
    @tt.op(x=lambda xp, g, n: g * n)
    def scaled(xp, x, *, n=2):
        return x * n

    x = tt.tensor([3.0], requires_grad=True)
    scaled(x).backward()
    assert x.grad.tolist() == [2.0]


def test_a_gradient_that_is_missing_raises(own_ops):
    @tt.op
    def product(x, y):
        return x * y

    @product.forward
    def _(xp, x, y):
        return x * y, (x, y)

    @product.backward
    def _(xp, g, kept, needs):
        return g * kept[1], None

    x, y = tt.tensor([3.0], requires_grad=True), tt.tensor([4.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="product.*gave None for its input 'y'"):
        product(x, y).backward()


def test_a_forward_function_must_give_one_array(own_ops):
    @tt.op(x=lambda xp, g: g)
    def nothing(xp, x):
        x + 1

    with pytest.raises(TypeError, match="nothing: its forward function gave a NoneType"):
        nothing(tt.ones(2))


def test_the_gradient_that_a_hook_gives_takes_the_dtype():
    x = tt.tensor([1.0], requires_grad=True)
    x.register_hook(lambda g: g.astype(tt.float64))
    (x * x).backward()
    assert x.grad.dtype == tt.float32


def test_a_gradient_for_which_memory_does_not_suffice_is_a_memory_error():
    """As it is forward, so that who tries again with a smaller batch hears of both."""

    def scarce(xp, g):
        raise MemoryError("Unable to allocate 61.0 MiB")

    known = dict(tt.ops)
    try:
        wasteful = tt.op(x=scarce)(lambda xp, x: x * 1.0)
    finally:
        tt.ops.clear()
        tt.ops.update(known)
    with pytest.raises(MemoryError, match="backward: the gradient of .*61.0 MiB"):
        tt.sum(wasteful(tt.ones(3).requires_grad_())).backward()
