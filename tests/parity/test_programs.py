"""Random programs of views, changes in place, modes, hooks and backward passes, run here and in PyTorch.

What is computed here is what PyTorch computes, or an error of ours: never another number, and never one that is stale.
For longer than the suite does: `FUZZ_MINUTES=10 pytest tests/parity/test_programs.py`.
"""

import operator
import os
import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import tinytensor as tt

torch = pytest.importorskip("torch")

MINUTES = float(os.environ.get("FUZZ_MINUTES", "0"))
EXAMPLES = 700  # half a minute
ALIVE = 12  # Tensors in a program at the same time

OURS = (  # errors that say why we do not compute it
    "in place: this Tensor",  # a view, or a Tensor with views
    "in place: there is a view",
    "cannot be changed in place",  # a leaf that requires a gradient
    "changed in place after it was used",
    "was already used and freed",
    "nothing to differentiate",
)
SHAPES = st.sampled_from([(), (1,), (3,), (2, 3), (3, 1), (1, 3), (2, 2, 3)])
UNARY = {
    "half": lambda lib, x: x * 0.5,
    "tanh": lambda lib, x: lib.tanh(x),
    "sin": lambda lib, x: lib.sin(x),
    "negative": lambda lib, x: -x,
    "square": lambda lib, x: lib.tanh(x * x),
}
BINARY = {"add": operator.add, "subtract": operator.sub, "multiply": lambda x, y: (x * y) * 0.5}
IN_PLACE = {"add": operator.iadd, "subtract": operator.isub, "multiply": operator.imul}


def fits(x, y):
    """Whether y broadcasts to the shape of x."""
    try:
        return np.broadcast_shapes(x, y) == x
    except ValueError:
        return False


def keys(shape):
    """Keys with which a part of an array is read or written: integers and slices."""
    slices = st.sampled_from([slice(None), slice(1, None), slice(None, -1)])
    parts = [st.one_of(st.integers(-n, n - 1), slices) if n else slices for n in shape]
    whole = st.tuples(*parts)
    return st.one_of(whole, st.tuples(whole, st.integers(0, len(shape))).map(lambda cut: (*cut[0][: cut[1]], ...)))


def one_place_each(pair):
    """Whether no two elements share memory in either: into such a Tensor PyTorch does not write."""
    strides = zip(pair[1].shape, pair[1].stride(), strict=True)
    return all(stride for length, stride in strides if length > 1)


def leaf_with_gradient(pair):
    """Whether gradients arrive at it in both: PyTorch says so of a view made under no_grad, too, or raises."""
    return not pair[1]._is_view() and pair[1].is_leaf and pair[0].requires_grad and pair[1].requires_grad


class Programs(RuleBasedStateMachine):
    """Every Tensor is a pair: ours and PyTorch's."""

    def __init__(self):
        super().__init__()
        self.pairs = []
        self.over = False  # one of the two did what the other would not do: there is nothing more to compare

    def both(self, ours, theirs):
        """Compute it here, then there, unless here it is an error; None where there is nothing to compare."""
        try:
            found = ours()
        except RuntimeError as error:
            if not any(text in str(error) for text in OURS):
                raise
            return None
        try:
            return found, theirs()
        except RuntimeError:  # PyTorch refuses what is right here
            self.over = True
            return None

    def keep(self, pair):
        if pair is not None and not self.over:
            self.pairs = [*self.pairs, pair][-ALIVE:]

    def pick(self, data, label, fitting=lambda pair: True):
        """A pair that fits; None if there is none."""
        found = [pair for pair in self.pairs if fitting(pair)]
        return found[data.draw(st.integers(0, len(found) - 1), label=label)] if found else None

    @initialize(data=st.data())
    def begin(self, data):
        self.leaf(data)

    @rule(data=st.data())
    def leaf(self, data):
        shape, requires_grad = data.draw(SHAPES), data.draw(st.booleans())
        numbers = data.draw(st.lists(st.integers(-8, 8), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        values = np.array([n / 8 for n in numbers], dtype=np.float64).reshape(shape)
        self.keep((tt.tensor(values, requires_grad=requires_grad), torch.tensor(values, requires_grad=requires_grad)))

    @rule(data=st.data(), name=st.sampled_from(sorted(UNARY)), recorded=st.booleans())
    def unary(self, data, name, recorded):
        pair = self.pick(data, "of")
        if pair:
            with tt.set_grad_enabled(recorded), torch.set_grad_enabled(recorded):
                self.keep(self.both(lambda: UNARY[name](tt, pair[0]), lambda: UNARY[name](torch, pair[1])))

    @rule(data=st.data(), name=st.sampled_from(sorted(BINARY)), recorded=st.booleans())
    def binary(self, data, name, recorded):
        one = self.pick(data, "one")
        other = one and self.pick(data, "other", lambda pair: fits(one[0].shape, pair[0].shape))
        if other:
            with tt.set_grad_enabled(recorded), torch.set_grad_enabled(recorded):
                function = BINARY[name]
                self.keep(self.both(lambda: function(one[0], other[0]), lambda: function(one[1], other[1])))

    @rule(data=st.data(), recorded=st.booleans())
    def view(self, data, recorded):
        pair = self.pick(data, "of")
        if not pair:
            return
        shape = pair[0].shape
        kind = data.draw(st.sampled_from(["key", "flat", "turned", "expanded", "unsqueezed", "detached"]))
        key = data.draw(keys(shape)) if kind == "key" else None
        turned = tuple(reversed(range(len(shape))))
        views = {
            "key": (lambda x: x[key], lambda x: x[key]),
            "flat": (lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
            "turned": (lambda x: x.permute(turned), lambda x: x.permute(turned)),
            "expanded": (lambda x: tt.broadcast_to(x, (2, *shape)), lambda x: x.expand(2, *shape)),
            "unsqueezed": (lambda x: x.unsqueeze(0), lambda x: x.unsqueeze(0)),
            "detached": (lambda x: x.detach(), lambda x: x.detach()),
        }
        ours, theirs = views[kind]
        with tt.set_grad_enabled(recorded), torch.set_grad_enabled(recorded):
            self.keep(self.both(lambda: ours(pair[0]), lambda: theirs(pair[1])))

    @rule(data=st.data(), recorded=st.booleans())
    def write(self, data, recorded):
        pair = self.pick(data, "into", one_place_each)
        if not pair:
            return
        key = data.draw(keys(pair[0].shape), label="key")
        into = pair[0].detach().numpy()

        def is_fit(value):  # and not of the same memory, which PyTorch reads while it writes
            return fits(into[key].shape, value[0].shape) and not np.may_share_memory(into, value[0].detach().numpy())

        other = data.draw(st.booleans()) and self.pick(data, "value", is_fit)
        values = other or (0.25, 0.25)
        with tt.set_grad_enabled(recorded), torch.set_grad_enabled(recorded):
            self.both(
                lambda: operator.setitem(pair[0], key, values[0]), lambda: operator.setitem(pair[1], key, values[1])
            )

    @rule(data=st.data(), name=st.sampled_from(sorted(IN_PLACE)), recorded=st.booleans())
    def change(self, data, name, recorded):
        pair = self.pick(data, "changed", one_place_each)
        other = pair and self.pick(data, "by", lambda value: fits(pair[0].shape, value[0].shape))
        if other:
            with tt.set_grad_enabled(recorded), torch.set_grad_enabled(recorded):
                self.both(lambda: IN_PLACE[name](pair[0], other[0]), lambda: IN_PLACE[name](pair[1], other[1]))

    @rule(data=st.data())
    def hook(self, data):
        pair = self.pick(data, "hooked", lambda pair: pair[0].requires_grad and pair[1].requires_grad)
        if pair and not pair[1]._is_view():  # on a view of a leaf that was made under no_grad, PyTorch crashes
            for x in pair:
                x.register_hook(lambda g: g * 2)

    @rule(data=st.data())
    def forget(self, data):
        pair = self.pick(data, "forgotten")
        if pair:
            self.pairs = [kept for kept in self.pairs if kept is not pair]

    @precondition(lambda self: not self.over)
    @rule(data=st.data(), again=st.booleans())
    def backward(self, data, again):
        pair = self.pick(data, "result", lambda pair: pair[0].requires_grad and pair[1].requires_grad)
        if pair:
            done = self.both(
                lambda: pair[0].sum().backward(retain_graph=again), lambda: pair[1].sum().backward(retain_graph=again)
            )
            self.over = self.over or done is None  # some gradients may have arrived before the error

    @precondition(lambda self: not self.over)
    @rule(data=st.data())
    def backward_in_threads(self, data):
        pair = self.pick(data, "of", leaf_with_gradient)
        if not pair:
            return

        def one(x, factor):
            (x * factor).sum().backward()

        for x in pair:
            threads = [threading.Thread(target=one, args=(x, i / 8)) for i in range(1, 5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    @invariant()
    def the_same(self):
        if self.over:
            return
        for ours, theirs in self.pairs:
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12, atol=1e-12)
            if not theirs._is_view() and theirs.is_leaf:
                assert ours.requires_grad == theirs.requires_grad
            if leaf_with_gradient((ours, theirs)):
                assert (ours.grad is None) == (theirs.grad is None)
                if theirs.grad is not None:
                    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-10, atol=1e-10)


def test_programs_give_what_pytorch_gives():
    end = time.monotonic() + 60 * MINUTES
    chosen = settings(
        max_examples=1000 if MINUTES else EXAMPLES,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    while True:
        run_state_machine_as_test(Programs, settings=chosen)
        if time.monotonic() >= end:
            return
