"""What people compute with: each case gives arrays, results and gradients, for a small or a usual size."""

import functools

import numpy as np

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.data.batch import Batch
from tinytensor.models.decoding import greedy
from tinytensor.models.language_model import GPT2, LLAMA, LanguageModel
from tinytensor.models.training.loss import ForwardBackward
from tinytensor.nn import functional as F

D, HEADS = 16, 2
SIZES = {"small": (2, 3), "usual": (24, 48)}  # batch and length; loops are used unasked from 16,384 elements on
DRAWING = {"encoder_with_dropout", "causal_attention_with_dropout"}  # in loops they drop others than by formula
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def floats(*shape):
    return tt.tensor(np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32), requires_grad=True)


def with_gradients(out, *leaves):
    """The result and the gradients of a sum that tells its elements apart."""
    out = out if isinstance(out, tuple) else (out,)
    weights = [tt.asarray(np.cos(np.arange(x.size, dtype=np.float32)).reshape(x.shape)) for x in out]
    total = sum((x * w).sum() for x, w in zip(out, weights))
    return [x.numpy() for x in (*out, *tt.grad(total, list(leaves), allow_unused=True)) if x is not None]


def of_module(module, *inputs, **options):
    return with_gradients(module(*inputs, **options), *inputs, *module.parameters())


def masks(batch, length):
    padding = np.arange(length) >= np.array([length - i % 2 for i in range(batch)])[:, None]
    return F.causal_mask(length), tt.asarray(padding)


def encoder_layer(batch, length, **options):
    tt.manual_seed(0)
    options = {"dropout": 0.0, "batch_first": True, **options}
    return nn.TransformerEncoderLayer(D, HEADS, 4 * D, **options), floats(batch, length, D)


@case
def encoder_layer_behind(batch, length):
    return of_module(*encoder_layer(batch, length))


@case
def encoder_layer_in_front(batch, length):
    layer, x = encoder_layer(batch, length, norm_first=True, activation="gelu", batch_first=False)
    causal, padding = masks(length, batch)
    return of_module(layer, x, src_mask=causal, src_key_padding_mask=padding)


@case
def encoder_with_dropout(batch, length):
    layer, x = encoder_layer(batch, length, dropout=0.2)
    tt.manual_seed(1)
    return of_module(nn.TransformerEncoder(layer, 2, nn.LayerNorm(D)), x)


@case
def decoder(batch, length):
    tt.manual_seed(0)
    # GELU, for a number at the kink of ReLU may round to either side.
    how = {"dropout": 0.0, "batch_first": True, "activation": "gelu"}
    layer = nn.TransformerDecoderLayer(D, HEADS, 4 * D, **how)
    causal, padding = masks(batch, length)
    given = floats(batch, length, D), floats(batch, length, D)
    return of_module(nn.TransformerDecoder(layer, 2), *given, tgt_mask=causal, memory_key_padding_mask=padding)


@case
def decoder_steps(batch, length):
    tt.manual_seed(0)
    layer = nn.TransformerDecoderLayer(D, HEADS, 4 * D, dropout=0.0, batch_first=True)
    module = nn.TransformerDecoder(layer, 2, nn.LayerNorm(D)).eval()
    with tt.no_grad():
        cache = module.start(floats(batch, length, D).detach(), masks(batch, length)[1])
        steps = [module.step(floats(batch, 1, D).detach() + i, cache) for i in range(3)]
    return [x.numpy() for x in steps]


@case
def transformer(batch, length):
    tt.manual_seed(0)
    model = models.Transformer(30, d_model=D, num_heads=HEADS, num_layers=1, d_ff=4 * D, dropout=0.0, max_length=length)
    ids = np.random.default_rng(0).integers(3, 30, (2, batch, length))
    return with_gradients(model(ids[0], ids[1]), *model.parameters())


def translator(length):
    tt.manual_seed(0)
    return models.Transformer(30, d_model=D, num_heads=HEADS, num_layers=1, d_ff=4 * D, dropout=0.0, max_length=length)


@case
def training_step(batch, length):
    """Of two batches, which are computed side by side."""
    model, ids = translator(length), np.random.default_rng(0).integers(3, 30, (2, 3, batch, length))
    logits, loss = ForwardBackward(model)([Batch(*each) for each in ids], 0.1)
    return [logits.numpy(), loss.numpy(), *[p.grad.numpy() for p in model.parameters()]]


@case
def translations(batch, length):
    """Of many sentences two halves, side by side."""
    source = np.random.default_rng(0).integers(3, 30, (batch, length))
    found = greedy(translator(length + 4), source, max_length=4)
    return [np.array([*h.ids, *h.log_probabilities]) for h in found]


def language_model(kind, batch, length):
    tt.manual_seed(0)
    sizes = {"d_model": D, "num_heads": HEADS, "num_layers": 2, "d_ff": 4 * D, "max_length": length + 4}
    model = LanguageModel(30, **{**kind, **sizes}).eval()
    ids = np.random.default_rng(0).integers(3, 30, (batch, length))
    found = with_gradients(model(ids), *model.parameters())
    return [*found, model.generate(ids[:, :-1], 2).numpy().astype(float)]


@case
def gpt2(batch, length):
    return language_model(GPT2, batch, length)


@case
def llama(batch, length):
    return language_model(LLAMA, batch, length)


@case
def multi_head_attention(batch, length):
    tt.manual_seed(0)
    module, x = nn.MultiheadAttention(D, HEADS, batch_first=True), floats(batch, length, D)
    causal, padding = masks(batch, length)
    return with_gradients(module(x, x, x, padding, True, causal), x, *module.parameters())


@case
def attention(batch, length):
    q, k, v = floats(batch, HEADS, length, 8), floats(batch, HEADS, length + 1, 8), floats(batch, HEADS, length + 1, 5)
    return with_gradients(F.scaled_dot_product_attention(q, k, v), q, k, v)


@case
def causal_attention_with_dropout(batch, length):
    tt.manual_seed(2)
    q, k, v = (floats(batch, HEADS, length, 8 + 0 * i) for i in range(3))
    return with_gradients(F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=True), q, k, v)


def element_by_element(name, **options):
    def run(batch, length):
        x = floats(batch, length, D)
        return with_gradients(getattr(F, name)(x, **options), x)

    run.__name__ = "_".join([name, *map(str, options.values())])
    return case(run)


for _name, _options in (
    ("relu", {}), ("gelu", {}), ("gelu", {"approximate": "tanh"}), ("silu", {}), ("softmax", {"dim": -1}),
    ("log_softmax", {"dim": 1}), ("layer_norm", {"normalized_shape": D}), ("rms_norm", {"normalized_shape": D}),
):  # fmt: skip
    element_by_element(_name, **_options)


@case
def layers(batch, length):
    tt.manual_seed(0)
    chain = nn.Sequential(
        nn.Linear(D, 32), nn.ReLU(), nn.LayerNorm(32), nn.Dropout(0.2), nn.Linear(32, D), nn.RMSNorm(D)
    )
    tt.manual_seed(1)
    return of_module(chain, floats(batch, length, D))


@case
def embedding_and_loss(batch, length):
    tt.manual_seed(0)
    table, ids = nn.Embedding(30, D, padding_idx=0), np.random.default_rng(0).integers(0, 30, (batch, length))
    logits = table(ids) @ floats(D, 30)
    smooth = F.cross_entropy(logits.reshape(-1, 30), tt.asarray(ids).reshape(-1), ignore_index=0, label_smoothing=0.1)
    return with_gradients(smooth, table.weight)


@case
def images(batch, length):
    tt.manual_seed(0)
    chain = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return of_module(chain, floats(batch, 1, 8, length + 5))


def recurrent(kind, batch, length):
    tt.manual_seed(0)
    module, x = kind(D, 8, batch_first=True), floats(batch, length, D)
    return with_gradients(module(x)[0], x, *module.parameters())


@case
def gru(batch, length):
    return recurrent(nn.GRU, batch, length)


@case
def lstm(batch, length):
    return recurrent(nn.LSTM, batch, length)


@case
def rnn(batch, length):
    return recurrent(nn.RNN, batch, length)


@case
def likeliest(batch, length):
    logits = floats(batch, length, 40).detach()
    found = [F.log_softmax_topk(logits, 3), F.log_softmax_topk(logits, 1, excluded=0)]
    return [x.numpy().astype(float) for pair in found for x in pair]


def trained(make, batch, length):
    tt.manual_seed(0)
    model, x = nn.Linear(D, length * D), floats(batch, D).detach()
    optimizer = make(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return [p.numpy() for p in model.parameters()]


@case
def adam(batch, length):
    return trained(lambda p: nn.optim.Adam(p, lr=0.1, weight_decay=0.01), batch, length)


@case
def adam_w(batch, length):
    return trained(lambda p: nn.optim.AdamW(p, lr=0.1), batch, length)


@case
def sgd(batch, length):
    return trained(lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9), batch, length)


# ---- a whole sequence, and the same sequence step by step: their results


def of_stack(batch, length, **options):
    """Of a decoder."""
    tt.manual_seed(0)
    layer = nn.TransformerDecoderLayer(D, HEADS, 4 * D, dropout=0.0, activation="gelu", **options)
    module = nn.TransformerDecoder(layer, 2, nn.LayerNorm(D)).eval()
    causal, padding = masks(batch, length)
    x, memory = (floats(batch, n, D).detach() for n in (length, length + 1))
    padding = tt.concat([padding, padding[:, -1:]], axis=1)
    turned = x, memory
    if not module.layers[0].self_attn.batch_first:
        turned = [tt.permute_dims(each, (1, 0, 2)) for each in turned]
    whole = module(*turned, tgt_mask=causal, memory_key_padding_mask=padding)
    if not module.layers[0].self_attn.batch_first:
        whole = tt.permute_dims(whole, (1, 0, 2))
    return whole, lambda: in_steps(module, x, memory, padding)


def in_steps(module, x, memory, padding):
    cache = module.start(memory, padding)
    return tt.concat([module.step(x[:, i : i + 1], cache) for i in range(x.shape[1])], axis=1)


def of_language_model(kind, batch, length):
    tt.manual_seed(0)
    sizes = {"d_model": D, "num_heads": HEADS, "num_layers": 2, "d_ff": 4 * D, "max_length": length + 4}
    model = LanguageModel(30, **{**kind, **sizes}).eval()
    ids = tt.asarray(np.random.default_rng(0).integers(3, 30, (batch, length)))

    def steps():
        state, found = model.initial_state(ids[:, :2]), []
        for i in range(1, length):
            logits, state = model.next_logits(ids[:, i : i + 1], state)
            found.append(logits)
        return tt.concat(found, axis=1)

    return model(ids)[:, 1:], steps


WHOLE_AND_STEPS = {
    "decoder": functools.partial(of_stack, batch_first=True),
    "norms in front, (length, batch)": functools.partial(of_stack, norm_first=True),
    "gpt2": functools.partial(of_language_model, GPT2),
    "llama": functools.partial(of_language_model, {**LLAMA, "num_kv_heads": 1}),
    "qk_norm": functools.partial(of_language_model, {**LLAMA, "qk_norm": 1e-6}),
}
"""For each model a function of batch and length: the whole sequence's result, and what computes the steps'."""


def whole_and_steps(name, batch, length):
    with tt.no_grad():
        whole, steps = WHOLE_AND_STEPS[name](batch, length)
        return whole.numpy(), steps().numpy()
