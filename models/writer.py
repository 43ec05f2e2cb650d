"""A trained language model with the units of its text: text in, a continuation out."""

from __future__ import annotations

import os
from typing import Any

from .data.units import SAVED, Units
from .ids import ends
from .language_model import LanguageModel
from .pretrained import PretrainedError, make_codec, make_model, read_folder, write_folder


class Writer:
    """Continues texts.

    Args:
        model: a `LanguageModel`.
        units: turn text into ids, and ids into text.
    """

    def __init__(self, model: LanguageModel, units: Units) -> None:
        self.model, self.units = model, units

    def write(self, beginning: str, length: int, **options: Any) -> str:
        """Continue a beginning by at most `length` ids; the result does not include the beginning.

        Args:
            beginning: one character or more.
            length: may exceed the model's `max_length`: it goes on from the latest ids, half of `max_length`.
            options: those of `LanguageModel.generate`: temperature, top_k, top_p, beam, generator.

        Raises ValueError if the beginning cannot be written in ids.
        """
        ids, half = self.units.encode(beginning) or [self.model.bos_id or 0], max(1, self.model.max_length // 2)
        said: list[int] = []
        while len(said) < length:
            (more,) = self.model.generate([(ids + said)[-half:]], min(length - len(said), half), **options).tolist()
            said += more
            if any(i in more and not self.units.decode([i]) for i in ends(self.model.eos_id)):  # unless it ends a line
                break
        return self.units.decode(said)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model and the units into a folder; see `Pretrained.save_pretrained`."""
        values, files = self.units.saved()
        write_folder(folder, self.model, values, files)

    @staticmethod
    def from_pretrained(folder: str | os.PathLike[str], device: str = "cpu") -> Writer:
        """Load the writer in a folder, with its model on a device.

        Raises PretrainedError, with the file's name, if the folder holds no writer or a damaged one.
        """
        name = os.fspath(folder)
        found = read_folder(folder)
        units = make_codec(found, SAVED, name)
        model = make_model(found, {"LanguageModel": LanguageModel}, name, device)
        if model.config["vocabulary"] != len(units):
            raise PretrainedError(
                f"{name}: the model has a vocabulary of {model.config['vocabulary']} ids, its text one of {len(units)}"
            )
        return Writer(model, units)
