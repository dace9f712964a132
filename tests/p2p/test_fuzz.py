"""Spoiled inputs for everything that reads what peers send; ``scripts/fuzz peers`` does it under sanitizers."""

from __future__ import annotations

from tests.p2p import fuzz

INPUTS = 20_000


def test_readers_refuse_what_is_wrong_and_nothing_else_happens() -> None:
    made, refused = fuzz.fuzz(INPUTS, 1)
    assert set(made) == set(fuzz.SUBJECTS)
    for name, count in made.items():
        # Spoiled they are refused, and as they should be they are not: both have happened.
        assert 0 < refused[name] < count, name
