"""Bugs that were real, put back: what the simulation must find by what holds in general, with no look for one of them.

``scripts/simulate --bug NAME`` gives the shipped code one of them before its world is made, so that a node of it has
the form from before the commit that mended it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from fastnode.errors import BlockRejected, PeerFault, ProposalFault, SlotLost
from fastnode.loop import Setbacks, logger
from fastnode.mempool.handover import PoolHandover
from fastnode.mempool.pool_replica import OtherHandover
from fastnode.mempool.store import PoolStore
from fastnode.p2p.judging import node_host
from fastnode.p2p.judging.goodbye import Goodbye
from fastnode.p2p.judging.proposed_blocks import ProposedBlocks
from fastnode.p2p.node.swarm import _BOTH_DIAL_S, MESH, Swarm
from fastnode.protocol.ethereum import recover_signer, with_recovery_byte
from fastnode.protocol.releases import FIVE, FOUR
from fastnode.sentinel import sentinel
from fastnode.sequencing import validator
from fastnode.sources.l1 import attestation_check
from fastnode.sources.l1.head_state import read_final_checkpoint
from fastnode.sources.l1.observer import L1Observer
from fastnode.sources.l1.service import L1Reader
from fastnode.sources.l1.source import L1Source
from fastnode.sources.l1.state import CheckpointPlace
from fastnode.sources.moved_checkpoints import MovedCheckpoints
from fastnode.storage import database

__all__ = ["BUGS", "Bug"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """``mended``: the commit.  ``network`` and ``release``: of short seeds that are played for it; ``seed`` is one that
    finds it, None where none was found yet; ``found``: words of the general property that does not hold then.
    ``put_back`` changes the process that it is called in."""

    what: str
    mended: str
    network: str
    release: str
    seed: int | None
    found: str
    put_back: Callable[[], None]


BUGS: Final[dict[str, Bug]] = {}


def _bug(
    name: str, *, mended: str, network: str, seed: int | None, found: str, release: str = FOUR.name
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Enter a function into the table; its docstring says what was wrong."""

    def enter(put_back: Callable[[], None]) -> Callable[[], None]:
        what = " ".join((put_back.__doc__ or "").split())
        BUGS[name] = Bug(
            what=what, mended=mended, network=network, release=release, seed=seed, found=found, put_back=put_back
        )
        return put_back

    return enter


# ---- nodes that follow L1 and each other ---------------------------------------------------------


@_bug("refused-for-ever", mended="d1582c4b", network="followers", seed=51, found="is at checkpoint 0, L1 at 2")
def _refused_for_ever() -> None:
    """A checkpoint that was refused once stayed so while its first event was on L1, also when it was proposed again
    with attestations."""
    content = L1Source._content

    def until_moved(self: L1Source, stored: Any, facts: Any, state: Any, common: int, limit: int) -> Any:
        invalid = self.invalid
        if invalid is not None and invalid.number == common + 1 <= limit:
            root = self._events.archive_roots(facts, state, [invalid.number])[0]
            block = self._reader.ask(state.head, lambda endpoint: endpoint.block(invalid.block.number))
            if root == invalid.archive_root and block == invalid.block:
                return common
        return (yield from content(self, stored, facts, state, common, limit))

    L1Source._content = until_moved  # type: ignore[method-assign]


@_bug("plain-recovery-id", mended="4356a6db", network="followers", seed=6, found="too few attestations, or false ones")
def _plain_recovery_id() -> None:
    """Attestations with a plain recovery id counted, which no contract takes."""
    attestation_check.recover_signer = lambda digest, signature: recover_signer(  # type: ignore[attr-defined]
        digest, with_recovery_byte(signature)
    )


@_bug("moved-unseen", mended="d3b1fedc", network="followers", seed=189, found="names another block of L1")
def _moved_unseen() -> None:
    """Checkpoints that a reorg of L1 brought into other blocks went on naming the old ones."""
    L1Source._newest_standing = lambda self, view, state, common: common  # type: ignore[method-assign]


@_bug("moved-in-part", mended="d3be66a4", network="followers", seed=None, found="")
def _moved_in_part() -> None:
    """Moved checkpoints whose reading was cut off kept their old places when a reorg brought the newest back."""

    def newest_standing(self: L1Source, view: Any, state: Any, common: int) -> int:
        final = view.tips.finalized.checkpoint.number
        if common == 0 or not state.has_moved(CheckpointPlace.of(view, common)):
            return common
        self._events.settled = None
        for number in range(common - 1, final, -1):
            if self._stand(view, state, [number])[0]:
                return number
        return int(final)

    L1Source._newest_standing = newest_standing  # type: ignore[method-assign]


@_bug("place-read-once", mended="b2d5c30f", network="followers", seed=661, found="names another block of L1")
def _place_read_once() -> None:
    """A node that follows others read the place of a checkpoint on L1 once, with the checkpoint."""

    def records(self: MovedCheckpoints, view: Any, newest: int, tips: Any) -> Iterator[Any]:
        return iter(())

    MovedCheckpoints.records = records  # type: ignore[method-assign]


@_bug("waits-for-the-pruned", mended="6bb15485", network="followers", seed=66, found="blocks behind")
def _waits_for_the_pruned() -> None:
    """What was not proven in time counted as still to come, so that a node at the right place was not ready."""
    records = L1Source.records

    def with_all(self: L1Source, stored: Any) -> Generator[Any, None, None]:
        given = records(self, stored)
        self.newest_checkpoint = self._reader.seen()[1].pending
        return given

    L1Source.records = with_all  # type: ignore[method-assign]


@_bug("difference-remembered", mended="904e159e", network="followers", seed=727, found="is where L1 is, and says")
def _difference_remembered() -> None:
    """A checkpoint that L1 had given up was told of after it was gone, for ever if none was left."""

    def contradiction(self: L1Observer) -> str | None:
        if self._contradicted is None:
            return None
        number, ours, on_l1 = self._contradicted
        return f"the stored checkpoint {number} has the archive root {ours}, L1 has {on_l1}"

    L1Observer.contradiction = property(contradiction)  # type: ignore[assignment,method-assign]


@_bug("finality-of-one-answer", mended="3f86cd66", network="followers", seed=None, found="")
def _finality_of_one_answer() -> None:
    """What one answer of one provider called final was stored as final, also above what is proven."""

    def look_for_finality(self: L1Observer, endpoint: Any, number: int, proven: int) -> None:
        final = read_final_checkpoint(endpoint, self._facts)
        if final is not None:
            self._final_block, self.finalized = final

    tips = L1Source._tips

    def with_finality(self: L1Source, view: Any, state: Any) -> Iterator[Any]:
        finalized = min(self._reader.finalized or 0, view.tips.checkpointed.checkpoint.number)
        yield from tips(self, view, _Proven(state, max(state.proven, finalized)))

    L1Observer._look_for_finality = look_for_finality  # type: ignore[method-assign]
    L1Observer._confirmed = lambda self, endpoint, finalized: finalized  # type: ignore[method-assign]
    L1Source._tips = with_finality  # type: ignore[method-assign]


class _Proven:
    """A state of L1 with another number of what is proven."""

    def __init__(self, state: Any, proven: int) -> None:
        self._state, self.proven = state, proven

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)


@_bug(
    "attestations-of-5-unread",
    mended="d12ea770",
    network="followers",
    release=FIVE.name,
    seed=3,
    found="is where L1 is, and says",
)
def _attestations_of_5_unread() -> None:
    """Nodes on a chain of 5.x asked who has signed a checkpoint without its chain and rollup, and were never ready."""
    read = sentinel.read_attestations
    sentinel.read_attestations = lambda checkpoint, domain: read(checkpoint, None)  # type: ignore[attr-defined]


# ---- transactions --------------------------------------------------------------------------------


@_bug("handed-on-by-two", mended="4b340418", network="followers", seed=None, found="")
def _handed_on_by_two() -> None:
    """Two threads that came to one transaction handed it on twice."""
    PoolHandover._hand_on = lambda self, tx_hash, tx_json: self._give(tx_hash, tx_json)  # type: ignore[method-assign]


@_bug("handover-without-a-pool", mended="03014c3f", network="followers", seed=13, found="did not expect this")
def _handover_without_a_pool() -> None:
    """Workers asked a handover for its pool, and it had none: a receipt of a pending transaction was an internal
    error."""

    def without(self: OtherHandover, _pool: Any, deciding: Any) -> None:
        self._deciding = deciding

    OtherHandover.__init__ = without  # type: ignore[method-assign]


@_bug("pool-refused-for-good", mended="b9b4f6cb", network="followers", seed=None, found="")
def _pool_refused_for_good() -> None:
    """After one write that the disk refused the pool was never written again."""
    PoolStore._recover_later = lambda self: None  # type: ignore[method-assign]


# ---- disks ---------------------------------------------------------------------------------------


@_bug("torn-write-is-damage", mended="e6ce0477", network="followers", seed=None, found="")
def _torn_write_is_damage() -> None:
    """A write that a power cut had torn was called damage of the database."""
    database.recover_logs = lambda path: None  # type: ignore[attr-defined]


@_bug("damage-is-unexpected", mended="e6ce0477", network="followers", seed=None, found="")
def _damage_is_unexpected() -> None:
    """A thread that met a damaged database logged a traceback, as for a bug."""

    def note(self: Setbacks, error: BaseException) -> float:
        self.count += 1
        if self.reason is None:
            logger.error(self._what, exc_info=(type(error), error, error.__traceback__))
        self.reason = f"{self._what}: {type(error).__name__}; the log has the cause"
        self._in_a_row += 1
        return float(min(self._first_s * 2 ** min(self._in_a_row, 16), self._longest_s))

    Setbacks.note = note  # type: ignore[method-assign]


# ---- peers ---------------------------------------------------------------------------------------


@_bug(
    "marked-after-its-commit",
    mended="90dd00f0",
    network="peers",
    seed=7,
    found="does not attest to a checkpoint with which nothing is wrong",
)
def _marked_after_its_commit() -> None:
    """A proposed block was marked as executed after its commit, which wakes the validator: that gave the slot up."""

    def ingest(self: ProposedBlocks, ingestor: Any, proposal: Any, block: Any, messages: Any) -> None:
        try:
            ingestor.add_block(block, messages if block.index_within_checkpoint == 0 else ())
        except BlockRejected as error:
            raise ProposalFault(str(error)) from error
        self._mark(proposal.archive_root)

    check = validator.Validator._check

    def at_once(self: validator.Validator, facts: Any, proposal: Any, blocks: Any, chain: Any) -> None:
        try:
            check(self, facts, proposal, blocks, chain)
        except validator._NotYetError as missing:
            raise SlotLost(str(missing)) from None

    ProposedBlocks._ingest = ingest  # type: ignore[method-assign]
    validator.Validator._check = at_once  # type: ignore[method-assign]


@_bug("third-connection-refused", mended="12eca048", network="peers", seed=None, found="")
def _third_connection_refused() -> None:
    """Connections of a peer that had died counted as there: a third one was refused, and gossip went to the dead
    ones."""

    def add(self: Swarm, peer: Any, link: Any) -> None:
        if len(peer.links) > 1:
            raise PeerFault("the peer is connected twice already")
        peer.links.append(link)

    Swarm._add = add  # type: ignore[method-assign]


@_bug("introduced-over-the-dead", mended="8b9d0621", network="peers", seed=None, found="")
def _introduced_over_the_dead() -> None:
    """A peer that had dialled anew was introduced over a dead connection, and not heard any more."""

    def add(self: Swarm, peer: Any, link: Any) -> None:
        limit = self._loop.time() - _BOTH_DIAL_S
        dead = [] if link.is_dialer else [old for old in peer.links if old.opened_at < limit]
        if len(peer.links) - len(dead) > 1:
            raise PeerFault("the peer is connected twice already")
        peer.links.append(link)
        for old in dead:
            old.close("the peer has connected anew", at_once=True)

    lost = Swarm._lost

    def with_another_event(self: Swarm, link: Any, reason: str) -> None:
        peer = self.peers.get(link.peer_id or "")
        was_used = peer is not None and peer.uses(link)
        lost(self, link, reason)
        if peer is not None and peer.links and was_used:
            peer.is_known_to_gossip = asyncio.Event()

    async def introduce(self: Swarm, peer: Any, link: Any) -> None:
        await _introduce(self, peer, lambda: peer.uses(link))

    Swarm._add, Swarm._lost = add, with_another_event  # type: ignore[method-assign]
    Swarm._introduce = introduce  # type: ignore[method-assign]


@_bug("introduced-over-the-lost", mended="9ccc4383", network="peers", seed=None, found="")
def _introduced_over_the_lost() -> None:
    """A peer was left as one of another network for what a lost connection did not bring."""

    async def introduce(self: Swarm, peer: Any, link: Any) -> None:
        await _introduce(self, peer, lambda: bool(peer.links))

    Swarm._introduce = introduce  # type: ignore[method-assign]


async def _introduce(swarm: Swarm, peer: Any, is_used: Callable[[], bool]) -> None:
    """As before both: what is not answered is tried no more."""
    if not is_used():
        return
    await asyncio.gather(swarm._tried(swarm._identify(peer)), swarm._tried(swarm._ask_status(peer)))
    if not is_used():
        return
    if swarm.options.checks_status and (peer.status is None or peer.status.version != swarm._version):
        other = "it gives no status" if peer.status is None else f"its network is {peer.status.version}"
        await swarm.leave(peer, Goodbye.WRONG_NETWORK, other)
        return
    stream = peer.link.open_stream()
    async with asyncio.timeout(swarm.options.request_timeout_s):
        await stream.select([MESH], is_dialer=True)
    if is_used():
        swarm._on_peer(peer, stream)
        peer.is_known_to_gossip.set()


@_bug("anchor-to-come-is-false", mended="9e9176f9", network="peers", seed=None, found="")
def _anchor_to_come_is_false() -> None:
    """Transactions that stand on a block that has not come yet cost who sends them points."""
    node_host._may_come = lambda tx, view: False  # type: ignore[assignment]


@_bug("slots-by-lagging-l1", mended="8948a433", network="peers", seed=None, found="")
def _slots_by_lagging_l1() -> None:
    """Slots went by the newest block of an L1 that lags, and honest proposers were punished as hasty."""

    def now(self: L1Reader) -> float:
        if self._state is None:
            return self.clock.time()
        newest = float(self.newest_timestamp)
        return newest if self._silence is None else max(newest, self.clock.time())

    L1Reader.now = now  # type: ignore[method-assign]
