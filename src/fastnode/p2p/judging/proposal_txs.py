"""The transactions of proposed blocks: from the pool, and beside it where the pool has no place for them.

A proposal may have a transaction that the pool refuses: it pays less than what waits here, or is anchored at a block of
the same checkpoint that is not stored yet.  Such a one is kept for the few seconds of its slot if it is of this network
and what it says it is, proof included; whether it may be in its block is found out by executing that.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import orjson

from fastnode import interpreter
from fastnode.errors import DecodeError, PeerFault
from fastnode.p2p.messages.tx_forms import tx_buffer_of_json
from fastnode.p2p.transport.limits import Budget, PeerMemory
from fastnode.proofs.verdict import Judgement
from fastnode.protocol.tx import Tx

if TYPE_CHECKING:
    from fastnode.mempool.service import Mempool

__all__ = ["ProposalTxs"]

#: Kept beside the pool.
_BESIDE_BYTES_MAX: Final = 32 << 20


class ProposalTxs:
    """Usable from any thread.  ``judge`` offers one of a peer to the pool."""

    def __init__(self, mempool: Mempool, judge: Callable[[Tx, str], object], budget: Budget) -> None:
        self._mempool = mempool
        self._release = mempool.pool.release
        self._judge = judge
        self._lock = threading.Lock()
        self._memory = PeerMemory(budget)
        #: Sound ones, proofs checked, in their binary form.
        self._beside: OrderedDict[bytes, bytes] = OrderedDict()

    def buffer_of(self, tx_hash: bytes) -> bytes | None:
        """The binary form, from either place; also of one that is final, if it is kept."""
        tx_json = self._mempool.pool.known_tx_json(tx_hash)
        return self._beside.get(tx_hash) if tx_json is None else tx_buffer_of_json(tx_json)

    def missing(self, tx_hashes: Iterable[bytes]) -> set[bytes]:
        pool = self._mempool.pool
        return {tx_hash for tx_hash in tx_hashes if not pool.is_waiting(tx_hash) and tx_hash not in self._beside}

    def take(self, buffers: Iterable[bytes], peer: str, wanted: set[bytes]) -> None:
        """From a peer: into the pool, or beside it.  What is not ``wanted`` or not sound is left out."""
        for buffer in buffers:
            try:
                with interpreter.BUSY:
                    tx = Tx.from_buffer(buffer, self._release)
                if tx.hash not in wanted:
                    continue
            except DecodeError:
                continue
            self._judge(tx, peer)
            if not self._mempool.pool.is_waiting(tx.hash) and self._is_sound(tx, peer):
                self._keep(tx.hash, buffer)

    def verify(self, tx_hashes: Iterable[bytes], peer: str) -> None:
        """Check the proofs of what the pool has taken on another node's word."""
        if not self._mempool.judge.verifies:
            return
        for tx_hash in tx_hashes:
            entry = self._mempool.pool.entry(tx_hash)
            if entry is None or entry.proof_checked or tx_hash in self._beside:
                continue
            buffer = self.buffer_of(tx_hash)
            if buffer is not None and self._is_sound(Tx.from_buffer(buffer, self._release), peer):
                self._keep(tx_hash, buffer)

    def of(self, tx_hashes: Iterable[bytes]) -> Sequence[Tx] | None:
        """All of a block in its order; None if one is missing, or has a proof that was not checked here."""
        found = []
        for tx_hash in tx_hashes:
            tx = self._checked(tx_hash)
            if tx is None:
                return None
            found.append(tx)
        return found

    def _checked(self, tx_hash: bytes) -> Tx | None:
        buffer = self._beside.get(tx_hash)
        if buffer is not None:
            return Tx.from_buffer(buffer, self._release)
        pool = self._mempool.pool
        entry, tx_json = pool.entry(tx_hash), pool.tx_json(tx_hash)
        if entry is None or tx_json is None or (self._mempool.judge.verifies and not entry.proof_checked):
            return None
        return Tx.from_json(orjson.loads(tx_json), self._release)

    def _is_sound(self, tx: Tx, peer: str) -> bool:
        if self._mempool.validator.integrity_reason(tx) is not None:
            return False
        return self._mempool.judge.judge(tx, f"peer {peer}").judgement is Judgement.VALID

    def _keep(self, tx_hash: bytes, buffer: bytes) -> None:
        with self._lock:
            self._beside[tx_hash] = buffer
            size = sum(len(kept) for kept in self._beside.values())
            while size > _BESIDE_BYTES_MAX:
                size -= len(self._beside.popitem(last=False)[1])
            try:
                self._memory.hold(size)
            except PeerFault:
                del self._beside[tx_hash]

    def close(self) -> None:
        with self._lock:
            self._beside.clear()
            self._memory.release()
