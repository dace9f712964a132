"""A proposer on a disk without room: nothing is signed that cannot be written down, and it goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.publishing.live_l1 import needs_anvil
from tests.sequencing.network import ProposingNetwork, checkpointed, wait_until, warm_up
from tests.sequencing.played import Played, published
from tests.small_disk import mounted

from fastnode.storage.database import ROOM_BYTES, free_bytes

pytestmark = [needs_anvil, pytest.mark.long]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """One with little more room than a node asks for."""
    with mounted(tmp_path / "disk", ROOM_BYTES + (64 << 20)) as disk:
        yield disk


@pytest.mark.parametrize("left", [0, ROOM_BYTES - 1], ids=["nothing", "too little for a database"])
def test_nothing_is_signed_that_cannot_be_written_down(small_disk: Path, alone: ProposingNetwork, left: int) -> None:
    warm_up(alone.anvil)
    node = alone.proposer("--sentinel-enabled", data=str(small_disk / "data"))
    played = Played(network=alone, nodes=[node])
    played.play_until_there_is_one()
    newest, count = alone.pending, len(published(alone))
    wait_until(lambda: checkpointed(node) == newest, alone.log)
    filling = small_disk / "filling"
    filling.write_bytes(bytes(free_bytes(small_disk) - left))
    for _ in range(2):
        slot = alone.begin_slot()
        wait_until(lambda slot=slot: played.outcome(node, slot), alone.log)  # type: ignore[misc]
        assert played.outcome(node, slot) == "missed"
        assert not node.readiness().startswith("OK")
        assert checkpointed(node) == newest, "reads go on"
        alone.anvil.mine(alone.start_of(slot))
    assert len(published(alone)) == count
    filling.unlink()
    wait_until(lambda: node.readiness().startswith("OK"), lambda: node.readiness())
    played.play_until_there_is_one()
    assert "could not be looked at" not in alone.log()
