"""The modules beside PyTorch's: a state_dict goes over in both directions, and outputs, gradients and repr agree."""

import itertools
import math
import warnings

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn

torch = pytest.importorskip("torch")

TOLERANCE = 1e-10
FLOAT64 = {"ours": {"dtype": tt.float64}, "theirs": {"dtype": torch.float64}}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    tt.random.manual_seed(0)


def pair(make, dtype=True):
    """The same module of both libraries, `make(nn, **dtype)`, in float64 and training mode."""
    ours = make(nn, **(FLOAT64["ours"] if dtype else {})).double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that nested tensors are not used with these options
        theirs = make(torch.nn, **(FLOAT64["theirs"] if dtype else {})).double()
    return ours, theirs


def to_torch(state):
    return {name: torch.from_numpy(np.array(tensor.numpy())) for name, tensor in state.items()}


def close(ours, theirs, what=""):
    theirs = theirs.detach().numpy()
    assert ours.shape == theirs.shape, what
    np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def compare(ours, theirs, inputs, masks=None):
    """After the state went over, one way and then the other: outputs, gradients of inputs and of parameters."""
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    randomize(theirs)
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    agree(ours, theirs, inputs, masks or {})
    randomize(theirs)
    with tt.no_grad():
        for parameter in ours.parameters():
            parameter.copy_(parameter * 0.5 + 0.1)
    result = theirs.load_state_dict(to_torch(ours.state_dict()))
    assert not result.missing_keys
    assert not result.unexpected_keys
    agree(ours, theirs, inputs, masks or {})


def randomize(theirs):
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)


def agree(ours, theirs, inputs, masks):
    ours.zero_grad()
    theirs.zero_grad()
    differentiable = [a.dtype.kind == "f" for a in inputs]
    x_ours = [tt.Tensor(a, requires_grad=d) for a, d in zip(inputs, differentiable)]
    x_theirs = [torch.tensor(a, requires_grad=d) for a, d in zip(inputs, differentiable)]
    own_masks = {name: tt.asarray(m) if isinstance(m, np.ndarray) else m for name, m in masks.items()}
    their_masks = {name: torch.tensor(m) if isinstance(m, np.ndarray) else m for name, m in masks.items()}
    out_ours, out_theirs = ours(*x_ours, **own_masks), theirs(*x_theirs, **their_masks)
    close(out_ours, out_theirs, "output")
    g = np.random.default_rng(9).normal(size=out_theirs.shape)
    out_ours.backward(tt.asarray(g))
    out_theirs.backward(torch.tensor(g))
    for a, b, d in zip(x_ours, x_theirs, differentiable):
        if d:
            close(a.grad, b.grad, "gradient of an input")
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        close(parameter.grad, expected[name].grad, f"gradient of {name}")


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


# ---- layers


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (lambda nn, **d: nn.Linear(4, 3, **d), [normal(2, 5, 4)]),
        (lambda nn, **d: nn.Linear(4, 3, bias=False, **d), [normal(4)]),
        (lambda nn, **d: nn.LayerNorm(4, **d), [normal(2, 5, 4)]),
        (lambda nn, **d: nn.LayerNorm((5, 4), eps=0.1, **d), [normal(2, 5, 4)]),
        (lambda nn, **d: nn.LayerNorm([4], bias=False, **d), [normal(2, 4)]),
        (lambda nn, **d: nn.LayerNorm(4, elementwise_affine=False, **d), [normal(2, 4)]),
        (lambda nn, **d: nn.RMSNorm(4, **d), [normal(2, 5, 4)]),
        (lambda nn, **d: nn.RMSNorm((5, 4), 1e-5, **d), [normal(2, 5, 4)]),
        (lambda nn, **d: nn.RMSNorm([4], elementwise_affine=False, **d), [normal(2, 4)]),
        (lambda nn, **d: nn.Conv1d(4, 6, 3, **d), [normal(2, 4, 7)]),
        (lambda nn, **d: nn.Conv1d(4, 6, (3,), 2, 1, 2, 2, False, **d), [normal(2, 4, 7)]),
        (lambda nn, **d: nn.Conv1d(4, 6, 3, padding="same", groups=2, **d), [normal(4, 7)]),
        (lambda nn, **d: nn.Embedding(6, 3, **d), [np.array([[0, 5, 5], [1, 2, 0]])]),
        (lambda nn, **d: nn.Embedding(6, 3, padding_idx=-1, **d), [np.array([[0, 5, 5], [1, 2, 0]])]),
    ],
)
def test_layers(make, inputs):
    compare(*pair(make), inputs)


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.ReLU(),
        lambda nn: nn.GELU(),
        lambda nn: nn.GELU(approximate="tanh"),
        lambda nn: nn.Tanh(),
        lambda nn: nn.Sigmoid(),
        lambda nn: nn.Softmax(dim=1),
        lambda nn: nn.LogSoftmax(dim=0),
        lambda nn: nn.Identity(),
        lambda nn: nn.Dropout(0.0),
        lambda nn: nn.Dropout(0.9).eval(),
        lambda nn: nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.LayerNorm(6), nn.Dropout(0.5), nn.Linear(6, 2)).eval(),
    ],
)
def test_layers_without_a_dtype(make):
    compare(*pair(make, dtype=False), [normal(3, 4)])


REDUCTIONS = ["mean", "sum", "none"]
WEIGHT = np.array([0.5, 2.0, 1.0, 3.0])


def tensors(library, **arrays):
    convert = tt.asarray if library is nn else torch.tensor
    return {name: convert(array) for name, array in arrays.items()}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    "make",
    [
        lambda nn, **o: nn.CrossEntropyLoss(**o),
        lambda nn, **o: nn.CrossEntropyLoss(**tensors(nn, weight=WEIGHT), ignore_index=3, label_smoothing=0.1, **o),
        lambda nn, **o: nn.NLLLoss(**o),
        lambda nn, **o: nn.NLLLoss(**tensors(nn, weight=WEIGHT), ignore_index=3, **o),
    ],
)
@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 4, 3)])
def test_class_losses(make, reduction, shape):
    target = np.random.default_rng(1).integers(0, 4, size=shape[:1] + shape[2:] if len(shape) > 1 else ())
    compare(*pair(lambda nn, **d: make(nn, reduction=reduction), dtype=False), [normal(*shape), target])


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    "make",
    [
        lambda nn, **o: nn.MSELoss(**o),
        lambda nn, **o: nn.BCEWithLogitsLoss(**o),
        lambda nn, **o: nn.BCEWithLogitsLoss(**tensors(nn, weight=WEIGHT, pos_weight=WEIGHT * 2), **o),
    ],
)
def test_element_losses(make, reduction):
    target = np.random.default_rng(1).random((3, 4))
    compare(*pair(lambda nn, **d: make(nn, reduction=reduction), dtype=False), [normal(3, 4), target])


# ---- attention and the Transformer

BATCH, SOURCE, TARGET, D_MODEL, HEADS = 2, 5, 4, 8, 2
SMALL = {"d_model": D_MODEL, "nhead": HEADS, "dim_feedforward": 16, "dropout": 0.0}
CAUSAL = np.triu(np.full((TARGET, TARGET), -math.inf), k=1)
SOURCE_PADDING = np.array([[False] * 5, [False, False, False, True, True]])
TARGET_PADDING = np.array([[False] * 4, [False, False, False, True]])
MEMORY_MASK = np.random.default_rng(3).random((TARGET, SOURCE)) < 0.3
HEAD_MASK = np.random.default_rng(4).normal(size=(BATCH * HEADS, SOURCE, SOURCE))


def sequences(batch_first, *lengths):
    return [normal(BATCH, n, D_MODEL) if batch_first else normal(n, BATCH, D_MODEL) for n in lengths]


VARIANTS = list(itertools.product([False, True], [False, True], ["relu", "gelu"], [True, False]))


def options(batch_first, norm_first, activation, bias):
    return {**SMALL, "batch_first": batch_first, "norm_first": norm_first, "activation": activation, "bias": bias}


@pytest.mark.parametrize("variant", VARIANTS)
def test_encoder_layer(variant):
    ours, theirs = pair(lambda nn, **d: nn.TransformerEncoderLayer(**options(*variant), layer_norm_eps=1e-3, **d))
    compare(ours, theirs, sequences(variant[0], SOURCE), {"src_key_padding_mask": SOURCE_PADDING})


@pytest.mark.parametrize(
    "masks",
    [
        {},
        {"src_mask": HEAD_MASK},
        {"src_mask": HEAD_MASK > 1},
        {"src_mask": np.triu(np.ones((SOURCE, SOURCE), dtype=bool), k=1), "src_key_padding_mask": SOURCE_PADDING},
        {"src_mask": np.triu(np.full((SOURCE, SOURCE), -math.inf), k=1), "is_causal": True},
        {"src_key_padding_mask": np.where(SOURCE_PADDING, -math.inf, 0.5)},
    ],
)
def test_encoder_layer_masks(masks):
    ours, theirs = pair(lambda nn, **d: nn.TransformerEncoderLayer(**SMALL, batch_first=True, **d))
    compare(ours, theirs, sequences(True, SOURCE), masks)


@pytest.mark.parametrize("variant", VARIANTS)
def test_decoder_layer(variant):
    ours, theirs = pair(lambda nn, **d: nn.TransformerDecoderLayer(**options(*variant), **d))
    masks = {
        "tgt_mask": np.isneginf(CAUSAL),
        "memory_mask": MEMORY_MASK,
        "tgt_key_padding_mask": np.zeros((BATCH, TARGET), dtype=bool),
        "memory_key_padding_mask": np.zeros((BATCH, SOURCE), dtype=bool),
    }
    compare(ours, theirs, sequences(variant[0], TARGET, SOURCE), masks)


@pytest.mark.parametrize(("batch_first", "norm_first"), [(True, False), (False, True)])
@pytest.mark.parametrize("norm", [False, True])
def test_stacks(batch_first, norm_first, norm):
    arguments = {**SMALL, "batch_first": batch_first, "norm_first": norm_first}

    def encoder(nn, **d):
        layer = nn.TransformerEncoderLayer(**arguments, **d)
        return nn.TransformerEncoder(layer, 2, nn.LayerNorm(D_MODEL, **d) if norm else None)

    def decoder(nn, **d):
        layer = nn.TransformerDecoderLayer(**arguments, **d)
        return nn.TransformerDecoder(layer, 2, nn.LayerNorm(D_MODEL, **d) if norm else None)

    causal = np.triu(np.ones((SOURCE, SOURCE), dtype=bool), k=1)
    compare(*pair(encoder), sequences(batch_first, SOURCE), {"mask": causal, "src_key_padding_mask": SOURCE_PADDING})
    masks = {"tgt_mask": CAUSAL, "tgt_is_causal": True, "memory_key_padding_mask": SOURCE_PADDING}
    compare(*pair(decoder), sequences(batch_first, TARGET, SOURCE), masks)


@pytest.mark.parametrize(("batch_first", "norm_first"), list(itertools.product([False, True], repeat=2)))
def test_transformer(batch_first, norm_first):
    arguments = {**SMALL, "batch_first": batch_first, "norm_first": norm_first}
    ours, theirs = pair(lambda nn, **d: nn.Transformer(**arguments, num_encoder_layers=2, num_decoder_layers=2, **d))
    masks = {
        "tgt_mask": np.isneginf(CAUSAL),
        "src_key_padding_mask": SOURCE_PADDING,
        "tgt_key_padding_mask": TARGET_PADDING,
        "memory_key_padding_mask": SOURCE_PADDING,
    }
    compare(ours, theirs, sequences(batch_first, SOURCE, TARGET), masks)


def test_transformer_unbatched():
    ours, theirs = pair(lambda nn, **d: nn.Transformer(**SMALL, num_encoder_layers=1, num_decoder_layers=1, **d))
    compare(ours, theirs, [normal(SOURCE, D_MODEL), normal(TARGET, D_MODEL)], {"tgt_mask": CAUSAL})


def test_subsequent_mask():
    ours = nn.Transformer.generate_square_subsequent_mask(4)
    theirs = torch.nn.Transformer.generate_square_subsequent_mask(4)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    assert ours.dtype == tt.float32


# ---- how they look


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.Sequential(),
        lambda nn: nn.Sequential(
            nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.GELU(), nn.Softmax(dim=1)), nn.Dropout(0.1)
        ),
        lambda nn: nn.ModuleList(
            [nn.Linear(1, 2)] * 3 + [nn.Sequential(nn.Identity(), nn.LayerNorm(3))] * 2 + [nn.Tanh()]
        ),
        lambda nn: nn.ModuleDict({"a": nn.Embedding(3, 4), "b": nn.Embedding(3, 4, padding_idx=2)}),
        lambda nn: nn.ModuleList(),
        lambda nn: nn.Sequential(
            nn.GELU("tanh"), nn.LogSoftmax(dim=-1), nn.Sigmoid(), nn.LayerNorm((2, 3), eps=1e-3, bias=False)
        ),
        lambda nn: nn.Sequential(nn.CrossEntropyLoss(), nn.NLLLoss(), nn.MSELoss(), nn.BCEWithLogitsLoss()),
        lambda nn: nn.Transformer(16, 2, 2, 3, 32, activation=nn.GELU(), bias=False),
        lambda nn: nn.Sequential(
            nn.Conv1d(4, 8, 3), nn.Conv1d(4, 8, 3, 2, "valid", 2, 2, False), nn.Conv1d(4, 8, (3,), padding=(2,))
        ),
    ],
)
def test_repr(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = repr(make(torch.nn))
    assert repr(make(nn)) == theirs.replace("NonDynamicallyQuantizableLinear", "Linear")


# ---- how they start


def moments(values):
    values = np.asarray(values, dtype=np.float64)
    return values.mean(), values.std(), np.abs(values).max()


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.Linear(200, 300),
        lambda nn: nn.Embedding(300, 200),
        lambda nn: nn.LayerNorm(7),
        lambda nn: nn.Conv1d(64, 96, 5, groups=2),
        lambda nn: nn.MultiheadAttention(128, 4),
        lambda nn: nn.MultiheadAttention(128, 4, kdim=64, vdim=32),
        lambda nn: nn.TransformerEncoderLayer(128, 4, 256),
        lambda nn: nn.Transformer(128, 4, 1, 1, 256),
    ],
)
def test_initial_distributions(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = make(torch.nn).state_dict()
    ours = make(nn).state_dict()
    assert list(ours) == list(theirs)
    for name, tensor in ours.items():
        a, b = tensor.numpy(), theirs[name].numpy()
        assert a.shape == b.shape
        assert str(a.dtype) == str(b.dtype)
        (mean, std, largest), (mean_b, std_b, largest_b) = moments(a), moments(b)
        assert abs(mean - mean_b) <= 10 * std_b / math.sqrt(b.size), name
        if b.size > 10_000:
            assert std == pytest.approx(std_b, rel=0.02), name
            if "Embedding" not in repr(make(nn)):
                assert largest == pytest.approx(largest_b, rel=0.01), name
        else:
            assert std == pytest.approx(std_b, rel=0.3), name


@pytest.mark.parametrize(
    ("fill", "arguments"),
    [
        ("uniform_", {"a": -2.0, "b": 3.0}),
        ("normal_", {"mean": 1.0, "std": 0.5}),
        ("trunc_normal_", {"mean": 0.5, "std": 2.0, "a": -1.0, "b": 4.0}),
        ("constant_", {"val": 3.0}),
        ("zeros_", {}),
        ("ones_", {}),
        ("eye_", {}),
        ("xavier_uniform_", {"gain": 2.0}),
        ("xavier_normal_", {"gain": 2.0}),
        ("kaiming_uniform_", {"a": math.sqrt(5)}),
        ("kaiming_uniform_", {"mode": "fan_out", "nonlinearity": "relu"}),
        ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "tanh"}),
        ("kaiming_normal_", {"a": 0.2, "nonlinearity": "leaky_relu"}),
    ],
)
def test_init_functions(fill, arguments):
    ours = getattr(nn.init, fill)(tt.empty((400, 300), dtype=tt.float64), **arguments).numpy()
    theirs = getattr(torch.nn.init, fill)(torch.empty((400, 300), dtype=torch.float64), **arguments).numpy()
    (mean, std, largest), (mean_b, std_b, largest_b) = moments(ours), moments(theirs)
    assert abs(mean - mean_b) <= 8 * std_b / math.sqrt(theirs.size)
    assert std == pytest.approx(std_b, rel=0.02, abs=1e-12)
    assert largest == pytest.approx(largest_b, rel=0.25 if "normal" in fill else 0.001)
    quantiles = [0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999]
    np.testing.assert_allclose(np.quantile(ours, quantiles), np.quantile(theirs, quantiles), rtol=0, atol=0.06 * std)


@pytest.mark.parametrize("name", ["linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"])
def test_gains(name):
    assert nn.init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name), rel=1e-15)
    assert nn.init.calculate_gain("leaky_relu", 0.3) == pytest.approx(torch.nn.init.calculate_gain("leaky_relu", 0.3))


# ---- Module itself


def build(library):
    """Ties, a buffer, a missing parameter, a list and a dictionary, in an order that shows."""
    tensor = tt.ones if library is nn else torch.ones

    class Net(library.Module):
        def __init__(self):
            super().__init__()
            self.out = library.Linear(3, 3)
            self.blocks = library.ModuleList([library.Linear(3, 3), library.LayerNorm(3)])
            self.scale = library.Parameter(tensor((3,)))
            self.register_buffer("hidden", tensor((2,)), persistent=False)
            self.register_buffer("count", tensor((1,)))
            self.register_parameter("nothing", None)
            self.named = library.ModuleDict({"x": library.Linear(3, 2, bias=False)})
            self.blocks[0].weight = self.out.weight

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.named["x"](self.out(x) * self.scale)

    return Net()


def test_traversal_and_state_of_a_custom_module():
    ours, theirs = build(nn), build(torch.nn)
    for what in ("parameters", "buffers", "modules", "children"):
        assert [n for n, _ in getattr(ours, f"named_{what}")()] == [n for n, _ in getattr(theirs, f"named_{what}")()]
        assert len(list(getattr(ours, what)())) == len(list(getattr(theirs, what)()))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    compare(ours.double(), theirs.double(), [normal(4, 3)])


def test_load_reports_what_pytorch_reports():
    ours, theirs = build(nn), build(torch.nn)
    partial = {name: value for name, value in theirs.state_dict().items() if "blocks" not in name}
    partial["other"] = torch.ones(1)
    a, b = ours.load_state_dict(partial, strict=False), theirs.load_state_dict(partial, strict=False)
    assert tuple(a) == tuple(b)
    partial["scale"] = torch.ones(4)
    for module in (ours, theirs):
        with pytest.raises(RuntimeError) as error:
            module.load_state_dict(partial)
        for name in ("blocks.0.weight", "blocks.1.bias", "other", "scale"):
            assert name in str(error.value)


def test_a_torch_parameter_in_a_state_dict():
    ours, theirs = nn.Linear(2, 1), torch.nn.Linear(2, 1)
    ours.load_state_dict(dict(theirs.named_parameters()))
    np.testing.assert_array_equal(ours.weight.detach().numpy(), theirs.weight.detach().numpy())


def test_hooks_see_the_same():
    seen = {"ours": [], "theirs": []}
    for key, module, one in (("ours", nn.Linear(2, 2), tt.ones), ("theirs", torch.nn.Linear(2, 2), torch.ones)):
        module.register_forward_pre_hook(lambda m, args, key=key: seen[key].append(("pre", len(args))))
        module.register_forward_hook(lambda m, args, out, key=key: seen[key].append(("post", tuple(out.shape))))
        module.register_forward_hook(lambda m, args, out: out * 0)
        assert float(module(one((3, 2))).sum().detach()) == 0
    assert seen["ours"] == seen["theirs"]
