"""The model that several lessons share: it learns its task, and only the first lesson trains it."""

import pytest

from tinytensor.models.data.sequences import SequenceTask
from tinytensor.models.scripts import copy_task
from tinytensor.models.scripts.lesson import Lesson


@pytest.mark.slow
def test_it_writes_words_backwards_and_is_trained_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model, letters = Lesson("98_first").letters_backwards()
    assert "learning to write backwards" in capsys.readouterr().out
    task = SequenceTask("reverse", 0, max_length=12)
    unseen = task.test_sequences(300)
    answers = copy_task.generate(model, task, unseen)
    assert sum(answer == task.answer(word) for answer, word in zip(answers, unseen)) > 0.95 * 300
    assert letters.encode("abc") == task.to_ids("abc")
    assert not model.training
    again, _ = Lesson("99_second").letters_backwards()
    assert "learning" not in capsys.readouterr().out
    assert [path.name.partition("-")[0] for path in (tmp_path / "runs/lessons/trained").iterdir()] == [
        "letters_backwards"
    ]
    assert (again.projection.weight.numpy() == model.projection.weight.numpy()).all()
