"""Sequential, ModuleList and ModuleDict."""

from collections import OrderedDict

import pytest

import tinytensor as tt
from tinytensor import nn


class Named(nn.Module):
    """Gives its input and its own label, so that the order of calls shows."""

    def __init__(self, label):
        super().__init__()
        self.label = label

    def forward(self, x):
        return f"{x}{self.label}"

    def extra_repr(self):
        return self.label


def named(labels):
    return [Named(label) for label in labels]


def labels(modules):
    return "".join(module.label for module in modules)


# ---- Sequential


def test_sequential_calls_in_order():
    assert nn.Sequential(*named("abc"))("") == "abc"
    assert nn.Sequential()(3) == 3


def test_sequential_of_a_dictionary_has_its_names():
    module = nn.Sequential(OrderedDict(first=Named("a"), second=Named("b")))
    assert module("") == "ab"
    assert [name for name, _ in module.named_children()] == ["first", "second"]
    assert module.second.label == module[1].label == "b"


def test_sequential_index_and_slice():
    module = nn.Sequential(*named("abcd"))
    assert module[0].label == "a"
    assert module[-1].label == "d"
    assert isinstance(module[1:3], nn.Sequential)
    assert module[1:3]("") == "bc"
    assert module[1:3][0] is module[1]
    assert [name for name, _ in module[1:3].named_children()] == ["1", "2"]
    assert module[::2]("") == "ac"
    assert len(module) == 4
    assert labels(module) == "abcd"
    for wrong in (4, -5):
        with pytest.raises(IndexError, match=f"Sequential: index {wrong} is out of range; it holds 4 modules"):
            module[wrong]


def test_sequential_changes():
    module = nn.Sequential(*named("abc"))
    assert module.append(Named("d")) is module
    module.extend(named("ef"))
    module.insert(1, Named("x"))
    assert module("") == "axbcdef"
    module[-1] = Named("y")
    del module[0]
    assert module("") == "xbcdey"
    del module[1:3]
    assert module("") == "xdey"
    assert [name for name, _ in module.named_children()] == ["0", "1", "2", "3"]
    assert module.pop(0).label == "x"
    assert module("") == "dey"


def test_sequential_assignment_keeps_a_name():
    module = nn.Sequential(OrderedDict(first=Named("a"), second=Named("b")))
    module[0] = Named("c")
    assert [name for name, _ in module.named_children()] == ["first", "second"]
    assert module("") == "cb"


@pytest.mark.parametrize("wrong", [3, "relu", tt.tanh])
def test_only_modules_fit(wrong):
    for build in (
        lambda: nn.Sequential(wrong),
        lambda: nn.ModuleList([wrong]),
        lambda: nn.ModuleDict({"a": wrong}),
        lambda: nn.ModuleList().append(wrong),
    ):
        with pytest.raises(TypeError, match="expected a Module or None"):
            build()


def test_sequential_in_a_shape_error():
    module = nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 1))
    with pytest.raises(ValueError, match=r"in module Sequential\.1\)"):
        module(tt.ones((1, 2)))


# ---- ModuleList


def test_module_list():
    modules = nn.ModuleList(named("abc"))
    modules += named("d")
    modules.append(Named("e")).insert(0, Named("x"))
    assert labels(modules) == "xabcde"
    assert labels(modules[1:3]) == "ab"
    assert isinstance(modules[1:3], nn.ModuleList)
    assert labels(modules + named("z")) == "xabcdez"
    assert len(modules) == 6
    assert modules.pop().label == "e"
    del modules[0]
    modules[0] = Named("A")
    assert labels(modules) == "Abcd"
    assert modules[-1].label == "d"
    with pytest.raises(NotImplementedError, match="ModuleList"):
        modules(1)


def test_module_list_holds_parameters():
    modules = nn.ModuleList([nn.Linear(1, 2), nn.Linear(2, 3)])
    assert [name for name, _ in modules.named_parameters()] == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_module_list_repr_folds_neighbours():
    assert repr(nn.ModuleList()) == "ModuleList()"
    assert repr(nn.ModuleList(named("aabaaa"))) == (
        "ModuleList(\n  (0-1): 2 x Named(a)\n  (2): Named(b)\n  (3-5): 3 x Named(a)\n)"
    )


def test_nested_lists_in_a_shape_error():
    class Grid(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = nn.ModuleList()
            self.rows.append(nn.ModuleList([nn.Linear(1, 1)]))
            self.rows[0].append(nn.Linear(5, 1))
            self.by_name = nn.ModuleDict({"x": nn.Linear(7, 1)})

        def forward(self, x, name):
            return self.by_name["x"](x) if name else self.rows[0][1](x)

    with pytest.raises(ValueError, match=r"in module Grid\.rows\.0\.1\)"):
        Grid()(tt.ones((1, 1)), False)
    with pytest.raises(ValueError, match=r"in module Grid\.by_name\.x\)"):
        Grid()(tt.ones((1, 1)), True)


# ---- ModuleDict


def test_module_dict():
    modules = nn.ModuleDict({"a": Named("1"), "b": Named("2")})
    modules["c"] = Named("3")
    modules.update([("a", Named("4"))])
    assert list(modules) == list(modules.keys()) == ["a", "b", "c"]
    assert labels(modules.values()) == "423"
    assert [(name, module.label) for name, module in modules.items()] == [("a", "4"), ("b", "2"), ("c", "3")]
    assert "b" in modules
    assert "z" not in modules
    assert modules.pop("b").label == "2"
    del modules["a"]
    assert len(modules) == 1
    assert modules["c"].label == "3"
    with pytest.raises(KeyError):
        modules["a"]
    assert repr(modules) == "ModuleDict(\n  (c): Named(3)\n)"
    modules.clear()
    assert repr(modules) == "ModuleDict()"


def test_module_dict_takes_no_name_of_its_own_methods():
    with pytest.raises(KeyError, match="has an attribute 'keys' already"):
        nn.ModuleDict({"keys": nn.Identity()})


# ---- lists of parameters


def test_a_list_of_parameters_belongs_to_the_module_that_holds_it():
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.shares = nn.ParameterList([tt.ones(2), nn.Parameter(tt.zeros((2, 3)))])
            self.shares.append(tt.ones(()))
            self.shares += [tt.ones(1)]

    model = Mixture()
    assert list(model.state_dict()) == [f"shares.{i}" for i in range(4)]
    assert len(model.shares) == len(list(model.parameters())) == 4
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in model.shares)
    model.shares[1] = tt.ones(5)
    assert (model.shares[1].shape, model.shares[-1].shape) == ((5,), (1,))
    assert [p.shape for p in model.shares[1:3]] == [(5,), ()]
    assert repr(model.shares).splitlines()[1] == "  (0): Parameter (2,), float32"
    with pytest.raises(IndexError):
        model.shares[7]
