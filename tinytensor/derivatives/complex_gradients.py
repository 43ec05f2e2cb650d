"""Gradients of complex numbers, by PyTorch's convention: the direction in which a real loss L grows fastest.

For z = a + ib this is g = dL/da + i dL/db, so that z - lr * g descends. It is the conjugate of the derivative of a
function that has one: y = f(z), holomorphic, passes on conj(f'(z)) g (Wirtinger's calculus; Kreutz-Delgado (2009), "The
complex gradient operator and the CR-calculus"). The rules of ops are written for real numbers and give f'(z) g. Between
two conjugations they give what is wanted, conj(f'(z) conj(g)), and are the same for real and complex numbers.

A real input of a complex op takes the real part. An op with a real result (`abs`, `real`, `imag`) has a rule that gives
the gradient itself, and so have the few complex ops that are not holomorphic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tinytensor as tt

from ..backend import for_array
from ..engine import TENSORS, _vjp_by_formula
from ..node import Node
from ..primitive import Primitive
from ..tensor import Tensor, wrap

__all__ = ["HOLOMORPHIC"]

_KNOWN = """
    add subtract multiply divide pow negative positive square sqrt reciprocal exp expm1 log log1p log2 log10 sin cos tan
    asin acos atan sinh cosh tanh asinh acosh atanh where masked_fill round sum mean prod cumulative_sum cumulative_prod
    astype to_device reshape permute_dims matrix_transpose expand_dims squeeze broadcast_to concat flip roll tile tril
    triu getitem scatter index_set matmul einsum det inv solve fft ifft rsqrt
    exp2 sinc logsumexp
"""
HOLOMORPHIC = set(_KNOWN.split())
"""Names of ops whose gradient rules give f'(z) g also for complex z. Add the name of an op of your own."""

NOT_HOLOMORPHIC = {"conj", "signdet", "cholesky", "eigh", "eig", "svd", "pinv", "qr", "rfft"}
"""Names of ops with complex results whose rules give the gradient itself."""


def vjp(
    by_rules: Callable[..., list[Any]],
    node: Node,
    op: Primitive,
    g: Any,
    parents: tuple[Node | None, ...],
    create_graph: bool,
) -> list[Any]:
    """The gradient of each input of a node with a complex result, given that of the result.

    For a fused op it is the gradient of its formula, whose ops come here one by one.
    Raises NotImplementedError for an op whose rules are not known to hold for complex numbers.
    """
    if not op.pure:
        if create_graph:
            return _vjp_by_formula(node, op, g, parents)
        with tt.enable_grad():
            return [x if x is None else x._data for x in _vjp_by_formula(node, op, wrap(g, None), parents)]
    if op.name not in HOLOMORPHIC | NOT_HOLOMORPHIC:
        raise NotImplementedError(
            f"{op.name} has no gradient for complex numbers; if its rule is the derivative of a holomorphic function, "
            f"say so: tt.complex_gradients.HOLOMORPHIC.add({op.name!r})"
        )
    xp = TENSORS if isinstance(g, Tensor) else for_array(g)
    if op.name in HOLOMORPHIC:
        found = by_rules(node, op, xp.asarray(xp.conj(g)), parents, create_graph)
        found = [x if x is None else xp.conj(x) for x in found]
    else:
        found = by_rules(node, op, g, parents, create_graph)
    return [x if p is None or p.dtype.kind == "c" else xp.real(x) for x, p in zip(found, parents)]
