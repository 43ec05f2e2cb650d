"""Recurrent layers: GRU, LSTM and the simple RNN, over whole sequences, and one step at a time as cells."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import Device, DType

from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter
from .utils.rnn import PackedSequence, packed_like, pad_packed_sequence

NONLINEARITIES = ("tanh", "relu")


class RNNBase(Module):
    """The base of the recurrent layers: parameters, stacked layers, both directions, padding.

    Parameters are PyTorch's in names, order and shapes: for layer k `weight_ih_l{k}`, `weight_hh_l{k}`, `bias_ih_l{k}`,
    `bias_hh_l{k}`, and the same with `_reverse` for the other direction. All start from U(-b, b) with
    b = 1 / sqrt(hidden_size).
    """

    gates = 1  # each weight has gates * hidden_size rows
    state_names: tuple[str, ...] = ("h_0",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        for what, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{name}: {what} must be an integer of at least 1, got {size!r}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout must be between 0 and 1, got {dropout}")
        own = vars(type(self)).get("__init__")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"{name}: dropout={dropout} acts between layers, and there is one layer; use num_layers > 1 or an "
                "nn.Dropout after it",
                UserWarning,
                stacklevel=3 + (own is not None) + hasattr(own, "__wrapped__"),  # at the line that makes the layer
            )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * self.num_directions
            for direction in range(self.num_directions):
                _register(self, self.gates, width, hidden_size, bias, _suffix(layer, direction), device, dtype)
        self.reset_parameters()

    @property
    def num_directions(self) -> int:
        """2 if the layer reads from both ends, else 1."""
        return 2 if self.bidirectional else 1

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        _reset(self)

    def _layer(
        self, x: Tensor, initial: Sequence[Tensor], parameters: Sequence[Any], present: Any, reverse: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One layer in one direction, over (length, batch, features): its outputs and its final states."""
        raise NotImplementedError

    def _run(self, input: Any, initial: tuple[Any, ...] | None, lengths: Any) -> tuple[Any, tuple[Tensor, ...]]:
        """Outputs in the layout of the input, and the final states (layers * directions, batch, hidden_size)."""
        name, like = type(self).__name__, self.weight_ih_l0
        if isinstance(input, PackedSequence):
            padded, steps = pad_packed_sequence(input, self.batch_first)
            outputs_padded, last = self._run(padded, initial, steps.tolist())
            return packed_like(outputs_padded, input, self.batch_first), last
        x = input if isinstance(input, Tensor) else tt.asarray(input, device=like.device)
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            layout = "(batch, length, " if self.batch_first else "(length, batch, "
            raise ValueError(
                f"{name}: expected an input {layout}{self.input_size}), or (length, {self.input_size}) without a "
                f"batch, got {x.shape}"
            )
        batched = x.ndim == 3
        if not batched:
            x = tt.expand_dims(x, axis=1)
        elif self.batch_first:
            x = tt.permute_dims(x, (1, 0, 2))
        length, batch = x.shape[:2]
        if length == 0:
            raise ValueError(f"{name}: expected a sequence of at least one step, got none")
        if lengths is not None and not batched:
            raise ValueError(f"{name}: lengths are for a batch; leave out the padding of a single sequence")
        present = None if lengths is None else _present(name, lengths, length, batch, x.device)
        states = self._initial(initial, x, batched)
        finals: list[tuple[Tensor, ...]] = []
        for layer in range(self.num_layers):
            if layer > 0:
                x = F.dropout(x, self.dropout, self.training)
            outputs = []
            for direction in range(self.num_directions):
                place, suffix = len(finals), _suffix(layer, direction)
                parameters = [self._parameters.get(kind + suffix) for kind in KINDS]
                output, final = self._layer(x, [s[place] for s in states], parameters, present, direction == 1)
                outputs.append(output)
                finals.append(final)
            x = outputs[0] if len(outputs) == 1 else tt.concat(outputs, axis=-1)
        stacked = tuple(tt.stack(parts) for parts in zip(*finals))
        if not batched:
            return tt.squeeze(x, 1), tuple(tt.squeeze(state, 1) for state in stacked)
        return (tt.permute_dims(x, (1, 0, 2)) if self.batch_first else x), stacked

    def _initial(self, given: tuple[Any, ...] | None, x: Tensor, batched: bool) -> list[Tensor]:
        """The initial states with a batch dimension; zeros if none are given."""
        count, batch = self.num_layers * self.num_directions, x.shape[1]
        if given is None:
            zeros = tt.zeros((count, batch, self.hidden_size), dtype=self.weight_hh_l0.dtype, device=x.device)
            return [zeros] * len(self.state_names)
        expected = (count, batch, self.hidden_size) if batched else (count, self.hidden_size)
        states = [s if isinstance(s, Tensor) else tt.asarray(s, device=x.device) for s in given]
        for what, state in zip(self.state_names, states):
            if state.shape != expected:
                raise ValueError(f"{type(self).__name__}: expected {what} of shape {expected}, got {state.shape}")
        return states if batched else [tt.expand_dims(state, axis=1) for state in states]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0.0),
            ("bidirectional", False),
        ):
            value = getattr(self, name)
            text += "" if value == default else f", {name}={value}"
        return text


KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _suffix(layer: int, direction: int) -> str:
    return f"_l{layer}" + "_reverse" * direction


def _register(
    module: Module, gates: int, width: int, hidden: int, bias: bool, suffix: str, device: str | None, dtype: Any
) -> None:
    """Add the parameters of one layer and direction, or of one cell."""
    shapes = ((gates * hidden, width), (gates * hidden, hidden), (gates * hidden,), (gates * hidden,))
    for kind, shape in zip(KINDS if bias else KINDS[:2], shapes):
        module.register_parameter(kind + suffix, Parameter(tt.empty(shape, dtype=dtype, device=device)))


def _reset(module: Any) -> None:
    bound = 1 / math.sqrt(module.hidden_size)
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


def _present(name: str, lengths: Any, length: int, batch: int, device: str) -> Tensor | None:
    """(length, batch, 1) booleans, False at padding; None without padding."""
    given = lengths if isinstance(lengths, Tensor) else tt.asarray(lengths, device=device)
    if given.shape != (batch,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: lengths must be {batch} integers, one for each sequence; got {given.dtype} of shape {given.shape}"
        )
    if batch:
        low, high = int(tt.min(given).item()), int(tt.max(given).item())
        if low < 0 or high > length:
            raise ValueError(f"{name}: lengths must be from 0 to {length}, got {low if low < 0 else high}")
        if low == length:
            return None
    steps = tt.reshape(tt.arange(length, device=given.device), (length, 1, 1))
    return steps < tt.reshape(given, (1, batch, 1))


class GRU(RNNBase):
    """Stacked layers of gated recurrent units (Cho et al. 2014); `nn.functional.gru` has the equations.

    The reset gate is applied after the matrix product, as in PyTorch and cuDNN; Cho et al. apply it before.

    Args:
        input_size, hidden_size: features of each step's input, and of the state.
        num_layers: each layer reads the outputs of the one below.
        bias: whether there are `bias_ih` and `bias_hh`.
        batch_first: inputs and outputs are (batch, length, features) instead of (length, batch, features). The states
            are (layers * directions, batch, hidden_size) in any case.
        dropout: applies to the outputs of every layer but the last.
        bidirectional: a second set of weights reads from the end; the outputs are concatenated, the forward ones
            first.

    Raises ValueError if sizes do not fit. Warns (UserWarning) about a dropout that has nowhere to act.
    """

    gates = 3

    def forward(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[Tensor, Tensor]:
        """The outputs of the last layer, and the final states of all.

        Args:
            input: (length, batch, input_size), (batch, length, input_size) with `batch_first`,
                (length, input_size) without a batch, or a `nn.utils.rnn.PackedSequence`.
            hx: the initial states, (layers * directions, batch, hidden_size); default zeros.
            lengths: (batch,) integers, the number of steps of each sequence before padding. Results then do not depend
                on the padding: outputs there are 0, the final state is the one after the last real step, and the
                reverse direction starts at that step. (PyTorch has no such argument; a sequence from
                `nn.utils.rnn.pack_padded_sequence` does the same, here as well.)

        Returns output (length, batch, directions * hidden_size), in the input's layout (packed if it is), and
        h_n (layers * directions, batch, hidden_size), layer by layer, the forward direction first.
        """
        output, (h_n,) = self._run(input, None if hx is None else (hx,), lengths)
        return output, h_n

    def _layer(self, x, initial, parameters, present, reverse):
        output, final = F.gru(x, *initial, *parameters, present=present, reverse=reverse)
        return output, (final,)


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber 1997) with forget gates (Gers et al. 2000).

    `nn.functional.lstm` has the equations. Arguments as for `GRU`, and:

    Args:
        proj_size: PyTorch's projection of the state; only 0 (none) is supported.

    Raises ValueError if sizes do not fit, NotImplementedError for another `proj_size`. Warns (UserWarning) about a
    dropout that has nowhere to act.
    """

    gates = 4
    state_names = ("h_0", "c_0")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        if proj_size != 0:
            raise NotImplementedError(
                f"LSTM: proj_size={proj_size} is not supported; use proj_size=0 and an nn.Linear after it"
            )
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device, dtype=dtype
        )

    def forward(
        self, input: Any, hx: tuple[Any, Any] | None = None, *, lengths: Any = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The outputs of the last layer, and the final states h and cells c of all.

        Arguments as for `GRU.forward`, but `hx` is a pair (h_0, c_0). Returns output and (h_n, c_n), in the shapes of
        `GRU.forward`.
        """
        output, (h_n, c_n) = self._run(input, None if hx is None else _pair("LSTM", hx), lengths)
        return output, (h_n, c_n)

    def _layer(self, x, initial, parameters, present, reverse):
        return F.lstm(x, tuple(initial), *parameters, present=present, reverse=reverse)


class RNN(RNNBase):
    """The simple recurrent network (Elman 1990), h' = tanh(W_ih x + b_ih + W_hh h + b_hh), in stacked layers.

    Arguments as for `GRU`, and:

    Args:
        nonlinearity: "tanh", or "relu" for max(x, 0) instead.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        _check_nonlinearity("RNN", nonlinearity)
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device, dtype=dtype
        )
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[Tensor, Tensor]:
        """The outputs of the last layer, and the final states of all; arguments and shapes as for `GRU.forward`."""
        output, (h_n,) = self._run(input, None if hx is None else (hx,), lengths)
        return output, h_n

    def _layer(self, x, initial, parameters, present, reverse):
        output, final = F.rnn(
            x, *initial, *parameters, nonlinearity=self.nonlinearity, present=present, reverse=reverse
        )
        return output, (final,)


def _check_nonlinearity(name: str, nonlinearity: str) -> None:
    if nonlinearity not in NONLINEARITIES:
        raise ValueError(f"{name}: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")


def _pair(name: str, hx: Any) -> tuple[Any, Any]:
    if isinstance(hx, (tuple, list)) and len(hx) == 2:
        return hx[0], hx[1]
    got = f"one array of shape {tuple(hx.shape)}" if hasattr(hx, "shape") else f"a {type(hx).__name__}"
    raise TypeError(f"{name}: expected hx as a pair (h_0, c_0), got {got}")


# ---- one step at a time


class RNNCellBase(Module):
    """The base of the cells: `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`, as in PyTorch."""

    gates = 1
    state_names: tuple[str, ...] = ("h_0",)

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None, dtype: DType = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        _register(self, self.gates, input_size, hidden_size, bias, "", device, dtype)
        if not bias:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        _reset(self)

    def _prepared(self, input: Any, states: tuple[Any, ...] | None) -> tuple[Tensor, list[Tensor], bool]:
        """The input as (1, batch, input_size), the states before it as a batch, and True if they were a batch."""
        name = type(self).__name__
        x = input if isinstance(input, Tensor) else tt.asarray(input, device=self.weight_ih.device)
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ValueError(
                f"{name}: expected an input (batch, {self.input_size}) or ({self.input_size},), got {x.shape}"
            )
        expected = (*x.shape[:-1], self.hidden_size)
        if states is None:
            zeros = tt.zeros(expected, dtype=self.weight_hh.dtype, device=x.device)
            states = (zeros,) * len(self.state_names)
        given = [s if isinstance(s, Tensor) else tt.asarray(s, device=x.device) for s in states]
        for what, state in zip(self.state_names, given):
            if state.shape != expected:
                raise ValueError(f"{name}: input {x.shape} needs {what} of shape {expected}, got {state.shape}")
        if x.ndim == 1:
            return tt.reshape(x, (1, 1, -1)), [tt.expand_dims(state, axis=0) for state in given], False
        return tt.expand_dims(x, axis=0), given, True

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


def _given_back(state: Tensor, batched: bool) -> Tensor:
    return state if batched else tt.squeeze(state, 0)


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit; `nn.functional.gru` has the equations.

    Shapes: input (batch, input_size) and state (batch, hidden_size), or both without the batch. Parameters start from
    U(-b, b) with b = 1 / sqrt(hidden_size).
    """

    gates = 3

    def forward(self, input: Any, hx: Any = None) -> Tensor:
        """The state after the step; `hx` is the one before it, by default zeros."""
        x, (h,), batched = self._prepared(input, None if hx is None else (hx,))
        return _given_back(F.gru(x, h, *self._weights())[1], batched)


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory; `nn.functional.lstm` has the equations.

    Shapes: input (batch, input_size), state and cell (batch, hidden_size) each, or all without the batch. Parameters
    start from U(-b, b) with b = 1 / sqrt(hidden_size).
    """

    gates = 4
    state_names = ("h_0", "c_0")

    def forward(self, input: Any, hx: tuple[Any, Any] | None = None) -> tuple[Tensor, Tensor]:
        """The state and the cell after the step; `hx` is the pair before it, by default zeros."""
        x, (h, c), batched = self._prepared(input, None if hx is None else _pair("LSTMCell", hx))
        _, (h, c) = F.lstm(x, (h, c), *self._weights())
        return _given_back(h, batched), _given_back(c, batched)


class RNNCell(RNNCellBase):
    """One step of the simple recurrent network, h' = tanh(W_ih x + b_ih + W_hh h + b_hh).

    Shapes: input (batch, input_size) and state (batch, hidden_size), or both without the batch. Parameters start from
    U(-b, b) with b = 1 / sqrt(hidden_size).

    Args:
        nonlinearity: "tanh", or "relu" for max(x, 0) instead.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        _check_nonlinearity("RNNCell", nonlinearity)
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Tensor:
        """The state after the step; `hx` is the one before it, by default zeros."""
        x, (h,), batched = self._prepared(input, None if hx is None else (hx,))
        return _given_back(F.rnn(x, h, *self._weights(), nonlinearity=self.nonlinearity)[1], batched)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")
