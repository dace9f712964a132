"""The node as the peer-to-peer network sees it: its chain, its pool, its rules."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fastnode import interpreter
from fastnode.errors import DatabaseFull, DatabaseUnwritable, DecodeError, Refused
from fastnode.mempool.pool import Added, Origin
from fastnode.mempool.service import Mempool
from fastnode.mempool.validation import EXISTING_NULLIFIER
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.judging.host import Judgement
from fastnode.p2p.judging.proposal_txs import ProposalTxs
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.judging.tx_verdicts import judgement_of
from fastnode.p2p.messages.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal
from fastnode.p2p.messages.request_forms import StatusMessage, read_tx
from fastnode.p2p.transport.limits import Budget
from fastnode.protocol.constants import NULLIFIER_TREE_ID
from fastnode.protocol.header import HEADER_BYTES, BlockHeader
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_layout import TxLayout
from fastnode.view import Committed, View

__all__ = ["NodeHost"]

#: Proposed blocks whose transactions are known by their archive root.
_PROPOSALS_MAX: Final = 64
#: Age in s of a block here before a transaction that is anchored at it goes to peers.  A node of release 4.x that does
#: not have the block yet holds it against who sends the transaction, and then has that one in no mesh for minutes.
_SETTLED_S: Final = 1.5
#: The same of a block that was not proposed to this node first: others have not been told of it by peers either.
_PUBLISHED_SETTLED_S: Final = 4.0
#: Time in s for which honest peers may send transactions anchored at a block that is not, or no longer, in this chain.
_EXCUSED_S: Final = 600.0
#: Blocks by which peers may be ahead: those of a few checkpoints.
_AHEAD_MAX: Final = 32
#: Blocks whose hashes are known, of those that came newest.
_BLOCKS_MAX: Final = 512
#: Bytes of the hash before the data of a transaction.
_HASH_BYTES: Final = 32

#: Judge of proposals and attestations, of: message, peer.
_Judge = Callable[[BlockProposal | CheckpointProposal | CheckpointAttestation, str], Judgement]
#: Transactions of a block as far as peers have them, in their binary form, of: archive root, hashes, missing, peer.
Fetch = Callable[[bytes, Sequence[bytes], set[bytes], str], Sequence[bytes]]


def _may_come(tx: Tx, view: View) -> bool:
    """True if a transaction is anchored where others may have a block that did not come here, as after a start in the
    midst of a slot: behind those that L1 has.  Another one may have its number here meanwhile."""
    ahead = tx.data.anchor_block_header.global_variables.block_number - view.chain.tips.checkpointed.block.number
    return 0 < ahead <= _AHEAD_MAX


class NodeHost:
    """A :class:`~fastnode.p2p.judging.host.Host`.  ``view``: the newest, None once the node stops.

    ``is_ready``: whether the chain is new enough to judge others by it.  ``judge_proposal`` None: no proposal is
    judged here, and so none is forwarded.
    """

    def __init__(
        self,
        version: str,
        mempool: Mempool,
        view: Callable[[], View | None],
        *,
        is_ready: Callable[[], bool],
        old_spend_blocks: int,
        budget: Budget,
    ) -> None:
        self._version = version
        self._mempool = mempool
        self.view = view
        self.is_ready = is_ready
        self._old_spend_blocks = old_spend_blocks
        self.judge_proposal: _Judge | None = None
        #: Signs messages with a validator's key; None: there is none.
        self.sign: Callable[[bytes], bytes | None] | None = None
        self.fetch: Fetch = lambda root, hashes, missing, peer: ()
        self.txs = ProposalTxs(mempool, self._judge_tx, budget)
        self._proposed: OrderedDict[bytes, tuple[bytes, ...]] = OrderedDict()
        self._lock = threading.Lock()
        #: The newest blocks that have come while this node ran, by hash, and until when peers may not know them.
        self._new_until: OrderedDict[bytes, float] = OrderedDict()
        #: Hashes of the newest blocks by number, those of before the start that L1 may not bring among them.
        self._hashes: OrderedDict[int, bytes] = OrderedDict(_unpublished(view()))
        #: Blocks that the slot's proposer has proposed and those that were taken back, and until when peers may take
        #: them for a part of the chain.
        self._excused_until: OrderedDict[bytes, float] = OrderedDict()

    # ---- the chain -----------------------------------------------------------------------------

    def on_committed(self, committed: Committed) -> None:
        """The chain has changed; in the thread that ingests."""
        now = time.monotonic()
        with self._lock:
            for number in committed.undone:
                if (block_hash := self._hashes.pop(number, None)) is not None:
                    self._excuse(block_hash, now)
            for block in committed.blocks:
                is_proposed = block.number > committed.view.chain.tips.checkpointed.block.number
                self._new_until[block.hash()] = now + (_SETTLED_S if is_proposed else _PUBLISHED_SETTLED_S)
                self._hashes[block.number] = block.hash()
            while len(self._hashes) > _BLOCKS_MAX:
                self._hashes.popitem(last=False)
            for block_hash, until in list(self._new_until.items()):
                if now >= until:
                    del self._new_until[block_hash]

    def _excuse(self, block_hash: bytes, now: float) -> None:
        """With the lock."""
        self._excused_until[block_hash] = now + _EXCUSED_S
        self._excused_until.move_to_end(block_hash)
        while len(self._excused_until) > _BLOCKS_MAX:
            self._excused_until.popitem(last=False)

    def _is_excused(self, tx: Tx) -> bool:
        """True if a transaction's sender may take its anchor for a part of the chain: it was one, or may become one."""
        return time.monotonic() < self._excused_until.get(tx.data.anchor_block_hash, 0.0)

    def settling_s(self, tx: bytes) -> float:
        """Seconds until peers know the block that a transaction, in its binary form, is anchored at."""
        if not self._new_until:
            return 0.0
        begin = _HASH_BYTES + TxLayout.anchor_header
        header = BlockHeader.from_buffer(tx[begin : begin + HEADER_BYTES])
        return max(0.0, self._new_until.get(header.hash(), 0.0) - time.monotonic())

    # ---- who it is -----------------------------------------------------------------------------

    @property
    def has_validators(self) -> bool:
        return self.sign is not None

    def authenticate(self, message: bytes) -> bytes | None:
        return None if self.sign is None else self.sign(message)

    # ---- what is asked -------------------------------------------------------------------------

    def status(self) -> StatusMessage:
        view = self.view()
        if view is None:
            return StatusMessage(self._version)
        tips = view.chain.tips
        latest = tips.proposed
        return StatusMessage(self._version, latest.number, "0x" + latest.hash.hex(), tips.finalized.block.number)

    def tx(self, tx_hash: bytes) -> bytes | None:
        return self.txs.buffer_of(tx_hash)

    def block(self, number: int) -> bytes | None:
        view = self.view()
        if view is None or not view.chain.oldest_body <= number <= view.chain.tip_number:
            return None
        block = view.chain.load_block(number)
        return None if block is None else block.to_buffer()

    def tx_hashes_of(self, archive_root: bytes) -> Sequence[bytes] | None:
        proposed = self._proposed.get(archive_root)
        if proposed is not None:
            return proposed
        view = self.view()
        number = None if view is None else view.chain.block_number_by_archive(archive_root)
        return None if view is None or number is None else view.chain.tx_hashes(number)

    # ---- what is gossiped -----------------------------------------------------------------------

    def judge(self, topic: Topic, payload: bytes, peer: str) -> Judgement:
        release = self._mempool.pool.release
        try:
            if topic is Topic.TX:
                with interpreter.BUSY:
                    tx = Tx.from_buffer(read_tx(payload, release), release)
                judgement = self._judge_tx(tx, peer)
                if judgement.verdict is not Verdict.ACCEPT:
                    return judgement
                pool = self._mempool.pool
                return judgement._replace(
                    wait_s=self.settling_s(payload), is_wanted=lambda: pool.waits_for_block(tx.hash)
                )
            return self._judge_other(topic, payload, peer)
        except DecodeError as error:
            return Judgement(Verdict.REJECT, Penalty.LOW_TOLERANCE, str(error))

    def _judge_tx(self, tx: Tx, peer: str) -> Judgement:
        view = self.view()
        if view is None or view.state is None or not self.is_ready():
            # An old chain would find fault with everyone.
            return Judgement(Verdict.IGNORE, None, "the chain is not new enough here")
        if self._mempool.pool.is_waiting(tx.hash) or self._is_in_new_block(tx.hash, view):
            return Judgement(Verdict.IGNORE, None, "known")
        # Nodes that have seen another price forward it, and the price falls again: where it may wait, it is taken.
        may_wait = not self._mempool.pool.release.low_price_is_invalid
        result = self._mempool.validate(tx, view, may_wait_for_price=may_wait, client=f"peer {peer}")
        is_old = EXISTING_NULLIFIER in result.reasons and self._is_old_spend(tx, view)
        judgement = judgement_of(
            result, is_old_double_spend=is_old, is_anchor_excused=self._is_excused(tx) or _may_come(tx, view)
        )
        if judgement is not None:
            return judgement
        is_proven = result.is_valid and self._mempool.judge.verifies
        try:
            outcome = self._mempool.pool.add(
                tx, tx.to_json_bytes(), origin=Origin.NODE, forwarded=True, proof_checked=is_proven
            )
        except Refused as error:
            return Judgement(Verdict.IGNORE, None, error.message)
        except (DatabaseFull, DatabaseUnwritable) as error:  # /readyz tells of it
            return Judgement(Verdict.IGNORE, None, str(error))
        if outcome is not Added.ACCEPTED:
            return Judgement(Verdict.IGNORE, None, outcome.value)
        if not result.is_valid:
            return Judgement(Verdict.IGNORE, None, ", ".join(result.unjudged))
        return Judgement(Verdict.ACCEPT)

    def _is_in_new_block(self, tx_hash: bytes, view: View) -> bool:
        """True for a transaction of one of the newest blocks, whether or not it was in the pool before: an honest peer
        may not have that block yet, or no longer."""
        place = view.chain.tx_location(tx_hash)
        return place is not None and place.block_number > view.chain.tip_number - self._old_spend_blocks

    def _is_old_spend(self, tx: Tx, view: View) -> bool:
        state = view.state
        if state is None:
            return False
        places = state.find_leaves(NULLIFIER_TREE_ID, tx.data.nullifiers, state.tip.number)
        newest_old = view.chain.tip_number - self._old_spend_blocks
        return any(place is not None and place[1] <= newest_old for place in places)

    def _judge_other(self, topic: Topic, payload: bytes, peer: str) -> Judgement:
        message: BlockProposal | CheckpointProposal | CheckpointAttestation
        release = self._mempool.pool.release
        if topic is Topic.BLOCK_PROPOSAL:
            message = block = BlockProposal.from_buffer(payload, release)
            self._remember(block)
        elif topic is Topic.CHECKPOINT_PROPOSAL:
            message = checkpoint = CheckpointProposal.from_buffer(payload, release)
            if checkpoint.last_block is not None:
                self._remember(checkpoint.last_block)
        else:
            message = CheckpointAttestation.from_buffer(payload, release)
        if self.judge_proposal is None or not self.is_ready():
            return Judgement(Verdict.IGNORE, None, "not judged here")
        return self.judge_proposal(message, peer)

    def has_txs(self, block: BlockProposal, peer: str) -> bool:
        """True if the transactions of a proposal of the slot's proposer are here; what is missing is asked for, judged
        and kept.

        The pool evicts none of them before the slot is over.
        """
        with self._lock:
            self._excuse(block.header.hash(), time.monotonic())
        self._mempool.pool.protect(block.tx_hashes, block.slot)  # those too that come now
        missing = self.txs.missing(block.tx_hashes)
        if missing and block.txs is not None:
            self.txs.take(block.txs.txs, peer, missing)
        missing = self.find_txs(block.archive_root, block.tx_hashes, peer)
        self.txs.verify(block.tx_hashes, peer)
        return not missing

    def find_txs(self, archive_root: bytes, tx_hashes: Sequence[bytes], peer: str = "") -> set[bytes]:
        """Ask peers, one of them first, for what is missing of a block's transactions, and keep it; what all lack."""
        missing = self.txs.missing(tx_hashes)
        if missing:
            self.txs.take(self.fetch(archive_root, tx_hashes, missing, peer), peer, missing)
            missing = self.txs.missing(tx_hashes)
        return missing

    def _remember(self, block: BlockProposal) -> None:
        with self._lock:
            self._proposed[block.archive_root] = block.tx_hashes
            while len(self._proposed) > _PROPOSALS_MAX:
                self._proposed.popitem(last=False)


def _unpublished(view: View | None) -> Iterator[tuple[int, bytes]]:
    """Numbers and hashes of the blocks that L1 did not have when the node stopped."""
    if view is not None:
        chain = view.chain
        for number in range(chain.tips.checkpointed.block.number + 1, chain.tip_number + 1)[-_BLOCKS_MAX:]:
            if (info := chain.block_info(number)) is not None:
                yield number, info.hash
