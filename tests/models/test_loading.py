"""models.load: the model at a path with its tokenizer, in the memory of the model alone, or one error."""

import itertools
import json
import shutil
import threading
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import save_file

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models import Encoder, LanguageModel, Marian, Transformer, Translator
from tinytensor.models.data.languages import ToyText
from tinytensor.models.data.units import Characters
from tinytensor.models.pretrained import PretrainedError
from tinytensor.models.writer import Writer

from . import test_huggingface as theirs

BERT = {
    "model_type": "bert", "vocab_size": 10, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
    "intermediate_size": 12, "max_position_embeddings": 9, "pad_token_id": 0,
}  # fmt: skip
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "##s", "sat", "."]


def sentences(folder, **files):
    """A folder of BERT with words, and other files in JSON by name."""
    rng = np.random.default_rng(0)
    layer = {"attention.self.query": 8, "attention.self.key": 8, "attention.self.value": 8}
    linear = {f"encoder.layer.0.{name}": (8, 8) for name in (*layer, "attention.output.dense")}
    linear |= {"encoder.layer.0.intermediate.dense": (12, 8), "encoder.layer.0.output.dense": (8, 12)}
    norms = ["embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"]
    shapes = {f"{name}.weight": shape for name, shape in linear.items()}
    shapes |= {f"{name}.bias": shape[:1] for name, shape in linear.items()}
    shapes |= {f"{name}.LayerNorm.{part}": (8,) for name in norms for part in ("weight", "bias")}
    tables = {"word": 10, "position": 9, "token_type": 2}
    shapes |= {f"embeddings.{name}_embeddings.weight": (rows, 8) for name, rows in tables.items()}
    save_file(
        {name: rng.normal(size=shape).astype("f") for name, shape in shapes.items()}, folder / "model.safetensors"
    )
    (folder / "config.json").write_text(json.dumps(BERT))
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    for name, entries in files.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(entries))
    return folder


def steps(*kinds):
    paths = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize", "Dense": "2_Dense"}
    return [{"path": paths[kind], "type": f"sentence_transformers.models.{kind}"} for kind in kinds]


POOLED = steps("Transformer", "Pooling")


def fails(folder, message):
    with pytest.raises(PretrainedError, match=message) as caught:
        models.load(folder)
    assert "\n" not in str(caught.value)


# ---- whose folder it is


def test_folders_of_ours(tmp_path):
    made = {
        "model": LanguageModel(11, d_model=8, num_heads=2, num_layers=1),
        "encoder": Encoder(11, d_model=8, num_heads=2, num_layers=1, segments=0, pooling="first", normalize=True),
        "marian": Marian(11, d_model=8, num_heads=2, num_layers=2, num_decoder_layers=1, d_ff=12),
    }
    ids = {"marian": ([[3, 4]], [[0, 5]])}
    for name, model in made.items():
        model.eval().save_pretrained(tmp_path / name)
        found = models.load(tmp_path / name)
        assert (type(found), found.tokenizer, found.config) == (type(model), None, model.config)
        inputs = ids.get(name, ([[3, 4]],))
        np.testing.assert_array_equal(found(*inputs).numpy(), model(*inputs).numpy())


def test_folders_of_ours_with_text(tmp_path):
    units = Characters("abc")
    Writer(LanguageModel(len(units), d_model=8, num_heads=2, num_layers=1), units).save_pretrained(tmp_path / "writer")
    assert models.load(tmp_path / "writer").tokenizer.encode("ab") == units.encode("ab")
    codec = ToyText("en-fr")
    model = Transformer(len(codec.source), len(codec.target), d_model=8, num_heads=2, num_layers=1)
    Translator(model, codec).save_pretrained(tmp_path / "translator")
    found = models.load(tmp_path / "translator")
    assert isinstance(found, Transformer)
    assert found.tokenizer.encode("I sleep.") == codec.encode("I sleep.")


def test_folders_of_others(tmp_path):
    model = models.load(theirs.written(tmp_path))
    assert (type(model), model.tokenizer, model.training) == (LanguageModel, None, False)


@pytest.mark.parametrize("kind", ["folder", "file", "empty", "missing", "safetensors"])
def test_what_is_no_model(kind, tmp_path):
    path = tmp_path / "it"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes({"file": b"hello", "empty": b"", "safetensors": b"\x08\0\0\0\0\0\0\0{}      "}[kind])
    fails(
        path, {"folder": "expected a folder of save_pretrained", "missing": "download it first"}.get(kind, "not a file")
    )


# ---- sentences


def test_what_is_pooled_by_the_words_of_the_files(tmp_path):
    pytest.importorskip("tokenizers")
    bare = models.load(sentences(tmp_path))
    ids = bare.tokenizer("a cat", "cats sat .")
    for mode, kind in (("cls_token", "first"), ("mean_tokens", "mean"), ("max_tokens", "max")):
        on = {f"pooling_mode_{name}": name == mode for name in ("cls_token", "mean_tokens", "max_tokens", "lasttoken")}
        of_today = {"embedding_dimension": 8, "pooling_mode": mode.split("_")[0], "include_prompt": True}
        for kinds, said in itertools.product(
            (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize")), (on, of_today)
        ):
            model = models.load(sentences(tmp_path, modules=steps(*kinds), **{"1_Pooling__config": said}))
            expected = bare.pooled(ids, kind).numpy()
            assert (model.pooling, model.normalize) == (kind, len(kinds) == 3)
            if model.normalize:
                np.testing.assert_array_equal(model.pooled(ids, normalize=False).numpy(), expected)
                expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
            np.testing.assert_allclose(model.pooled(ids).numpy(), expected, rtol=1e-6)
            model.save_pretrained(tmp_path / "ours")
            np.testing.assert_array_equal(models.load(tmp_path / "ours").pooled(ids).numpy(), model.pooled(ids).numpy())


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"modules": steps("Transformer", "Pooling", "Dense")},
            "steps Transformer, Pooling, Dense; expected",
        ),
        ({"modules": {"a": 1}}, "expected a list of steps"),
        ({"modules": steps("Pooling")}, "steps Pooling; expected Transformer, Pooling and Normalize"),
        (
            {"modules": steps("Transformer", "Pooling"), "1_Pooling__config": {"pooling_mode_lasttoken": True}},
            "pools by",
        ),
        ({"modules": POOLED, "1_Pooling__config": {}}, "pools by nothing; expected one of"),
        (
            {"modules": POOLED, "1_Pooling__config": {"pooling_mode": "lasttoken"}},
            "pools by lasttoken; expected one of",
        ),
        ({"modules": POOLED, "1_Pooling__config": {"pooling_mode": ["mean", "cls"]}}, "pools by mean, cls; expected"),
        ({"modules": POOLED, "1_Pooling__config": {"pooling_mode": "cls", "scale": 2}}, "unknown entry scale: 2"),
        ({"modules": []}, "steps ; expected Transformer, Pooling and Normalize"),
        (
            {"modules": steps("Transformer"), "config_sentence_transformers": {"default_prompt_name": "query"}},
            "default_prompt_name 'query'; expected null: write the prompt before each text",
        ),
        (
            {"sentence_bert_config": {"max_seq_length": 5, "do_lower_case": True}},
            "do_lower_case is True; expected no such",
        ),
        ({"sentence_bert_config": {"transformer_task": "fill-mask"}}, "expected feature-extraction"),
        ({"sentence_bert_config": {"query_length": 5}}, "query_length is 5; expected no such entry"),
        ({"sentence_bert_config": {"max_seq_length": "5"}}, "max_seq_length is '5'; expected a whole number"),
    ],
)
def test_what_sentences_are_refused_for(files, message, tmp_path):
    pytest.importorskip("tokenizers")
    fails(sentences(tmp_path, **files), message)


def test_texts_are_cut_where_the_files_say_so(tmp_path):
    pytest.importorskip("tokenizers")
    tokenizer = models.load(sentences(tmp_path, sentence_bert_config={"max_seq_length": 4})).tokenizer
    assert tokenizer("a cat sat .", "a").tolist() == [[2, 5, 6, 3], [2, 5, 3, 0]]
    for longest, cut in ((4, 4), (None, 9), (10**30, 9)):  # where sentence-transformers 5.4 and later have it
        of_today = {"sentence_bert_config": {"transformer_task": "feature-extraction"}}
        folder = sentences(tmp_path, tokenizer_config={"model_max_length": longest}, **of_today)
        assert models.load(folder).tokenizer("a cat sat . " * 9).shape == (1, cut)


# ---- memory, and initial values


def test_loading_needs_the_memory_of_the_model(tmp_path):
    model = LanguageModel(4000, d_model=256, num_heads=4, num_layers=3, tie_weights=False)
    model.save_pretrained(tmp_path / "ours")
    size = sum(p.nbytes for p in model.parameters())
    del model
    state, drawn = tt.random.get_state(), []
    models.load(tmp_path / "ours")  # which imports what is needed
    tracemalloc.start()
    found = models.load(tmp_path / "ours")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * size
    assert all(np.isfinite(p.numpy()).all() for p in found.parameters())
    tt.random.set_state(state)
    models.load(tmp_path / "ours")
    drawn.append(tt.random.normal((3,)).numpy())
    tt.random.set_state(state)
    np.testing.assert_array_equal(drawn[0], tt.random.normal((3,)).numpy())


def test_values_are_skipped_within_one_thread_and_block():
    def drawn():
        return float(abs(nn.Linear(30, 40).weight.numpy()).max())

    others = []
    with nn.parameter.skipped():
        thread = threading.Thread(target=lambda: others.append(drawn()))
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="stop"), nn.parameter.skipped():
            raise RuntimeError("stop")
        state = tt.random.get_state()
        nn.Linear(30, 40)
        assert str(tt.random.get_state()) == str(state)
    assert 0 < others[0] < 1
    assert 0 < drawn() < 1


def test_a_file_that_another_replaces_meanwhile_is_read_to_its_end(tmp_path):
    one, two = (LanguageModel(11, d_model=8, num_heads=2, num_layers=1) for _ in range(2))
    one.save_pretrained(tmp_path)
    found = models.pretrained.read_folder(tmp_path)
    two.save_pretrained(tmp_path)
    shutil.rmtree(tmp_path)
    np.testing.assert_array_equal(found.weights["embedding.weight"], one.embedding.weight.numpy())
