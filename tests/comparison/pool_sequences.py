"""Random histories of a transaction pool: additions, blocks, undone and final blocks, failed transactions, time.

A sequence is a list of steps that says everything itself, so that both pools can go through it, and a test without the
published node::

    options     limit, bump, deleteAll
    step        {"do": "add", "tx": description, "isClient"} | "block" | "undo" | "final" | "drop" | "time"
                with the world behind it, except for "add"

A transaction is a description of what a pool looks at (``pool_tx``).
"""

from __future__ import annotations

import base64
import functools
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tests.comparison.transaction_cases import Pieces, word
from tests.comparison.transaction_differences import pool_explanation
from tests.comparison.transaction_outcomes import Json, bases, ledger_of, text, world

from fastnode.errors import Refused
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.entries import TxState
from fastnode.mempool.ledger import balance_slot
from fastnode.mempool.pool import Origin, PoolOptions, TxPool
from fastnode.mempool.pricing import claim_amount
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_layout import USUAL

SLOT_S, FIRST_BLOCK, START = 36, 3, 1_000_000
PAYERS: Final = tuple(word(1000 + index) for index in range(3))
NULLIFIERS, ANCHORS_AT_START = 60, 3
STEPS = 80
#: Fees at which a bump of 10 or 50 % is a whole number: it is rounded up here and down there.
PRIORITIES = (0, 10, 20, 30, 100, 110, 120, 200, 1000)


@functools.cache
def _anchors() -> list[bytes]:
    """Anchor headers, as bytes."""
    headers = {tx.data.anchor_block_hash: tx.data.buffer[USUAL.anchor_header : USUAL.chain_id] for tx in bases()}
    return list(headers.values())


@functools.cache
def _anchor_hashes() -> list[str]:
    return [str(text(value)) for value in dict.fromkeys(tx.data.anchor_block_hash for tx in bases())]


@functools.cache
def _pool_bases() -> list[Tx]:
    """Private and public ones, and one that claims what it pays with."""
    private = [tx for tx in bases() if not tx.data.is_public and not tx.class_logs][:4]
    public = [tx for tx in bases() if tx.data.is_public and not tx.data.setup_calls and not tx.class_logs][:2]
    return private + public + [tx for tx in bases() if claim_amount(tx, FOUR)][:1]


def pool_tx(description: Json) -> Tx:
    pieces = Pieces(_pool_bases()[description["base"]])
    pieces.put(USUAL.anchor_header, _anchors()[description["anchor"]])
    pieces.put(USUAL.max_priority_fees + 16, description["priority"].to_bytes(16, "big"))
    pieces.put(USUAL.max_fees, bytes(16) + description["fee"].to_bytes(16, "big"))
    pieces.put(USUAL.gas_limits, (96).to_bytes(4, "big") + description["gas"].to_bytes(4, "big"))
    if description["payer"] is not None:
        pieces.put(USUAL.fee_payer, PAYERS[description["payer"]])
    pieces.put(USUAL.expiration, description["expires"].to_bytes(8, "big"))
    for phase in pieces.phases:
        pieces.put(phase + USUAL.nullifiers, bytes(USUAL.messages - USUAL.nullifiers))
    for place, nullifier in enumerate(description["nullifiers"]):
        pieces.put(pieces.phases[0] + USUAL.nullifiers + 32 * place, word(5000 + nullifier))
    return Tx.from_buffer(pieces.buffer(), FOUR)


# ---- sequences -------------------------------------------------------------------------------------


class _Maker:
    """A model of the chain, which knows all transactions that were ever made."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        balances = {str(text(payer)): str(source.choice((0, 2 * 10**7, 10**9, 10**12, 10**12))) for payer in PAYERS}
        self.world = {
            **world(),
            "anchors": _anchor_hashes()[:ANCHORS_AT_START],
            "nullifiers": [],
            "balances": balances,
            "classes": {},
            "mined": {},
            "timestamp": START,
            "blockNumber": FIRST_BLOCK + 1,
        }
        self.first = self.world
        self._blocks = [(FIRST_BLOCK, self.world)]
        self._made: dict[str, tuple[Json, list[str], str]] = {}

    def _description(self) -> Json:
        source, base = self._source, self._source.randrange(len(_pool_bases()))
        priority = source.choice(PRIORITIES)
        later = source.choice((0, -1, SLOT_S, 2 * SLOT_S, 3 * SLOT_S, *[100_000] * 12))
        claims = bool(claim_amount(_pool_bases()[base], FOUR))
        nullifiers = source.sample(range(NULLIFIERS), source.choice((1, 1, 2, 3)))
        anchors = len(self.world["anchors"]) + (source.random() < 0.1)
        return {
            "base": base,
            "anchor": source.randrange(min(anchors, len(_anchors()))),
            "priority": priority,
            "fee": source.choice((10, priority, priority + 10, 2000)),
            "gas": source.choice((439_999, 440_000, 540_000, *[1_000_000] * 12, 6_540_000, 6_540_001)),
            "payer": None if claims else source.randrange(len(PAYERS)),
            "expires": self.world["timestamp"] + later,
            "nullifiers": nullifiers + (nullifiers[:1] if source.random() < 0.03 else []),
        }

    def add(self) -> Json | None:
        source = self._source
        if self._made and source.random() < 0.08:
            tx_hash, (description, _, _) = source.choice(list(self._made.items()))
            if tx_hash in self.world["mined"]:  # the published pool takes it as mined, here it is on the chain
                return None
        else:
            description = self._description()
            tx = pool_tx(description)
            names = [str(text(nullifier)) for nullifier in tx.data.nullifiers]
            self._made[str(text(tx.hash))] = description, names, str(text(tx.data.fee_payer))
        return {"do": "add", "tx": description, "isClient": source.random() < 0.6}

    def block(self) -> Json:
        """Transactions that a proposer could take: no two of one nullifier; a foreign nullifier; payers with less."""
        source, before = self._source, self.world
        waiting = [(tx_hash, *rest) for tx_hash, rest in self._made.items() if tx_hash not in before["mined"]]
        chosen, used = [], set(before["nullifiers"])
        for tx_hash, _, nullifiers, payer in source.sample(waiting, min(len(waiting), source.choice((0, 1, 2, 3)))):
            if used.isdisjoint(nullifiers) and len(set(nullifiers)) == len(nullifiers):
                used.update(nullifiers)
                chosen.append((tx_hash, nullifiers, payer))
        foreign = str(text(word(5000 + source.randrange(NULLIFIERS))))
        others = [foreign] if source.random() < 0.3 and foreign not in used else []
        balances = dict(before["balances"])
        for payer in sorted({payer for _, _, payer in chosen} & balances.keys()):
            balances[payer] = str(max(0, int(balances[payer]) - source.choice((10, 10**6, 10**7))))
        number, at = before["blockNumber"], before["timestamp"]
        effects = [[tx_hash, *nullifiers] for tx_hash, nullifiers, _ in chosen]
        effects.append([str(text(word(99_999 + number))), *others])
        self.world = {
            **before,
            "anchors": _anchor_hashes()[: len(before["anchors"]) + 1],
            "nullifiers": before["nullifiers"] + [item for effect in effects for item in effect[1:]],
            "balances": balances,
            "mined": before["mined"] | {tx_hash: number for tx_hash, _, _ in chosen},
            "blockNumber": number + 1,
            "timestamp": at + SLOT_S,
        }
        self._blocks.append((number, self.world))
        changed = [payer for payer in balances if balances[payer] != before["balances"][payer]]
        block = {"do": "block", "number": number, "timestamp": at, "effects": effects, "changed": changed}
        return {**block, "made": self.world}

    def undo(self) -> Json | None:
        if len(self._blocks) < 3:
            return None
        keep = self._source.randrange(max(1, len(self._blocks) - 3), len(self._blocks) - 1)
        number, before = self._blocks[keep]
        self._blocks = self._blocks[: keep + 1]
        self.world = {**before, "timestamp": self.world["timestamp"]}
        return {"do": "undo", "number": number, "made": self.world}

    def final(self) -> Json:
        number = self._blocks[min(1, len(self._blocks) - 1)][0]
        if len(self._blocks) > 4:
            self._blocks = self._blocks[1:]
        return {"do": "final", "number": number}

    def drop(self) -> Json | None:
        waiting = [tx_hash for tx_hash in self._made if tx_hash not in self.world["mined"]]
        return {"do": "drop", "hashes": [self._source.choice(waiting)]} if waiting else None

    def time(self) -> Json:
        self.world = {**self.world, "timestamp": self.world["timestamp"] + SLOT_S}
        return {"do": "time", "made": self.world}


def sequence(source: random.Random, steps: int = STEPS) -> Json:
    options = {
        "limit": source.choice((0, 3, 5, 8)),
        "bump": source.choice((0, 10, 10, 50)),
        "deleteAll": source.random() < 0.1,
    }
    maker, found = _Maker(source), list[Json]()
    kinds = [
        (12, maker.add),
        (3, maker.block),
        (1, maker.undo),
        (0.5, maker.final),
        (0.7, maker.drop),
        (0.5, maker.time),
    ]
    for chosen in source.choices([kind for _, kind in kinds], [weight for weight, _ in kinds], k=steps):
        step = chosen()
        if step is not None:
            found.append({**step, "deleteAll": options["deleteAll"]} if step["do"] == "undo" else step)
    return {"op": "pool", "options": options, "made": maker.first, "steps": found}


def sequences(seed: int) -> Iterator[Json]:
    source = random.Random(f"pools {seed}")
    while True:
        yield sequence(source)


# ---- the pool of this project ------------------------------------------------------------------------


class PoolHere:
    """A pool that goes through a sequence."""

    def __init__(self, case: Json) -> None:
        options = case["options"]
        self._world = case["made"]
        self._folder = Path(tempfile.mkdtemp(prefix="pool-"))
        settings = PoolOptions(
            pending_max=options["limit"],
            price_bump_percentage=options["bump"],
            delete_after_reorg=options["deleteAll"],
        )
        clock = SlotClock(0, 1, 0, lambda: float(self._world["timestamp"]))
        ledger = ledger_of(self._world)
        self.pool = TxPool.open(
            self._folder / "pool", ledger, clock, genesis_hash=bytes(32), options=settings, release=FOUR
        )
        self._hashes: dict[bytes, None] = {}

    def close(self) -> None:
        self.pool.close()
        shutil.rmtree(self._folder)

    @property
    def hashes(self) -> list[str]:
        return [str(text(tx_hash)) for tx_hash in self._hashes]

    def is_mined(self, tx_hash: str) -> bool:
        return self.pool.state_of(bytes.fromhex(tx_hash[2:])) is TxState.MINED

    def step(self, step: Json) -> Json:
        """Answer to the step, pending transactions in order, and which are mined."""
        answer, made = None, step.get("made")
        if made is not None:
            self._world = made
        if step["do"] == "add":
            answer = self._add(pool_tx(step["tx"]), is_client=step["isClient"])
        elif step["do"] == "block":
            self.pool.on_block(ledger_of(made), self._block(step))
        elif step["do"] == "undo":
            self.pool.on_undo(ledger_of(made))
        elif step["do"] == "final":
            self.pool.on_finalized(step["number"])
        elif step["do"] == "drop":
            for tx_hash in step["hashes"]:
                self.pool.drop(bytes.fromhex(tx_hash[2:]), "failed")
        return {
            "answer": answer,
            "pending": [text(tx_hash) for tx_hash in self.pool.pending_hashes()],
            "mined": [self.is_mined(tx_hash) for tx_hash in self.hashes],
        }

    def _add(self, tx: Tx, *, is_client: bool) -> Sequence[Any]:
        self._hashes[tx.hash] = None
        try:
            outcome = self.pool.add(tx, tx.to_json_bytes(), origin=Origin.CLIENT if is_client else Origin.NODE)
        except Refused as error:
            return ["ignored", error.data["code"], error.message]
        return ["accepted"] if outcome.value == "accepted" else ["ignored", None, None]

    def _block(self, step: Json) -> Any:
        writes = [
            SimpleNamespace(leaf_slot=balance_slot(bytes.fromhex(payer[2:]), FOUR.addresses.fee_juice))
            for payer in step["changed"]
        ]
        effects = [
            SimpleNamespace(
                tx_hash=bytes.fromhex(effect[0][2:]),
                nullifiers=[bytes.fromhex(item[2:]) for item in effect[1:]],
                public_data_writes=writes,
            )
            for effect in step["effects"]
        ]
        header = SimpleNamespace(global_variables=SimpleNamespace(timestamp=step["timestamp"]))
        return SimpleNamespace(number=step["number"], header=header, body=SimpleNamespace(tx_effects=effects))


def steps_there(case: Json) -> Iterator[Json]:
    """The steps as the published pool takes them: transactions in bytes, and all hashes whose state is told."""
    hashes: dict[str, None] = {}
    for step in case["steps"]:
        sent = {**step, "op": "step"}
        if step["do"] == "add":
            tx = pool_tx(step["tx"])
            hashes[str(text(tx.hash))] = None
            sent["tx"] = base64.b64encode(tx.to_buffer()).decode()
        yield {**sent, "all": list(hashes)}


class PoolWalk:
    """A sequence, gone through here: what each step came to, and how the published pool is asked for it."""

    def __init__(self, case: Json) -> None:
        self.case, self.answers, self.sent = case, list[Json](), list(steps_there(case))
        #: By step: what the pool had in blocks before, and why it has let go of others with it.
        self._mined_before, self._causes = list[set[str]](), list[set[str]]()
        here = PoolHere(case)
        try:
            for step in case["steps"]:
                self._mined_before.append({tx_hash for tx_hash in here.hashes if here.is_mined(tx_hash)})
                events = here.pool.events.copy()
                self.answers.append(here.step(step))
                self._causes.append({cause for cause, count in here.pool.events.items() if count > events[cause]})
        finally:
            here.close()

    def explanation(self, place: int, there: Json) -> str | None:
        """The row that explains what is said there of a step."""
        step, ours = self.case["steps"][place], self.answers[place]
        before, causes = self._mined_before[place], self._causes[place]
        return pool_explanation(self.case, step, before, causes, ours, there, self._txs())

    def can_go_on(self, place: int, there: Json) -> bool:
        """True if the published pool has all that is here, so that what it has more can be dropped."""
        return set(self.answers[place]["pending"]) <= set(there["pending"])

    def _txs(self) -> dict[str, Tx]:
        txs = (pool_tx(step["tx"]) for step in self.case["steps"] if step["do"] == "add")
        return {str(text(tx.hash)): tx for tx in txs}
