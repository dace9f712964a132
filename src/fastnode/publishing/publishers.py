"""All accounts that pay on L1, and which of them sends what."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastnode.errors import CallReverted, DecodeError, NoPublisher, UpstreamUnavailable
from fastnode.log import log_facts
from fastnode.publishing.account import AccountState, WatchLimits
from fastnode.publishing.fees import FeeLimits
from fastnode.publishing.kept import KeptTransactions
from fastnode.publishing.publisher import L1Publisher
from fastnode.publishing.requests import OutcomeKind, Request
from fastnode.publishing.simulation import Simulator
from fastnode.sources.l1.abi import from_amount, hex_data
from fastnode.sources.l1.endpoints import L1Client, L1Endpoint

if TYPE_CHECKING:
    from fastnode.publishing.signing import SigningDoor

__all__ = ["Publishers"]

logger = logging.getLogger(__name__)

_WEI_PER_ETH: Final = 10**18
_PREFERENCE: Final = {state: place for place, state in enumerate(AccountState)}


class Publishers:
    """Usable from any thread, not from the event loop.

    ``directory``: where transactions in flight are kept, None: nowhere; ``allows_busy``: an account whose newest
    transaction is not decided is taken when there is no other.
    """

    def __init__(
        self,
        addresses: Iterable[bytes],
        l1: L1Client,
        door: SigningDoor,
        *,
        chain_id: int,
        rollup: bytes,
        fees: FeeLimits | None = None,
        limits: WatchLimits | None = None,
        directory: Path | None = None,
        allows_busy: bool = True,
        balance_min_wei: int = 0,
    ) -> None:
        self._l1 = l1
        self._allows_busy = allows_busy
        self._balance_min_wei = balance_min_wei
        self.simulator = Simulator(l1, rollup)
        kept = KeptTransactions(directory)
        self.all = tuple(
            L1Publisher(address, l1, door, chain_id, fees=fees, limits=limits, kept=kept, explain=self._explain)
            for address in dict.fromkeys(addresses)
        )
        self._warned: set[bytes] = set()

    def start(self) -> int:
        """Watch what was in flight at the last stop; how many transactions."""
        return sum(publisher.resume() for publisher in self.all)

    def close(self) -> None:
        """May be called more than once."""
        for publisher in self.all:
            publisher.close()

    # ---- choosing ----------------------------------------------------------------------------

    def choose(self, allowed: Collection[bytes] | None = None) -> L1Publisher:
        """The best of those that may send for an attester (None: all): idle before busy, rich before poor, the one that
        has waited longest.  NoPublisher says why there is none."""
        able = [publisher for publisher in self.all if allowed is None or publisher.address in allowed]
        if not able:
            raise NoPublisher("no account is configured that may publish for this validator")
        try:
            self.read_balances(able)
        except UpstreamUnavailable as error:
            raise NoPublisher(f"no L1 node answers: {error}") from None
        solvent = [publisher for publisher in able if publisher.balance_wei]
        if not solvent:
            names = ", ".join(hex_data(publisher.address) for publisher in able)
            raise NoPublisher(f"no account has ETH to pay with: {names}")
        free = [publisher for publisher in solvent if not publisher.is_busy]
        if not free and not self._allows_busy:
            raise NoPublisher("every account waits for a transaction of its own")
        return min(
            free or solvent,
            key=lambda each: (_PREFERENCE[each.state], -(each.balance_wei or 0), each.mined_at),
        )

    def read_balances(self, publishers: Collection[L1Publisher] | None = None) -> None:
        """Ask L1; UpstreamUnavailable.  A low balance is warned of once."""
        asked = tuple(self.all if publishers is None else publishers)
        calls = [("eth_getBalance", [hex_data(publisher.address), "latest"]) for publisher in asked]

        def ask(endpoint: L1Endpoint) -> list[int]:
            return [from_amount(answer, "balance") for answer in endpoint.results(calls)]

        for publisher, balance in zip(asked, self._l1.run(ask) if asked else (), strict=True):
            publisher.balance_wei = balance
            if balance >= self._balance_min_wei:
                self._warned.discard(publisher.address)
            elif publisher.address not in self._warned:
                self._warned.add(publisher.address)
                facts = log_facts(publisher=hex_data(publisher.address), eth=balance / _WEI_PER_ETH)
                logger.warning("a publisher has little ETH left", extra=facts)

    # ---- reports -----------------------------------------------------------------------------

    def describe(self) -> list[dict[str, Any]]:
        return [_describe(publisher) | {"isBalanceLow": self._is_low(publisher)} for publisher in self.all]

    def troubles(self) -> dict[str, str | None]:
        """Trouble for an operator to know, None for nothing."""
        low = list(filter(self._is_low, self.all))
        names = ", ".join(f"{hex_data(each.address)} {(each.balance_wei or 0) / _WEI_PER_ETH:.6g} ETH" for each in low)
        failing = next((publisher.trouble for publisher in self.all if publisher.trouble), None)
        return {
            "publisher balance": f"little ETH is left to publish with: {names}" if low else None,
            "publishing": failing,
        }

    def _is_low(self, publisher: L1Publisher) -> bool:
        return publisher.balance_wei is not None and publisher.balance_wei < self._balance_min_wei

    # ---- why something failed ----------------------------------------------------------------

    def _explain(self, request: Request, sender: bytes, block: int) -> str | None:
        """Reason of the first refused call of a mined transaction, as it is simulated before its block."""
        try:
            timestamp = self._l1.run(lambda endpoint: _time_of(endpoint, block))
            for call in request.calls:
                self.simulator.simulate(call, sender, timestamp, what=request.what, block=block - 1)
        except CallReverted as error:
            return str(error)
        except UpstreamUnavailable:
            return None
        return None


def _describe(publisher: L1Publisher) -> dict[str, Any]:
    return {
        "address": hex_data(publisher.address),
        "state": publisher.state.value,
        "balanceWei": None if publisher.balance_wei is None else str(publisher.balance_wei),
        "inFlight": [
            {
                "what": item.what,
                "nonce": item.nonce,
                "attempts": len(item.attempts),
                "isCancelled": item.is_cancelled,
                "transaction": hex_data(item.newest.hash()) if item.attempts else None,
            }
            for item in publisher.in_flight
        ],
        "abandoned": [
            {"what": item.what, "nonce": item.nonce, "transaction": hex_data(item.newest.hash())}
            for item in publisher.abandoned
        ],
        "outcomes": {kind.value: publisher.totals.outcomes[kind] for kind in OutcomeKind},
        "feesPaidWei": str(publisher.totals.fees_wei),
        "speedUps": publisher.totals.speed_ups,
        "cancellations": publisher.totals.cancellations,
        "trouble": publisher.trouble,
    }


def _time_of(endpoint: L1Endpoint, number: int) -> int:
    block = endpoint.block(number)
    if block is None:
        raise DecodeError(f"L1 has no block {number}")
    return block.timestamp
