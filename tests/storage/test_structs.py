"""Structs stand where a layout says, or are refused."""

from __future__ import annotations

import pytest

from fastnode.storage.structs import placed


def test_members_stand_at_their_places() -> None:
    form = placed((0, "2s"), (2, "I"), (6, "B"), size=7)
    assert form.pack(b"ab", 1, 2) == b"ab\0\0\0\1\2"


@pytest.mark.parametrize("members", [((1, "I"),), ((0, "I"), (5, "I")), ((0, "I"), (3, "I"))])
def test_a_gap_and_an_overlap_are_refused(members: tuple[tuple[int, str], ...]) -> None:
    with pytest.raises(ValueError, match="the one before it ends"):
        placed(*members, size=8)


def test_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a record of 4 bytes, its layout has 5"):
        placed((0, "I"), size=5)
