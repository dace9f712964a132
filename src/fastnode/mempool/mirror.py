"""Pending transactions of the followed node, copied into this node's pool."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

from fastnode.errors import DecodeError, Refused, UpstreamError
from fastnode.log import log_facts
from fastnode.mempool.rounds import Rounds
from fastnode.mempool.service import Mempool
from fastnode.protocol.fields import hex_text
from fastnode.protocol.tx import Tx
from fastnode.sources.upstreams import Upstream
from fastnode.view import View

__all__ = ["PendingTxMirror"]

logger = logging.getLogger(__name__)

#: Time between questions to the followed node; each transaction travels every time, as there is no shorter question.
INTERVAL_S: Final = 2.0
#: Transactions in one answer: each has some 200 KB.
PAGE_TXS: Final = 10
#: Transactions that were refused are not looked at again; this many are remembered.
REFUSED_MAX: Final = 4096


class PendingTxMirror:
    """``on_pass`` after each pass; the work is done on the executor, one round at a time."""

    def __init__(self, mempool: Mempool, view: Callable[[], View | None], executor: Executor) -> None:
        self._mempool = mempool
        self._view = view
        self._rounds = Rounds(executor, INTERVAL_S, "pending transactions are not mirrored")
        self._refused: set[str] = set()

    @property
    def trouble(self) -> str | None:
        return self._rounds.trouble

    def on_pass(self, upstream: Upstream) -> None:
        self._rounds.begin(lambda: self._run(upstream))

    def _run(self, upstream: Upstream) -> None:
        try:
            self._copy(upstream)
        except (UpstreamError, DecodeError) as error:
            logger.info("pending transactions not mirrored", extra=log_facts(upstream=upstream.name, reason=str(error)))

    def _copy(self, upstream: Upstream) -> None:
        if not upstream.call("node_getPendingTxCount"):
            return
        after: list[str] = []
        while True:
            page = upstream.call("node_getPendingTxs", PAGE_TXS, *after)
            if not isinstance(page, list) or not page:
                return
            for item in page:
                last = self._take(item)
            if len(page) < PAGE_TXS or [last] == after:
                return
            after = [last]

    def _take(self, item: Any) -> str:
        """Returns the transaction's hash as text."""
        claimed = item.get("txHash") if isinstance(item, dict) else None
        view = self._view()
        if isinstance(claimed, str) and (claimed in self._refused or self._is_known(claimed)):
            return claimed
        tx = Tx.from_json(item, self._mempool.pool.release)
        text = hex_text(tx.hash)
        if view is None or self._mempool.pool.state_of(tx.hash) is not None:
            return text
        try:
            self._mempool.receive(tx, view)
        except Refused as error:
            logger.debug("pending transaction refused", extra=log_facts(tx=text, reason=error.message))
            if len(self._refused) >= REFUSED_MAX:
                self._refused.clear()
            self._refused.add(text)
        return text

    def _is_known(self, claimed: str) -> bool:
        try:
            return self._mempool.pool.state_of(bytes.fromhex(claimed.removeprefix("0x"))) is not None
        except ValueError:
            return False
