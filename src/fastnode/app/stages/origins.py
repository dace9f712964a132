"""Origins of a chain that is followed: other nodes, the bus and L1, put together.

origins = Origins(settings, network_of=lambda: store.chain or None)
chain, genesis = origins.learn_chain()         # only if nothing is stored yet: what is stored is served at once
follower = origins.follow(ingestor, ...)       # to be run in the thread that ingests; asks the others who they are
origins.interrupt()                            # ends what waits for an upstream, from any thread
origins.close()
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastnode.app.stages.l1_origin import funding_of, open_l1, release_of
from fastnode.app.stages.no_bus import NoBus
from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.queries import ChainInfo, ChainView
from fastnode.archiver.source import ChainRecord, GenesisRecord, L1Tips, MessageSource
from fastnode.archiver.store import ArchiverStore
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.errors import (
    DecodeError,
    FastnodeError,
    OtherNetwork,
    SettingError,
    SnapshotError,
    SnapshotUnconfirmed,
    StartError,
    UpstreamError,
    UpstreamUnavailable,
)
from fastnode.fees.sources import FeeSource, LatestFees
from fastnode.log import log_facts
from fastnode.mempool.forwarding import (
    FeeRefresher,
    HandoverPass,
    UpstreamPublicSimulator,
    UpstreamQuestions,
    UpstreamTxSink,
)
from fastnode.mempool.mirror import PendingTxMirror
from fastnode.mempool.network import NetworkValues
from fastnode.mempool.service import Mempool
from fastnode.mempool.simulation import PublicSimulator
from fastnode.mempool.upstream_terms import UpstreamTerms
from fastnode.outgoing.client import ClientLimits
from fastnode.outgoing.failover import begin_probe
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import Release
from fastnode.records import dataclass
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.follower import Follower, FollowerOptions, ProposalSource
from fastnode.sources.genesis import learn_chain
from fastnode.sources.l1.source import L1Source
from fastnode.sources.publication import Publication
from fastnode.sources.sync_control import SyncControl
from fastnode.sources.upstreams import Upstream, Upstreams
from fastnode.values.lineage import Lineage
from fastnode.values.urls import check_url
from fastnode.view import View

if TYPE_CHECKING:
    from fastnode.bus.connection import Bus
    from fastnode.bus.upstream import BusUpstream
    from fastnode.snapshots.contents import Contents
    from fastnode.sources.l1.service import L1Reader

__all__ = ["Origins"]

logger = logging.getLogger("fastnode.app")

_RETRY_PAUSE_S: Final = 0.5
#: Times that an upstream may fail to say who it is before a start without a chain gives it up.
_FIRST_TRIES: Final = 3
#: Threads that fetch and decode ahead of ingestion, and those that carry transactions.
FETCHERS: Final = 3
CARRIERS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginPatience(Patience):
    """Times in seconds of what is followed, beside those of its endpoints."""

    #: A chain that only got shorter, with no other block in place of ours, is believed when it has said so for this
    #: long: it may be a node that was started from an old backup.
    shortening_s: float = 12.0
    #: Pause when answers are right but cannot be used yet, such as a checkpoint whose messages are not known.
    blocked_s: float = 2.0
    #: For how long L1 may be silent, or behind an upstream, before the status says so.
    l1_grace_s: float = 5.0


class Origins:
    """``expected`` gives the stored chain, None while there is none.  SettingError for an invalid URL.

    ``bus``: what is published there is followed, and upstreams stand in.  ``directory``: where blobs are that this node
    has published itself; None: nowhere.
    """

    def __init__(
        self,
        settings: Settings,
        expected: Callable[[], ChainInfo | None],
        *,
        patience: OriginPatience | None = None,
        bus: Bus | None = None,
        lineage: Lineage | None = None,
        directory: Path | None = None,
    ) -> None:
        self._settings = settings
        self._expected = expected
        self._patience = patience or OriginPatience()
        self._network = Network()
        #: Times that upstreams, L1 and places of blobs took to answer.
        self.exchange_times = self._network.times
        limits = ClientLimits(
            request_time_s=settings.upstream_timeout_s, response_bytes_max=settings.upstream_max_response_size
        )
        self._carriers = ThreadPoolExecutor(CARRIERS, thread_name_prefix="fastnode-carry")
        urls = dict.fromkeys(check_url(url, "--upstream-url") for url in settings.upstream_url or ())
        nodes = [
            Upstream(
                url,
                self._network,
                f"upstream {number}",
                expected=expected,
                limits=limits,
                patience=self._patience,
                lineage=lineage,
                takes_untried=settings.untried_upstreams,
            )
            for number, url in enumerate(urls, 1)
        ]
        #: Upstreams that take transactions and answer questions.
        self.nodes = Upstreams(nodes, begin_probe)
        self.bus: BusUpstream | NoBus = NoBus()
        #: All that blocks come from.
        self.upstreams = self.nodes
        if bus is not None:
            self.bus = followed = self._open_bus(bus, limits)
            self.upstreams = Upstreams([followed, *nodes], begin_probe)
        #: L1 beside other nodes, or as the origin of the chain itself.
        self._on_l1 = open_l1(settings, self._network, self._patience, self._patience.l1_grace_s, directory)
        self._executor = ThreadPoolExecutor(FETCHERS, thread_name_prefix="fastnode-fetch")
        self.questions = UpstreamQuestions(self.nodes)
        self._after_passes: list[Callable[[Upstream], None]] = []
        self._on_network: Callable[[NetworkValues], None] = lambda values: None
        self._fee_refresher: FeeRefresher | None = None
        self._learning: dict[str, Callable[[], str | None]] = {}
        self._is_closed = False
        #: The chain is the one that they named, so there is nothing to compare.
        self._has_learned = False

    @property
    def l1(self) -> L1Reader | None:
        """Reader of L1; None: L1 is not read."""
        return self._on_l1.reader

    def _open_bus(self, bus: Bus, limits: ClientLimits) -> BusUpstream:
        from fastnode.bus.upstream import BusUpstream

        stream = stream_of(self._settings)
        return BusUpstream(
            bus, self._network, expected=self._expected, stream=stream, limits=limits, patience=self._patience
        )

    def _check_network(self) -> None:
        """StartError when an upstream that answers now is on another network than the stored chain."""
        for upstream in self.upstreams.all:
            try:
                upstream.make_healthy()
                release = release_of(self._settings, NetworkValues.of_headers(upstream.version_headers), upstream.name)
                self._require_stored(release, upstream.name)
            except UpstreamUnavailable:
                continue
            except OtherNetwork as error:
                raise StartError(f"upstream {upstream.name}: {error}") from error
            except (UpstreamError, DecodeError) as error:
                upstream.put_aside(str(error))
                self._refuse_itself()
            except FastnodeError:
                raise
            except Exception as error:  # noqa: BLE001 - counted, and logged once
                upstream.put_aside(str(upstream.on_nonsense(error)))

    def _require_stored(self, release: Release | None, who: str) -> None:
        """StartError when a chain of another release is stored."""
        stored = self._expected()
        if stored is not None and release not in (None, stored.release):
            assert release is not None
            raise StartError(f"{who} is of release {release.name}, the stored chain of {stored.release.name}")

    def _refuse_itself(self) -> None:
        """SettingError when one of the upstreams is this node."""
        for upstream in self.nodes.all:
            if upstream.is_this_node:
                raise SettingError(f"--upstream-url: {upstream.name} is this node itself: give the URL of another one")

    def what_is_awaited(self) -> str:
        """To follow the words "waits for"."""
        if self._on_l1.standby is not None:
            return self._on_l1.standby
        reasons = "; ".join(filter(None, (self.upstreams.reasons(), self._on_l1.reasons())))
        who = "an upstream" if self.upstreams.all else "L1"
        return who + (f": {reasons}" if reasons else "")

    def is_standing_by(self) -> bool:
        """True while the canonical rollup is not one that is followed, and another one is waited for."""
        return self._on_l1.standby is not None

    def learn_chain(
        self, genesis_file: Path | None = None, l1_constants: dict[str, Any] | None = None
    ) -> tuple[ChainRecord, GenesisRecord]:
        """Learn which chain this will be; waits for an upstream to answer, for as long as one may.

        StartError with the reason when all of them are put aside, and when it is interrupted.
        """
        chain = self._learn_chain(genesis_file, l1_constants)
        self._has_learned = True
        return chain

    def _learn_chain(
        self, genesis_file: Path | None, l1_constants: dict[str, Any] | None
    ) -> tuple[ChainRecord, GenesisRecord]:
        derived = self._on_l1.learn_chain(genesis_file)
        if derived is not None:
            return derived
        if genesis_file is not None:
            ChainFileSource(genesis_file).close()  # errors of the file are reported before any node is waited for
        while not self._is_closed and not self._is_nobody_left():
            upstream = self.upstreams.choose()
            self._refuse_itself()
            if upstream is not None:
                try:
                    constants = l1_constants or self._on_l1.constants_for(upstream)
                    chain = learn_chain(upstream, genesis_file, constants, funding_of(self._settings))
                    release_of(self._settings, NetworkValues.of_headers(upstream.version_headers), upstream.name)
                    return chain
                except UpstreamUnavailable:
                    continue
                except OtherNetwork as error:
                    raise StartError(f"upstream {upstream.name}: {error}") from error
                except (UpstreamError, DecodeError) as error:  # it may make sense the next time, as any later answer
                    upstream.on_error(error)
                    upstream.health.on_useless(error)
                    continue
            time.sleep(_RETRY_PAUSE_S)
        self._refuse_itself()
        raise StartError(f"nothing is stored yet and no upstream can be followed: {self.upstreams.reasons()}")

    def _is_nobody_left(self) -> bool:
        """True where waiting has no sense: all upstreams are of other networks, or have never said who they are."""
        return all(
            each.health.is_put_aside
            and (each.is_of_other_network or (not each.node_info and each.health.times_aside >= _FIRST_TRIES))
            for each in self.upstreams.all
        )

    def _begin(self, stored: Callable[[], ChainView]) -> None:
        """In the thread that ingests, before the first pass.

        StartError when L1 or an upstream that answers now is on another network than the stored chain.
        """
        if self._has_learned:
            return
        self._on_l1.compare(self._expected())
        self._on_l1.begin(stored)
        self._check_network()
        self._tell_network()

    def _tell_network(self) -> None:
        values = self.network_values()
        if values is not None:
            self._on_network(values)

    def confirm(self, contents: Contents) -> None:
        """As :meth:`~fastnode.app.stages.l1_origin.NoL1.confirm`."""
        self._on_l1.confirm(contents)

    def confirm_by_nodes(self, contents: Contents) -> None:
        """SnapshotError unless a followed node has the oldest block to which a snapshot's state can go back, or, where
        it keeps no blocks so old, the last one of its newest checkpoint: headers bind what comes before.

        SnapshotUnconfirmed when none answers.
        """
        own = (
            (contents.oldest_block_number, contents.oldest_block_hash),
            (contents.checkpoint_block_number, contents.checkpoint_block_hash),
        )
        reasons = []
        for upstream in self.upstreams.all:
            try:
                upstream.make_healthy()
                known = next(filter(None, (_known_hash(upstream, number) for number, _ in own)), None)
            except (UpstreamError, DecodeError) as error:
                reasons.append(f"{upstream.name}: {error}")
                continue
            if known is None:
                reasons.append(f"{upstream.name}: it has neither of the blocks {own[0][0]} and {own[1][0]}")
                continue
            if known not in own:
                number, found = known
                raise SnapshotError(f"its block {number} is {dict(own)[number]}, that of {upstream.name} is {found}")
            shown = log_facts(block=known[0], node=upstream.name)
            logger.info("the block of the snapshot is the one of a followed node", extra=shown)
            return
        raise SnapshotUnconfirmed(f"no followed node says whether it is true: {'; '.join(reasons)}")

    def hand_on_blobs(self, blobs: Mapping[bytes, bytes]) -> None:
        """Put blobs of a proposal, by their versioned hashes, where other nodes find them."""
        self._on_l1.hand_on(blobs)

    def configure(self, configuration: NodeConfiguration) -> None:
        """Follow the configuration."""
        self._on_l1.configure(configuration)

    def _open_source(self, view: ChainView) -> L1Source | None:
        source = self._on_l1.open_source(self._expected(), view)
        if source is not None:
            self._tell_network()
        return source

    def follow(
        self,
        ingestor: Ingestor,
        control: SyncControl,
        publication: Publication,
        *,
        mempool: Mempool | None = None,
        view: Callable[[], View | None] = lambda: None,
        messages: MessageSource | None = None,
        l1_tips: L1Tips | None = None,
        proposals: ProposalSource | None = None,
    ) -> Follower:
        """The loop, not running yet.  ``messages`` and ``l1_tips``: what L1 says goes before what upstreams say.

        ``mempool``: after each pass it hands on what waits, and learns what the upstream knows, for ``view``.

        A node that has a chain serves it before it asks the others anything: what they are is found out in the thread
        that ingests, and the node ends there when they are on another network.
        """
        settings = self._settings
        if mempool is not None:
            self._serve_pool(mempool, view, ingestor.store)
        self.bus.on_news = control.wake
        source, reader = None, self.l1
        if self._has_learned:
            source = self._open_source(ingestor.view)
            self._on_l1.begin(lambda: ingestor.view)
        return Follower(
            ingestor,
            self.upstreams,
            control,
            publication,
            self._executor,
            messages=messages or reader,
            l1_tips=l1_tips or reader,
            authority=reader,
            l1=source,
            open_l1=(lambda: self._open_source(ingestor.view)) if self._on_l1.is_derived else None,
            proposals=proposals,
            is_past=(lambda at: False) if reader is None else reader.is_past,
            begin=lambda: self._begin(lambda: ingestor.view),
            options=FollowerOptions(
                poll_interval_s=settings.archiver_polling_interval_ms / 1000,
                # The bus says itself when there is something new.
                poll_interval_min_s=(
                    settings.upstream_polling_min_ms
                    if self.upstreams is self.nodes
                    else settings.archiver_polling_interval_ms
                )
                / 1000,
                ready_max_lag_blocks=settings.ready_max_lag_blocks,
                blocked_pause_s=self._patience.blocked_s,
                l1_grace_s=self._patience.l1_grace_s,
                shortening_s=self._patience.shortening_s,
            ),
            on_pass=self._on_pass,
        )

    def fees(self) -> FeeSource:
        """Source of gas prices: L1 where it is read, else the upstreams.  Once, before :meth:`follow`."""
        of_l1 = self._on_l1.fees()
        if of_l1 is not None:
            return of_l1
        self._fee_refresher = FeeRefresher(LatestFees())
        self._after_passes.append(self._fee_refresher.refresh)
        return self._fee_refresher.latest

    def troubles(self) -> dict[str, str | None]:
        """Troubles with what is learned after passes, by name; None for nothing."""
        fees = {} if self._fee_refresher is None else {"fees": self._fee_refresher.trouble}
        return fees | {name: trouble() for name, trouble in self._learning.items()}

    @property
    def tx_sink(self) -> UpstreamTxSink:
        """Sink to which the mempool hands transactions on."""
        return UpstreamTxSink(self.nodes)

    @property
    def simulator(self) -> PublicSimulator:
        return UpstreamPublicSimulator(self.questions)

    def network_values(self) -> NetworkValues | None:
        """Network values of L1, or of an upstream that has answered; None while neither has."""
        values = self._on_l1.values()
        if values is not None:
            return values
        for upstream in self.upstreams.healthy():
            return NetworkValues.of_headers(upstream.version_headers)
        return None

    def _serve_pool(self, mempool: Mempool, view: Callable[[], View | None], store: ArchiverStore) -> None:
        """After each pass hand on what waits, and learn what the upstream knows."""
        if self._settings.release is None:
            self._after_passes.append(lambda upstream: _follow_version(upstream, store, mempool))
        self._on_network = mempool.learn_network
        if mempool.handover is not None:
            self._after_passes.append(HandoverPass(mempool.handover, self._carriers).on_pass)
        terms = UpstreamTerms(
            mempool,
            self._carriers,
            l1_values=self._on_l1.values,
            allow_list=self._settings.allow_list_source == "upstream",
        )
        self._after_passes.append(terms.on_pass)
        self._learning["terms"] = lambda: terms.trouble
        if self._settings.mirror_pending_txs:
            mirror = PendingTxMirror(mempool, view, self._carriers)
            self._after_passes.append(mirror.on_pass)
            self._learning["mirror"] = lambda: mirror.trouble

    def _on_pass(self, upstream: Upstream) -> None:
        for action in self._after_passes:
            action(upstream)

    def interrupt(self) -> None:
        """No caller waits for an upstream any longer."""
        self._is_closed = True
        self._on_l1.interrupt()
        self._network.close()

    def close(self) -> None:
        """After the thread that ingests has ended.  May be called more than once."""
        self.interrupt()
        self._on_l1.close()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._carriers.shutdown(wait=True, cancel_futures=True)


def _known_hash(upstream: Upstream, number: int) -> tuple[int, str] | None:
    """Number and hash of the node's block of this number; None: it has none."""
    header = upstream.call("node_getBlockHeader", number)
    return None if header is None else (number, f"0x{BlockHeader.from_json(header, 'header').hash().hex()}")


def _follow_version(upstream: Upstream, store: ArchiverStore, mempool: Mempool) -> None:
    """Go by the version of the followed node; blocks are the same whichever it is."""
    version = str(upstream.node_info.get("nodeVersion") or "")
    if store.chain.release.has_version(version) and store.serve_as(version):
        logger.info("the followed node is of another version", extra=log_facts(upstream=upstream.name, version=version))
        mempool.learn_network(NetworkValues(node_version=version))


def stream_of(settings: Settings) -> str | None:
    """The stream of the bus that the settings name; None where they do not say which rollup it is."""
    if settings.l1_chain_id is None or settings.rollup_version is None:
        return None
    from fastnode.bus.subjects import Subjects

    return Subjects.of({"l1ChainId": settings.l1_chain_id, "rollupVersion": settings.rollup_version}).stream
