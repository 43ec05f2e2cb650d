"""Size and structure of the code: code lines of each part, fast paths, and names that fast paths replace.

    python benchmarks/house.py [--code] [--against FOLDER]
    python benchmarks/house.py --files engine

A code line is a line of Python with a token that is neither a comment nor a docstring, as tinygrad counts. The library
is all Python in `tinytensor`, `nn` and `models`. JavaScript, CSS and CUDA have a separate row, which counts all lines.
Without `--code`, the script also prints the number of files, of functions with `@may_be_faster`, of names of the
textbook that fast paths assign to (except `faster`), and of imports within packages.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from command_line import Parser, refuse, write_json

ROOT = Path(__file__).resolve().parents[1]
WINGS = {  # a file belongs to the first pattern that its path begins with
    "JavaScript, CSS, CUDA": r".*\.(js|css|cu)$",
    "tests": r"tests/",
    "examples": r"examples/",
    "benchmarks": r"benchmarks/",
    "PyTorch's names": r"tinytensor/torch/",
    "framework to build": r"tinytensor/course/framework/",
    "course": r"tinytensor/course/",
    "engine room": r"(tinytensor|nn)/fast/|models/fast/",
    "pictures": r"tinytensor/(graph|pages|program|recording)/|tinytensor/(tracing|drawing|html_page|notebook)\.py"
    r"|tinytensor/record/loops\.py|nn/visualize/|nn/recording\.py|models/(attribution|decoding_trace|sentence_attention)\.py|models/training/(page|plots)",
    "tools": r"tinytensor/(testing/|machine/|porting/|(tensors/)?(hints|missing)|(functions/)?info|typing)"
    r"|tinytensor/(doctor|__main__)\.py|tinytensor/(files|cores|speed|extras)\.py",
    "ONNX export": r"tinytensor/onnx/",
    "data": r"models/data/",
    "training": r"models/(training|scripts)/|nn/(distributed|parallel)/|nn/(amp|checkpoint|compiled_step)\.py",
    "models": r"models/",
    "layers": r"nn/",
    "core and ops": r"tinytensor/",
}
LIBRARY = ("tinytensor", "nn", "models")
OTHERS = ("tests", "examples", "benchmarks")
BROWSER_AND_GPU = "JavaScript, CSS, CUDA"
RECOGNISERS = ("transformer", "decoding", "language_layer", "language_sublayers", "plain", "sublayers", "containers")
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def files(folder: Path, tops: tuple[str, ...] = LIBRARY) -> Iterator[Path]:
    for top in tops:
        for path in sorted((folder / top).rglob("*")):
            inside = path.relative_to(folder).as_posix()
            linked = inside.startswith(("tinytensor/nn/", "tinytensor/models/"))
            if path.suffix in (".py", ".js", ".css", ".cu") and not linked and "__pycache__" not in inside:
                yield path


def lines(path: Path) -> int:
    """Count the code lines of a Python file; of another file, all lines."""
    if path.suffix != ".py":
        return len(path.read_text(encoding="utf-8").splitlines())
    found: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.NEWLINE:
                if any(part.type != tokenize.STRING for part in statement):  # otherwise a docstring
                    found.update(*(range(part.start[0], part.end[0] + 1) for part in statement))
                statement = []
            elif token.type not in LAYOUT:
                statement.append(token)
    return len(found)


def wings(folder: Path) -> dict[str, dict[str, int]]:
    """Return the files of each wing, with their lines."""
    found: dict[str, dict[str, int]] = {name: {} for name in WINGS}
    for path in files(folder, LIBRARY + OTHERS):
        inside = path.relative_to(folder).as_posix()
        wing = next(name for name, pattern in WINGS.items() if re.match(pattern, inside))
        found[wing][inside] = lines(path)
    return found


def code(folder: Path) -> dict[str, int]:
    """Count the code lines of each wing and of the library. Recognisers of layers are a part of the engine room."""
    counts = {name: sum(own.values()) for name, own in wings(folder).items()}
    apart = {name: counts.pop(name) for name in (*OTHERS, BROWSER_AND_GPU)}
    recognisers = [folder / "nn" / "fast" / f"{name}.py" for name in RECOGNISERS]
    of_layers = sum(lines(path) for path in recognisers if path.exists())
    return {**counts, "library": sum(counts.values()), **apart, "recognisers of layers": of_layers}


def engine_room(folder: Path) -> list[Path]:
    return [path for path in files(folder) if path.suffix == ".py" and "fast" in path.parent.parts]


def doors(folder: Path) -> list[str]:
    """The functions of the textbook with `@may_be_faster` in front."""
    found = []
    for path in files(folder):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    names = [part.id for part in node.decorator_list if isinstance(part, ast.Name)]
                    found += [f"{path.relative_to(folder).as_posix()}: {node.name}"] * ("may_be_faster" in names)
    return found


def replaced(folder: Path) -> list[str]:
    """The names of the textbook that files of the engine room assign to."""
    found = []
    for path in engine_room(folder):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and _is_of_the_textbook(node)
            for alias in node.names
        }
        for node in ast.walk(tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]:
                base = target.value if isinstance(target, (ast.Attribute, ast.Subscript)) else None
                if isinstance(target, ast.Subscript) and isinstance(base, ast.Attribute):
                    base, name = base.value, base.attr
                else:
                    name = getattr(target, "attr", "")
                if isinstance(base, ast.Name) and base.id in imported and name != "faster":
                    found.append(f"{path.relative_to(folder).as_posix()}:{node.lineno}: {base.id}.{name}")
    return found


def _is_of_the_textbook(node: ast.ImportFrom) -> bool:
    return (node.level == 2 and not (node.module or "").startswith("fast")) or (
        node.level == 0 and (node.module or "").startswith("tinytensor") and ".fast" not in (node.module or "")
    )


def arrows(folder: Path) -> int:
    """The number of pairs of files in a folder in which one imports the other."""
    rooms = {path.stem for path in folder.glob("*.py")}
    found = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                first = (node.module or "").partition(".")[0]
                named = [first] if first else [alias.name for alias in node.names]
                found |= {(path.stem, name) for name in named if name in rooms}
    return len({(one, other) for one, other in found if one not in (other, "__init__")})


def structure(folder: Path) -> dict[str, int]:
    """Count files, functions that may be faster, replaced names, and imports within packages."""
    found = {}
    for name in ("tinytensor", "nn"):
        found[f"files in {name}/"] = sum(path.suffix == ".py" for path in (folder / name).iterdir())
    found["functions that may be faster"] = len(doors(folder))
    found["names of the textbook that are replaced"] = len(replaced(folder))
    for name in ("tinytensor", "tinytensor/fast", "nn", "nn/fast"):
        found[f"arrows of imports within {name}/"] = arrows(folder / name)
    return found


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--code", action="store_true", help="print the code lines only")
    parser.add_argument("--files", metavar="WING", help="print each file of the wings whose names begin with this")
    parser.add_against()
    parser.add_json()
    arguments = parser.parse_args()
    if arguments.files is not None:
        chosen = {name: own for name, own in wings(ROOT).items() if name.startswith(arguments.files)}
        if not chosen:
            refuse(f"--files: expected the beginning of one of {', '.join(WINGS)}, got {arguments.files!r}")
        for own in chosen.values():
            for inside, count in sorted(own.items(), key=lambda item: -item[1]):
                print(f"{count:6,}  {inside}")
        return
    folders = {"ours": ROOT} if arguments.against is None else {"ours": ROOT, "other": arguments.against}
    results = {side: code(folder) for side, folder in folders.items()}
    if not arguments.code:
        results = {side: {**results[side], **structure(folder)} for side, folder in folders.items()}
    print(f"{'':42} " + "".join(f"{side:>9}" for side in results))
    for name in results["ours"]:
        print(f"{name:42} " + "".join(f"{figures[name]:9,}" for figures in results.values()))
    for place in [] if arguments.code else replaced(ROOT):
        print(f"replaced: {place}")
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
