"""The counter of what there is to read, on functions whose numbers are known."""

import importlib.util
import sys

import pytest
from reading import Reading, core, measure

SOURCE = '''
import contextlib

def plain(x):
    """A docstring
    of two lines."""
    y = x + 1  # a comment

    return y

def two_statements(): a = 1; return a

def comprehends(values):
    return list(n + 1 for n in values), [n for n in values], {n: n for n in values}

def nests():
    """This one as well."""
    def inner():
        """No line of this counts."""
        return 1
    return inner()

def returns_inner():
    def inner():
        return 1
    return inner

first, second = lambda x: x, lambda x: second_of(x)
second_of = lambda x: (lambda y: y)(x)

@contextlib.contextmanager
def context():
    yield 1

def uses_context():
    with context() as one:
        return one

def nothing(): pass

class Class:
    def method(self):
        class Local:
            """Not a function."""
            attribute = 1
        return Local
    @property
    def value(self):
        return 1

exec("def generated(x):\\n    y = x\\n    return y")
'''


def load(file, source=SOURCE):
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def module(tmp_path):
    return load(tmp_path / "counted.py")


@pytest.mark.parametrize(
    ("expression", "functions", "lines", "statements"),
    [
        ("plain(1)", 1, 4, 2),  # def, statement, blank line, return; the docstring not
        ("two_statements()", 1, 1, 2),  # statements that share a line are two
        ("comprehends([1, 2])", 1, 2, 1),  # comprehensions belong to their function
        ("nests()", 2, 4, 3),  # an inner function's lines count once
        ("returns_inner()", 1, 4, 3),  # and with the outer function where only that is entered
        ("returns_inner()()", 2, 4, 3),
        ("first(1)", 1, 1, 1),  # lambdas on one line are told apart
        ("second(1)", 3, 2, 3),  # and a lambda within a lambda
        ("uses_context()", 2, 5, 3),  # contextlib's own functions are not the library's; decorators are no lines
        ("nothing()", 1, 1, 1),
        ("Class().method()", 1, 4, 3),  # a class body is no function; its docstring does not count
        ("Class().value", 1, 2, 1),
        ("generated(1)", 1, 3, 3),  # code that no file holds counts in the file that made it
        ("[plain(n) for n in range(3)]", 1, 4, 2),  # called three times, read once
        ("(plain(1), nothing())", 2, 5, 3),
    ],
)
def test_functions_lines_and_statements(module, tmp_path, expression, functions, lines, statements):
    code = compile(expression, "<the test>", "eval")
    namespace = vars(module) | {"__file__": __file__}
    reading = measure(lambda: eval(code, namespace), [tmp_path])
    assert reading[:4] == (functions, 1, lines, statements), reading.places


def test_places_name_what_was_entered_the_longest_first(module, tmp_path):
    reading = measure(lambda: (module.nothing(), module.plain(1)), [tmp_path])
    folder = tmp_path.name
    assert reading.places == (f"{folder}/counted.py:4 plain, 4 lines", f"{folder}/counted.py:39 nothing, 1 line")
    assert str(reading) == "2 / 1 / 5 / 3"


def test_only_files_in_the_folders_count(module, tmp_path):
    (tmp_path / "other").mkdir()
    other = load(tmp_path / "other" / "counted.py")

    def both():
        module.plain(1)
        other.nothing()

    assert measure(both, [tmp_path / "other"])[:2] == (1, 1)
    assert measure(both, [tmp_path])[:2] == (2, 2)
    assert measure(both, []) == Reading(0, 0, 0, 0)


def test_a_file_behind_a_link_is_the_file(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "link").symlink_to(tmp_path / "real")
    real = load(tmp_path / "real" / "counted.py")
    linked = load(tmp_path / "package" / "link" / "counted.py")
    reading = measure(lambda: (real.plain(1), linked.plain(1)), [tmp_path / "package", tmp_path / "real"])
    assert reading[:2] == (1, 1)


def test_the_tracer_of_before_is_back_also_after_an_error(module, tmp_path):
    def former(*arguments):
        return None

    before = sys.gettrace()
    sys.settrace(former)
    try:
        with pytest.raises(ZeroDivisionError):
            measure(lambda: 1 / 0, [tmp_path])
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is former


def test_the_core_is_what_its_modules_import_when_they_are_imported(tmp_path):
    files = {
        "__init__.py": "everything = 1\n" * 50,
        "tensor.py": "import tinytensor as tt\nimport sys\nfrom . import backend, dtypes\nfrom .node import Node\n",
        "primitive.py": "from .recording.tracing import trace\nfrom .functions.sums import total\n",
        "engine.py": "def backward():\n    from .drawing import draw\n",
        "node.py": "if TYPE_CHECKING:\n    from .drawing import draw\nelse:\n    from . import late\n",
        "modes.py": "class State:\n    from tinytensor.state import state\n",
        "recording/__init__.py": "",
        "recording/tracing.py": "from ..checkpoint import restore\nfrom .scopes import Scope\n\n",
        "recording/scopes.py": "1\n",
        **dict.fromkeys(("checkpoint.py", "late.py", "state.py"), "1\n"),
        **dict.fromkeys(("drawing.py", "dtypes.py", "backend/__init__.py", "functions/sums.py"), "1\n" * 100),
    }
    for name, text in files.items():
        path = tmp_path / "tinytensor" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert core(tmp_path) == {
        "tensor.py": 4,
        "primitive.py": 2,
        "engine.py": 2,
        "node.py": 4,
        "modes.py": 2,
        "recording/__init__.py": 0,
        "recording/tracing.py": 3,
        "recording/scopes.py": 1,
        "checkpoint.py": 1,
        "late.py": 1,
        "state.py": 1,
    }
