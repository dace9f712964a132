"""Random damage to the files of each database, while the node is stopped: never a wrong answer.

A damaged node may refuse to start, refuse a call, or answer as before; what it may not do is say something else.  Ten
damages a database; FASTNODE_LONG=1 makes a hundred.  FASTNODE_SEED=N repeats those of another run.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import orjson
import pytest
from tests.api.test_recorded_queries import SAMPLE
from tests.conftest import PATIENCE_S
from tests.mempool.made import made_txs

from fastnode.app.process.node import Node
from fastnode.chain_data import ChainData
from fastnode.config.settings import Settings
from fastnode.errors import FastnodeError
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.store import PoolStore, entry_key, json_key
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.storage.database import KEY_BYTES_MAX, open_leveldb

DAMAGES = 100 if os.environ.get("FASTNODE_LONG") == "1" else 10
SEED = int(os.environ.get("FASTNODE_SEED", "1"))
QUESTIONS_PER_METHOD = 12
ROTTEN_EVERY_BYTES = 4096
DATABASES = ("archiver", "world_state", "p2p")

Answers = list[dict[str, Any]]


class Outcome(NamedTuple):
    """What a node said: why it did not start, or its answers; and whether probes and log told of damage."""

    refusal: str | None
    answers: Answers
    not_ready: str | None
    lines: list[str]


def questions() -> list[bytes]:
    """Recorded questions of every kind that is answered from the databases, and some about what waits."""
    asked: Counter[str] = Counter()
    bodies = []
    with gzip.open(SAMPLE) as lines:
        records = [orjson.loads(line) for line in lines]
    Random(1).shuffle(records)
    txs = [Tx.from_json(value, FOUR).hash.hex() for value in made_txs(4)]
    records += [{"method": "node_getPendingTxs", "params": []}, {"method": "node_getPendingTxCount", "params": []}]
    records += [{"method": "node_getTxByHash", "params": ["0x" + tx]} for tx in txs]
    records += [{"method": "node_getTxReceipt", "params": ["0x" + tx]} for tx in txs]
    for record in records:
        if asked[record["method"]] >= QUESTIONS_PER_METHOD or record.get("volatile"):
            continue
        asked[record["method"]] += 1
        bodies.append(orjson.dumps({"jsonrpc": "2.0", "id": 1} | {key: record[key] for key in ("method", "params")}))
    return bodies


QUESTIONS = questions()


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, sample_chain: Path) -> Path:
    """A stopped node's data: tables with most of it, logs with the rest, a pool with transactions."""
    directory = tmp_path_factory.mktemp("whole")
    with ChainData.open(directory) as data:
        adopt_chain_file(data.store, sample_chain)
        ingestor = data.open_ingestor(verify=False)
        import_chain_file(ingestor, sample_chain)
        ingestor.undo_above(90)
        genesis_hash = data.store.chain.genesis_block_hash
    waiting = [Tx.from_json(value, FOUR) for value in made_txs(4)]
    store = PoolStore.open(directory / "p2p", genesis_hash)
    put(store, waiting[:2])
    store.close()
    for name in DATABASES:
        with open_leveldb(directory / name, create=False) as foundation:
            foundation.compact_range(start=b"\0", stop=b"\xff" * KEY_BYTES_MAX)
    store = PoolStore.open(directory / "p2p", genesis_hash)
    put(store, waiting[2:])
    store.close()
    with ChainData.open(directory) as data:
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        import_chain_file(ingestor, sample_chain)
    return directory


def put(store: PoolStore, txs: list[Tx]) -> None:
    for tx in txs:
        changes = [(entry_key(tx.hash), PoolEntry.of(tx, FOUR).encode()), (json_key(tx.hash), tx.to_json_bytes())]
        store.commit(store.stage(changes))


def run(directory: Path) -> Outcome:
    """Start a node on the directory, ask it everything, stop it."""
    lines = Lines()
    logger = logging.getLogger("fastnode")
    logger.addHandler(lines)
    try:
        return asyncio.run(_run(directory, lines))
    finally:
        logger.removeHandler(lines)


async def _run(directory: Path, lines: Lines) -> Outcome:
    settings = Settings(data_directory=directory, port=0, admin_port=0, metrics_port=0, disable_admin_api_key=True)
    try:
        node = await Node.start(settings)
    except FastnodeError as error:
        return Outcome(str(error), [], None, lines.lines)
    try:
        await until_settled(node, directory)
        answers = []
        for question in QUESTIONS:
            reply = node.public.engine.handle(question)
            reply = reply if isinstance(reply, tuple) else await reply
            assert reply.body is not None
            answers.append(orjson.loads(reply.text))
        return Outcome(None, answers, node.core.condition.health().not_ready, lines.lines)
    finally:
        await node.stop()


async def until_settled(node: Node, directory: Path) -> None:
    """Until the trees have caught up with the chain, or a probe says what is damaged."""
    for _ in range(int(PATIENCE_S / 0.05)):
        not_ready = node.core.condition.health().not_ready
        if not_ready is None or str(directory) in not_ready:
            return
        await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def truth(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    copy = tmp_path_factory.mktemp("truth") / "data"
    shutil.copytree(whole, copy)
    outcome = run(copy)
    assert outcome.refusal is None
    assert outcome.not_ready is None
    assert sum("result" in answer for answer in outcome.answers) > len(QUESTIONS) // 2
    return outcome.answers


def damage(database: Path, random: Random) -> str:
    """Change one of the files; what was done, for people."""
    files = sorted(file for file in database.iterdir() if file.name not in ("LOCK", "LOG", "LOG.old"))
    file = random.choice(files)
    content = bytearray(file.read_bytes())
    kind = random.choice(("bit", "bits", "rot", "rot", "cut", "missing") if content else ("missing",))
    if kind == "missing":
        file.unlink()
        return f"{file.name} removed"
    if kind == "cut":
        length = random.randrange(len(content))
        file.write_bytes(content[:length])
        return f"{file.name} cut from {len(content)} to {length} bytes"
    # So many that the questions meet some.
    count = {"bit": 1, "bits": 20, "rot": 1 + len(content) // ROTTEN_EVERY_BYTES}[kind]
    # Rot spares the end, where a table has its index: without that nothing of the rest would be read.
    end = len(content) * 4 // 5 + 1 if kind == "rot" else len(content)
    for _ in range(count):
        content[random.randrange(end)] ^= 1 << random.randrange(8)
    file.write_bytes(content)
    return f"{file.name} with {count} of {8 * len(content)} bits flipped"


@pytest.mark.parametrize("number", range(DAMAGES))
@pytest.mark.parametrize("database", DATABASES)
def test_no_damage_makes_a_node_lie(whole: Path, truth: Answers, tmp_path: Path, database: str, number: int) -> None:
    copy = tmp_path / "data"
    shutil.copytree(whole, copy)
    what = damage(copy / database, Random(f"{SEED} {database} {number}"))
    outcome = run(copy)
    if outcome.refusal is not None:
        assert str(copy / database) in outcome.refusal, f"{what}: {outcome.refusal}"
        return
    wrong = [
        (question, answer)
        for question, right, answer in zip(QUESTIONS, truth, outcome.answers, strict=True)
        if answer != right and "error" not in answer
    ]
    assert wrong == [], what
    if outcome.answers != truth:
        assert outcome.not_ready is not None, f"{what}: /readyz does not say it"
        assert str(copy / database) in outcome.not_ready
        assert any(str(copy / database) in line for line in outcome.lines), f"{what}: the log does not say it"
