"""What you read is what runs: a function or method that is replaced is called, at every size, switched on or not.

The list is found by tracing: each function that a case enters in textbook mode is replaced, in each place that has it,
by one whose numbers are others. The case has to give what it gives by formulas then. What makes no number is passed
over, and counted.
"""

import contextlib
import sys
import threading
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn

from ..engine_room import room
from .cases import CASES, DRAWING, SIZES, WHOLE_AND_STEPS, whole_and_steps

PACKAGE = Path(tt.__file__).parent
OUTSIDE = ("fast", "graph", "testing", "program", "nn.fast", "nn.visualize", "models.fast", "recording")
FACTOR = 1.25
NO_NUMBERS = {
    "wrap": "puts a Tensor around an array",
    "shares": "says that two Tensors share memory",
    "grow": "gives the buffer that is written to",
    "__getattr__": "finds a parameter; with another in its place, first weights are written nowhere",
}
"""Functions that give floats, and make none."""
PASSING_ON = {"stacks of Transformer layers"}
"""Ways that draw nothing themselves: where they are off, each layer still draws as loops do."""


def entered(function):
    """The code of the library that runs in a call of a function, in textbook mode."""
    found = set()

    def see(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            found.add(frame.f_code)

    with tt.textbook():
        function()
        sys.setprofile(see)
        try:
            function()
        finally:
            sys.setprofile(None)
    return found


def modules():
    for name, module in list(sys.modules.items()):
        top, _, rest = name.partition(".")
        if top == "tinytensor" and not rest.startswith(OUTSIDE):
            yield module


def places():
    """Each place that has a function of the library: module or class, name, function."""
    for module in modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType):
                yield module, name, value
            elif isinstance(value, type) and value.__module__ == module.__name__:
                for own, method in list(vars(value).items()):
                    if isinstance(method, FunctionType):
                        yield value, own, method


def codes_of(function):
    """The code of a function, of what it wraps, and of an op's own function."""
    while function is not None:
        yield function.__code__
        op = getattr(function, "op", None)
        if op is not None:
            inner = op.function
            while inner is not None:
                yield inner.__code__
                inner = getattr(inner, "__wrapped__", None)
        function = getattr(function, "__wrapped__", None)


BY_CODE = {}
for _owner, _name, _function in places():
    for _code in codes_of(_function):
        BY_CODE.setdefault(_code, []).append((_owner, _name, _function))


def other(function, counted):
    """The function with other numbers: each float that it gives is a quarter larger."""
    busy = threading.local()

    def changed(value):
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(map(changed, value))
        if isinstance(value, (tt.Tensor, np.ndarray)) and value.dtype.kind == "f":
            counted.append(function)
            return value * FACTOR
        return value

    def replacement(*args, **kwargs):
        found = function(*args, **kwargs)
        if getattr(busy, "now", False):
            return found
        busy.now = True
        try:
            return changed(found)
        finally:
            busy.now = False

    return replacement


def told_apart(found, expected):
    if isinstance(found, type) or isinstance(expected, type):  # of errors
        return found is not expected
    pairs = zip(found, expected, strict=True)
    return any(not np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True) for a, b in pairs)


def outcome(function):
    """What it gives, or how it fails: some replacements make nonsense."""
    with np.errstate(all="ignore"):
        try:
            return function()
        except Exception as error:
            return type(error)


def replaced_ones(function, all_of_them):
    """The functions that it enters, each with its owner and name; unless all are asked for, every fourth below `nn`."""
    codes = sorted(entered(function), key=lambda code: (code.co_filename, code.co_firstlineno))
    places = [place for code in codes for place in BY_CODE.get(code, ()) if place[1] not in NO_NUMBERS]
    return [place for i, place in enumerate(places) if all_of_them or i % 4 == 0 or ".nn." in str(place[0])]


QUICK = {"attention", "relu", "softmax_-1", "likeliest"}
USUAL = {*QUICK, "layers", "encoder_layer_behind", "multi_head_attention", "embedding_and_loss", "sgd"}
"""Cases of the usual size, for which compiled loops run by default; the others are repetitions."""


def cases():
    for name in CASES:
        for switched in ("plain", "loops"):
            for size in SIZES:
                marks = [] if name in QUICK else [pytest.mark.slow]
                by_default = size == "small" if switched == "loops" else size == "usual" and name in USUAL
                marks += [] if by_default else [pytest.mark.again]
                yield pytest.param(name, switched, size, marks=marks, id=f"{switched}-{name}-{size}")


@pytest.mark.parametrize(("name", "switched", "size"), list(cases()))
def test_what_is_replaced_is_called(name, switched, size, monkeypatch, request):
    if switched == "loops":
        request.getfixturevalue("loops")

    def run():
        return CASES[name](*SIZES[size])

    ways = room("fast.texts").ways.values()
    for way in ways:
        way.off = True
    before = run()
    asked = [way for way in ways if not way.off]  # those that this case goes
    disobeyed, count = [], 0
    all_of_them = request.config.getoption("--all") or name in DRAWING  # of which few make numbers
    for owner, attribute, function in replaced_ones(run, all_of_them):
        counted = []
        with monkeypatch.context() as patched:
            patched.setattr(owner, attribute, other(function, counted))
            with tt.textbook():
                expected = outcome(run)
            found = outcome(run)
            concerned = any(way.off for way in asked if way.name not in PASSING_ON)
        if not counted:  # it makes no number
            continue
        if name in DRAWING and not concerned:
            continue
        count += 1
        if told_apart(found, expected):
            disobeyed.append(f"{owner.__name__}.{attribute}")
    assert not told_apart(run(), before)  # all was put back
    assert not disobeyed
    assert count > 3


APART = {
    "Module.__call__": "a step of a stack is not a call of the stack",
    "Module._call_with_hooks": "likewise",
    "MultiheadAttention.forward": "`start` rejects a forward from elsewhere; models.decoding computes whole sequences",
}
"""Functions whose replacement counts more often in a whole sequence than in its steps, or that have no steps."""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["plain", "textbook", "loops"])
@pytest.mark.parametrize("name", WHOLE_AND_STEPS)
def test_a_whole_sequence_and_its_steps_agree_whatever_is_replaced(name, mode, monkeypatch, request):
    """Of the textbook's layers and formulas. A cache and the array API have more to do in steps."""
    if mode == "loops":
        request.getfixturevalue("loops")
    with tt.no_grad():
        in_both = entered(lambda: WHOLE_AND_STEPS[name](2, 3)) & entered(WHOLE_AND_STEPS[name](2, 3)[1])
    codes = [code for code in in_both if code.co_filename.startswith((str(PACKAGE / "nn"), str(PACKAGE / "models")))]
    disobeyed, count = [], 0
    for code in sorted(codes, key=lambda code: (code.co_filename, code.co_firstlineno)):
        for owner, attribute, function in BY_CODE.get(code, ()):
            counted, path = [], f"{owner.__name__}.{attribute}"
            if attribute in NO_NUMBERS or path in APART:
                continue
            with monkeypatch.context() as patched, tt.textbook() if mode == "textbook" else contextlib.nullcontext():
                patched.setattr(owner, attribute, other(function, counted))
                found = outcome(lambda: whole_and_steps(name, 2, 3))
            if counted:
                count += 1
                if isinstance(found, type) or told_apart(found[:1], found[1:]):
                    disobeyed.append(f"{path} {found}")
    assert not disobeyed
    assert count > 10


@pytest.mark.parametrize("name", CASES)
def test_textbook_mode_enters_nothing_of_the_engine_room(name, loops):
    """With the context manager as with the environment variable: no line of `fast` runs, forward or backward."""
    rooms = [str(PACKAGE / "fast"), str(PACKAGE / "nn" / "fast"), str(PACKAGE / "models" / "fast")]
    met = {code for code in entered(lambda: CASES[name](2, 3)) if code.co_filename.startswith(tuple(rooms))}
    noticed = {"note"}  # classes that `cases` makes are told of
    assert {code.co_name for code in met} <= noticed


def test_what_is_replaced_between_two_steps_of_one_cache_is_called(loops, monkeypatch):
    def steps():
        tt.manual_seed(0)
        layer = nn.TransformerDecoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        module = nn.TransformerDecoder(layer, 2).eval()
        x = tt.random.randn(2, 1, 16)
        with tt.no_grad(), monkeypatch.context() as patched:
            cache = module.start(tt.random.randn(2, 5, 16))
            first = module.step(x, cache).numpy()
            own = nn.Linear.forward
            patched.setattr(nn.Linear, "forward", lambda self, x: own(self, x) * 2)
            second = module.step(x, cache).numpy()
        with tt.no_grad():
            return first, second, module.step(x, cache).numpy()

    found = steps()
    with tt.textbook():
        expected = steps()
    assert not told_apart(found, expected)


def test_what_is_replaced_on_a_subclass_an_instance_or_by_a_hook_is_called(loops, monkeypatch):
    class Doubled(nn.Linear):
        def forward(self, input):
            return super().forward(input) * 2

    def stack():
        tt.manual_seed(0)
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2)

    x = tt.random.randn(24, 48, 16)
    plain = stack()(x).numpy()
    for change in ("subclass", "instance", "hook"):
        module = stack()
        layer = module.layers[1]
        if change == "subclass":
            layer.linear2.__class__ = Doubled
        elif change == "instance":
            own = layer.linear2.forward
            layer.linear2.forward = lambda x, own=own: own(x) * 2
        else:
            layer.linear2.register_forward_hook(lambda module, inputs, output: output * 2)
        found = module(x).numpy()
        with tt.textbook():
            expected = module(x).numpy()
        assert not told_apart([found], [expected])
        assert told_apart([found], [plain])


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("owner", [nn.Linear, nn.LayerNorm, nn.MultiheadAttention, nn.TransformerEncoderLayer])
def test_an_inherited_method_that_is_replaced_on_a_class_of_its_own_is_called(owner, size, loops, monkeypatch):
    """`__call__` is Module's, and nowhere in the class before."""
    own = nn.Module.__call__

    def doubled(self, *args, **kwargs):
        out = own(self, *args, **kwargs)
        return (out[0] * 2, *out[1:]) if isinstance(out, tuple) else out * 2

    def compute():
        tt.manual_seed(0)
        return [
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)(tt.random.randn(*size, 16)).numpy()
        ]

    plain = compute()
    with monkeypatch.context() as patched:
        patched.setattr(owner, "__call__", doubled, raising=False)
        found = compute()
        with tt.textbook():
            expected = compute()
    assert not told_apart(found, expected)
    assert told_apart(found, plain)
    assert not told_apart(compute(), plain)


def test_what_is_no_replacement_turns_nothing_off(loops):
    """Classes of a user's, abstract ones among them, copies, pickles and imports."""
    import abc
    import copy
    import importlib
    import pickle
    import typing

    class Abstract(nn.Module, abc.ABC):
        @abc.abstractmethod
        def forward(self, x): ...

    class Own(Abstract, typing.Generic[typing.TypeVar("T")]):
        def forward(self, x):
            return x

    texts = room("fast.texts")
    module, x = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2), tt.ones((24, 48, 16))
    module(x)
    before = {way.name for way in texts.ways.values() if not way.off}
    known = dict(texts.replaced)
    Own.forward = lambda self, x: x + 1
    Own()(copy.deepcopy(module)(pickle.loads(pickle.dumps(x))))
    for name in ("models", "linalg", "fft", "special", "testing", "graph", "nn.distributed"):
        importlib.import_module(f"tinytensor.{name}")
    assert "stacks of Transformer layers" in before
    assert before <= {way.name for way in texts.ways.values() if not way.off}
    assert texts.replaced == known
    with pytest.raises(TypeError, match="abstract"):
        Abstract()


@pytest.mark.parametrize("change", ["a layer's map", "a norm", "a class", "a setting", "the cache", "a layer's cache"])
def test_what_is_changed_on_an_instance_between_two_steps_is_called(loops, change):
    class Doubled(nn.Linear):
        def forward(self, input):
            return super().forward(input) * 2

    def doubled(owner, name):
        own = getattr(owner, name)
        setattr(owner, name, lambda *args: own(*args) * 2)

    def steps():
        tt.manual_seed(0)
        layer = nn.TransformerDecoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        module = nn.TransformerDecoder(layer, 2, nn.LayerNorm(16)).eval()
        x = tt.random.randn(2, 1, 16)
        with tt.no_grad():
            cache = module.start(tt.random.randn(2, 5, 16))
            found = [module.step(x, cache).numpy()]
            if change == "a layer's map":
                doubled(module.layers[0].linear1, "forward")
            elif change == "a norm":
                doubled(module.norm, "forward")
            elif change == "a class":
                module.layers[1].linear2.__class__ = Doubled
            elif change == "a setting":
                module.layers[0].dropout2.p = 1.0
                module.train()
            elif change == "the cache":
                own = cache.extend
                cache.extend = lambda shape, mask=None: own(shape, mask) | True
            else:
                own = cache.layers[0].append
                cache.layers[0].append = lambda k, v: [2 * x for x in own(k, v)]
            found += [module.step(x, cache).numpy() for _ in range(2)]
        return found

    found = steps()
    with tt.textbook():
        expected = steps()
    assert not told_apart(found, expected)


def test_an_optimizers_own_update_and_a_layers_own_method_are_called(loops):
    def outcome():
        tt.manual_seed(0)
        module = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 1)
        attention, x = module.layers[0].self_attn, tt.random.randn(24, 48, 16)
        own = attention._batch_first
        attention._batch_first = lambda *args: own(*args) * 2
        optimizer = nn.optim.SGD(module.parameters(), lr=0.1)
        update = optimizer.update
        optimizer.update = lambda theta, g, *rest: update(theta, -g, *rest)
        loss = (module(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return [loss.detach().numpy(), *[p.numpy() for p in module.parameters()]]

    found = outcome()
    with tt.textbook():
        expected = outcome()
    assert not told_apart(found, expected)
