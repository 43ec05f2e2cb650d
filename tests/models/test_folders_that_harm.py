"""Each value of each file of small folders, replaced by others: a model that computes, or one error, at once."""

import copy
import json
import os
import time

import pytest

from tinytensor.models import Encoder, LanguageModel, Seq2Seq, Transformer
from tinytensor.models.data.units import Characters
from tinytensor.models.folder_tokenizer import FolderTokenizer
from tinytensor.models.huggingface import INDEX
from tinytensor.models.pretrained import PretrainedError
from tinytensor.models.writer import Writer

from . import test_huggingface as theirs
from .test_folder_tokenizer import END, pairs

pytestmark = pytest.mark.filterwarnings("ignore")
VALUES = ("null", "-1", "1e400", "1000000000000", '"x"', "[]", "{}", "true", "[" * 99 + "]" * 99, "4000000", "NaN")
CONTENTS = (b"[" * 100_000, b"\xff\xfe", b"", b"null", b"[]", b"{}")
SIZES = {"d_model": 8, "max_length": 16}
STRETCH = {
    "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}  # fmt: skip
SECONDS = 10  # of processor time; reading takes less than one


def llama(folder):
    theirs.written(folder, head_dim=4, rope_theta=1e4, rope_scaling=STRETCH, pad_token_id=0, tie_word_embeddings=False)
    ends = {"eos_token_id": [2, 3], "bos_token_id": 1, "pad_token_id": 0}
    (folder / "generation_config.json").write_text(json.dumps(ends))
    return lambda: said(LanguageModel.from_pretrained(folder))


def parts(folder):
    theirs.sharded(folder)
    return lambda: said(LanguageModel.from_pretrained(folder))


def ours(kind, use, *arguments, **options):
    def make(folder):
        kind(11, *arguments, **SIZES, **options).save_pretrained(folder)
        without_checksum(folder)
        return lambda: use(kind.from_pretrained(folder))

    return make


def writer(folder):
    units = Characters("abcdefgh")
    Writer(LanguageModel(len(units), num_heads=2, num_layers=1, **SIZES), units).save_pretrained(folder)
    without_checksum(folder)
    return lambda: Writer.from_pretrained(folder).write("ab", 3)


def tokens(folder):
    table = {"content": "<x>", "lstrip": False, "special": True}
    count = pairs(folder, config={"eos_token_id": 0, "bos_token_id": [0]}, added_tokens={"<x>": 300})
    (folder / "added_tokens.json").write_text(json.dumps({"<x>": count, "<z>": count + 1}))
    said = {"pad_token": "<x>", "add_bos_token": True, "additional_special_tokens": ["<y>"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    (folder / "special_tokens_map.json").write_text(
        json.dumps({"bos_token": END, "unk_token": table | {"content": END}})
    )
    return lambda: read(FolderTokenizer.load(folder))


def table(folder):
    count = pairs(folder, (END, "<x>"), whole=True)
    table = {str(count): {"content": "<y>", "lstrip": False, "rstrip": False, "normalized": False, "special": True}}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": table, "pad_token": "<x>"}))
    return lambda: read(FolderTokenizer.load(folder))


def without_checksum(folder):
    """An edited config, which has none, is trusted as far as it agrees with the weights."""
    config = json.loads((folder / "config.json").read_text())
    del config["checksum"]
    (folder / "config.json").write_text(json.dumps(config))


def said(model):
    model.generate([[1, 2], [1]], 2, num_beams=2)
    return model([[1, 2, 3]])


def translated(model):
    model.generate([[4, 2]], 3)
    return model([[4, 2]], [[1, 4]])


def read(tokenizer):
    ids = tokenizer("the river", "a")
    return tokenizer.pieces(ids[0]), tokenizer.decode(ids[1])


ROTARY = {"positions": "rotary", "rotary_stretch": (2.0, 8, 1.0, 4.0), "window": 3, "norm": "rms", "qk_norm": True}
HEADS = {"num_heads": 2, "num_layers": 1}
FOLDERS = {
    "llama": (llama, ("config.json", "generation_config.json")),
    "an index": (parts, (INDEX,)),
    "a language model": (ours(LanguageModel, said, head_dim=4, d_ff=8, **HEADS), ("config.json",)),
    "rotary": (ours(LanguageModel, said, **ROTARY, **HEADS), ("config.json",)),
    "an encoder": (ours(Encoder, lambda model: model.pooled([[1, 2], [1]]), **HEADS), ("config.json",)),
    "a transformer": (ours(Transformer, translated, **HEADS), ("config.json",)),
    "a recurrent model": (ours(Seq2Seq, translated, attention="local-p"), ("config.json",)),
    "a writer": (writer, ("config.json",)),
    "tokens": (tokens, ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json")),
    "a table": (table, ("tokenizer_config.json",)),
}


def places(value, path=()):
    """The paths of a value's parts, of a list the first three."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, part in inside:
        yield from places(part, (*path, key))


def replaced(value, path, mark):
    if not path:
        return mark
    value = copy.copy(value)
    value[path[0]] = replaced(value[path[0]], path[1:], mark)
    return value


def harmless(use, folder, what):
    start = time.process_time()
    error = ""
    try:
        use()
    except ValueError:  # of a model that computes nothing but NaN
        pass
    except (PretrainedError, OSError) as caught:
        error = str(caught)
    assert str(folder) in error or not error, what
    assert len(error) < 1500, what
    assert time.process_time() - start < SECONDS, what


@pytest.mark.parametrize("name", FOLDERS)
def test_any_value(name, tmp_path):
    if name in ("tokens", "a table"):
        pytest.importorskip("tokenizers")
    make, files = FOLDERS[name]
    use = make(tmp_path)
    use()
    for file in files:
        original = (tmp_path / file).read_text()
        value = json.loads(original)
        for path in places(value):
            for other in VALUES:
                text = json.dumps(replaced(value, path, "@@")).replace('"@@"', other)
                (tmp_path / file).write_text(text)
                harmless(use, tmp_path, (file, path, other))
        for content in CONTENTS:
            (tmp_path / file).write_bytes(content)
            harmless(use, tmp_path, (file, content[:9]))
        for put, take in ((os.mkdir, os.rmdir), (os.mkfifo, os.unlink)):
            (tmp_path / file).unlink()
            put(tmp_path / file)
            with pytest.raises(RuntimeError, match=f"{file}: (Is a directory|a pipe or a device is in the place)"):
                use()
            take(tmp_path / file)
            (tmp_path / file).write_text(original)
    use()


def test_any_vocabulary(tmp_path):
    pytest.importorskip("tokenizers")
    pairs(tmp_path, whole=True)
    value = json.loads((tmp_path / "tokenizer.json").read_text())
    for path in places({key: part for key, part in value.items() if key != "model"} | {"model": {}}):
        for other in VALUES:
            text = json.dumps(replaced(value, path, "@@")).replace('"@@"', other)
            (tmp_path / "tokenizer.json").write_text(text)
            harmless(lambda: read(FolderTokenizer.load(tmp_path)), tmp_path, (path, other))
