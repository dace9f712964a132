"""A disk without room: reads go on, the probes tell it, and all goes on by itself once there is room again."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import orjson
import pytest

from fastnode.app.node import Node
from fastnode.config.settings import Settings
from fastnode.storage import database

TIP = 16  # of the fixture short_chain
WRITES_WITH_ROOM = 12


async def number_of_newest(node: Node) -> int:
    reply = node.public.engine.handle(b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockNumber","params":[]}')
    reply = reply if isinstance(reply, tuple) else await reply
    assert reply.body is not None
    return int(orjson.loads(reply.text)["result"])


@pytest.mark.parametrize("writes", range(WRITES_WITH_ROOM, WRITES_WITH_ROOM + 4))
def test_ingestion_waits_for_room_and_goes_on(
    tmp_path: Path, short_chain: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Whichever write is the first without room: that of the chain or that of the state."""
    lock, left, is_full, has_room = threading.Lock(), [writes], threading.Event(), threading.Event()

    def free_bytes(path: Path) -> int:
        with lock:
            left[0] -= 1
            if left[0] >= 0 or has_room.is_set():
                return 1 << 40
        is_full.set()
        return 0

    monkeypatch.setattr(database, "free_bytes", free_bytes)
    monkeypatch.setattr("fastnode.app.ingestion._ROOM_INTERVAL_S", 0.01)
    settings = Settings(
        data_directory=tmp_path / "data",
        chain_file=short_chain,
        verify=False,
        port=0,
        admin_port=0,
        metrics_port=0,
        disable_admin_api_key=True,
    )
    asyncio.run(fill_and_free(settings, is_full, has_room))


async def fill_and_free(settings: Settings, is_full: threading.Event, has_room: threading.Event) -> None:
    node = await Node.start(settings)
    condition = node.joined.condition
    try:
        assert await asyncio.to_thread(is_full.wait, 60)
        async with asyncio.timeout(60):
            while "is full" not in str(condition.health().not_ready):
                await asyncio.sleep(0.01)
        assert await number_of_newest(node) < TIP
        has_room.set()
        async with asyncio.timeout(60):
            while condition.health().not_ready is not None or await number_of_newest(node) < TIP:
                await asyncio.sleep(0.01)
        assert condition.health().failing == {}
    finally:
        await node.stop()
