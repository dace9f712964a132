"""The parts that derive a chain from L1, made from the settings: places of blobs, nodes that trace, the source."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from fastnode.archiver.queries import ChainView
from fastnode.config.config_keys import DERIVING
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.errors import DecodeError, SettingError, StartError, UpstreamError, UpstreamRejection
from fastnode.log import log_facts
from fastnode.outgoing.client import RpcCall
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import ClientLimits, Network
from fastnode.sources.blobs.archive_api import BlobArchive
from fastnode.sources.blobs.base import BlobSourceError
from fastnode.sources.blobs.beacon import BeaconNode
from fastnode.sources.blobs.fetcher import BlobFetcher, BlobSources, FetchPatience
from fastnode.sources.blobs.file_store import FileStore, folder_of
from fastnode.sources.blobs.http_get import HttpGet
from fastnode.sources.blobs.own import OWN_BLOBS, OwnBlobs
from fastnode.sources.l1.endpoints import L1Client, L1Endpoint
from fastnode.sources.l1.history import HistoryNeed, missing_logs, missing_state
from fastnode.sources.l1.propose_calls import is_unknown_method
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.service import USUAL_SLOT_S, L1Reader
from fastnode.sources.l1.source import L1Source
from fastnode.values.urls import check_url

__all__ = ["Derivation", "check_keys"]

logger = logging.getLogger("fastnode.app")

#: Threads that fetch, prove and decode the blobs of checkpoints ahead of ingestion.  Mostly they wait for providers.
DERIVING_THREADS: Final = 16
_NO_SUCH_TRANSACTION: Final = "0x" + "00" * 32


class Derivation:
    """``open`` once L1 has said which rollup it is.  ``directory``: that of the data.

    SettingError for an invalid URL.
    """

    def __init__(
        self,
        settings: Settings,
        network: Network,
        reader: L1Reader,
        patience: Patience,
        directory: Path | None = None,
    ) -> None:
        self._settings = settings
        self._network = network
        self._reader = reader
        self._patience = patience
        #: False while checkpoints are stored whoever has attested to them.
        self._checks_attestations: Callable[[], bool] = lambda: True
        self._is_closed = threading.Event()
        self._fetcher: BlobFetcher | None = None
        #: Blobs that this node has published itself.
        self._own_blobs = OwnBlobs(directory / OWN_BLOBS) if directory is not None and settings.sequencer else None
        self._executor = ThreadPoolExecutor(DERIVING_THREADS, thread_name_prefix="fastnode-derive")
        check_keys(settings)
        for flag, urls in (
            ("--l1-consensus-host-urls", settings.l1_consensus_host_urls),
            ("--blob-archive-api-url", (settings.blob_archive_api_url,) if settings.blob_archive_api_url else None),
            ("--ethereum-debug-hosts", settings.ethereum_debug_hosts),
        ):
            for url in urls or ():
                check_url(url, flag)

    def configure(self, configuration: NodeConfiguration) -> None:
        """Follow the configuration: whether attestations to checkpoints are checked."""
        view = configuration.attach(DERIVING)
        self._checks_attestations = lambda: not view["skipValidateCheckpointAttestations"]

    def open(self, facts: RollupFacts, stored: ChainView) -> L1Source:
        """StartError when no place of blobs can be reached, no L1 node traces and one must, or none has old logs."""
        settings = self._settings
        fetcher = BlobFetcher(
            self._sources(facts),
            self._executor,
            patience=FetchPatience(),
            sleep=self._sleep,
            # One core is left to the thread that ingests.
            computed_at_once=max(1, (os.cpu_count() or 1) - 1),
        )
        self._fetcher = fetcher
        self._check_blobs(fetcher)
        traces = self._traces()
        self._check_traces(traces)
        self._check_history(facts, HistoryNeed.of(stored, facts))
        l1_slot = settings.ethereum_slot_duration or USUAL_SLOT_S
        return L1Source(
            self._reader,
            fetcher,
            self._executor,
            traces=traces,
            l1_slot_duration=l1_slot,
            checks_attestations=lambda: self._checks_attestations(),
            log_blocks=max(1, settings.archiver_batch_size * facts.slot_duration // l1_slot),
        )

    def hand_on(self, blobs: Mapping[bytes, bytes]) -> None:
        """Upload blobs, by their versioned hashes, where that is asked for."""
        if self._fetcher is not None:
            self._fetcher.hand_on(blobs)

    def interrupt(self) -> None:
        """End every wait."""
        self._is_closed.set()

    def close(self) -> None:
        self.interrupt()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _sleep(self, seconds: float) -> bool:
        return not self._is_closed.wait(seconds)

    # ---- blobs ---------------------------------------------------------------------------------

    def _sources(self, facts: RollupFacts) -> BlobSources:
        settings = self._settings
        http = HttpGet(self._network, ClientLimits.of_provider(settings.l1_timeout_s))
        folder = folder_of(facts.chain_id, facts.version, facts.rollup)
        urls = settings.l1_consensus_host_urls or ()
        keys = (*(settings.l1_consensus_host_api_keys or ()), *[None] * len(urls))
        headers = (*(settings.l1_consensus_host_api_key_headers or ()), *[None] * len(urls))
        beacons = [
            BeaconNode(url, http, f"consensus client {number}", key=key, key_header=header)
            for number, (url, key, header) in enumerate(zip(urls, keys, headers, strict=False), 1)
        ]
        stores = [
            _store(url, folder, f"blob store {number}", "--blob-file-store-urls")
            for number, url in enumerate(settings.blob_file_store_urls or (), 1)
        ]
        upload, archive = settings.blob_file_store_upload_url, settings.blob_archive_api_url
        return BlobSources(
            stores=tuple(stores),
            consensus=tuple(beacons),
            own=self._own_blobs,
            archives=() if archive is None else (BlobArchive(archive, http, "blob archive"),),
            upload=None
            if upload is None
            else _store(upload, folder, "blob upload", "--blob-file-store-upload-url", is_written=True),
        )

    def _check_blobs(self, fetcher: BlobFetcher) -> None:
        reasons = fetcher.check()
        for name, reason in reasons.items():
            logger.warning("a place of blobs cannot be reached", extra=log_facts(source=name, reason=reason))
        if len(reasons) == len(fetcher.sources.all) and not self._settings.blob_allow_empty_sources:
            shown = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            raise StartError(
                f"no place of blobs can be reached, and the chain cannot be derived from L1 without: {shown} "
                f"(--blob-allow-empty-sources starts without)"
            )

    # ---- traces --------------------------------------------------------------------------------

    def _traces(self) -> L1Client | None:
        hosts = self._settings.ethereum_debug_hosts
        if hosts is None:
            return None
        settings = self._settings
        return L1Client(
            list(dict.fromkeys(hosts)),
            self._network,
            limits=ClientLimits.of_provider(settings.l1_timeout_s),
            patience=self._patience,
            calls_per_second=settings.l1_calls_per_second,
            batch_calls=settings.l1_batch_calls,
        )

    def _check_traces(self, traces: L1Client | None) -> None:
        run = self._reader.run if traces is None else traces.run
        try:
            is_there = run(_does_trace)
        except UpstreamError as error:
            is_there, reason = False, str(error)
        else:
            reason = "it has neither trace_transaction nor debug_traceTransaction"
        if is_there:
            return
        if not self._settings.ethereum_allow_no_debug_hosts:
            raise StartError(f"no L1 node traces transactions (--ethereum-debug-hosts): {reason}")
        logger.warning("no L1 node traces transactions: the chain stops at a proposal that is nested in another call")

    # ---- history -------------------------------------------------------------------------------

    def _check_history(self, facts: RollupFacts, need: HistoryNeed) -> None:
        """Nodes that are not known to answer now are left out, so that a silent one does not delay the start, unless
        there are no others."""
        reasons = {}
        endpoints = self._reader.endpoints
        for endpoint in list(self._reader.client.healthy()) or endpoints:
            try:
                reason = missing_logs(endpoint, facts, need)
                state_reason = missing_state(endpoint, facts)
            except (UpstreamError, DecodeError):
                continue
            if reason is not None:
                reasons[endpoint.name] = reason
            for what in filter(None, (reason, state_reason)):
                logger.warning("an L1 node prunes too early", extra=log_facts(l1=endpoint.name, reason=what))
        if len(reasons) == len(endpoints):
            shown = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            raise StartError(f"no L1 node of --l1-rpc-urls has what the chain is derived from: {shown}")


def _does_trace(endpoint: L1Endpoint) -> bool:
    calls: list[RpcCall] = [("trace_transaction", [_NO_SUCH_TRANSACTION])]
    calls.append(("debug_traceTransaction", [_NO_SUCH_TRANSACTION, {"tracer": "callTracer"}]))
    answers = [endpoint.answers([call])[0] for call in calls]
    return any(not (isinstance(answer, UpstreamRejection) and is_unknown_method(answer)) for answer in answers)


def _store(url: str, folder: str, name: str, flag: str, *, is_written: bool = False) -> FileStore:
    try:
        return FileStore(url, folder, name, is_written=is_written)
    except BlobSourceError as error:
        raise SettingError(f"{flag}: {name}: {error}") from error


def check_keys(settings: Settings) -> None:
    """SettingError for more keys of consensus clients than clients."""
    urls = len(settings.l1_consensus_host_urls or ())
    for flag, given in (
        ("--l1-consensus-host-api-keys", settings.l1_consensus_host_api_keys),
        ("--l1-consensus-host-api-key-headers", settings.l1_consensus_host_api_key_headers),
    ):
        if given is not None and len(given) > urls:
            raise SettingError(f"{flag} has {len(given)} values for {urls} --l1-consensus-host-urls")
