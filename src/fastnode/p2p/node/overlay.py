"""Peers, gossip and requests put together, in the loop of the network."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import nullcontext, suppress
from typing import Any, Final

from fastnode.errors import DecodeError, PeerFault, PeerUnavailable
from fastnode.log import log_facts
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.router import Gossip
from fastnode.p2p.gossip.score_parameters import parameters_of
from fastnode.p2p.gossip.scores import PeerScores
from fastnode.p2p.gossip.topics import Topic, topic_name, unpack
from fastnode.p2p.gossip.wire import Incoming
from fastnode.p2p.judging.host import Host, Judgement
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.messages.request_forms import BlockTxsRequest, BlockTxsResponse, read_txs, write_hashes
from fastnode.p2p.node.known_back_offs import KnownBackOffs
from fastnode.p2p.node.options import PeerOptions
from fastnode.p2p.node.peer import GossipWriter, Peer
from fastnode.p2p.node.request_limits import Request
from fastnode.p2p.node.requests import Requests
from fastnode.p2p.node.snapshot import NetworkSnapshot, PeerSnapshot
from fastnode.p2p.node.swarm import Swarm
from fastnode.p2p.transport.identity import Identity
from fastnode.p2p.transport.limits import Budget, PeerMemory
from fastnode.p2p.transport.link import Stream

__all__ = ["Overlay"]

logger = logging.getLogger(__name__)

_DECAY_S: Final = 1.0
#: Interval at which back-offs are written down, in seconds.
_KEEP_S: Final = 2.0
_TX_BYTES_MAX: Final = 512 << 10
#: Transactions that are asked for in one request.
_TXS_AT_ONCE: Final = 16


class Overlay:
    """``slot_s`` and ``committee_size``: of the network, for the scores.  ``threads``: where transactions are judged,
    and ``other_threads``: where everything else is."""

    def __init__(
        self,
        identity: Identity,
        version: str,
        host: Host,
        options: PeerOptions,
        budget: Budget,
        *,
        slot_s: float,
        committee_size: int,
        threads: Executor,
        other_threads: Executor,
        answering: Executor,
    ) -> None:
        self._host = host
        self._options = options
        self._threads, self._other_threads = threads, other_threads
        self._loop = asyncio.get_running_loop()
        self.requests = Requests(
            host,
            answering,
            timeout_s=options.request_timeout_s,
            takes_transactions=options.takes_transactions,
            release=options.release,
            penalize=self._penalize,
        )
        self.swarm = Swarm(
            identity,
            version,
            options,
            budget,
            self.requests,
            on_peer=self._on_peer,
            on_gone=self._on_gone,
            on_gossip=self._on_gossip,
        )
        topics = [topic for topic in Topic if topic is not Topic.TX or options.takes_transactions]
        names = {topic: topic_name(topic, version) for topic in topics}
        parameters = parameters_of(
            names,
            slot_s=slot_s,
            heartbeat_s=options.gossip.heartbeat_s,
            committee_size=committee_size,
            block_proposals_per_slot=options.block_proposals_per_slot,
            colocation_weight=-5 if options.counts_colocation else 0,
        )
        self.scores = PeerScores(parameters, self.swarm.standing.score)
        self.swarm.score = self.scores.score
        self.gossip = Gossip(
            names,
            self.scores,
            options=options.gossip,
            limits=options.limits,
            frames_topic=options.release.messages.frames_topic,
        )
        self._back_offs = KnownBackOffs(options.folder)
        self._memory = PeerMemory(budget)
        self.version = version
        self.port = 0

    async def start(self) -> None:
        """OSError if the port cannot be had."""
        self.gossip.keep_back_offs(self._back_offs.load(), self._loop.time())
        self.port = await self.swarm.start()
        self.swarm.repeat(self._options.gossip.heartbeat_s, self._heartbeat)
        self.swarm.repeat(_DECAY_S, lambda: self.scores.decay(self._loop.time()))
        self.swarm.repeat(_KEEP_S, lambda: self._back_offs.save(self.gossip.back_offs(self._loop.time())))

    async def stop(self) -> None:
        self._back_offs.save(self.gossip.back_offs(self._loop.time()))
        await self.swarm.stop()
        self._memory.release()

    def _penalize(self, peer_id: str, penalty: Penalty, reason: str) -> None:
        self.swarm.penalize(peer_id, penalty, reason)

    # ---- gossip ------------------------------------------------------------------------------

    def _heartbeat(self) -> None:
        self.gossip.heartbeat(self._loop.time())
        self._flush()

    def _on_peer(self, peer: Peer, stream: Stream) -> None:
        peer.writer = GossipWriter(stream)
        self.swarm.spawn(peer.writer.run())
        self.gossip.add_peer(peer.id, peer.address[0], is_outbound=peer.is_outbound, is_direct=peer.is_direct)
        self._flush()

    def _on_gone(self, peer: Peer) -> None:
        peer.writer = None
        self.gossip.remove_peer(peer.id, self._loop.time())

    async def _on_gossip(self, peer: Peer, stream: Stream) -> None:
        limits = self._options.limits
        while (messages := await stream.read_messages(limits.rpc_bytes_max)) is not None:
            for rpc in messages:
                wait_s = peer.rpc_wait_s(self._loop.time(), limits.rpcs_per_s_max)
                if wait_s:
                    # Messages beyond that wait too, at the peer's side: the window of the stream is full.
                    await asyncio.sleep(wait_s)
                for incoming in self.gossip.receive(peer.id, rpc, self._loop.time()):
                    self.swarm.spawn(self._judge(peer, incoming))
                self._flush()
                # A peer that sends much at once lets the others have their turns.
                await asyncio.sleep(0)
            self.swarm.leave_outcast(peer)

    async def _judge(self, peer: Peer, incoming: Incoming) -> None:
        is_tx = incoming.topic is Topic.TX
        judgement, came_at = Judgement(Verdict.IGNORE), self._loop.time()
        try:
            # Proofs take long: those of one peer do not take all threads, and none keeps a proposal waiting.
            async with peer.turns if is_tx else nullcontext():
                if self.swarm.is_banned(peer) and self.gossip.pass_over(incoming.message_id):
                    return
                judgement = await self._loop.run_in_executor(
                    self._threads if is_tx else self._other_threads,
                    self._host.judge,
                    incoming.topic,
                    unpack(incoming.data),
                    incoming.peer,
                )
            await asyncio.sleep(judgement.wait_s)
            if not judgement.is_wanted():
                judgement = Judgement(Verdict.IGNORE, None, "nobody needs it any more")
        except DecodeError as error:
            judgement = Judgement(Verdict.REJECT, Penalty.LOW_TOLERANCE, str(error))
        finally:
            if judgement.penalty is not None:
                self._penalize(incoming.peer, judgement.penalty, f"{incoming.topic.value}: {judgement.reason}")
            now = self._loop.time()
            count = self.gossip.judge(incoming.message_id, judgement.verdict, now)
            self._flush()
            if logger.isEnabledFor(logging.DEBUG):
                facts = log_facts(
                    topic=incoming.topic.value,
                    begin=incoming.data[4:36],
                    verdict=judgement.verdict.value,
                    reason=judgement.reason or None,
                    ms=round((now - came_at) * 1000, 1),
                    forwarded=count,
                )
                logger.debug("a message of gossip is judged", extra=facts)

    def _flush(self) -> None:
        for peer_id, rpc in self.gossip.take_output():
            peer = self.swarm.peers.get(peer_id)
            if peer is not None and peer.writer is not None:
                peer.writer.put(rpc)
        with suppress(PeerFault):  # what is held already is held: only newcomers are refused
            self._memory.hold(self.gossip.held_bytes)

    def publish(self, topic: Topic, payload: bytes, keep_s: float) -> int | None:
        """To how many peers it went; None if it was known.  ``keep_s``: so long it goes to those that come, too."""
        now = self._loop.time()
        count = self.gossip.publish(topic, payload, now, until=now + keep_s)
        self._flush()
        return count

    # ---- requests ----------------------------------------------------------------------------

    async def fetch_txs(
        self, archive_root: bytes, hashes: Sequence[bytes], missing: set[bytes], first: str | None
    ) -> list[bytes]:
        """Binary forms of what is missing of a block: from ``first``, then from others, as far as they have it."""
        found: dict[bytes, bytes] = {}
        peers = sorted(self.swarm.peers.values(), key=lambda peer: peer.id != first)
        for peer in peers:
            with suppress(PeerUnavailable, PeerFault, DecodeError):
                while lacking := [tx_hash for tx_hash in hashes if tx_hash in missing and tx_hash not in found]:
                    given = await self._ask_for_txs(peer, archive_root, hashes, lacking)
                    new = {tx[:32]: tx for tx in given if tx[:32] in lacking}
                    if not new:
                        break  # it has no more of them
                    found |= new
        return list(found.values())

    async def _ask_for_txs(
        self, peer: Peer, archive_root: bytes, hashes: Sequence[bytes], lacking: Sequence[bytes]
    ) -> Sequence[bytes]:
        asked, release = lacking[:_TXS_AT_ONCE], self._options.release
        size = len(asked) * _TX_BYTES_MAX + 1024
        if Request.BLOCK_TXS.protocol in peer.protocols:
            request = BlockTxsRequest.of(archive_root, hashes, asked, release).to_buffer()
            with suppress(PeerUnavailable):
                answer = await self.requests.ask(peer, Request.BLOCK_TXS, request, bytes_max=size)
                return BlockTxsResponse.from_buffer(answer, release).txs
        return read_txs(await self.requests.ask(peer, Request.TX, write_hashes(asked), bytes_max=size), release)

    # ---- what others look at -------------------------------------------------------------------

    def snapshot(self) -> NetworkSnapshot:
        now = self._loop.time()
        peers = tuple(self._describe(peer, now) for peer in self.swarm.peers.values())
        return NetworkSnapshot(
            peer_id=self.swarm.identity.peer_id,
            version=self.version,
            port=self.port,
            peers=peers,
            mesh={topic.value: size for topic, size in self.gossip.mesh_sizes().items()},
            gossip=dict(self.gossip.counts),
            requests=dict(self.requests.counts),
            events=dict(self.swarm.counts),
            held_bytes=self.gossip.held_bytes + sum(peer.held_bytes for peer in peers),
            enr=None if self.swarm.own is None else self.swarm.own.record.to_text(),
            known_nodes=None if self.swarm.discovery is None else len(self.swarm.discovery.table),
        )

    def _describe(self, peer: Peer, now: float) -> PeerSnapshot:
        status: Any = peer.status
        return PeerSnapshot(
            peer_id=peer.id,
            host=peer.address[0],
            port=peer.address[1],
            is_outbound=peer.is_outbound,
            agent=peer.agent,
            since_s=round(now - peer.since, 1),
            score=round(self.scores.score(peer.id), 1),
            application_score=round(self.swarm.standing.score(peer.id), 1),
            latest_block=None if status is None else status.latest_block,
            is_protected=peer.is_protected,
            bytes_in=sum(link.bytes_in for link in peer.links),
            bytes_out=sum(link.bytes_out for link in peer.links),
            held_bytes=sum(link.held_bytes for link in peer.links)
            + (0 if peer.writer is None else peer.writer.queued_bytes),
        )
