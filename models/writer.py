"""A trained language model with the units of its text: text in, a continuation out."""

from __future__ import annotations

import os
from typing import Any

from .data.units import SAVED, Units
from .decoding import stop_at
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
            options: those of `LanguageModel.generate`, such as temperature, top_p, num_beams, stop.

        Raises ValueError if the beginning cannot be written in ids.
        """
        ids, half = self.units.encode(beginning) or [self.model.bos_id or 0], max(1, self.model.max_length // 2)
        if options.get("num_return_sequences", 1) != 1:
            raise ValueError("write: num_return_sequences must be 1, for one text; call it for each of several")
        stop, said = stop_at(options.pop("stop", None), options.get("tokenizer", self.units)), list[int]()
        within = None if stop is None else lambda ids: stop(said + ids)
        over = ends(options.get("eos_token_id"))  # of the model's own, one that is text ends a line and not the whole
        over = over or tuple(i for i in ends(self.model.eos_id) if not self.units.decode([i]))
        while len(said) < length:
            asked = min(length - len(said), half)
            (more,) = self.model.generate([(ids + said)[-half:]], asked, stop=within, **options).tolist()
            said += more
            if any(i in more for i in over) or (stop is not None and stop(said)):
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
