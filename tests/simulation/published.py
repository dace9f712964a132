"""Published nodes of a world: each has what L1 has; between them is one pool, of whose transactions blocks are made.

Any of them may fail, refuse, take a transaction and never answer, or lie: say that it has taken one, and forget it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from tests.simulation.l1 import L1
from tests.sources.l1.publishing import Sheet
from tests.sources.made_chain import MadeChain, Unit
from tests.sources.scripted_upstream import RejectionError, ScriptedUpstream

from fastnode.mempool.rules import minimum_bump
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import L1PublishedData, PublishedCheckpoint
from fastnode.protocol.effects import Body
from fastnode.protocol.genesis import genesis_tips
from fastnode.protocol.tips import BlockId, L2Tips, TipId
from fastnode.sources.l1.proposals import Proposal

__all__ = ["ChainOnL1", "Published", "SentTx", "SharedPool"]

Json = dict[str, Any]
_REFUSED: Final = -32702
_BUMP: Final = 10
#: Transactions in one block, at most, beside those that nobody has sent.
_TXS_MAX: Final = 3


@dataclass(frozen=True)
class SentTx:
    """A transaction of a wallet.  ``name``: a short one, for the trace; ``anchor``: hash of the block it stands on."""

    name: str
    hash: bytes
    json: Json
    nullifiers: tuple[bytes, ...]
    fee: int
    expiration: int
    anchor: bytes


class ChainOnL1:
    """Good checkpoints that L1 has now, as a node that reads it has them: what a ScriptedUpstream asks of its chain.

    ``placed``: of each checkpoint that nobody may take back, its unit and its sheet.
    """

    def __init__(self, made: MadeChain, l1: L1, placed: Callable[[], Sequence[tuple[Unit, Sheet]]]) -> None:
        self._made, self._l1, self._placed = made, l1, placed
        self.release, self.genesis, self.chain_record = made.release, made.genesis, made.chain_record
        self._seen = b""
        self._units: list[Unit] = []
        self._blocks: list[L2Block] = []
        self._tx_hashes: frozenset[bytes] = frozenset()
        #: Those that were here at the last block of L1, by number: a day has thousands of looks at hundreds of them.
        self._known: dict[int, tuple[Sheet, bytes, Unit]] = {}

    @property
    def units(self) -> list[Unit]:
        self._renew()
        return self._units

    def _renew(self) -> None:
        l1 = self._l1
        if self._seen == l1.head.hash:
            return
        self._seen = l1.head.hash
        places = {item.number: block for block in l1.blocks for item in block.proposals}
        self._known = {unit.number: self._placed_at(unit, sheet, places[unit.number]) for unit, sheet in self._placed()}
        self._units = [unit for _, _, unit in self._known.values()]
        self._blocks = [block for unit in self._units for block in unit.blocks]
        self._tx_hashes = frozenset(effect.tx_hash for block in self._blocks for effect in block.body.tx_effects)

    def _placed_at(self, unit: Unit, sheet: Sheet, block: Any) -> tuple[Sheet, bytes, Unit]:
        known = self._known.get(unit.number)
        if known is not None and known[0] is sheet and known[1] == block.hash:
            return known
        return sheet, block.hash, replace(unit, published=self._published(sheet, block))

    def _published(self, sheet: Sheet, block: Any) -> Json:
        place = L1PublishedData(block.number, block.timestamp, block.hash)
        attestations = Proposal.from_call_data(sheet.call_data).attestations(self._l1.committee_size)
        return PublishedCheckpoint(sheet.published.checkpoint, place, attestations).to_json()

    @property
    def blocks(self) -> list[L2Block]:
        self._renew()
        return self._blocks

    def has(self, tx_hash: bytes) -> bool:
        """True if one of the blocks has this transaction."""
        self._renew()
        return tx_hash in self._tx_hashes

    def tips(self) -> L2Tips:
        tips: list[TipId] = [genesis_tips().checkpointed]
        tips += [unit.tip for unit in self.units if unit.tip is not None]
        l1, newest = self._l1, len(tips) - 1
        proposed: BlockId = tips[newest].block
        proven, final = min(l1.head.proven, newest), min(l1.blocks[l1.final].proven, newest)
        return L2Tips(proposed, tips[newest], tips[proven], tips[min(final, proven)])


class BlockFacts(NamedTuple):
    """All that a pool asks of a block."""

    hash: bytes
    nullifiers: frozenset[bytes]

    @classmethod
    def of(cls, block: L2Block) -> BlockFacts:
        return cls(block.hash(), frozenset(each for effect in block.body.tx_effects for each in effect.nullifiers))


class SharedPool:
    """Transactions that published nodes have taken.  ``made``: the chain that the proposer builds on."""

    def __init__(self, made: MadeChain, dice: random.Random) -> None:
        self._made, self._dice = made, dice
        #: By archive root.
        self._facts: dict[bytes, BlockFacts] = {}
        self.txs: dict[bytes, SentTx] = {}
        self._plain_body = made._chain._content.body
        made._chain._content.body = self._body  # type: ignore[method-assign]

    def take(self, tx: SentTx, blocks: Sequence[L2Block], now: float) -> None:
        """RejectionError, as a published node refuses one, by the chain that it has."""
        if tx.hash in self.txs and not self._is_spent(tx, blocks):
            return
        if self._is_spent(tx, blocks):
            raise _refusal("Existing nullifier")
        if not self._stands(tx, blocks):
            raise _refusal("Block header not found")
        if tx.expiration <= now:
            raise _refusal("Invalid expiration timestamp")
        for rival in self._rivals(tx):
            if tx.fee < minimum_bump(rival.fee, _BUMP):
                raise RejectionError(_REFUSED, "Nullifier conflict with existing tx", {"code": "NULLIFIER_CONFLICT"})
            del self.txs[rival.hash]
        self.txs[tx.hash] = tx

    def _rivals(self, tx: SentTx) -> list[SentTx]:
        return [other for other in self.txs.values() if other.hash != tx.hash and other.nullifiers == tx.nullifiers]

    def _is_spent(self, tx: SentTx, blocks: Sequence[L2Block]) -> bool:
        return any(tx.nullifiers[0] in self._facts_of(block).nullifiers for block in blocks)

    def _stands(self, tx: SentTx, blocks: Sequence[L2Block]) -> bool:
        genesis = bytes.fromhex(self._made.genesis["blockHash"][2:])
        return tx.anchor == genesis or any(self._facts_of(block).hash == tx.anchor for block in blocks)

    def _facts_of(self, block: L2Block) -> BlockFacts:
        facts = self._facts.get(block.archive.root)
        if facts is None:
            facts = self._facts[block.archive.root] = BlockFacts.of(block)
        return facts

    def _body(self) -> Body:
        """As a proposer fills a block: with some of what waits, beside what nobody has sent."""
        body = self._plain_body()
        blocks = self._made.blocks
        now = self._made._chain._globals_of_slot().timestamp
        for tx in [tx for tx in self.txs.values() if tx.expiration <= now]:
            del self.txs[tx.hash]
        ready = (tx for tx in list(self.txs.values()) if not self._is_spent(tx, blocks) and self._stands(tx, blocks))
        wanted = self._dice.randrange(_TXS_MAX + 1)
        return Body((*body.tx_effects, *self._effects(ready, wanted)))

    def _effects(self, ready: Iterator[SentTx], wanted: int) -> Iterator[Any]:
        for tx, _ in zip(ready, range(wanted), strict=False):
            body = self._plain_body()
            while not body.tx_effects:
                body = self._plain_body()
            yield replace(body.tx_effects[0], tx_hash=tx.hash, nullifiers=tx.nullifiers)


class Published(ScriptedUpstream):
    """``find`` gives what a wallet has sent, by its hash; ``heard`` is told of each that arrives."""

    def __init__(
        self,
        chain: ChainOnL1,
        pool: SharedPool,
        find: Callable[[str], SentTx],
        now: Callable[[], float],
        chance: random.Random,
    ) -> None:
        super().__init__(chain, is_fastnode=False)  # type: ignore[arg-type]
        self._pool, self._find, self._now, self._chance = pool, find, now, chance
        self.answers |= {"node_sendTx": self._send, "node_getTxReceipt": self._receipt}
        #: Chances of each request, or of each transaction that comes.
        self.fails = self.lies = self.stalls = self.refuses = 0.0
        self._is_silent = False

    def rest(self) -> None:
        self.fails = self.lies = self.stalls = self.refuses = 0.0

    def respond(self, _method: str, _path: str, body: bytes) -> tuple[int, bytes] | None:
        if self._is_hit(self.fails):
            return self._chance.choice([429, 500, 503]), b'{"error": "busy"}'
        self._is_silent = False
        answer = self.answer(body)
        return None if self._is_silent else (200, answer)

    def _is_hit(self, chance: float) -> bool:
        return chance > 0 and self._chance.random() < chance

    def _send(self, parameters: list[Any]) -> None:
        tx = self._find(parameters[0]["txHash"])
        assert tx.json == parameters[0], f"transaction {tx.name} comes as another one"
        if self._is_hit(self.refuses):
            raise _refusal("Transactions are not permitted")
        if self._is_hit(self.lies):
            return
        self._pool.take(tx, self.chain.blocks, self._now())
        self._is_silent = self._is_hit(self.stalls)

    def _receipt(self, parameters: list[Any]) -> Json:
        """As far as followers read it."""
        [tx_hash] = parameters
        sent = bytes.fromhex(tx_hash[2:])
        if any(effect.tx_hash == sent for block in self.chain.blocks for effect in block.body.tx_effects):
            return {"txHash": tx_hash, "status": "checkpointed"}
        if sent in self._pool.txs:
            return {"txHash": tx_hash, "status": "pending"}
        return {"txHash": tx_hash, "status": "dropped", "error": "Tx dropped by P2P node"}


def _refusal(reason: str) -> RejectionError:
    return RejectionError(_REFUSED, f"Invalid tx: {reason}", {"code": "INVALID_TX", "reasons": [reason]})
