"""Checks of step 12: decoding by a model whose answers are known."""

import numpy as np
from step02_node import Value

from tinytensor.models.scripts.exercises import agree, expect

BOS, EOS, PAD = 1, 2, 0


class Speller:
    """A model that says the letters of its source one after the other; where it is asked wrongly, it says so."""

    def __init__(self):
        self.encoded = 0

    def encode(self, source):
        self.encoded += 1
        return Value(source)

    def decode(self, target, memory, source):
        expect((target[:, 0] == BOS).all(), f"the target begins with {target[0, 0]}; expected BOS, which is {BOS}")
        agree(memory.data, source, "the memory that decode gets")
        length = target.shape[1]
        logits = np.zeros((*target.shape, 9))
        for i, row in enumerate(source):
            for place in range(length):
                logits[i, place, row[place] if place < len(row) else 7] = 1.0 if place == length - 1 else 2.0
        return Value(logits)


def check_generate(generate):
    """Append logits.data[:, -1].argmax(axis=-1); put PAD where the row has had EOS; stop when every row has."""
    source = np.array([[5, 4, 3, EOS, 6], [4, EOS, 8, 8, 8], [6, 6, EOS, 5, 5]])
    for longest, width in ((9, 4), (3, 3), (1, 1)):
        model = Speller()
        ids = generate(model, source, longest)
        expect(ids is not ..., "the hole is still there")
        expected = np.array([[5, 4, 3, EOS], [4, EOS, PAD, PAD], [6, 6, EOS, PAD]])[:, :width]
        letters = np.where(expected == PAD, source[:, : expected.shape[1]], expected)
        repeated = np.repeat(source[:, :1], np.shape(ids)[1], axis=1)
        mistakes = {
            "the next id is the one behind the last, at place -1": repeated,
            "BOS is no part of the result": np.pad(expected, ((0, 0), (1, 0)), constant_values=BOS),
            "behind EOS comes only PAD": letters,
            "it goes on when all rows have ended": np.pad(expected, ((0, 0), (0, max(0, longest - width)))),
        }
        if longest == 9:
            mistakes["it ends with the first row that ends: wait for all"] = expected[:, :2]
        else:
            mistakes["one id is missing at the end: there may be `longest` of them"] = expected[:, :-1]
        agree(ids, expected, f"the ids of three sources, at most {longest}", mistakes=mistakes)
        expect(model.encoded == 1, f"the source was encoded {model.encoded} times; once is enough")
