"""Terms of a followed node, or L1, for the network's transactions: values of the network, and the setup allow list.

A node that judges transactions by other values than the network refuses what the network takes, or the other way
round; so what the network itself says goes before what is built into this release.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from fastnode.config.allow_list import ALLOW_LIST, AllowedElement
from fastnode.errors import UpstreamError, UpstreamRejection
from fastnode.log import log_facts
from fastnode.mempool.network import NetworkValues
from fastnode.mempool.rounds import Rounds
from fastnode.mempool.service import Mempool
from fastnode.sources.upstreams import Upstream
from fastnode.values.refusal import Reject

__all__ = ["UpstreamTerms"]

logger = logging.getLogger(__name__)

#: Time between questions to the followed node.
INTERVAL_S: Final = 60.0


class UpstreamTerms:
    """``on_pass`` after each pass; the work is done on the executor.

    ``l1_values``: what L1 says, None while it is not known or not read.  ``allow_list``: whether another node's
    entries are joined with the own ones.
    """

    def __init__(
        self,
        mempool: Mempool,
        executor: Executor,
        *,
        l1_values: Callable[[], NetworkValues | None] = lambda: None,
        allow_list: bool = True,
    ) -> None:
        self._mempool = mempool
        self._l1_values = l1_values
        self._joins_allow_list = allow_list
        self._rounds = Rounds(executor, INTERVAL_S, "the terms of other nodes are not learned")

    @property
    def trouble(self) -> str | None:
        return self._rounds.trouble

    def on_pass(self, upstream: Upstream) -> None:
        self._rounds.begin(lambda: self._run(upstream))

    def _run(self, upstream: Upstream) -> None:
        try:
            self._mempool.learn_network(self._l1_values() or NetworkValues.of_headers(upstream.version_headers))
            if self._joins_allow_list:
                self._mempool.join_allow_list(_allow_list_of(upstream))
        except UpstreamRejection as rejection:
            # It does not know the method, or offers it to others only: the own list stands alone.
            logger.debug("no allow list", extra=log_facts(upstream=upstream.name, reason=rejection.message))
        except (UpstreamError, Reject) as error:
            logger.info("allow list not understood", extra=log_facts(upstream=upstream.name, reason=str(error)))


def _allow_list_of(upstream: Upstream) -> tuple[AllowedElement, ...]:
    """Reject for what is no list of entries."""
    read: tuple[AllowedElement, ...] = ALLOW_LIST.from_json(upstream.call("node_getAllowedPublicSetup"))
    return read
