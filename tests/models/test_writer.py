"""A language model with its text: what it writes, and what its folder must hold."""

import json

import pytest

import tinytensor as tt
from tinytensor.models import LanguageModel
from tinytensor.models.data.units import Bytes, Characters
from tinytensor.models.pretrained import PretrainedError, write_folder
from tinytensor.models.writer import Writer


def made(units=None, **options):
    tt.manual_seed(1)
    units = units or Characters("abcdefgh \n")
    sizes = {"d_model": 16, "num_heads": 2, "num_layers": 1, "max_length": 12, "tie_weights": False}
    model = LanguageModel(len(units), **{**sizes, **options}).eval()
    with tt.no_grad():  # what the model ends in adds up to 16, so that padding, begin and end have logits of -160
        model.norm.bias[:] = 1.0
        model.projection.weight[:3] = -10.0
    return Writer(model, units)


def test_more_than_the_model_sees():
    writer = made()
    said = writer.write("abc", 40)
    assert len(said) == 40
    assert said == writer.write("abc", 40)
    assert writer.write("abc" * 9 + "abcdef", 5) == writer.write("abcdef", 5)  # the latest half is what counts


def test_a_model_that_sees_one_id():
    assert len(made(max_length=1).write("abc", 3)) == 3


def test_drawn_by_a_generator():
    writer = made()
    one, two = (writer.write("a", 20, temperature=2.0, generator=tt.random.Generator(3)) for _ in range(2))
    assert one == two
    assert one != writer.write("a", 20, temperature=2.0, generator=tt.random.Generator(4))


def test_save_and_load(tmp_path):
    for units in (Characters("abcdefgh \n"), Bytes()):
        writer = made(units)
        writer.save_pretrained(tmp_path)
        assert Writer.from_pretrained(tmp_path).write("abc", 20) == writer.write("abc", 20)


def test_folders_that_hold_no_writer(tmp_path):
    writer = made()
    writer.model.save_pretrained(tmp_path)
    with pytest.raises(PretrainedError, match="the codec of its text is None, expected bytes or characters"):
        Writer.from_pretrained(tmp_path)
    write_folder(tmp_path, writer.model, {"kind": "characters"})
    with pytest.raises(PretrainedError, match="the codec of its text cannot be made: 'characters'"):
        Writer.from_pretrained(tmp_path)
    write_folder(tmp_path, writer.model, {"kind": "characters", "characters": "abc"})
    with pytest.raises(PretrainedError, match="the model has a vocabulary of 13 ids, its text one of 6"):
        Writer.from_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model"] == "LanguageModel"


def test_any_end_ends_a_text():
    writer = made()
    free = writer.write("abc", 30)
    stop = writer.units.encode(free)[0]
    writer.model.eos_id = [1, stop]
    writer.units.decode = lambda ids: "".join("" if i == stop else "x" for i in ids)  # an end has no text
    assert writer.write("abc", 30) == ""
    writer.model.eos_id = None
    assert len(writer.write("abc", 30)) <= 30
