"""Settings that are no numbers, or other ones than they have to be: each is named where it is given."""

import inspect
import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models import decoding
from tinytensor.models.data import BatchSampler, DataLoader, RandomSampler
from tinytensor.models.training.trainer import Trainer
from tinytensor.nn import amp, optim
from tinytensor.nn.optim import lr_scheduler, swa_utils

SIZES = {
    "in_features": 4, "out_features": 4, "num_embeddings": 4, "embedding_dim": 4, "normalized_shape": 4, "embed_dim": 8,
    "num_heads": 2, "d_model": 8, "nhead": 2, "num_channels": 4, "num_groups": 2, "num_features": 4, "in_channels": 4,
    "out_channels": 4, "kernel_size": 3, "input_size": 4, "hidden_size": 4, "output_size": 2, "dim": -1, "d_ff": 8,
    "threshold": 0.5, "value": 0.0, "num_layers": 1, "max_len": 10, "unflattened_size": (2, 2), "T_max": 4, "T_0": 3,
    "step_size": 2, "milestones": [2, 4], "gamma": 0.5, "max_lr": 1.0, "base_lr": 0.1, "total_steps": 9, "swa_lr": 0.1,
    "batch_size": 2, "drop_last": False, "vocabulary": 9, "source_vocabulary": 9, "bos_id": 1, "eos_id": 2,
}  # fmt: skip
"""The settings that have no default."""


def optimizer():
    return optim.SGD([tt.ones((2, 2)).requires_grad_()], lr=0.1, momentum=0.9)


THINGS = {
    "optimizer": optimizer,
    "params": lambda: [tt.ones((2, 2)).requires_grad_()],
    "encoder_layer": lambda: nn.TransformerEncoderLayer(8, 2),
    "decoder_layer": lambda: nn.TransformerDecoderLayer(8, 2),
    "lr_lambda": lambda: lambda epoch: 1.0,
    "dataset": lambda: [1, 2, 3],
    "data_source": lambda: [1, 2, 3],
    "sampler": lambda: [0, 1],
    "model": lambda: None,
    "scheduler": lambda: None,
    "task": lambda: None,
}
"""Other arguments without a default."""

NOT_MADE_BY_THESE = ("AttentionCall", "ChainedScheduler", "CheckpointError", "LRScheduler", "Module", "Optimizer",
                     "Parameter", "SequentialLR", "Unflatten", "ZeroRedundancyOptimizer")  # fmt: skip


def classes():
    for place in (nn, optim, lr_scheduler, models):
        for name in place.__all__:
            if not isinstance(made := getattr(place, name), type) or name in NOT_MADE_BY_THESE:
                continue
            if place is not models or issubclass(made, nn.Module):
                yield made
    yield from (
        swa_utils.SWALR,
        swa_utils.AveragedModel,
        amp.GradScaler,
        DataLoader,
        BatchSampler,
        RandomSampler,
        Trainer,
    )


def make(made, **settings):
    """Make one with the settings that it needs, and these."""
    needed = {}
    for name, parameter in inspect.signature(made).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name in THINGS and parameter.default is parameter.empty:
            needed[name] = THINGS[name]() or nn.Linear(2, 2)
        elif name in SIZES and parameter.default is parameter.empty:
            needed[name] = SIZES[name]
    more = {"total_steps": 9} if made is lr_scheduler.OneCycleLR else {}
    return made(**{**more, **needed, **settings})


NUMBERS = [
    (made, name, str(parameter.annotation))
    for made in classes()
    for name, parameter in inspect.signature(made).parameters.items()
    if any(kind in str(parameter.annotation) for kind in ("int", "float", "Extended", "bool"))
    and "Callable" not in str(parameter.annotation) and "Iterable" not in str(parameter.annotation)
]  # fmt: skip


def test_all_of_them_are_here():
    assert len({made for made, *_ in NUMBERS}) > 75
    assert len(NUMBERS) > 330


@pytest.mark.parametrize(("made", "name", "annotation"), NUMBERS, ids=str)
def test_a_value_that_is_no_such_number_is_refused_by_name(made, name, annotation):
    is_flag = "bool" in annotation
    wrong = ["1e-2", "fast", b"1"]
    wrong += [] if is_flag else [True, np.True_, 1j, {}, [None], ["1"]]
    wrong += [math.nan, 1.5] if "float" not in annotation and "Extended" not in annotation and not is_flag else []
    wrong += [math.nan, np.float32("nan")] if "float" in annotation or "Extended" in annotation else []
    wrong += [math.inf] if "float" in annotation else []
    wrong += [None] if "None" not in annotation and not is_flag else []
    wrong += [[1]] if not any(kind in annotation for kind in ("Sequence", "list", "bool")) else []
    for value in wrong:
        if is_flag and isinstance(value, bytes):
            continue
        with pytest.raises((TypeError, ValueError)) as caught:
            make(made, **{name: value})
        assert str(caught.value).startswith(f"{made.__name__}: {name} must be "), repr(value)
        assert "got " in str(caught.value)


@pytest.mark.parametrize("kind", [optim.AdamW, optim.SGD, optim.Lion, optim.Muon, optim.RMSprop, optim.Adagrad])
def test_the_settings_of_a_group_are_held_to_the_same(kind):
    made = kind(THINGS["params"]())
    for name, parameter in inspect.signature(kind).parameters.items():
        if "float" in str(parameter.annotation):
            for value in ("1e-3", None, math.nan, True):
                with pytest.raises((TypeError, ValueError), match=f"^{kind.__name__}: {name} must be "):
                    made.add_param_group({"params": [tt.ones((3, 3))], name: value})
                saved = made.state_dict()
                saved["param_groups"][0][name] = value
                with pytest.raises(ValueError, match=f"group 0: {kind.__name__}: {name} must be "):
                    made.load_state_dict(saved)
    assert len(made.param_groups) == 1


def test_an_optimizer_of_ones_own_is_held_to_its_ranges():
    class Mine(optim.Optimizer):
        def __init__(self, params, lr="0.1", speed="fast"):
            super().__init__(params, {"lr": lr, "speed": speed})

    with pytest.raises(TypeError, match=r"^Mine: lr must be a number, got '0.1' \(str\); a text.* needs float\(...\)"):
        Mine(THINGS["params"]())
    (group,) = Mine(THINGS["params"](), lr=1).param_groups
    assert (type(group["lr"]), group["speed"]) == (float, "fast")


def test_annotations_of_other_classes_promise_nothing():
    class Mine(nn.Linear):
        def __init__(self, size: int, name: float = "x"):
            super().__init__(int(size), int(size))

    assert Mine("3").weight.shape == (3, 3)

    class Passes(nn.Linear):
        def __init__(self, *sizes):
            super().__init__(*sizes)

    with pytest.raises(TypeError, match="^Passes: in_features must be an integer, got '3'"):
        Passes("3", 2)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(np.int64(4), int), (np.asarray(4), int), (tt.asarray(4), int), (np.uint8(4), int), (4, int)],
)
def test_what_counts_is_an_integer(value, kind):
    layer = nn.Linear(value, 2)
    assert type(layer.in_features) is kind
    assert layer.weight.shape == (2, 4)


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5), np.asarray(0.5), tt.asarray(0.5), 0.5])
def test_a_number_of_any_library_is_a_number(value):
    assert (nn.Dropout(value).p, type(nn.Dropout(value).p)) == (0.5, float)
    (group,) = optim.Adam(THINGS["params"](), lr=value, betas=[value, np.float32(0.75)]).param_groups
    assert (group["lr"], list(group["betas"])) == (0.5, [0.5, 0.75])
    scheduler = lr_scheduler.ExponentialLR(optimizer(), value)
    scheduler.step()
    assert scheduler.get_last_lr() == [0.05]


def test_infinity_is_a_number_where_it_makes_sense():
    assert nn.Hardtanh(-math.inf, math.inf)(tt.asarray([-9.0, 9.0])).tolist() == [-9.0, 9.0]
    assert nn.Threshold(-math.inf, 0.0)(tt.asarray([-9.0])).tolist() == [-9.0]
    assert make(Trainer, max_norm=math.inf).max_norm == math.inf


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: optim.AdamW([], betas=["0.9", "0.99"]),
            "AdamW: betas must be two numbers, got ['0.9', '0.99'] (list);",
        ),
        (lambda: optim.AdamW([], betas=0.9), "AdamW: betas must be two numbers, got 0.9 (float)"),
        (lambda: optim.AdamW([], betas=(0.9, math.nan)), "AdamW: betas must be two finite numbers, got (0.9, nan)"),
        (lambda: optim.AdamW([], lr=None), "AdamW: lr must be a number, got None (NoneType)"),
        (
            lambda: nn.Linear(2, "3"),
            "Linear: out_features must be an integer, got '3' (str); a text, as YAML or a comman",
        ),
        (
            lambda: nn.Linear(2, 2, bias="False"),
            "Linear: bias must be True or False, got 'False' (str); a text, as YAML",
        ),
        (lambda: nn.RMSNorm(4, eps="x"), "RMSNorm: eps must be a number or None, got 'x' (str)"),
        (lambda: nn.LayerNorm((4, 2.0)), "LayerNorm: normalized_shape must be an integer or integers, got (4, 2.0)"),
        (lambda: lr_scheduler.OneCycleLR(optimizer(), ["1"], 9), "OneCycleLR: max_lr must be a number or numbers, got"),
    ],
)
def test_the_words(call, words):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert str(caught.value).startswith(words)


DECODERS = [decoding.greedy, decoding.sample, decoding.beam_search, decoding.next_probabilities]


@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p", "min_p", "max_length", "beam", "length_penalty"])
@pytest.mark.parametrize(
    "function", [decoding.greedy, decoding.sample, decoding.beam_search, decoding.next_probabilities]
)
def test_decoding_names_its_settings(function, name):
    if name not in inspect.signature(function).parameters:
        return
    given = (
        {"logits": tt.zeros((1, 4))} if function is decoding.next_probabilities else {"model": None, "source": [[1]]}
    )
    for value in ("1e-2", [1], True, math.nan, (1, "2"), {}):
        with pytest.raises((TypeError, ValueError), match=f"^{function.__name__}: {name} must be "):
            function(**given, **{name: value})


@pytest.mark.parametrize(
    "name",
    [
        *[
            "max_length",
            "max_new_tokens",
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "num_beams",
            "num_return_sequences",
        ],
        *["length_penalty", "repetition_penalty", "no_repeat_ngram_size", "pad_token_id"],
    ],
)
def test_a_language_model_names_the_settings_of_what_it_writes(name):
    model = models.LanguageModel(9, d_model=8, num_heads=2, num_layers=1)
    for value in ("1e-2", [1], True, math.nan):
        with pytest.raises((TypeError, ValueError), match=f"^generate: {name} must be "):
            model.generate([[1]], **{name: value})
