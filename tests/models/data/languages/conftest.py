"""Sentence pairs that several tests look at: as the grammar makes them, for training and for testing alike."""

from itertools import chain, islice

import pytest

from tinytensor.models.data.languages import pairs


def some_pairs(name):
    return list(
        chain(
            islice(pairs(name, "properties", held_out=False), 12_000),
            islice(pairs(name, "properties", held_out=True), 3_000),
        )
    )


@pytest.fixture(scope="session")
def french_pairs():
    return some_pairs("en-fr")


@pytest.fixture(scope="session")
def korean_pairs():
    return some_pairs("en-ko")
