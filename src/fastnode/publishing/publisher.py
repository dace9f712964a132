"""One account of L1 that pays for transactions: sends them, watches each until it is decided, bumps and takes back.

    price ─► sign ─► keep on disk ─► send ─► watch ─┬─► mined, with the event or without
                       ▲                 ▲          ├─► stalled: the same at a higher price
                       │                 └──────────┤   unknown to L1 (restart, reorg): the same once more
                       └────────────────────────────┴─► too late: cancelled, which is watched in a thread

All times are those of L1's blocks: while L1 stands still nothing is bumped and nothing is given up.  A price counts as
offered once a node has taken the transaction, or may have.  Whatever one request sends for a nonce is the same call or
nothing at all, so that no call is carried out twice.

No answer is not a refusal: the transaction may be in a pool.  It is watched; when it is given up without an end it is
abandoned: kept, with its nonce, which the next request uses at a price that replaces it.  If the abandoned one is mined
in its place after all, the request is sent again with the next nonce.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from fastnode.errors import FastnodeError, NotTaken, SigningError, UpstreamUnavailable
from fastnode.log import log_facts
from fastnode.loop import Setbacks
from fastnode.publishing.account import BUSY, AccountState, WatchLimits
from fastnode.publishing.envelope import BlobBundle, SidecarForm, SignedTransaction, Transaction
from fastnode.publishing.fees import FeeLimits, Price
from fastnode.publishing.kept import Earlier, InFlight, KeptTransactions, price_of
from fastnode.publishing.requests import Outcome, OutcomeKind, Request
from fastnode.publishing.wire import REASON_MAX, Look, Wire, paid, quantity_of
from fastnode.records import dataclass
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.endpoints import L1Client

if TYPE_CHECKING:
    from fastnode.publishing.signing import SigningDoor

__all__ = ["L1Publisher"]

logger = logging.getLogger(__name__)

_TRANSFER_GAS: Final = 21_000
#: Number of looks before something odd is believed: nodes behind one address differ for a moment.
_LOOKS: Final = 3
_SEND_ATTEMPTS_MAX: Final = 3

#: Something that was sent is watched; in the other three nothing is.
_WATCHING: Final = frozenset({AccountState.SENT, AccountState.SPEED_UP, AccountState.CANCELLED})

_NONCE_WORDS: Final = ("nonce too low", "nonce is too low")
_UNDERPRICED_WORDS: Final = ("underpriced", "replacement")


class Totals:
    """Counts of an account since the start."""

    def __init__(self) -> None:
        self.outcomes: Counter[OutcomeKind] = Counter()
        self.fees_wei = 0
        self.speed_ups = self.cancellations = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """State of an account, with what it rests on; replaced as a whole.  AssertionError where one cannot follow."""

    state: AccountState = AccountState.IDLE
    #: Transactions that are not decided, by their nonces.
    in_flight: Mapping[int, InFlight] = field(default_factory=dict)
    #: The newest one whose nonce L1 is not known to have forgotten.
    last: InFlight | None = None
    #: Transactions that were given up and may still be mined, by their nonces.
    abandoned: Mapping[int, InFlight] = field(default_factory=dict)

    def invariant(self) -> None:
        """AssertionError unless each transaction has its nonce, and something is in flight where one is watched; where
        none is, there is at most the one that is being sent."""
        assert all(item.nonce == nonce for nonce, item in self.in_flight.items())
        assert len(self.in_flight) >= 1 if self.state in _WATCHING else len(self.in_flight) <= 1
        assert self.last is None or self.last.attempts
        assert all(item.nonce == nonce and item.is_abandoned for nonce, item in self.abandoned.items())

    def having(self, item: InFlight) -> Standing:
        """It is about to be sent."""
        assert item.nonce not in self.in_flight
        return replace(self, in_flight={**self.in_flight, item.nonce: item})

    def sent(self, item: InFlight) -> Standing:
        """It is the newest that L1 has, or may have."""
        assert self.in_flight.get(item.nonce) is item
        return replace(self, last=item, state=AccountState.CANCELLED if item.is_cancelled else AccountState.SENT)

    def changed(self, item: InFlight, state: AccountState) -> Standing:
        """Something else is sent for its nonce."""
        assert self.in_flight.get(item.nonce) is item
        assert self.state in _WATCHING
        assert state in _WATCHING - {AccountState.SENT}
        return replace(self, state=state)

    def without(self, item: InFlight, state: AccountState = AccountState.IDLE) -> Standing:
        """``state``: that of an account with no other one in flight, unless nothing has come of any."""
        assert self.in_flight.get(item.nonce) is item
        assert state is AccountState.IDLE or state not in _WATCHING
        left = {nonce: other for nonce, other in self.in_flight.items() if nonce != item.nonce}
        is_over = not left and (state is not AccountState.IDLE or self.state in _WATCHING)
        return replace(self, in_flight=left, state=state if is_over else self.state)

    def abandoning(self, item: InFlight) -> Standing:
        """It was given up, or was when the process before this one ended."""
        assert item.attempts
        return replace(self, abandoned={**self.abandoned, item.nonce: item})

    def decided(self, nonce: int) -> Standing:
        """L1 has a transaction for this nonce."""
        return replace(self, abandoned={each: item for each, item in self.abandoned.items() if each != nonce})


class L1Publisher:
    """Usable from any thread; what waits says so.  ``explain`` gives the reason of a call that failed in a block.

        IDLE, MINED, NOT_MINED ── a request ──► SENT ── it stalls ──► SPEED_UP ──► SPEED_UP
                                                 │                       │
                                                 ├───────────────────────┤
                                                 ▼                       ▼
                            MINED ◄── decided ── ● ── too late ──► CANCELLED ── decided ──► MINED, NOT_MINED

    While several are in flight the state is that of the one to which something has happened last; there is one in
    flight in SENT, SPEED_UP and CANCELLED, and none that is ended in the three others.
    """

    def __init__(
        self,
        address: bytes,
        l1: L1Client,
        door: SigningDoor,
        chain_id: int,
        *,
        fees: FeeLimits | None = None,
        limits: WatchLimits | None = None,
        kept: KeptTransactions | None = None,
        explain: Callable[[Request, bytes, int], str | None] = lambda request, sender, block: None,
    ) -> None:
        self.address = address
        self._door = door
        self._chain_id = chain_id
        self._wire = Wire(address, l1, chain_id)
        self._fees = fees or FeeLimits()
        self._limits = limits or WatchLimits()
        self._kept = kept or KeptTransactions(None)
        self._explain = explain
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._setbacks = Setbacks("nothing is done for a transaction on L1")
        #: Held while a nonce is chosen and used.
        self._sending = threading.Lock()
        self._standing = Standing()
        #: Held while one standing takes the place of another.
        self._changing = threading.Lock()
        #: Result of the newest look; None before the first.
        self.balance_wei: int | None = None
        #: L1's time of the block that had the newest one.
        self.mined_at = 0
        self.totals = Totals()
        self.trouble: str | None = None

    def invariant(self) -> None:
        """AssertionError unless the standing is one, of this account."""
        standing = self._standing
        standing.invariant()
        assert all(item.sender == self.address for item in standing.in_flight.values())

    @property
    def state(self) -> AccountState:
        return self._standing.state

    def _become(self, change: Callable[..., Standing], *given: object, **named: object) -> None:
        with self._changing:
            self._standing = change(self._standing, *given, **named)

    def _forget_last(self) -> None:
        self._become(replace, last=None)

    def __repr__(self) -> str:
        return f"L1Publisher({hex_data(self.address)}, {self.state.value})"

    # ---- for its owner -----------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return self.state in BUSY or bool(self._standing.in_flight)

    @property
    def in_flight(self) -> tuple[InFlight, ...]:
        """Transactions that are not decided."""
        return tuple(self._standing.in_flight.values())

    @property
    def abandoned(self) -> tuple[InFlight, ...]:
        """Transactions that were given up and may still be mined."""
        return tuple(self._standing.abandoned.values())

    def resume(self) -> int:
        """Watch what the process before this one left undecided, in threads; how many."""
        found = self._kept.load(self.address)
        for item in found:
            if not item.attempts:
                self._kept.remove(item)
                continue
            if item.is_abandoned:
                self._become(Standing.abandoning, item)
                continue
            self._become(Standing.having, item)
            self._become(Standing.sent, item)
            logger.info("transaction watched again", extra=self._facts(item))
            self._watch_later(item)
        return len(self._standing.in_flight)

    def close(self) -> None:
        """Stop watching; what is in flight is kept for the next start.  May be called more than once."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def sidecar_form(self) -> SidecarForm:
        """The form of blobs that L1 should want next."""
        return self._wire.sidecar_form()

    # ---- one request -------------------------------------------------------------------------

    def publish(self, request: Request) -> Outcome:
        """Send it and wait until it is decided, or until it is too late for it; never raises what L1 does.

        Waits as long as L1 stands still, and until :meth:`close`.
        """
        while True:
            try:
                item = self._begin(request)
            except NotTaken as error:
                return self._finish(request.what, Outcome(kind=OutcomeKind.NOT_SENT, reason=str(error)))
            outcome = self._watch(item)
            if outcome.replaced_by is None:
                break
            logger.warning(
                "an earlier transaction was mined in its place", extra=self._facts(item, reason=outcome.reason)
            )
        if outcome.kind is OutcomeKind.FAILED and outcome.block_number is not None:
            reason = self._explain(request, self.address, outcome.block_number)
            if reason is not None:
                outcome = replace(outcome, reason=reason)
        return self._finish(request.what, outcome)

    def _finish(self, what: str, outcome: Outcome) -> Outcome:
        self.totals.outcomes[outcome.kind] += 1
        self.trouble = None if outcome.is_published else f"{what}: {outcome.reason}"[:REASON_MAX]
        facts: dict[str, Any] = {"what": what, "outcome": outcome.kind.value, "publisher": hex_data(self.address)}
        if outcome.tx_hash is not None:
            facts |= {"transaction": outcome.tx_hash, "block": outcome.block_number, "gas": outcome.gas_used}
        if outcome.is_published:
            logger.info("published on L1", extra=log_facts(**facts))
        else:
            logger.warning("not published on L1", extra=log_facts(**facts, reason=outcome.reason))
        return outcome

    def _begin(self, request: Request) -> InFlight:
        """Send the first attempt.  NotTaken."""
        bundle = request.bundle
        if bundle is not None:
            bundle.proofs(self._wire.sidecar_form())  # before the price is asked for: it takes its time
        refused: dict[int, list[Price]] = {}
        with self._sending:
            for attempt in range(1, _SEND_ATTEMPTS_MAX + 1):
                prices = self._wire.prices()
                if request.slot_ends_at is not None and prices.timestamp >= request.slot_ends_at:
                    raise NotTaken("its slot is over")
                if request.give_up_at is not None and prices.timestamp >= request.give_up_at:
                    raise NotTaken("it is too late for an L1 block of its slot")
                nonce = self._next_nonce()
                item = InFlight(
                    what=request.what,
                    sender=self.address,
                    nonce=nonce,
                    success=request.success,
                    give_up_at=request.give_up_at,
                    bundle=bundle,
                    first_sent_at=prices.timestamp,
                    sent_at=prices.timestamp,
                    earlier=self._earlier(nonce),
                )
                offers = [*item.earlier_prices, *refused.get(nonce, ())]
                price = self._fees.outbid(prices, offers, has_blobs=bundle is not None)
                transaction = self._transaction(nonce, price, request.gas, request.target, request.data, bundle)
                self._become(Standing.having, item)
                try:
                    self._send(item, transaction)
                except NotTaken as error:
                    self._become(Standing.without, item)
                    is_underpriced = _has(error, _UNDERPRICED_WORDS)
                    if not (is_underpriced or _has(error, _NONCE_WORDS)) or attempt == _SEND_ATTEMPTS_MAX:
                        raise
                    # Somebody else uses the account, or the node that was asked was behind.
                    self._forget_last()
                    if is_underpriced:
                        refused.setdefault(nonce, []).append(price)
                    self._stop.wait(self._limits.check_interval_s)
                    continue
                self._become(Standing.sent, item)
                logger.info("sent to L1", extra=self._facts(item))
                return item
        raise AssertionError("unreachable")

    def _transaction(
        self, nonce: int, price: Price, gas: int, to: bytes, data: bytes, bundle: BlobBundle | None
    ) -> Transaction:
        return Transaction(
            chain_id=self._chain_id,
            nonce=nonce,
            tip_max=price.tip_max,
            fee_max=price.fee_max,
            gas=gas,
            to=to,
            data=data,
            blob_fee_max=price.blob_fee_max,
            versioned_hashes=() if bundle is None else bundle.versioned_hashes,
        )

    def _next_nonce(self) -> int:
        """The nonce of a new transaction.  A node that is behind may name one that is used; one whose transaction L1
        has forgotten (a reorg, a restart) is used again; so is one of an abandoned transaction that was not mined."""
        try:
            abandoned = self._abandoned_nonces()
            if abandoned:
                return abandoned[0]
            pending = self._wire.nonce("pending")
            standing = self._standing
            if standing.in_flight:
                return max(pending, max(standing.in_flight) + 1)
            last = standing.last
            if last is None or pending > last.nonce:
                return pending
            if last.attempts and self._wire.look(last).is_known:
                return last.nonce + 1
            self._forget_last()
            return pending
        except UpstreamUnavailable as error:
            raise NotTaken(f"no L1 node answers: {error}") from None

    def _abandoned_nonces(self) -> list[int]:
        """Nonces of abandoned transactions that L1 has no transaction for, lowest first.  UpstreamUnavailable."""
        if not self._standing.abandoned:
            return []
        for item in self._standing.abandoned.values():
            look = self._wire.look(item)
            if look.latest_nonce <= item.nonce:
                continue
            receipt = look.receipt if look.earlier is None else look.earlier[1]
            if receipt is not None:
                self.totals.fees_wei += paid(receipt)
            mined = None if receipt is None else receipt.get("transactionHash")
            logger.info("nonce of an abandoned transaction was used", extra=self._facts(item, mined=mined))
            self._become(Standing.decided, item.nonce)
            if item.nonce not in self._standing.in_flight:  # else the file is that one's
                self._remove(item)
        standing = self._standing
        return sorted(nonce for nonce in standing.abandoned if nonce not in standing.in_flight)

    def _earlier(self, nonce: int) -> tuple[Earlier, ...]:
        item = self._standing.abandoned.get(nonce)
        return () if item is None else item.as_earlier()

    # ---- sending -----------------------------------------------------------------------------

    def _send(self, item: InFlight, transaction: Transaction) -> None:
        """Sign, keep, send; NotTaken, with everything as it was, when L1 refuses.

        An answer that does not come leaves it open: it is sent again while it is watched.  One that L1 has although it
        refuses it (a node that was asked before gave no answer in time) is sent.
        """
        try:
            signed = self._door.sign_transaction(self.address, transaction)
        except SigningError as error:
            raise NotTaken(str(error)) from None
        item.attempts.append(signed)
        try:
            self._kept.put(item)
            self._wire.transmit(signed, item.newest_bundle)
        except (NotTaken, OSError) as error:
            if isinstance(error, NotTaken) and self._may_have(item, signed, error):
                return
            item.attempts.pop()
            self._forget_attempt(item)
            if isinstance(error, OSError):
                raise NotTaken(f"it cannot be kept on disk: {error.strerror}") from None
            raise
        except UpstreamUnavailable as error:
            logger.warning("L1 gave no answer to a transaction", extra=self._facts(item, reason=str(error)))

    def _may_have(self, item: InFlight, signed: SignedTransaction, error: NotTaken) -> bool:
        """True if L1 has, or may have, what a node has refused."""
        is_known = self._wire.knows(signed)
        if is_known or _has(error, _NONCE_WORDS):
            return bool(is_known)
        if is_known is False and error.is_certain:
            return False
        facts = self._facts(item, reason=str(error))
        logger.warning("one L1 node refused a transaction, another gave no answer", extra=facts)
        return True

    def _forget_attempt(self, item: InFlight) -> None:
        abandoned = self._standing.abandoned.get(item.nonce)
        try:
            if item.attempts:
                self._kept.put(item)
            elif abandoned is not None and abandoned is not item:
                abandoned.blobs_check = None  # the file has those of the refused one
                self._kept.put(abandoned)
            else:
                self._kept.remove(item)
        except OSError as error:
            logger.error("a kept transaction cannot be changed", extra=self._facts(item, reason=str(error)))

    # ---- watching ----------------------------------------------------------------------------

    def _watch(self, item: InFlight) -> Outcome:
        """Until it is decided, given up, or the node stops."""
        odd: Counter[str] = Counter()
        unseen_since: int | None = None
        while not self._stop.is_set():
            try:
                look = self._wire.look(item)
            except UpstreamUnavailable:
                self._pause()
                continue
            if look.receipt is not None:
                return self._decided(item, look.receipt, look.timestamp)
            if look.earlier is not None:
                return self._replaced(item, *look.earlier)
            if look.latest_nonce > item.nonce:
                odd["replaced"] += 1
                if odd["replaced"] >= _LOOKS:
                    return self._lost(item, OutcomeKind.REPLACED, "another transaction has its nonce")
                self._pause()
                continue
            if not look.is_known and look.pending_nonce <= item.nonce:
                unseen_since = look.timestamp if unseen_since is None else unseen_since
            else:
                unseen_since = None
            outcome = self._tried_act(item, look, odd, unseen_since)
            if outcome is not None:
                return outcome
            self._pause()
        return Outcome(
            kind=OutcomeKind.GIVEN_UP,
            reason="the node stops; what becomes of the transaction is looked at after its next start",
            tx_hash=hex_data(item.newest.hash()),
            attempts=len(item.attempts),
        )

    def _tried_act(self, item: InFlight, look: Look, odd: Counter[str], unseen_since: int | None) -> Outcome | None:
        """:meth:`_act`; whatever L1 answers, the transaction is watched until it is decided."""
        try:
            return self._act(item, look, odd, unseen_since)
        except FastnodeError as error:
            logger.warning("nothing is done for a transaction now", extra=self._facts(item, reason=str(error)))
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._setbacks.note(error)
        return None

    def _act(self, item: InFlight, look: Look, odd: Counter[str], unseen_since: int | None) -> Outcome | None:
        """Do what the time asks for: giving up, filling a gap, sending again, a higher price."""
        now = look.timestamp
        if item.is_cancelled:
            is_unseen = unseen_since is not None and now - unseen_since >= self._limits.unseen_s
            if is_unseen or now - item.cancelled_at >= self._limits.cancellation_timeout_s > 0:
                return self._lost(item, OutcomeKind.GIVEN_UP, "neither it nor its cancellation was mined")
        elif self._is_too_late(item, now):
            return self._give_up(item, look)
        if look.pending_nonce < item.nonce and not self._has_earlier(item):
            odd["gap"] += 1
            if odd["gap"] >= _LOOKS:
                odd["gap"] = 0
                self._fill_gap(range(look.pending_nonce, item.nonce))
            return None
        odd["gap"] = 0
        is_taken = look.is_known or self._send_again(item)
        if (
            is_taken is not None
            and now - item.sent_at >= self._limits.stall_s
            and item.speed_ups < self._limits.attempts_max
        ):
            self._speed_up(item, now)
        return None

    def _is_too_late(self, item: InFlight, now: int) -> bool:
        timeout_s = self._limits.timeout_s
        is_old = timeout_s > 0 and now - item.first_sent_at >= timeout_s
        return is_old or (item.give_up_at is not None and now >= item.give_up_at)

    def _has_earlier(self, item: InFlight) -> bool:
        return any(nonce < item.nonce for nonce in self._standing.in_flight)

    def _pause(self) -> None:
        self._stop.wait(self._limits.check_interval_s)

    # ---- what is done to one in flight -------------------------------------------------------

    def _send_again(self, item: InFlight) -> bool | None:
        """True if L1 takes it; None when it does not answer."""
        try:
            self._wire.transmit(item.newest, item.newest_bundle)
            logger.info("sent to L1 again, which had forgotten it", extra=self._facts(item))
            return True
        except NotTaken as error:
            logger.warning("L1 does not take it again", extra=self._facts(item, reason=str(error)))
            # Its price was never taken: an earlier one is sent next; its hash is still looked for.
            item.attempts.insert(0, item.attempts.pop())
            return False
        except UpstreamUnavailable as error:
            logger.warning("L1 does not answer", extra=self._facts(item, reason=str(error)))
            return None

    def _speed_up(self, item: InFlight, now: int) -> None:
        before = item.newest.transaction
        try:
            price = self._fees.again(self._wire.prices(), item.price)
            transaction = self._transaction(item.nonce, price, before.gas, before.to, before.data, item.newest_bundle)
            self._send(item, transaction)
        except NotTaken as error:
            # The price is not remembered; the next attempt starts from the one that was taken.
            item.sent_at = now
            logger.warning("L1 does not take a higher price", extra=self._facts(item, reason=str(error)))
            return
        item.speed_ups += 1
        item.sent_at = now
        self.totals.speed_ups += 1
        if not item.is_cancelled:
            self._become(Standing.changed, item, AccountState.SPEED_UP)
        self._keep(item)
        logger.info("sent to L1 at a higher price", extra=self._facts(item))

    def _give_up(self, item: InFlight, look: Look) -> Outcome:
        outcome = Outcome(
            kind=OutcomeKind.GIVEN_UP,
            reason="it was not mined in time",
            tx_hash=hex_data(item.newest.hash()),
            attempts=len(item.attempts),
        )
        is_in_pool = look.is_known or look.pending_nonce > item.nonce
        if not self._limits.cancels or not is_in_pool:
            self._abandon(item)
            return outcome
        self._cancel(item, look.timestamp)
        # Taken or not, it is watched: the original may still be mined.
        self._watch_later(item)
        return outcome

    def _cancel(self, item: InFlight, now: int) -> None:
        """Replace it by a transfer of nothing to the account itself, with an empty blob if it has blobs."""
        item.is_cancelled, item.cancelled_at, item.speed_ups = True, now, 0
        if item.bundle is not None:
            item.cancellation = BlobBundle([b""])
        self._become(Standing.changed, item, AccountState.CANCELLED)
        try:
            price = self._fees.again(self._wire.prices(), item.price, is_cancellation=True)
            transaction = self._transaction(item.nonce, price, _TRANSFER_GAS, self.address, b"", item.cancellation)
            self._send(item, transaction)
        except NotTaken as error:
            logger.warning("L1 does not take a cancellation", extra=self._facts(item, reason=str(error)))
            item.is_cancelled, item.cancellation = False, None
            item.give_up_at, item.first_sent_at = None, now
            self._keep(item)  # on disk it is cancelled still
            return
        item.sent_at = now
        self.totals.cancellations += 1
        self._keep(item)
        logger.info("cancelled on L1", extra=self._facts(item))

    def _fill_gap(self, nonces: range) -> None:
        """Nonces before ours that nothing waits for: a transfer of nothing each, or ours would wait for ever."""
        with self._sending:
            for nonce in nonces:
                if nonce in self._standing.in_flight:
                    continue
                try:
                    before = [price_of(each.signed) for each in self._earlier(nonce)]
                    price = self._fees.outbid(self._wire.prices(), before, has_blobs=False)
                    transaction = self._transaction(nonce, price, _TRANSFER_GAS, self.address, b"", None)
                    self._wire.transmit(self._door.sign_transaction(self.address, transaction), None)
                except (NotTaken, SigningError, UpstreamUnavailable) as error:
                    facts = log_facts(publisher=hex_data(self.address), nonce=nonce, reason=str(error))
                    logger.warning("a gap of nonces is not filled", extra=facts)
                    return
                logger.warning(
                    "a gap of nonces is filled", extra=log_facts(publisher=hex_data(self.address), nonce=nonce)
                )

    # ---- the end of one ----------------------------------------------------------------------

    def _decided(self, item: InFlight, receipt: dict[str, Any], now: int) -> Outcome:
        tx_hash = str(receipt.get("transactionHash"))
        fee_wei = paid(receipt)
        self.totals.fees_wei += fee_wei
        logs = receipt.get("logs")
        logs = logs if isinstance(logs, list) else []
        is_good = quantity_of(receipt, "status") == 1
        is_done = is_good and item.success is not None and item.success.is_in(logs)
        is_cancellation = item.is_cancelled and tx_hash == hex_data(item.newest.hash())
        self.mined_at = now
        self._end(item, AccountState.MINED)
        if is_done:
            kind, reason = OutcomeKind.PUBLISHED, ""
        elif is_cancellation:
            kind, reason = OutcomeKind.GIVEN_UP, "it was cancelled"
        else:
            kind = OutcomeKind.FAILED
            reason = "it was mined, and the rollup refused the call" if is_good else "it was mined, and reverted"
        return Outcome(
            kind=kind,
            reason=reason,
            tx_hash=tx_hash,
            block_number=quantity_of(receipt, "blockNumber"),
            gas_used=quantity_of(receipt, "gasUsed"),
            fee_wei=fee_wei,
            attempts=len(item.attempts),
            logs=tuple(logs),
        )

    def _lost(self, item: InFlight, kind: OutcomeKind, reason: str) -> Outcome:
        if kind is OutcomeKind.REPLACED:
            self._end(item, AccountState.NOT_MINED)
        else:
            self._abandon(item)
        return Outcome(kind=kind, reason=reason, tx_hash=hex_data(item.newest.hash()), attempts=len(item.attempts))

    def _replaced(self, item: InFlight, earlier: Earlier, receipt: dict[str, Any]) -> Outcome:
        """A transaction of an earlier request was mined with its nonce."""
        tx_hash = hex_data(earlier.signed.hash())
        self.totals.fees_wei += paid(receipt)
        reason = f"an earlier transaction of this node, {tx_hash} ({earlier.what}), was mined with its nonce"
        return replace(self._lost(item, OutcomeKind.REPLACED, reason), replaced_by=tx_hash)

    def _abandon(self, item: InFlight) -> None:
        """Do not watch it any more, although it may still be mined."""
        if self._standing.last is item:
            self._forget_last()
        item.is_abandoned = True
        self._become(Standing.abandoning, item)
        self._become(Standing.without, item, AccountState.NOT_MINED)
        self._keep(item)

    def _end(self, item: InFlight, state: AccountState) -> None:
        """L1 has a transaction for its nonce."""
        if state is AccountState.NOT_MINED and self._standing.last is item:
            self._forget_last()
        self._become(Standing.without, item, state)
        self._become(Standing.decided, item.nonce)
        self._remove(item)

    def _remove(self, item: InFlight) -> None:
        try:
            self._kept.remove(item)
        except OSError as error:
            logger.error("a kept transaction cannot be removed", extra=self._facts(item, reason=str(error)))

    def _keep(self, item: InFlight) -> None:
        try:
            self._kept.put(item)
        except OSError as error:
            logger.error("a transaction cannot be kept", extra=self._facts(item, reason=str(error)))

    def _watch_later(self, item: InFlight) -> None:
        def watch() -> None:
            outcome = self._watch(item)
            if not self._stop.is_set():
                facts = self._facts(item, outcome=outcome.kind.value, reason=outcome.reason)
                logger.info("a transaction is decided", extra=facts)

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=watch, name="fastnode-publisher")
        self._threads.append(thread)
        thread.start()

    def _facts(self, item: InFlight, **more: Any) -> dict[str, Any]:
        facts: dict[str, Any] = {"what": item.what, "publisher": hex_data(self.address), "nonce": item.nonce}
        if item.attempts and (price := item.price):
            facts |= {
                "transaction": hex_data(item.newest.hash()),
                "attempt": len(item.attempts),
                "fee": price.fee_max,
                "tip": price.tip_max,
            }
            if price.blob_fee_max is not None:
                facts["blobFee"] = price.blob_fee_max
        return log_facts(**facts, **more)


def _has(error: NotTaken, words: Sequence[str]) -> bool:
    return any(each in str(error).lower() for each in words)
