"""Every argument that PyTorch has and tinytensor lacks: a call with it says what to write, or why to leave it out."""

import inspect

import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import data
from tinytensor.nn import functional as F
from tinytensor.nn import optim
from tinytensor.nn.optim import lr_scheduler, swa_utils
from tinytensor.tensors import hints

torch = pytest.importorskip("torch")

PLACES = [
    (nn, torch.nn), (F, torch.nn.functional), (optim, torch.optim), (lr_scheduler, torch.optim.lr_scheduler),
    (swa_utils, torch.optim.swa_utils), (data, torch.utils.data), (nn.init, torch.nn.init), (nn.utils, torch.nn.utils),
    (nn.amp, torch.amp), (nn.Module, torch.nn.Module), (optim.Optimizer, torch.optim.Optimizer),
    (lr_scheduler.LRScheduler, torch.optim.lr_scheduler.LRScheduler), (tt.Tensor, torch.Tensor), (tt, torch),
    (tt.linalg, torch.linalg), (tt.fft, torch.fft),
]  # fmt: skip
POSITIONS = ("input", "other", "self", "tensor", "tensors", "x", "y", "ext_tensor", "A", "B", "a", "b", "e", "te", "n",
             "values", "sorted_sequence", "orig_func", "names", "src", "func", "state", "dim2", "dim1",
             "axis0")  # fmt: skip
"""Names of what is given by position."""
OTHERS = ("backward", "matmul", "moveaxis", "scatter", "scatter_add", "split", "searchsorted")
"""Functions whose arguments mean something else here (docs/names.md), and two that everyone steps through."""


def of(function, theirs=False):
    """The names of a function's arguments; None if Python cannot tell."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        stand_ins = torch.overrides.get_testing_overrides() if theirs else {}
        if function not in stand_ins:
            return None
        signature = inspect.signature(stand_ins[function])
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in signature.parameters.values() if p.kind in kinds]


def lacking():
    for ours, theirs in PLACES:
        for name in dir(ours):
            mine, other = getattr(ours, name, None), getattr(theirs, name, None)
            if name.startswith("_") or name in OTHERS or not callable(mine) or not callable(other):
                continue
            if (here := of(mine)) is None or (there := of(other, theirs=True)) is None:
                continue
            for argument in there:
                is_of_function = ours is tt.Tensor and argument == "out"  # methods of PyTorch's have none
                if argument not in here and argument not in POSITIONS and not is_of_function:
                    yield ours, name, argument


LACKING = list(lacking())


@pytest.mark.parametrize(("place", "name", "argument"), LACKING, ids=str)
def test_an_argument_that_is_not_here_says_what_to_write(place, name, argument):
    made = getattr(place, name)
    if isinstance(place, type):
        made = getattr(tt.Tensor([[1.0]]) if place is tt.Tensor else place.__new__(place), name)
    x = tt.ones((2, 2))
    for given in ((x,), (x, 1), (x, x)) if place in (tt, tt.linalg, tt.fft) else ((), (1,), (x,)):
        with pytest.raises(TypeError) as caught:
            made(*given, **{argument: 1})
        if f"{argument}=" in str(caught.value) or "unexpected keyword" in str(caught.value):
            break
    said = str(caught.value)
    assert f": got {argument}=; " in said or f"but {argument}=" in said
    assert "unexpected keyword" not in said


def test_there_are_many():
    assert len(LACKING) > 300


GENERATING = """
    attention_mask beam epsilon_cutoff forced_bos_token_id generation_config input_ids inputs logits_processor
    min_length n_best output_logits output_scores penalty_alpha return_dict_in_generate stop_strings
    stopping_criteria typical_p use_cache
""".split()  # noqa: SIM905
"""Of the `generate` of `transformers`, and what ours had before."""


def test_the_table_has_what_is_left_out_and_nothing_else():
    left_out = {argument for *_, argument in LACKING} | {"verbose", "requires_grad", "UPLO", "hermitian", "out_int32"}
    left_out |= {"out", "add_bias_kv", "add_zero_attn", "enable_gqa", "non_blocking", "as_tuple", "bias_k"}
    left_out |= set(GENERATING) | {"target_modules", "modules_to_save", "lora_alpha", "lora_dropout"}
    assert set(hints.table("arguments")) - left_out == set()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: nn.ReLU(True), "ReLU: got 1 more than it takes by position (nothing); PyTorch's is inplace: leave"),
        (lambda x: nn.Dropout(0.5, True), "Dropout: got 1 more than it takes by position (p); PyTorch's is inplace"),
        (lambda x: F.dropout(x, 0.5, True, True), "dropout: got 1 more than it takes by position (input, p, training)"),
        (lambda x: F.softmax(x, axis=1), "softmax: got axis=; write dim=, as PyTorch does"),
        (lambda x: x.unsqueeze(dim=0), "unsqueeze: got dim=; tinytensor names it axis"),
        (lambda x: x.reshape(shape=(4,)), "reshape: got shape=; give it by position"),
        (lambda x: x.permute(dims=(1, 0)), "permute: got dims=; give it by position"),
        (lambda x: nn.Linear(2, 2).to(memory_format=1), "to: got memory_format=; leave it out"),
        (
            lambda x: nn.Linear(2, 2, size=3),
            "Linear: got size=; it takes in_features, out_features, bias, device, dtype",
        ),
    ],
)
def test_the_words(call, words):
    with pytest.raises(TypeError) as caught:
        call(tt.ones((2, 2)))
    assert str(caught.value).startswith(words)
