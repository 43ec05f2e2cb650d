"""A trained language model with the units of its text: text in, what may follow it out."""

from __future__ import annotations

import os
from typing import Any

from .data.units import SAVED, Units
from .language_model import LanguageModel
from .pretrained import PretrainedError, make_codec, make_model, read_folder, write_folder


class Writer:
    """Goes on with texts.

    Args:
        model: a `LanguageModel`.
        units: make ids of text, and text of ids.
    """

    def __init__(self, model: LanguageModel, units: Units) -> None:
        self.model, self.units = model, units

    def write(self, beginning: str, length: int, **options: Any) -> str:
        """What the model writes after a beginning, which is not in it: at most so many ids.

        Args:
            beginning: one character or more.
            length: may be more than the model sees: the latest half of that is what it goes on from.
            options: of `LanguageModel.generate`: temperature, top_k, top_p, beam, generator.

        Raises ValueError where the beginning cannot be written in ids.
        """
        ids, half = self.units.encode(beginning) or [self.model.bos_id], max(1, self.model.max_length // 2)
        said: list[int] = []
        while len(said) < length:
            (more,) = self.model.generate([(ids + said)[-half:]], min(length - len(said), half), **options).tolist()
            said += more
            if self.model.eos_id in more and not self.units.decode([self.model.eos_id]):  # or it is the end of a line
                break
        return self.units.decode(said)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write model and units into a folder; see `Pretrained.save_pretrained`."""
        values, files = self.units.saved()
        write_folder(folder, self.model, values, files)

    @staticmethod
    def from_pretrained(folder: str | os.PathLike[str], device: str = "cpu") -> Writer:
        """The writer in a folder, its model on a device.

        Raises PretrainedError, with the file's name, if the folder holds none or a damaged one.
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
