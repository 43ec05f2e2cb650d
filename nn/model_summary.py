"""A table of a model: its modules, the shapes of their outputs, and their numbers of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tinytensor as tt
from tinytensor import Tensor

from .module import Module, evaluating


class Row(NamedTuple):
    """One module of a model.

    Attributes:
        path: its name in the model, "" for the model itself.
        kind: the name of its class.
        shape: the shape of its output, as text; "" if it was not called.
        parameters: the size of all its parameters, including inner modules, trained or not; shared ones count once.
    """

    path: str
    kind: str
    shape: str
    parameters: int


class Summary(Sequence[Row]):
    """Rows, outer modules first; as text a table.

    Attributes:
        parameters: the size of all parameters of the model.
        trainable: the size of those with a gradient.
    """

    def __init__(self, rows: Sequence[Row], trainable: int) -> None:
        self.rows, self.parameters, self.trainable = rows, rows[0].parameters, trainable

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __repr__(self) -> str:
        table = [("module", "class", "output", "parameters")]
        for path, kind, shape, parameters in self.rows:
            depth = path.count(".") + 1 if path else 0
            name = "  " * depth + path.rpartition(".")[2]
            table.append((name or "(model)", kind, shape, f"{parameters:,}" if parameters else ""))
        kept = [i for i in range(4) if any(row[i] for row in table[1:])]
        widths = {i: max(len(row[i]) for row in table) for i in kept}
        lines = ["  ".join(f"{row[i]:{'>' if i == 3 else '<'}{widths[i]}}" for i in kept).rstrip() for row in table]
        lines.insert(1, "-" * max(map(len, lines)))
        frozen = self.parameters - self.trainable
        told = f"{self.parameters:,} parameters" + (f", {frozen:,} of them without a gradient" if frozen else "")
        return "\n".join([*lines, told])


def summary(model: Module, *inputs: Any, **options: Any) -> Summary:
    """A table of a model: the name, the class, the output's shape and the number of parameters of each module.

    >>> from tinytensor import nn
    >>> print(nn.summary(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), tt.ones((5, 4))))
    module   class       output  parameters
    ---------------------------------------
    (model)  Sequential  (5, 2)          58
      0      Linear      (5, 8)          40
      1      ReLU        (5, 8)
      2      Linear      (5, 2)          18
    58 parameters

    Args:
        model: any module.
        inputs, options: the arguments to call it with, in evaluation mode and without gradients. Without any, it is not
            called, and the table has no shapes.
    """
    modules = list(model.named_modules())
    shapes: dict[Module, str] = {}
    if inputs or options:

        def look(module: Module, arguments: Any, output: Any) -> None:
            shapes.setdefault(module, _shape(output))

        hooks = [module.register_forward_hook(look) for _, module in modules]
        try:
            with tt.no_grad(), evaluating(model):
                model(*inputs, **options)
        finally:
            for hook in hooks:
                hook.remove()
    rows = [
        Row(path, type(module).__name__, shapes.get(module, ""), sum(p.size for p in module.parameters()))
        for path, module in modules
    ]
    return Summary(rows, sum(p.size for p in model.parameters() if p.requires_grad))


def _shape(output: Any) -> str:
    """The shapes of all Tensors in a module's output."""
    if isinstance(output, Tensor):
        return str(output.shape)
    if isinstance(output, dict):
        output = list(output.values())
    inside = [_shape(each) for each in output] if isinstance(output, (tuple, list)) else []
    return ", ".join(filter(None, inside))
