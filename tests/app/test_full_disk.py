"""A disk without room: reads go on, the probes tell it, and all goes on by itself once there is room again."""

from __future__ import annotations

import asyncio
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.conftest import PATIENCE_S, NodeProcess
from tests.mempool.made import hash_of, made_txs
from tests.small_disk import mounted
from tests.taking_node import start_taking

from fastnode.app.process.node import Node
from fastnode.config.settings import Settings
from fastnode.storage import database

TIP = 16  # of the fixture short_chain
WRITES_WITH_ROOM = 12
#: Of the sample chain.
SAMPLE_TIP = 106


async def number_of_newest(node: Node) -> int:
    reply = node.public.engine.handle(b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockNumber","params":[]}')
    reply = reply if isinstance(reply, tuple) else await reply
    assert reply.body is not None
    return int(orjson.loads(reply.text)["result"])


@pytest.mark.parametrize("writes", range(WRITES_WITH_ROOM, WRITES_WITH_ROOM + 4))
def test_ingestion_waits_for_room_and_goes_on(
    tmp_path: Path, short_chain: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, writes: int
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
    monkeypatch.setattr("fastnode.app.stages.ingestion._ROOM_INTERVAL_S", 0.01)
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
    assert caplog.messages.count("ingestion waits for room on the disk") == 1


async def fill_and_free(settings: Settings, is_full: threading.Event, has_room: threading.Event) -> None:
    node = await Node.start(settings)
    condition = node.core.condition
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


# ---- the pool ----------------------------------------------------------------------------------------


@pytest.fixture
def pool_node(start_node: Callable[..., NodeProcess], tmp_path: Path, sample_chain: Path) -> NodeProcess:
    chain = tmp_path / "chain.jsonl.gz"
    shutil.copy(sample_chain, chain)
    arguments = ("--data-directory", tmp_path / "data", "--chain-file", chain, "--no-verify", "--disable-admin-api-key")
    node = start_taking(start_node, *arguments).wait_until_serving()
    node.wait_for_line("chain file loaded")
    return node


def outcome_of(node: NodeProcess, tx: dict[str, Any]) -> str:
    answer = node.call("node_sendTx", tx)
    return str(answer["error"]["data"]["code"]) if "error" in answer else "accepted"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def limit_files(node: NodeProcess, limit: int) -> None:
    """The size above which the system lets no file grow: a write beyond fails as on a disk that is full."""
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limits of another process cannot be set here")
def test_the_pool_goes_on_after_writes_that_the_disk_refused(
    pool_node: NodeProcess, start_node: Callable[..., NodeProcess], tmp_path: Path
) -> None:
    txs = list(made_txs(4))
    assert outcome_of(pool_node, txs[0]) == "accepted"
    log = max((tmp_path / "data" / "p2p").glob("*.log"))
    limit_files(pool_node, log.stat().st_size + 5000)  # in the middle of the next transaction
    assert [outcome_of(pool_node, tx) for tx in txs[1:3]] == ["DISK_FAILS"] * 2
    not_ready = pool_node.readiness()
    assert not_ready.startswith(f"cannot write the database {tmp_path / 'data' / 'p2p'}: ")
    assert not_ready.endswith("; it is opened anew every few seconds, and the node goes on by itself")
    assert pool_node.call("node_getBlockNumber")["result"] == SAMPLE_TIP
    assert pool_node.call("node_getTxByHash", hash_of(txs[0]))["result"] is not None
    limit_files(pool_node, resource.RLIM_INFINITY)
    wait_until(lambda: pool_node.readiness() == "OK")
    assert [outcome_of(pool_node, tx) for tx in txs[1:]] == ["accepted"] * 3
    assert pool_node.call("node_getPendingTxCount")["result"] == 4
    pool_node.stop(signal.SIGKILL)
    again = start_node("--data-directory", tmp_path / "data").wait_until_serving()
    wait_until(lambda: again.call("node_getPendingTxCount").get("result") == 4)
    for tx in txs:
        assert again.call("node_getTxByHash", hash_of(tx))["result"] is not None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """One with little more room than a node asks for."""
    with mounted(tmp_path / "data", database.ROOM_BYTES + (64 << 20)) as disk:
        yield disk


def test_the_pool_waits_for_room_and_goes_on(small_disk: Path, pool_node: NodeProcess) -> None:
    txs = list(made_txs(2))
    assert outcome_of(pool_node, txs[0]) == "accepted"
    filling = small_disk / "filling"
    filling.write_bytes(bytes(database.free_bytes(small_disk) - database.ROOM_BYTES + 1))
    assert outcome_of(pool_node, txs[1]) == "DISK_FULL"
    assert "is full: " in pool_node.readiness()
    assert pool_node.call("node_getBlockNumber")["result"] == SAMPLE_TIP
    assert pool_node.call("node_getPendingTxCount")["result"] == 1
    filling.unlink()
    wait_until(lambda: pool_node.readiness() == "OK")
    assert outcome_of(pool_node, txs[1]) == "accepted"
