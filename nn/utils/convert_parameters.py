"""All parameters of a model as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import tinytensor as tt


def parameters_to_vector(parameters: Iterable[tt.Tensor]) -> tt.Tensor:
    """The elements of all Tensors in order, as one 1-d Tensor; gradients flow through.

    Raises ValueError for no Tensors.
    """
    flat = [tt.reshape(parameter, (-1,)) for parameter in parameters]
    if not flat:
        raise ValueError("parameters_to_vector: expected at least one Tensor, got none")
    return tt.concat(flat)


def vector_to_parameters(vec: tt.Tensor, parameters: Iterable[tt.Tensor]) -> None:
    """Write the elements of a vector into the Tensors, in order; the reverse of `parameters_to_vector`.

    Raises ValueError, and changes nothing, unless the vector has as many elements as the Tensors together.
    """
    parameters = list(parameters)
    expected = sum(parameter.size for parameter in parameters)
    if not isinstance(vec, tt.Tensor) or vec.shape != (expected,):
        met = vec.shape if isinstance(vec, tt.Tensor) else f"a {type(vec).__name__}"
        raise ValueError(
            f"vector_to_parameters: expected a Tensor of shape ({expected},) for these parameters, got {met}"
        )
    start = 0
    with tt.no_grad():
        for parameter in parameters:
            parameter.copy_(tt.reshape(vec[start : start + parameter.size], parameter.shape))
            start += parameter.size
