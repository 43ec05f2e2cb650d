"""Lint for prose: patterns of an English that only this project speaks, and the hits that each file may still have.

    python -m tests.words                   # list every hit, and the sums of the packages
    python -m tests.words nn/optim docs     # the same for paths that begin with these; faster
    python -m tests.words --lower           # write the numbers that fell to tests/words.txt

Read are docstrings, comments and the strings of `raise` in Python, comments in JavaScript, CSS and CUDA, and Markdown
outside code fences. tests/words.txt has the number of hits that each of its files may have; any other file may have 0.
The budget of a package is the sum of its files. `--lower` writes the smaller number, never a larger one. Hits that are
gone fail no test: two branches can remove hits of one file, and git keeps both lines (`merge=union`), of which the
smaller number holds.
"""

import argparse
import ast
import bisect
import collections
import io
import itertools
import re
import tokenize
from pathlib import Path

from .commands import ROOT, listed

BUDGETS = Path(__file__).with_suffix(".txt")
PLACES = re.compile(
    r"(?:tinytensor|nn|models|examples|docs|benchmarks|tests)/(?!torch_room/programs/).*\.(?:py|md|js|css|cu)$"
    r"|(?:README|CHANGELOG|CONTRIBUTING)\.md$"
)
HARD = {  # pattern: the natural form
    r"\b(?:is|are|was|were|be|been) told\b": "gets, receives; reports",
    r"\b(?:say|says|said) so\b": "reports it, raises",
    r"\b(?:stands|stood)\b(?! for)": "is, comes",
    r"\b[Ww]hoever\b|(?:^|[.;:] )Who \w+s\b": "if you ...",
    r"\bof (?:one's|its|their|your) own\b|\bof (?:yours|ours)\b": "its own X, your own X, a separate X",
    r"\b(?:go|goes|going|went|gone) on\b": "continue, resume",
    r"(?<![Tt]here )\b(?:is|are) no (?!longer|more)\w+\b|\bthat (?:is|are) none\b": "is not a",
    r"\b[Bb]eside\b": "next to, compared with",
    r"\bin place of\b|\bin (?:its|their) place\b": "instead of",
    r"\bso (?:many|much)\b|\bas many\b": "n, this many",
    r"\b(?:a|one|each|every|the|first|last|next|of the) turns?\b|\bturn before\b": "iteration",
    r"\balike\b": "identical",
    r"\bbut for\b": "except",
    r"\b(?:un|)mend(?:s|ed|ing)?\b": "fix",
    r"\bin silence\b|\bwithout a word\b": "silently",
    r"\b(?:where|if|when) there (?:is|are) (?:one|none|any)\b|\bhas none\b|\bof none\b": "if any; None if absent",
    r"\b(?:Nor|So|Neither) (?:is|are|does|do|has|have|need|can)\b": "subject first",
    r"\b(?:others?|other ones?) than\b": "different from",
    r"\bunasked\b|\bwhen (?:first )?asked for\b": "on first use; by default",
    r"\bthe (?:likeliest|alike)\b": "the most likely",
    r"\bknows nothing of\b": "does not depend on",
    r"\bwants? (?:`|an? )": "requires",
}
COMMENT = re.compile(r"/\*.*?\*/|(?<!\S)//[^\n]*", re.S)  # of JavaScript, CSS and CUDA
FENCE = re.compile(r" *(?:```|~~~)")
ITEM = re.compile(r"[-*+>] |#+ |\d+\. |\|")  # a line that starts a paragraph
FIELD = re.compile(r"\{[^{}]*\}")  # in an f-string
QUOTES = re.compile(r"""^[fr]*["']+|["']+$""")


def files():
    """The paths of all files that the lint reads."""
    return [name for name in listed() if PLACES.match(name)]


def hits(path):
    """Find the hits in a file: (line, words, natural form), sorted by line."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        found = in_paragraphs(outside_fences(source))
    elif path.suffix == ".py":
        found = in_python(source)
    else:
        found = in_paragraphs(comments_of_c(source))
    return sorted(found)


def in_python(source):
    lines = source.split("\n")  # as ast counts them
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Expr) and is_string(node.value):  # a docstring, of a module attribute as well
            own = enumerate(lines[node.lineno - 1 : node.end_lineno], node.lineno)
            yield from in_paragraphs((number, line.strip(' r"')) for number, line in own)
        elif isinstance(node, ast.Raise):
            for string in strings(node):
                own = [FIELD.sub("X", QUOTES.sub("", line.strip())) for line in lines_of(string, lines)]
                yield from matches(list(enumerate(own, string.lineno)), "")
    yield from in_paragraphs(comments_of_python(source))


def statements(node):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield child
            yield from statements(child)


def lines_of(node, lines):
    own = [line.encode() for line in lines[node.lineno - 1 : node.end_lineno]]
    own[-1] = own[-1][: node.end_col_offset]  # the offsets of ast count bytes
    own[0] = own[0][node.col_offset :]
    return [line.decode() for line in own]


def is_string(node):
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def strings(node):
    """The outermost strings in a syntax tree."""
    for child in ast.iter_child_nodes(node):
        yield from [child] if is_string(child) else strings(child)


def comments_of_python(source):
    """The numbered lines of comments, with an empty line after each block."""
    before = (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start != (before[0] + 1, before[1]):
                yield before[0], ""
            before = token.start
            yield token.start[0], token.string.lstrip("#")


def comments_of_c(source):
    for found in COMMENT.finditer(source):
        first = source.count("\n", 0, found.start()) + 1
        yield from enumerate((line.strip(" /*") for line in found[0].splitlines()), first)


def outside_fences(source):
    fenced = False
    for number, line in enumerate(source.splitlines(), 1):
        fence = FENCE.match(line) is not None
        fenced ^= fence
        yield number, "" if fenced or fence else line


def in_paragraphs(lines):
    """Find the hits in numbered lines, and those that a line break divides within a paragraph."""
    paragraph = []
    for number, line in [*lines, (0, "")]:
        line = line.strip()
        if not line or ITEM.match(line):
            yield from matches(paragraph, " ")
            paragraph = []
        if line:
            paragraph.append((number, line))


def matches(lines, joint):
    joined = joint.join(line for _, line in lines)
    starts = list(itertools.accumulate((len(line) + len(joint) for _, line in lines), initial=0))
    for pattern, natural in HARD.items():
        for found in re.finditer(pattern, joined):
            yield lines[bisect.bisect(starts, found.start()) - 1][0], found[0], natural


def budgets():
    """The hits that files may have, by path; of several numbers for a path the smallest holds."""
    found = {}
    for line in BUDGETS.read_text(encoding="utf-8").splitlines():
        number, _, name = line.partition(" ")
        found[name] = min(int(number), found.get(name, int(number)))
    return found


def lower(counts):
    """Write the numbers that fell, without the files that have no hits any more."""
    kept = {name: min(number, counts.get(name, number)) for name, number in budgets().items()}
    BUDGETS.write_text("".join(f"{kept[name]} {name}\n" for name in sorted(kept) if kept[name]), encoding="utf-8")


def package(name):
    return name.partition("/")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="the beginnings of paths (default: all)")
    parser.add_argument("--lower", action="store_true", help="write the numbers that fell to tests/words.txt")
    arguments = parser.parse_args()
    chosen = tuple(arguments.paths) or ""
    found = {name: hits(ROOT / name) for name in files() if name.startswith(chosen)}
    if arguments.lower:
        lower({name: len(found.get(name, ())) for name in budgets() if name.startswith(chosen)})
    for name, own in found.items():
        for line, words, natural in own:
            print(f"{name}:{line}: {words} -> {natural}")
    sums, allowed = collections.Counter(), collections.Counter()
    for name, own in found.items():
        sums[package(name)] += len(own)
    for name, number in budgets().items():
        allowed[package(name)] += number if name.startswith(chosen) else 0
    for name, number in sums.items():
        print(f"{name:16} {number:5} hits, budget {allowed[name]:5}")
    print(f"{'all':16} {sums.total():5} hits, budget {allowed.total():5}")


if __name__ == "__main__":
    main()
