"""Clients on all workers while the followed chain takes blocks back and gives others, and processes are killed."""

from __future__ import annotations

import http.client
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.conftest import PATIENCE_S, NodeProcess
from tests.sources.made_chain import MadeChain, made_chain
from tests.sources.scripted_upstream import ScriptedUpstream, scripted_upstream
from tests.workers.nodes import WORKERS, Client, Workers, until

from fastnode import verify

ROUNDS = 200 if os.environ.get("FASTNODE_LONG") == "1" else 5
CLIENTS = 3
DEPTH_MAX = 6
#: A fork opens the newest checkpoint again: left to chance alone, one would come to have more blocks than it may.
CHECKPOINT_BLOCKS_MAX = 20
SEED = 22
#: No transaction has it.
NULLIFIER = f"0x{1 << 200:064x}"
QUESTIONS = (
    ("node_getBlockNumber", []),
    ("node_getL2Tips", []),
    ("node_getBlockHeader", ["latest"]),
    ("node_getLowNullifierMembershipWitness", ["latest", NULLIFIER]),
)
BATCH = orjson.dumps(
    [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(QUESTIONS)
    ]
)


class Walk:
    """What the followed chain was and is; a block is known before anybody can have it."""

    def __init__(self, chain: MadeChain, upstream: ScriptedUpstream) -> None:
        self._chain = chain
        self._upstream = upstream
        self.known: dict[str, int] = {}
        #: Blocks that were taken back at some time.
        self.undone: set[str] = set()

    def grow(self, source: random.Random) -> None:
        with self._upstream.lock:
            self._chain.propose(source.randint(1, 2))
            self._note()
            if source.random() < 0.4:
                self._chain.publish()

    def fork(self, source: random.Random) -> None:
        with self._upstream.lock:
            before = [f"0x{block.hash().hex()}" for block in self._chain.blocks]
            self._chain.undo_to(max(1, self._chain.tip - source.randint(1, DEPTH_MAX)))
            self.undone.update(before[self._chain.tip :])
            newest = self._chain.units[-1]
            if newest.published is None and len(newest.blocks) > CHECKPOINT_BLOCKS_MAX:
                self._chain.publish()
            self._chain.propose(source.randint(1, 4))
            self._note()

    def _note(self) -> None:
        self.known |= {f"0x{block.hash().hex()}": block.number for block in self._chain.blocks}

    @property
    def tip(self) -> str:
        with self._upstream.lock:
            return f"0x{self._chain.block_id(self._chain.tip).hash.hex()}"


class Asker(threading.Thread):
    """One client, which connects anew when its connection is lost."""

    def __init__(self, port: int, walk: Walk) -> None:
        super().__init__()
        self._port = port
        self._walk = walk
        self.stop_asked = threading.Event()
        self.seen: set[str] = set()
        self.faults: list[str] = []

    def run(self) -> None:
        while not self.stop_asked.is_set() and not self.faults:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
            number, tip = 0, ""
            try:
                while not self.stop_asked.is_set() and not self.faults:
                    before, was = number, tip
                    number, tip = self._ask(connection)
                    if number < before and was not in self._walk.undone:
                        self.faults.append(f"the tip went back from {before} to {number} and nothing was undone")
            except (OSError, http.client.HTTPException):
                continue
            except verify.VerificationError as error:
                self.faults.append(str(error))
            finally:
                connection.close()

    def _ask(self, connection: http.client.HTTPConnection) -> tuple[int, str]:
        connection.request("POST", "/", BATCH, {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise http.client.HTTPException(f"{response.status}")
        by_id = {answer["id"]: answer.get("result") for answer in orjson.loads(body)}
        number, tips, header, witness = (by_id[place] for place in range(len(QUESTIONS)))
        if not number:
            return 0, ""
        tip = tips["proposed"]["hash"]
        if self._walk.known.get(tip) != number or tips["proposed"]["number"] != number:
            self.faults.append(f"block {number} {tip} was never the tip")
        # The header is that of the tip, and the trees are those of the header.
        verify.absent_nullifier(witness, verify.header(header, tip), NULLIFIER)
        self.seen.add(tip)
        return int(number), str(tip)


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[MadeChain]:
    with made_chain(tmp_path / "made") as chain:
        yield chain


@pytest.fixture
def upstream(chain: MadeChain) -> Iterator[ScriptedUpstream]:
    with scripted_upstream(chain) as upstream:
        yield upstream


def test_every_answer_is_of_one_block_that_was_the_tip_while_other_blocks_take_its_place(
    start_node: Callable[..., NodeProcess], chain: MadeChain, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    walk, dice = Walk(chain, upstream), random.Random(SEED)
    for _ in range(4):
        walk.grow(dice)
    workers = Workers(
        start_node(
            f"--workers={WORKERS}",
            f"--upstream-url={upstream.url}",
            f"--data-directory={tmp_path / 'data'}",
            "--archiver-polling-interval-ms=20",
        )
    )

    def has_come() -> bool:
        client = Client(workers.node.port)
        try:
            tips = client.call("node_getL2Tips").get("result")
            # While no worker has a copy yet the answer is that the node is starting.
            return tips is not None and bool(tips["proposed"]["hash"] == walk.tip)
        except (OSError, http.client.HTTPException):
            return False
        finally:
            client.close()

    until(has_come, "the chain is not followed")
    askers = [Asker(workers.node.port, walk) for _ in range(CLIENTS)]
    for asker in askers:
        asker.start()
    try:
        for number in range(ROUNDS):
            if number % 5 == 2:
                with suppress(StopIteration, ProcessLookupError):
                    workers.kill(dice.choice(["worker 1", "worker 2", "primary"]))
            for step in (walk.fork, walk.grow):
                step(dice)
                until(has_come, "a worker does not come to the tip")
                until(lambda: any(asker.faults or walk.tip in asker.seen for asker in askers), "no client sees the tip")
            assert not any(asker.faults for asker in askers), [asker.faults for asker in askers]
        for _ in range(12):
            until(has_come, "a worker does not come to the tip")
    finally:
        for asker in askers:
            asker.stop_asked.set()
            asker.join()
        workers.close()
    assert [asker.faults for asker in askers] == [[]] * CLIENTS
    seen: set[Any] = set().union(*(asker.seen for asker in askers))
    assert len(seen & walk.undone) > ROUNDS // 4
    assert workers.node.stop() == 0
