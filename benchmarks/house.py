"""The size of the house: lines of each wing, doors to the engine room, and names that it replaces.

    python benchmarks/house.py [--against FOLDER]
    python benchmarks/house.py --files engine

Lines are those of .py, .js, .css and .cu files, without tests. A door is a function of the textbook that lets a faster
way go first; a replaced name is one of the textbook that the engine room assigns to, other than a door's `faster`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from command_line import Parser, refuse, write_json

ROOT = Path(__file__).resolve().parents[1]
WINGS = {  # a file belongs to the first pattern that its path begins with
    "room of PyTorch's names": r"tinytensor/torch/",
    "framework to build": r"tinytensor/course/framework/",
    "course": r"tinytensor/course/",
    "engine room": r"(tinytensor|nn)/fast/|models/fast/",
    "pictures": r"tinytensor/(graph|pages|program|recording)/|tinytensor/(tracing|drawing|html_page|notebook)\.py"
    r"|nn/visualize/|nn/recording\.py|models/(attribution|decoding_trace|sentence_attention)\.py|models/training/(page|plots)",
    "tools": r"tinytensor/(testing/|machine/|porting/|(tensors/)?(hints|missing)|(functions/)?info|typing)"
    r"|tinytensor/(doctor|__main__)\.py|tinytensor/(files|cores|speed|extras)\.py|benchmarks/",
    "files in ONNX": r"tinytensor/onnx/",
    "data": r"models/data/",
    "training": r"models/(training|scripts)/|examples/|nn/(distributed|parallel)/"
    r"|nn/(amp|checkpoint|compiled_step)\.py",
    "models": r"models/",
    "layers": r"nn/",
    "core and ops": r"tinytensor/",
}
ENDINGS = (".py", ".js", ".css", ".cu")
RECOGNISERS = ("transformer", "decoding", "language_layer", "language_sublayers", "plain", "sublayers", "containers")


def files(folder: Path) -> Iterator[Path]:
    for top in ("tinytensor", "nn", "models", "examples", "benchmarks"):
        for path in sorted((folder / top).rglob("*")):
            inside = path.relative_to(folder).as_posix()
            linked = inside.startswith(("tinytensor/nn/", "tinytensor/models/"))
            if path.suffix in ENDINGS and not linked and "__pycache__" not in inside:
                yield path


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def wings(folder: Path) -> dict[str, dict[str, int]]:
    """The files of each wing, with their lines."""
    found: dict[str, dict[str, int]] = {name: {} for name in WINGS}
    for path in files(folder):
        inside = path.relative_to(folder).as_posix()
        wing = next(name for name, pattern in WINGS.items() if re.match(pattern, inside))
        found[wing][inside] = lines(path)
    return found


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


def measure(folder: Path) -> dict[str, int]:
    """All numbers by name."""
    found = {f"lines: {name}": sum(own.values()) for name, own in wings(folder).items()}
    found["lines: all"] = sum(found.values())
    found["files in tinytensor/"] = sum(path.suffix == ".py" for path in (folder / "tinytensor").iterdir())
    found["files in nn/"] = sum(path.suffix == ".py" for path in (folder / "nn").iterdir())
    found["functions that may be faster"] = len(doors(folder))
    found["names of the textbook that are replaced"] = len(replaced(folder))
    for name in ("tinytensor", "tinytensor/fast", "nn", "nn/fast"):
        found[f"arrows of imports within {name}/"] = arrows(folder / name)
    recognisers = [folder / "nn" / "fast" / f"{name}.py" for name in RECOGNISERS]
    found["lines: recognisers of layers"] = sum(lines(path) for path in recognisers if path.exists())
    return found


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--files", metavar="WING", help="the files of the wings whose names begin so, with their lines")
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
    results = {"ours": measure(ROOT)}
    if arguments.against is not None:
        results["other"] = measure(arguments.against)
    print(f"{'':42} " + "".join(f"{side:>9}" for side in results))
    for name in results["ours"]:
        print(f"{name:42} " + "".join(f"{figures[name]:9,}" for figures in results.values()))
    for place in replaced(ROOT):
        print(f"replaced: {place}")
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
