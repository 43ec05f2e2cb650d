"""Guards: ops of a formula that only keep it from overflow and from 0 / 0.

In every text a softmax is exp, sum and divide. The computation has six ops more: it subtracts the largest number before
exp, and has `where`s for rows that are all -inf. A picture draws these ops with the op that they guard.
"""

from __future__ import annotations

from .calls import Index
from .structure import Op, Structure

TESTS = ("equal", "isinf", "isnan")


def guards(structure: Structure) -> dict[str, str]:
    """For each op of a guard, the id of the op that it guards.

    `where(y == c, number, y)` guards the op that computed y. In `exp(x - max(x))`, if no gradient flows through the
    maximum, the ops before exp guard exp. A step that has a name, or that other ops also use, is not a guard.
    """
    return _Guards(structure).found


class _Guards(Index):
    def __init__(self, structure: Structure) -> None:
        super().__init__(structure)
        formulas = {scope.id for scope in structure.scopes if scope.kind == "formula"}
        named = {op.output for op in structure.ops if op.scope not in formulas}  # a formula names every step
        self.visible = {v.id for v in structure.values if v.name and v.id in named} | set(structure.outputs)
        self.found: dict[str, str] = {}
        for op in structure.ops:
            if op.name == "where":
                self._choice(op)
            elif op.name == "exp":
                self._shift(op)

    def _choice(self, where: Op) -> None:
        condition, number, value = where.inputs
        test = self._step(condition, where)
        maker = self._step(value, test, where)
        if number is None and test is not None and test.name in TESTS and set(test.inputs) <= {value, None} and maker:
            self.found[test.id] = self.found[where.id] = maker.id

    def _shift(self, exp: Op) -> None:
        difference = self._step(exp.inputs[0], exp)
        if difference is None or difference.name != "subtract":
            return
        x, shift = difference.inputs
        last = self._step(shift, difference)
        if last is None:
            return
        largest = self.ops[self.found.get(last.id, last.id)]
        if largest.name == "max" and largest.inputs[0] == x and not largest.differentiable:
            around = [op for op, guarded in self.found.items() if guarded == largest.id]
            self.found.update(dict.fromkeys([largest.id, *around, difference.id], exp.id))

    def _step(self, value: str | None, *readers: Op | None) -> Op | None:
        """The op that computed a value, if the value has no name, only these ops read it, and they share its scope."""
        maker = self.makers.get(str(value))
        if maker is None or value in self.visible or self.readers_of(str(value)) != list(readers):
            return None
        return maker if all(op is not None and op.scope == maker.scope for op in readers) else None
