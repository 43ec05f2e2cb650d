"""Module and Parameter: registration, traversal, hooks, moving, state, repr."""

import copy
import gc
import pickle
import threading
import weakref
from collections import OrderedDict

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.modes import state


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = nn.Parameter(tt.ones((3,)))
        self.register_buffer("steps", tt.zeros((), dtype=tt.int64))
        self.register_buffer("cache", tt.ones((2,)), persistent=False)

    def forward(self, x):
        return self.linear(x) * self.scale


class Net(nn.Module):
    """Two blocks and a head whose weight is the first block's."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(3, 3, bias=False)
        self.head.weight = self.blocks[0].linear.weight

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def values(module):
    return {name: np.array(tensor.numpy()) for name, tensor in module.state_dict().items()}


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


# ---- Parameter


def test_parameter_is_a_leaf_tensor_of_its_own_memory():
    source = tt.ones((2,))
    parameter = nn.Parameter(source)
    source[0] = 5.0
    assert isinstance(parameter, tt.Tensor)
    assert parameter.requires_grad
    assert parameter.is_leaf
    assert parameter.tolist() == [1.0, 1.0]
    assert type(parameter * 2) is tt.Tensor
    assert repr(parameter) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"


def test_parameter_without_gradient_and_of_integers():
    assert not nn.Parameter(tt.ones((2,)), requires_grad=False).requires_grad
    assert nn.Parameter([1, 2], requires_grad=False).dtype == tt.int64
    with pytest.raises(TypeError, match="floating"):
        nn.Parameter([1, 2])


def test_parameter_survives_pickle_and_deepcopy():
    parameter = nn.Parameter([1.0, 2.0])
    for twin in (pickle.loads(pickle.dumps(parameter)), copy.deepcopy(parameter)):
        assert type(twin) is nn.Parameter
        assert twin.requires_grad
        assert twin is not parameter
        assert twin.tolist() == [1.0, 2.0]


# ---- attributes


def test_assignment_registers():
    module = Block()
    assert [name for name, _ in module.named_parameters()] == ["scale", "linear.weight", "linear.bias"]
    assert [name for name, _ in module.named_buffers()] == ["steps", "cache"]
    assert [name for name, _ in module.named_children()] == ["linear"]
    assert {"linear", "scale", "steps", "training"} <= set(dir(module))


def test_reassignment_keeps_the_place_and_moves_between_kinds():
    module = nn.Module()
    module.a, module.b = nn.Parameter([1.0]), nn.Parameter([2.0])
    module.a = nn.Parameter([3.0])
    assert [name for name, _ in module.named_parameters()] == ["a", "b"]
    module.a = nn.Linear(1, 1)
    assert [name for name, _ in module.named_parameters()] == ["b", "a.weight", "a.bias"]
    module.plain = 3
    module.plain = nn.Parameter([1.0])
    assert "plain" in dict(module.named_parameters())
    assert "plain" not in vars(module)


def test_parameter_attribute_takes_parameters_and_none_only():
    module = Block()
    with pytest.raises(TypeError, match=r"Block\.scale: cannot assign a Tensor; expected a Parameter or None"):
        module.scale = tt.ones((3,))
    with pytest.raises(TypeError, match="expected a Module or None"):
        module.linear = 3
    with pytest.raises(TypeError, match="expected a Tensor or None"):
        module.steps = 3
    module.scale = None
    assert module.scale is None
    assert "scale" not in module.state_dict()
    module.scale = nn.Parameter([1.0])
    assert "scale" in module.state_dict()


def test_buffer_assignment_stays_a_buffer():
    module = Block()
    module.steps = tt.asarray(7)
    assert module.state_dict()["steps"].item() == 7


def test_delete():
    module = Block()
    del module.scale, module.linear, module.cache
    module.plain = 1
    del module.plain
    assert list(module.state_dict()) == ["steps"]
    with pytest.raises(AttributeError):
        del module.scale
    with pytest.raises(AttributeError, match="'Block' object has no attribute 'scale'"):
        module.scale  # noqa: B018


@pytest.mark.parametrize("value", [lambda: nn.Parameter([1.0]), lambda: nn.Linear(1, 1)])
def test_assigning_before_init(value):
    class Hasty(nn.Module):
        def __init__(self):
            self.early = value()

    with pytest.raises(AttributeError, match=r"Hasty: cannot assign 'early' .* call super\(\).__init__\(\) first"):
        Hasty()


def test_reading_and_registering_before_init():
    module = nn.Module.__new__(nn.Module)
    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        module.weight  # noqa: B018
    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        module.register_buffer("x", None)


@pytest.mark.parametrize("method", ["register_parameter", "register_buffer", "add_module"])
def test_names_are_checked(method):
    register = getattr(Block(), method)
    for name in ("", "a.b", "forward", "training"):
        with pytest.raises(KeyError):
            register(name, None)
    with pytest.raises(TypeError, match="name must be a string, got int"):
        register(3, None)
    with pytest.raises(TypeError, match="'x' is a int; expected a"):
        register("x", 3)


def test_forward_must_be_defined():
    with pytest.raises(NotImplementedError, match=r"Module: this module has no forward\(\)"):
        nn.Module()(1)


# ---- traversal


def test_shared_parameters_appear_once_and_gradients_add():
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert "head.weight" not in names
    assert len(names) == len(set(map(id, net.parameters()))) == 6
    assert "head.weight" in dict(net.named_parameters(remove_duplicate=False))
    assert "head.weight" in net.state_dict()
    x = tt.random.Generator(0).normal((2, 3))
    tied, untied = net, copy.deepcopy(net)
    untied.head.weight = nn.Parameter(untied.head.weight)
    tied(x).sum().backward()
    untied(x).sum().backward()
    both = untied.head.weight.grad + untied.blocks[0].linear.weight.grad
    np.testing.assert_allclose(tied.head.weight.grad.numpy(), both.numpy(), rtol=1e-6)


def test_shared_module_appears_once():
    shared = nn.Linear(2, 2)
    module = nn.Sequential(shared, nn.ReLU(), shared)
    assert [name for name, _ in module.named_modules()] == ["", "0", "1"]
    assert [name for name, _ in module.named_modules(remove_duplicate=False)] == ["", "0", "1", "2"]
    assert len(list(module.children())) == 2
    assert list(module.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_named_modules_with_a_prefix():
    assert [name for name, _ in Net().named_modules(prefix="net")] == [
        "net", "net.blocks", "net.blocks.0", "net.blocks.0.linear", "net.blocks.1", "net.blocks.1.linear", "net.head",
    ]  # fmt: skip
    assert [name for name, _ in Block().named_parameters(prefix="b", recurse=False)] == ["b.scale"]


def test_get_submodule():
    net = Net()
    assert net.get_submodule("") is net
    assert net.get_submodule("blocks.1.linear") is net.blocks[1].linear
    with pytest.raises(AttributeError, match=r"get_submodule\('blocks.1.conv'\): blocks.1 has no module 'conv'"):
        net.get_submodule("blocks.1.conv")


def test_apply_goes_inside_out():
    seen = []
    net = Net()
    assert net.apply(lambda module: seen.append(type(module).__name__)) is net
    assert seen == ["Linear", "Block", "Linear", "Block", "ModuleList", "Linear", "Net"]


def test_train_and_eval():
    net = Net()
    assert all(module.training for module in net.modules())
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.blocks[0].train()
    assert net.blocks[0].linear.training
    assert not net.training
    with pytest.raises(ValueError, match="expected True or False"):
        net.train("yes")


def test_requires_grad_and_zero_grad():
    net = Net()
    net(tt.ones((1, 3))).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all((p.grad == 0).all() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not net(tt.ones((1, 3))).requires_grad


# ---- hooks


def test_hooks_see_and_replace_and_are_removed():
    module = nn.Identity()
    calls = []
    first = module.register_forward_pre_hook(lambda m, args: calls.append(("pre", m is module, args)))
    second = module.register_forward_pre_hook(lambda m, args: args[0] + 1)
    third = module.register_forward_hook(lambda m, args, out: calls.append(("post", args, out)))
    fourth = module.register_forward_hook(lambda m, args, out: out * 10)
    assert module(1) == 20
    assert calls == [("pre", True, (1,)), ("post", (2,), 2)]
    for handle in (first, second, third, fourth):
        handle.remove()
    assert module(1) == 1
    assert len(calls) == 2


def test_hooks_with_kwargs():
    class Add(nn.Module):
        def forward(self, x, *, y=0):
            return x + y

    module = Add()
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"y": kwargs["y"] * 2}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, kwargs, out: (args, kwargs, out), with_kwargs=True)
    assert module(1, y=3) == ((1,), {"y": 6}, 7)


def test_a_hook_may_remove_itself():
    module = nn.Identity()
    handle = module.register_forward_hook(lambda m, args, out: handle.remove())
    other = []
    module.register_forward_hook(lambda m, args, out: other.append(out))
    module(1)
    module(2)
    assert other == [1, 2]
    assert len(module._forward_hooks) == 1


# ---- scopes


def test_scopes_while_calling():
    net, seen = Net(), {}
    for name, module in net.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: seen.update({name: list(state.scopes)}))
    net(tt.ones((1, 3)))
    assert seen["blocks.1.linear"] == ["Net", "blocks.1", "linear"]
    assert seen["head"] == ["Net", "head"]
    assert seen[""] == ["Net"]
    assert state.scopes == []


def test_a_shape_error_names_the_module():
    net = Net()
    net.blocks[1].linear = nn.Linear(4, 3)
    with pytest.raises(ValueError, match=r"\(1, 3\).*\(3, 4\).*in module Net\.blocks\.1\.linear\)"):
        net(tt.ones((1, 3)))
    assert state.scopes == []
    net.blocks[1] = Block()
    net.blocks[0].scale = nn.Parameter(tt.ones((5,)))
    with pytest.raises(ValueError, match=r"multiply: .*\(1, 3\).*\(5,\).*in module Net\.blocks\.0\)"):
        net(tt.ones((1, 3)))
    assert state.scopes == []


def test_any_error_is_noted_with_the_innermost_module():
    net = Net()
    net.blocks[0].linear = nn.LayerNorm(5)
    with pytest.raises(ValueError, match="layer_norm") as error:
        net(tt.ones((1, 3)))
    assert str(error.value).endswith(" (in module Net.blocks.0.linear)")
    assert str(error.value).count("in module") == 1
    assert not hasattr(error.value, "__notes__")

    class Failing(nn.Module):
        def forward(self, error):
            raise error

    nested = nn.Sequential(nn.Identity(), nn.Sequential(Failing()))
    with pytest.raises(RuntimeError, match=r"^too small \(in module Sequential\.1\.0\)$") as small:
        nested(RuntimeError("too small"))
    assert not hasattr(small.value, "__notes__")
    for error in (KeyError(3), ValueError("too small", 3), ValueError()):  # with no message that could be longer
        arguments = error.args
        with pytest.raises(type(error)) as noted:
            nested(error)
        assert noted.value.args == arguments
        assert noted.value.__notes__ == ["in module Sequential.1.0"]


def test_a_slice_of_a_list_does_not_rename():
    net = Net()
    net.blocks[1:]
    net.blocks[1].linear = nn.Linear(4, 3)
    with pytest.raises(ValueError, match=r"in module Net\.blocks\.1\.linear\)"):
        net(tt.ones((1, 3)))


def test_scopes_are_per_thread():
    inside, proceed = threading.Event(), threading.Event()

    class Waiting(nn.Module):
        def forward(self):
            inside.set()
            proceed.wait(10)

    thread = threading.Thread(target=Waiting())
    thread.start()
    assert inside.wait(10)
    assert state.scopes == []
    proceed.set()
    thread.join()


# ---- moving


def test_to_dtype_keeps_objects_ties_and_integer_buffers():
    net = Net()
    net(tt.ones((1, 3))).sum().backward()
    before = list(net.parameters())
    numbers = values(net)
    assert net.double() is net
    assert all(a is b for a, b in zip(before, net.parameters()))
    assert net.head.weight is net.blocks[0].linear.weight
    for parameter in net.parameters():
        assert parameter.dtype == parameter.grad.dtype == tt.float64
        assert parameter.is_leaf
        assert type(parameter) is nn.Parameter
    assert net.blocks[0].steps.dtype == tt.int64
    assert net.blocks[0].cache.dtype == tt.float64
    assert_same(values(net), numbers)
    net.zero_grad()
    net(tt.ones((1, 3), dtype=tt.float64)).sum().backward()
    assert net.head.weight.grad.dtype == tt.float64


def test_to_between_forward_and_backward_loses_no_gradient():
    net = nn.Linear(2, 1)
    out = net(tt.ones((1, 2)))
    net.double()
    out.sum().backward()
    assert net.weight.grad.dtype == tt.float64
    assert net.weight.grad.tolist() == [[1.0, 1.0]]


def test_to_keeps_hooks_and_requires_grad():
    net = nn.Linear(2, 1)
    net.bias.requires_grad = False
    seen = []
    net.weight.register_hook(lambda g: seen.append(g.dtype))
    net.double()
    assert not net.bias.requires_grad
    net(tt.ones((1, 2), dtype=tt.float64)).sum().backward()
    assert seen == [tt.float64]


def test_to_arguments():
    net = nn.Linear(2, 1)
    like = tt.ones((1,), dtype=tt.float64)
    assert net.to(like).weight.dtype == tt.float64
    assert net.to("cpu", tt.float32).weight.dtype == tt.float32
    assert net.to(device="cpu", dtype="float64").weight.dtype == tt.float64
    assert net.float().weight.dtype == tt.float32
    assert net.cpu().weight.device == "cpu"
    with pytest.raises(TypeError, match=r"Linear\.to: expected a floating dtype, got int64"):
        net.to(tt.int64)
    with pytest.raises(ValueError, match="unknown device 'cuda'"):
        net.to("cuda")
    assert net.weight.dtype == tt.float32


def test_to_without_a_change_keeps_buffers():
    module = Block()
    buffer = module.cache
    assert module.to(tt.float32).cache is buffer


def test_shared_buffers_stay_shared():
    a, b = nn.Module(), nn.Module()
    shared = tt.ones((2,))
    a.register_buffer("x", shared)
    b.register_buffer("x", shared)
    both = nn.ModuleList([a, b]).double()
    assert both[0].x is both[1].x


def test_to_device(device):
    net = Net()
    numbers = values(net)
    net.to(device)
    assert {t.device for t in net.state_dict().values()} == {device}
    assert net.head.weight is net.blocks[0].linear.weight
    net(tt.ones((1, 3), device=device)).sum().backward()
    assert net.head.weight.grad.device == device
    net.cpu()
    assert net.head.weight.grad.device == "cpu"
    assert_same(values(net), numbers)


def test_a_module_is_freed_without_the_collector():
    gc.disable()
    try:
        net = Net()
        net(tt.ones((1, 3))).sum().backward()
        gone = weakref.ref(net)
        del net
        assert gone() is None
    finally:
        gc.enable()


# ---- copies


def test_deepcopy_of_very_many_modules_within_each_other():
    inner = nn.Linear(2, 2)
    model = nn.Sequential(inner, inner)  # one layer twice
    for _ in range(400):
        model = nn.Sequential(model)
    copied = copy.deepcopy(model)
    ours, theirs = list(model.modules()), list(copied.modules())
    assert [type(m) for m in ours] == [type(m) for m in theirs]
    assert not {id(m) for m in ours} & {id(m) for m in theirs}
    assert theirs[-2][0] is theirs[-2][1] is theirs[-1]
    assert theirs[-1].weight is not inner.weight
    np.testing.assert_array_equal(theirs[-1].weight.numpy(), inner.weight.numpy())


def test_deepcopy_keeps_what_a_module_says_of_copies():
    class Own(nn.Module):
        def __deepcopy__(self, memo):
            return self

    model = nn.Sequential(nn.Linear(2, 2), Own())
    copied = copy.deepcopy(model)
    assert copied[1] is model[1]
    assert copied[0] is not model[0]


def test_deepcopy_is_apart_and_keeps_ties():
    net = Net()
    twin = copy.deepcopy(net)
    assert twin.head.weight is twin.blocks[0].linear.weight
    assert not {id(p) for p in net.parameters()} & {id(p) for p in twin.parameters()}
    assert_same(values(net), values(twin))
    with tt.no_grad():
        twin.head.weight.zero_()
    assert (net.head.weight != 0).any()
    assert [n for n, _ in twin.named_parameters()] == [n for n, _ in net.named_parameters()]


def test_pickle_keeps_ties():
    net = Net()
    twin = pickle.loads(pickle.dumps(net))
    assert twin.head.weight is twin.blocks[0].linear.weight
    assert_same(values(net), values(twin))


# ---- state


def test_state_dict_order_and_sharing():
    net = Net()
    state_dict = net.state_dict()
    assert isinstance(state_dict, OrderedDict)
    block = ["scale", "steps", "linear.weight", "linear.bias"]
    assert list(state_dict) == [f"blocks.{i}.{name}" for i in (0, 1) for name in block] + ["head.weight"]
    assert not any(tensor.requires_grad for tensor in state_dict.values())
    with tt.no_grad():
        net.head.weight.fill_(3.0)
    assert (state_dict["head.weight"] == 3).all()
    assert net.state_dict(keep_vars=True)["head.weight"] is net.head.weight
    assert list(net.head.state_dict(prefix="p.")) == ["p.weight"]


def test_load_copies_in_place():
    net, other = Net(), Net()
    before = [id(p) for p in net.parameters()]
    result = net.load_state_dict(other.state_dict())
    assert result == ([], [])
    assert repr(result) == "<All keys matched successfully>"
    assert [id(p) for p in net.parameters()] == before
    assert_same(values(net), values(other))
    with tt.no_grad():
        other.head.weight.zero_()
    assert (net.head.weight != 0).any()


def test_load_takes_arrays_and_casts_floats():
    module = nn.Linear(2, 1)

    class Foreign:
        def __array__(self, dtype=None, copy=None):
            return np.array([3.0])

    module.load_state_dict({"weight": np.array([[1.0, 2.0]]), "bias": Foreign()})
    assert module.weight.dtype == tt.float32
    assert module.weight.tolist() == [[1.0, 2.0]]
    assert module.bias.tolist() == [3.0]
    module.load_state_dict({"weight": np.array([[1, 2]]), "bias": nn.Parameter([4.0])})
    assert module.bias.tolist() == [4.0]
    assert module.bias.requires_grad


def test_load_of_exchanged_own_values():
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    first, second = values(module).values()
    own = module.state_dict()
    module.load_state_dict({"0.weight": own["1.weight"], "1.weight": own["0.weight"]})
    np.testing.assert_array_equal(module[0].weight.numpy(), second)
    np.testing.assert_array_equal(module[1].weight.numpy(), first)


def test_load_reports_everything_and_changes_nothing():
    net = Net()
    before = values(net)
    wrong = {name: tensor + 1 for name, tensor in net.state_dict().items()}
    del wrong["blocks.0.scale"]
    wrong["extra"] = tt.ones((1,))
    wrong["blocks.1.scale"] = tt.ones((4,))
    wrong["blocks.0.linear.bias"] = "text"
    wrong["blocks.0.steps"] = tt.asarray(0.5)
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(wrong)
    assert str(error.value).split("\n") == [
        "load_state_dict into Net:",
        "  missing: blocks.0.scale",
        "  unexpected: extra",
        "  blocks.0.steps: expected int64, got float32",
        "  blocks.0.linear.bias: expected a Tensor or an array, got str",
        "  blocks.1.scale: expected shape (3,), got (4,)",
    ]
    assert_same(values(net), before)
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(wrong, strict=False)
    assert "missing" not in str(error.value)
    assert "expected shape (3,), got (4,)" in str(error.value)
    assert_same(values(net), before)
    with pytest.raises(TypeError, match="expected a dictionary, got list"):
        net.load_state_dict([])


def test_load_not_strict():
    module = nn.Linear(2, 1)
    bias = module.bias.tolist()
    result = module.load_state_dict({"weight": np.zeros((1, 2)), "extra": None}, strict=False)
    assert result.missing_keys == ["bias"]
    assert result.unexpected_keys == ["extra"]
    assert repr(result) == "IncompatibleKeys(missing_keys=['bias'], unexpected_keys=['extra'])"
    assert module.weight.tolist() == [[0.0, 0.0]]
    assert module.bias.tolist() == bias


def test_load_between_forward_and_backward_is_an_error_not_a_wrong_number():
    module = nn.Linear(2, 1)
    x = tt.ones((1, 2))
    x.requires_grad = True
    out = module(x)
    module.load_state_dict(nn.Linear(2, 1).state_dict())
    with pytest.raises(RuntimeError, match="changed in place"):
        out.sum().backward()


def test_load_on_a_device(device):
    module = nn.Linear(2, 1).to(device)
    source = nn.Linear(2, 1)
    module.load_state_dict(source.state_dict())
    assert module.weight.device == device
    assert_same(values(module), values(source))


# ---- repr


def test_repr():
    assert repr(Net()) == (
        "Net(\n"
        "  (blocks): ModuleList(\n"
        "    (0-1): 2 x Block(\n"
        "      (linear): Linear(in_features=3, out_features=3, bias=True)\n"
        "    )\n"
        "  )\n"
        "  (head): Linear(in_features=3, out_features=3, bias=False)\n"
        ")"
    )
    assert repr(nn.Module()) == "Module()"


def test_repr_with_lines_of_its_own():
    class Described(nn.Module):
        def extra_repr(self):
            return "first\nsecond"

    outer = Described()
    assert repr(outer) == "Described(\n  first\n  second\n)"
    outer.inner = Described()
    assert repr(outer) == "Described(\n  first\n  second\n  (inner): Described(\n    first\n    second\n  )\n)"


def test_weights_of_bfloat16_are_loaded():
    torch = pytest.importorskip("torch")
    theirs, ours = torch.nn.Linear(2, 3).bfloat16(), nn.Linear(2, 3)
    ours.load_state_dict(theirs.state_dict())
    np.testing.assert_array_equal(ours.weight.numpy(), theirs.weight.detach().float().numpy())
    eights = {name: value.to(torch.float8_e4m3fn) for name, value in theirs.state_dict().items()}
    with pytest.raises(RuntimeError, match="weight: asarray: NumPy cannot take this Tensor of torch.float8"):
        ours.load_state_dict(eights)
