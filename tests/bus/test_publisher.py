"""What a publisher knows to be on the bus: it grows without gaps, and goes back before it grows otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.bus.publisher import Published


def checkpoint(number: int) -> Any:
    return SimpleNamespace(number=number, header_hash=bytes([number]), l1_json=b"{}")


@pytest.fixture
def published() -> Published:
    """Blocks 10 to 13, and checkpoints 5 and 6."""
    published = Published(9, 4)
    for number in range(10, 14):
        published.add_block(number, bytes([number]))
    for number in (5, 6):
        published.add_checkpoint(checkpoint(number))
    return published


def test_what_is_taken_back_is_sent_again_from_there_on(published: Published) -> None:
    published.go_back(11)
    published.go_back_to_checkpoint(5)
    assert (published.tip, sorted(published.hashes), published.checkpoint) == (11, [10, 11], 5)
    published.add_block(12, b"another one")
    published.add_checkpoint(checkpoint(6))
    published.forget_final(11, 6)
    assert (published.tip, sorted(published.hashes), sorted(published.checkpoints)) == (12, [11, 12], [6])


def test_nothing_is_left_out_and_nothing_goes_back_to_the_future(published: Published) -> None:
    for impossible in (
        lambda: published.add_block(15, b""),
        lambda: published.add_checkpoint(checkpoint(8)),
        lambda: published.add_checkpoint(checkpoint(6)),
        lambda: published.go_back(14),
        lambda: published.go_back_to_checkpoint(7),
    ):
        with pytest.raises(AssertionError):
            impossible()
    assert (published.tip, published.checkpoint) == (13, 6)
