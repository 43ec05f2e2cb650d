"""Folders that `transformers` writes, with random weights: the same states, logits, generated ids and vectors."""

import os

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.models import Encoder, LanguageModel

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")
transformers = pytest.importorskip("transformers")

TOLERANCES = {"float32": 1e-5, "float64": 1e-12}
SIZES = {"vocab_size": 50, "initializer_range": 0.3}
LLAMA = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, **SIZES}
ENDS = {"bos_token_id": 1, "eos_token_id": 2}


def llama(kind="Llama", **options):
    config = getattr(transformers, f"{kind}Config")(**{**LLAMA, **ENDS, "max_position_embeddings": 40, **options})
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def gpt2(**options):
    sizes = {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 40}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**sizes, **SIZES, **ENDS, **options}))


def bert(kind="BertForMaskedLM", **options):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = transformers.BertConfig(**{**sizes, **SIZES, "max_position_embeddings": 40, **options})
    return getattr(transformers, kind)(config)


LANGUAGE_MODELS = {
    "gpt2": gpt2,
    "gpt2, exact gelu": lambda: gpt2(activation_function="gelu", n_inner=40, layer_norm_epsilon=1e-3),
    "gpt2, alone": lambda: transformers.GPT2Model(gpt2().config),
    "llama": llama,
    "llama, shared keys": lambda: llama(num_key_value_heads=2, tie_word_embeddings=True),
    "llama, one head of keys": lambda: llama(num_key_value_heads=1, head_dim=16, rms_norm_eps=1e-3),
    "llama, biases": lambda: llama(attention_bias=True, mlp_bias=True),
    "llama, other angles": lambda: llama(rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "mistral": lambda: llama("Mistral", num_key_value_heads=2, sliding_window=5),
}


@pytest.fixture(autouse=True)
def in_the_dtype_of_the_model(monkeypatch):
    """Theirs takes angles and mean squares in float32 whatever the model; here in float64 where the model is."""
    from transformers.models.llama import modeling_llama
    from transformers.models.mistral import modeling_mistral

    def normalized(self, x):
        root = torch.rsqrt((x * x).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * (x * root)

    def turns(self, x, position_ids, layer_type=None):
        size = 2 * len(self.inv_freq)
        base = self.config.rope_parameters["rope_theta"]
        frequencies = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        angles = position_ids[..., None].double() * torch.cat([frequencies, frequencies])
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    for module, name in ((modeling_llama, "Llama"), (modeling_mistral, "Mistral")):
        monkeypatch.setattr(getattr(module, f"{name}RMSNorm"), "forward", normalized)
        monkeypatch.setattr(getattr(module, f"{name}RotaryEmbedding"), "forward", turns)


def made(make, dtype, folder):
    """A model of theirs with weights that matter, written into a folder; and the ids that it is asked."""
    torch.manual_seed(0)
    model = make().to(getattr(torch, dtype)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return model


def apart(ours, theirs):
    theirs = theirs.detach().numpy()
    return abs(ours.detach().numpy() - theirs).max() / abs(theirs).max()


IDS = np.random.default_rng(0).integers(3, 50, (3, 12))


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_language_models(name, dtype, tmp_path):
    theirs = made(LANGUAGE_MODELS[name], dtype, tmp_path)
    ours = LanguageModel.from_pretrained(tmp_path)
    assert ours.embedding.weight.dtype == getattr(tt, dtype)
    with torch.no_grad():
        found = theirs(torch.tensor(IDS), output_hidden_states=True)
    assert apart(ours.hidden_states(IDS), found.hidden_states[-1]) < TOLERANCES[dtype]
    if not hasattr(found, "logits"):
        return
    assert apart(ours(IDS), found.logits) < TOLERANCES[dtype]
    options = {"max_new_tokens": 10, "pad_token_id": 0, "do_sample": False}
    with torch.no_grad():
        greedy = theirs.generate(torch.tensor(IDS), **options)
    assert _until_end(ours.generate(IDS, 10).numpy()) == _until_end(greedy[:, 12:].numpy())


def _until_end(ids):
    """Rows up to the end of the text, which pad otherwise behind it."""
    return [row[: row.index(2)] if 2 in row else row for row in ids.tolist()]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertModel", "BertForPreTraining"])
def test_bert(kind, dtype, tmp_path):
    theirs = made(lambda: bert(kind), dtype, tmp_path)
    ours = Encoder.from_pretrained(tmp_path)
    ids, segments = IDS.copy(), (np.arange(12) >= 7) * np.ones((3, 1), dtype=int)
    ids[1, 9:], ids[2, 4:] = 0, 0
    given = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(ids != 0).long()}
    with torch.no_grad():
        found = theirs(**given, token_type_ids=torch.tensor(segments), output_hidden_states=True)
    states, shown = found.hidden_states[-1].numpy(), ids != 0
    hidden = ours.hidden_states(ids, segments).numpy()
    assert abs(hidden[shown] - states[shown]).max() < TOLERANCES[dtype] * abs(states).max()
    mean = (states * shown[:, :, None]).sum(axis=1) / shown.sum(axis=1)[:, None]
    assert abs(ours.pooled(ids, "mean", segments).numpy() - mean).max() < TOLERANCES[dtype] * abs(states).max()
    assert (ours.head is None, ours.pooler is None) == (kind == "BertModel", kind == "BertForMaskedLM")
    if kind == "BertModel":
        assert apart(ours.pooled(ids, "pooler", segments), found.pooler_output) < TOLERANCES[dtype]
    else:
        logits = found.logits if kind == "BertForMaskedLM" else found.prediction_logits
        assert (
            abs(ours(ids, segments).numpy() - logits.numpy())[shown].max()
            < TOLERANCES[dtype] * abs(logits.numpy()).max()
        )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_of_16_bits_become_float32(dtype, tmp_path):
    made(llama, dtype, tmp_path)
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ours = LanguageModel.from_pretrained(tmp_path)
    with torch.no_grad():
        assert apart(ours(IDS), theirs(torch.tensor(IDS)).logits) < 1e-5


def test_weights_in_several_files(tmp_path):
    torch.manual_seed(0)
    theirs = llama().eval()
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    with torch.no_grad():
        assert apart(LanguageModel.from_pretrained(tmp_path)(IDS), theirs(torch.tensor(IDS)).logits) < 1e-5


def test_beam_search_and_a_whole_small_model(tmp_path):
    """Sizes as they are, of a model that is told what to say by its scores alone."""
    theirs = made(lambda: llama(hidden_size=128, intermediate_size=344, num_hidden_layers=4), "float64", tmp_path)
    ours = LanguageModel.from_pretrained(tmp_path)
    with torch.no_grad():
        found = theirs.generate(
            torch.tensor(IDS), max_new_tokens=8, num_beams=4, do_sample=False, pad_token_id=0, length_penalty=1.0,
            early_stopping=True,
        )  # fmt: skip
    assert _until_end(ours.generate(IDS, 8, beam=4).numpy()) == _until_end(found[:, 12:].numpy())
