"""Whether the rollup that is followed is still the canonical one, by the registry on L1."""

from __future__ import annotations

import logging

from fastnode.errors import UpstreamUnavailable
from fastnode.log import log_facts
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.endpoints import L1Endpoint
from fastnode.sources.l1.rollup import RollupFacts

__all__ = ["CanonicalRollup", "read_canonical"]

logger = logging.getLogger(__name__)


class CanonicalRollup:
    """``note`` from one thread; the rest from any."""

    def __init__(self) -> None:
        self._rollup: bytes | None = None
        #: Address that the registry named last; None: not read yet, or no registry is known.
        self.address: bytes | None = None

    def note(self, facts: RollupFacts, address: bytes | None) -> None:
        """The registry names ``address``; None: no registry is known.  A change is logged once."""
        before = self.is_canonical
        self._rollup, self.address = facts.rollup, address
        if self.reason is not None and before is not False:
            logger.warning("rollup: not canonical any more", extra=log_facts(reason=self.reason))
        elif self.is_canonical and before is False:
            logger.info("rollup: canonical again", extra=log_facts(rollup=facts.rollup))

    @property
    def is_canonical(self) -> bool | None:
        """None while that is not known."""
        return None if self.address is None else self.address == self._rollup

    @property
    def reason(self) -> str | None:
        """A sentence for the operator; None while the rollup is canonical, or that is not known."""
        if self.is_canonical is not False or self.address is None or self._rollup is None:
            return None
        return (
            f"the rollup that is served, {hex_data(self._rollup)}, is not the canonical one any more: the registry on "
            f"L1 names {hex_data(self.address)}. Start a node of that rollup with another data directory"
        )


def read_canonical(endpoint: L1Endpoint, facts: RollupFacts) -> bytes | None:
    """Address of the canonical rollup; None where no registry is known.  UpstreamError, DecodeError."""
    if facts.registry is None:
        return None
    address: bytes = endpoint.read(facts.registry, contracts.CANONICAL_ROLLUP)[0]
    if not any(address):
        raise UpstreamUnavailable("the registry names no rollup")
    return address
