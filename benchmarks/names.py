"""The public names of the array API and of PyTorch, as installed, one file for each namespace.

    python benchmarks/names.py            # which of them tinytensor has, leaves out for a reason, or hints at
    python benchmarks/names.py --write    # write the lists anew, to tests/names/

`tests/test_names.py` holds tinytensor to the lists, and `docs/names.md` has the rule.
"""

from __future__ import annotations

import importlib
import importlib.util
import types
from pathlib import Path

from command_line import Parser, refuse, require_torch

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "names"
SPACES = {  # file: the namespace there, and here
    "array_api": ("array_api_strict", "tinytensor"),
    "array_api_linalg": ("array_api_strict.linalg", "tinytensor.linalg"),
    "torch": ("torch", "tinytensor"),
    "torch_linalg": ("torch.linalg", "tinytensor.linalg"),
    "torch_special": ("torch.special", "tinytensor.special"),
    "torch_fft": ("torch.fft", "tinytensor.fft"),
    "torch_nn": ("torch.nn", "tinytensor.nn"),
    "torch_nn_functional": ("torch.nn.functional", "tinytensor.nn.functional"),
    "torch_optim": ("torch.optim", "tinytensor.nn.optim"),
    "torch_optim_lr_scheduler": ("torch.optim.lr_scheduler", "tinytensor.nn.optim.lr_scheduler"),
    "torch_optim_swa_utils": ("torch.optim.swa_utils", "tinytensor.nn.optim.swa_utils"),
    "torch_nn_utils": ("torch.nn.utils", "tinytensor.nn.utils"),
    "torch_nn_utils_rnn": ("torch.nn.utils.rnn", "tinytensor.nn.utils.rnn"),
    "torch_utils_data": ("torch.utils.data", "tinytensor.models.data"),
    "torch_tensor": ("torch.Tensor", "tinytensor.Tensor"),
}


def find(path: str) -> object:
    """A module, or a class in a package, by its dotted name."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        package, _, name = path.rpartition(".")
        return getattr(importlib.import_module(package), name)


def public_names(path: str) -> list[str]:
    """The public names of a class; of a module, those of classes, functions and constants of its own package."""
    space = find(path)
    names = [name for name in dir(space) if not name.startswith("_")]
    if isinstance(space, types.ModuleType):
        package = path.partition(".")[0]
        names = getattr(space, "__all__", names) if package != "torch" or space.__name__ == package else names
        names = [name for name in names if not name.startswith("_")]
        names = [name for name in names if _is_of(getattr(space, name), package)]
    return sorted(names)


def left_out() -> dict[str, str]:
    """The reason why a name is left out, by `file.name`."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in (FOLDER / "left_out.txt").read_text(encoding="utf-8").splitlines()[1:]:
        if line.startswith("# "):
            reason = line[2:]
        for name in line.split() if not line.startswith("#") else ():
            if name in reasons:
                raise ValueError(f"{name} is listed twice in left_out.txt")
            reasons[name] = reason
    return reasons


def _is_of(value: object, package: str) -> bool:
    if isinstance(value, types.ModuleType):
        return False
    if not callable(value):
        return package != "torch"  # the standard's are constants, PyTorch's are helpers
    return (getattr(value, "__module__", None) or package).partition(".")[0] in (package, "numpy")


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--write", action="store_true", help="write tests/names/*.txt")
    arguments = parser.parse_args()
    require_torch()
    if importlib.util.find_spec("array_api_strict") is None:
        refuse("array-api-strict is not installed; pip install array-api-strict")
    from tinytensor.tensors import hints

    reasons = left_out()
    for file, (theirs, ours) in SPACES.items():
        names = public_names(theirs)
        place = ours.removeprefix("tinytensor.") if ours.endswith("Tensor") else ours
        there = [name for name in names if hasattr(find(ours), name)]
        without = [name for name in names if name not in there and f"{file}.{name}" in reasons]
        hinted = [n for n in names if n not in there and n not in without and hints.hint(place, n)]
        missing = [name for name in names if name not in there + without + hinted]
        print(
            f"{theirs:24} {len(names):4} names: {len(there):4} there, {len(without):4} left out for a reason, "
            f"{len(hinted):4} with a hint alone, {len(missing):4} merely missing"
        )
        if arguments.write:
            (FOLDER / f"{file}.txt").write_text("\n".join(names) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
