"""The commands that a reader finds in pages, docstrings, comments and messages: see `commands`."""

import ast
import fnmatch
import functools
import os
import re
import textwrap
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAST = {"docs/log/predicted-and-found.md"}  # commands of former versions
OURS = {"tests/commands.py", "tests/test_commands.py"}
PROGRAM = re.compile(
    r"(?:[A-Z][A-Z_]+=\S* )*"
    r"(?:python (?:-m |examples/|benchmarks/|docs/)|pytest(?: [-\w]|$)|pip install |mpiexec (?:-|\w+\.)"
    r"|make -C |jupytext -|sacrebleu |ruff |bash \.|lint-imports|echo \")"
)
ANY = re.compile(rf"{PROGRAM.pattern}|\.py --")
SCRIPT = re.compile(r"([a-z_]+\.py) --")
FENCED = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```", flags=re.M | re.S)
MENTION = re.compile(r"\b(?:python (?:-m (?:tests|tinytensor)|examples/|benchmarks/|docs/)|mpiexec -n|make -C)\S*")


@functools.cache
def commands():
    """Each command, without a remark behind it, and the files that name it."""
    found = {}
    for name in pages_and_scripts():
        for text in texts(name):
            for command in commands_in(text):
                found.setdefault(without_remark(command), set()).add(name)
    return found


def pages_and_scripts():
    """The paths of what names commands."""
    return [name for name in listed() if name.endswith((".md", ".py", "Makefile")) and name not in PAST | OURS]


def listed():
    """The paths of the files and links of this checkout, but for those that git is told to ignore."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()] + [".git"]
    found = []
    for folder, inside, names in os.walk(ROOT):
        inside[:] = [name for name in inside if not any(fnmatch.fnmatch(name, pattern) for pattern in ignored)]
        links = [name for name in inside if os.path.islink(os.path.join(folder, name))]
        kept = [name for name in names if name not in ignored]
        found += [os.path.relpath(os.path.join(folder, name), ROOT).replace(os.sep, "/") for name in kept + links]
    return sorted(found)


@functools.cache
def texts(name):
    """The parts of a file that people read: a page as it is; of code that names a command strings and comments."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if not name.endswith(".py") or not ANY.search(text):
        return [text]
    return [*strings(ast.parse(text)), *comments(text)]


def strings(tree):
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            known = (
                part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                for part in node.values
            )
            yield "".join(map(str, known))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def comments(text):
    lines = iter(text.splitlines(keepends=True))
    found = [t for t in tokenize.generate_tokens(lambda: next(lines, "")) if t.type == tokenize.COMMENT]
    block = ""
    for token, after in zip(found, [*found[1:], None]):
        block += token.string.lstrip("#").removeprefix(" ") + "\n"
        if after is None or after.start[0] > token.end[0] + 1:
            yield block
            block = ""


def commands_in(text):
    """Those in blocks of lines, fenced or indented, and those between backticks."""
    for language, block in FENCED.findall(text):
        if language != "python":
            yield from commands_of_lines(block)
    text = FENCED.sub("", text)
    for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", text):
        code = " ".join(code.split())
        if PROGRAM.match(code):
            yield code
        elif (script := SCRIPT.match(code)) and (path := path_of(script[1])):
            yield f"python {path}{code.removeprefix(script[1])}"
    yield from re.findall(r"^python \S+\.py$", text, flags=re.M)
    for block in re.findall(r"(?:^    .*\n?)+", text, flags=re.M):
        yield from commands_of_lines(textwrap.dedent(block))


def path_of(script):
    """From the root, where pages name a script without its folder."""
    return next(
        (f"{folder}/{script}" for folder in ("examples", "benchmarks") if (ROOT / folder / script).exists()), None
    )


def commands_of_lines(block):
    """A command goes on in the next line behind a backslash, within quotes, and where that begins with an option."""
    block = re.sub(r" *\\\n\s*", " ", block)
    block = re.sub(r"\]\n +\[--", "] [--", block)
    for line in re.findall(r'^(?:echo "[^"]*"[^\n]*|[^\n]*)$', block, flags=re.M):
        if PROGRAM.match(line.strip()):
            yield line.strip()


def without_remark(command):
    return re.sub(r" +(?:# .*| {3}\(.*\))$", "", command).strip()


def overlooked():
    """Mentions of a program of ours that are in none of the commands."""
    known = " ".join(commands())
    return sorted(
        f"{name}: {mention}"
        for name in pages_and_scripts()
        for text in texts(name)
        for mention in MENTION.findall(text)
        if mention.rstrip("`.,:;)\"'") not in known
    )
