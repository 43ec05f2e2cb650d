"""Every public name says what it is, and has its place in the API pages. Docstrings with examples are run."""

import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

import tinytensor as tt
from tests.processes import modules_of_the_library

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site(monkeypatch):
    """The modules that build the site, without Sphinx."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    yield importlib.import_module
    for name in ("api", "links", "docstrings"):
        sys.modules.pop(name, None)


def members(kind):
    """A public class's own methods and properties, by name."""
    for name in vars(kind):
        thing = inspect.getattr_static(kind, name)
        if (
            not name.startswith("_")
            and hasattr(kind, name)
            and (inspect.isroutine(thing) or isinstance(thing, property))
        ):
            yield name


def undocumented(name, thing):
    if not callable(thing):
        return []
    missing = [] if thing.__doc__ else [name]
    if inspect.isclass(thing):  # an overridden method may say what the one says that it stands in for
        missing += [f"{name}.{each}" for each in members(thing) if not said_of(thing, each)]
    return missing


def said_of(kind, name):
    thing = inspect.getattr_static(kind, name)
    if isinstance(thing, property):
        return thing.__doc__
    return inspect.getdoc(getattr(kind, name))


def test_every_public_name_says_what_it_is(site):
    api = site("api")
    names = [(f"{space}.{name}", thing) for space in api.SPACES for name, thing in api.public(space)]
    assert len(names) > 350
    assert [each for name, thing in names for each in undocumented(name, thing)] == []


def test_it_notices_what_says_nothing():
    class Silent:
        """Has one method."""

        def method(self): ...

    assert undocumented("Silent", Silent) == ["Silent.method"]
    assert undocumented("f", lambda: None) == ["f"]


def test_every_public_name_is_on_a_page(site):
    api = site("api")
    text = "\n".join(api.pages().values())
    shown = re.findall(r"^\.\. auto\w+:: (\S+)$", text, flags=re.M)
    shown += [f"{space}.{name}" for name, space in re.findall(r"^\.\. py:data:: (\S+)\n   :module: (\S+)$", text, re.M)]
    names = [f"{space}.{name}" for space in api.SPACES for name, _ in api.public(space)]
    assert sorted(shown) == sorted(names)


def test_all_of_a_module_that_is_public_is_in_a_space(site):
    """The modules among public names, but for those that explain errors, are spaces of their own."""
    api = site("api")
    for space in list(api.SPACES):
        module = importlib.import_module(space)
        for name in getattr(module, "__all__", ()):
            if inspect.ismodule(getattr(module, name)):
                assert f"{space}.{name}" in api.SPACES


def test_signatures_tell_what_a_function_takes():
    for name in ("rand", "randn", "uniform", "normal", "integers", "bernoulli", "permutation"):
        parameters = inspect.signature(getattr(tt.random, name)).parameters
        assert parameters.keys() > {"generator", "device"}, name
        assert "unknown" not in parameters, name


@pytest.mark.parametrize(
    ("docstring", "rst"),
    [
        ("Of `x`s and *args.", "Of `x`\\ s and \\*args."),
        ("A sum |a|.", "A sum \\|a\\|."),
        ("First:\n\n    y = x * x\n\nLast*.", "First:\n\n::\n\n    y = x * x\n\nLast\\*."),
        ("Args:\n    x: a number.", "Args:\n    x: a number."),
    ],
)
def test_docstrings_become_what_sphinx_reads(site, docstring, rst):
    assert "\n".join(site("docstrings").as_rst(docstring.split("\n"))) == rst


MODULES = [name for name in modules_of_the_library() if not name.endswith("__main__")]


def test_examples_in_docstrings_print_what_they_say():
    tried = 0
    for name in MODULES:
        if ".fast" in name or name.startswith("tinytensor.backend.cupy"):
            continue
        result = doctest.testmod(importlib.import_module(name))
        assert result.failed == 0, name
        tried += result.attempted
    assert tried >= 9
