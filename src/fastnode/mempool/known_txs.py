"""Finding a transaction with all that it was sent with, wherever it may still be.

    known = KnownTxs(pool, questions, ask_peers)
    known.find(tx_hash)        # FoundTx(tx, "kept")

Asked in this order: the pool, with what is kept there of final transactions; the followed nodes, of which those of this
kind tell what they keep; peers.  What others answer is taken if it has the hash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import orjson

from fastnode.errors import FastnodeError
from fastnode.log import log_facts
from fastnode.protocol.fields import hex_text
from fastnode.protocol.tx import Tx

if TYPE_CHECKING:
    from fastnode.mempool.pool import TxPool

__all__ = ["FoundTx", "KnownTxs"]

logger = logging.getLogger(__name__)

#: An answer of a followed node holds so long; a transaction that it lacks may still come.
_ANSWER_AGE_MAX_S: Final = 5.0
#: The first one is of this kind of node only.
_QUESTIONS: Final = ("fastnode_getKeptTx", "node_getTxByHash")


class FoundTx(NamedTuple):
    """A transaction, and who had it: ``pool``, ``kept``, ``upstream``, ``peers`` or ``request``."""

    tx: Tx
    source: str
    #: Its JSON as answers carry it, where that is stored: to make it costs its hash.
    content: bytes | None = None


class _Questions(Protocol):
    def ask_cached(self, method: str, parameters: Sequence[Any], max_age_s: float) -> Any: ...


class KnownTxs:
    """Usable from any thread; ``find`` may wait for other nodes.

    ``ask_peers`` gives what peers have under a hash, in its binary form.
    """

    def __init__(
        self,
        pool: TxPool,
        questions: _Questions | None = None,
        ask_peers: Callable[[bytes], Sequence[bytes]] | None = None,
    ) -> None:
        self._pool = pool
        self._questions = questions
        self._ask_peers = ask_peers

    def find(self, tx_hash: bytes) -> FoundTx | None:
        """None: nobody that was asked has it."""
        here = self.find_here(tx_hash)
        if here is not None:
            return here
        for found in self._elsewhere(tx_hash):
            if found.tx.hash == tx_hash:
                return found
            logger.info("another transaction than asked for", extra=log_facts(source=found.source))
        return None

    def find_here(self, tx_hash: bytes) -> FoundTx | None:
        """A transaction that this node has itself; no other node is asked."""
        tx_json = self._pool.known_tx_json(tx_hash)
        if tx_json is None:
            return None
        source = "pool" if self._pool.is_waiting(tx_hash) else "kept"
        return FoundTx(Tx.from_json(orjson.loads(tx_json), self._pool.release), source, tx_json)

    def _elsewhere(self, tx_hash: bytes) -> Iterator[FoundTx]:
        if self._questions is not None:
            for method in _QUESTIONS:
                yield from self._ask(method, tx_hash)
        if self._ask_peers is not None:
            for buffer in self._ask_peers(tx_hash):
                try:
                    yield FoundTx(Tx.from_buffer(buffer, self._pool.release), "peers")
                except FastnodeError as error:
                    logger.info("a peer sent no transaction", extra=log_facts(reason=str(error)))

    def _ask(self, method: str, tx_hash: bytes) -> Iterator[FoundTx]:
        assert self._questions is not None
        try:
            answer = self._questions.ask_cached(method, [hex_text(tx_hash)], _ANSWER_AGE_MAX_S)
            if answer is not None:
                yield FoundTx(Tx.from_json(answer, self._pool.release), "upstream")
        except FastnodeError as error:
            logger.debug("a followed node has no transaction: %s", error)
