"""L1 as an origin of the chain: what a stored chain is held against, and the chain that is derived from it.

NoL1            L1 is not read: nothing is compared, and nothing comes from there
L1Origin        L1 says whether the chain of other nodes is its own
DerivedChain    L1 and a place of blobs have the chain itself
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastnode.app.stages.derivation import Derivation
from fastnode.archiver.queries import ChainInfo, ChainView
from fastnode.archiver.source import ChainRecord, GenesisRecord
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.errors import (
    DecodeError,
    SettingError,
    SnapshotError,
    SnapshotUnconfirmed,
    StartError,
    UnknownRollup,
    UpstreamError,
)
from fastnode.fees.l1 import L1FeeSource
from fastnode.fees.sources import FeeSource
from fastnode.log import log_facts
from fastnode.mempool.network import NetworkValues
from fastnode.mempool.service import read_vk_tree_root
from fastnode.outgoing.client import ClientLimits
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.protocol.fields import hex_text
from fastnode.protocol.releases import Release
from fastnode.sources.genesis_funds import Funding, funds_of_entries
from fastnode.sources.l1.chain import chain_of_l1, read_addresses
from fastnode.sources.l1.claims import CheckpointClaim, contradiction
from fastnode.sources.l1.rollup import RollupFacts, Wanted, difference
from fastnode.sources.l1.service import USUAL_SLOT_S, L1Options, L1Reader
from fastnode.sources.l1.source import L1Source
from fastnode.sources.release_choice import choose_release, older_rollups
from fastnode.sources.upstreams import Upstream
from fastnode.values.urls import check_url

if TYPE_CHECKING:
    from fastnode.snapshots.contents import Contents

__all__ = ["DerivedChain", "L1Origin", "NoL1", "funding_of", "open_l1", "release_of"]

logger = logging.getLogger("fastnode.app")

#: Interval of polls of L1 where its blocks come at no regular times, in milliseconds.
POLLING_MS: Final = 1_000
#: Interval of polls of the registry while a start stands by, in seconds.
STANDBY_INTERVAL_S: Final = 60.0


class NoL1:
    """``reader`` None: there is none."""

    reader: L1Reader | None = None
    #: True where blocks come from L1 itself.
    is_derived = False
    #: The canonical rollup that the start waits for, to follow the words "waits for"; None: it does not stand by.
    standby: str | None = None

    def reasons(self) -> str:
        """Reasons why L1 does not answer; empty for none."""
        return ""

    def compare(self, stored: ChainInfo | None) -> None:
        """StartError when the stored chain is not the rollup's.  L1 is not waited for."""

    def begin(self, stored: Callable[[], ChainView]) -> None:
        """Read L1 from now on."""

    def constants_for(self, upstream: Upstream) -> dict[str, Any] | None:
        """The rollup's constants, None without L1; StartError when L1 and the upstream disagree."""
        return None

    def learn_chain(self, genesis_file: Path | None) -> tuple[ChainRecord, GenesisRecord] | None:
        """The chain that L1 has; None where other nodes are asked."""
        return None

    def confirm(self, contents: Contents) -> None:
        """SnapshotError when the newest checkpoint of a snapshot is not the one on L1, SnapshotUnconfirmed when L1 is
        silent just then.  Waits for L1; StartError."""

    def values(self) -> NetworkValues | None:
        """Values of the network that L1 has named; None while it has not."""
        return None

    def fees(self) -> FeeSource | None:
        """Source of gas prices; None: they are learned from other nodes."""
        return None

    def hand_on(self, blobs: Mapping[bytes, bytes]) -> None:
        """Put blobs of a proposal, by their versioned hashes, where other nodes find them."""

    def configure(self, configuration: NodeConfiguration) -> None:
        """Follow the configuration."""

    def open_source(self, stored: ChainInfo | None, view: ChainView) -> L1Source | None:
        """The chain from L1; None where it is not derived, and while L1 does not answer."""
        return None

    def interrupt(self) -> None:
        """No caller waits for L1 any longer."""

    def close(self) -> None:
        """After the thread that ingests has ended.  May be called more than once."""


class L1Origin(NoL1):
    """SettingError for an invalid URL."""

    def __init__(
        self, settings: Settings, urls: tuple[str, ...], network: Network, patience: Patience, grace_s: float
    ) -> None:
        self._settings = settings
        self.reader: L1Reader = L1Reader(
            list(dict.fromkeys(check_url(url, "--l1-rpc-urls") for url in urls)),
            network,
            L1Options(
                slot_duration=settings.ethereum_slot_duration,
                poll_interval_s=(settings.l1_polling_interval_ms or POLLING_MS) / 1000,
                waits_for_blocks=settings.l1_polling_interval_ms is None,
                drift_max_s=settings.max_allowed_eth_client_drift_seconds,
                grace_s=grace_s,
                committee_epochs=_committee_epochs(settings),
                first_answer_s=math.inf,
                calls_per_second=settings.l1_calls_per_second,
                batch_calls=settings.l1_batch_calls,
            ),
            limits=ClientLimits.of_provider(settings.l1_timeout_s),
            patience=patience,
        )

    def reasons(self) -> str:
        return self.reader.reasons()

    def compare(self, stored: ChainInfo | None) -> None:
        if stored is not None:
            self._facts_of(stored)

    def _facts_of(self, stored: ChainInfo) -> RollupFacts | None:
        """Facts of the rollup of a stored chain, None while L1 does not answer; StartError when it is another's."""
        facts = self.reader.try_learn(Wanted.of(stored.node_info, self._settings.registry_address))
        if facts is None:
            return None
        what = difference(facts, stored.node_info, stored.l1_constants, "the stored chain")
        if what is not None:
            raise StartError(what)
        release = self.release(facts)
        if release not in (None, stored.release):
            raise StartError(
                f"the stored chain is of release {stored.release.name}, the rollup on L1 of {release.name}"
            )
        return facts

    def release(self, facts: RollupFacts) -> Release | None:
        """The release of the rollup; None where L1 does not say it.  StartError for one that is not served."""
        if facts.circuits is None:
            return None
        values, rollup = NetworkValues(*facts.circuits), f"version {facts.version} at {hex_text(facts.rollup)}"
        return release_of(self._settings, values, f"the rollup on L1 ({rollup})", is_rollup=self.is_derived)

    def begin(self, stored: Callable[[], ChainView]) -> None:
        self.reader.begin(stored)

    def constants_for(self, upstream: Upstream) -> dict[str, Any] | None:
        facts = self.reader.learn(Wanted.of(upstream.node_info, self._settings.registry_address))
        what = difference(facts, upstream.node_info, {}, upstream.name)
        if what is not None:
            raise StartError(what)
        self.release(facts)
        return self.reader.constants(facts)

    def confirm(self, contents: Contents) -> None:
        if contents.checkpoint_number == 0:
            return
        network, registry = contents.network, self._settings.registry_address
        wanted = Wanted(
            chain_id=network.l1_chain_id,
            version=network.rollup_version,
            registry=None if registry is None else bytes.fromhex(registry.removeprefix("0x")),
            rollup=bytes.fromhex(network.rollup_address.removeprefix("0x")),
        )
        facts = self.reader.learn(wanted)
        claim = CheckpointClaim(
            contents.checkpoint_number, contents.archive_root, contents.l1_block_number, contents.l1_block_hash
        )
        try:
            what = self.reader.run(lambda endpoint: contradiction(endpoint, facts, claim))
        except (UpstreamError, DecodeError) as error:
            raise SnapshotUnconfirmed(f"L1 does not say whether it is true: {error}") from error
        if what is not None:
            raise SnapshotError(what)
        shown = log_facts(checkpoint=claim.number, l1_block=claim.l1_block_number)
        logger.info("the newest checkpoint of the snapshot is the one on L1", extra=shown)

    def values(self) -> NetworkValues | None:
        facts = self.reader.facts
        return None if facts is None or facts.circuits is None else NetworkValues(*facts.circuits)

    def fees(self) -> FeeSource | None:
        return L1FeeSource(self.reader.newest_fees, lambda: self.reader.slot_duration)

    def interrupt(self) -> None:
        self.reader.interrupt()

    def close(self) -> None:
        self.reader.close()


class DerivedChain(L1Origin):
    """``directory``: where blobs are that this node has published itself; None: nowhere."""

    is_derived = True

    def __init__(
        self,
        settings: Settings,
        urls: tuple[str, ...],
        network: Network,
        patience: Patience,
        grace_s: float,
        directory: Path | None,
    ) -> None:
        super().__init__(settings, urls, network, patience, grace_s)
        self._derivation = Derivation(settings, network, self.reader, patience, directory)

    def learn_chain(self, genesis_file: Path | None) -> tuple[ChainRecord, GenesisRecord] | None:
        """Learn the chain of the rollup that the settings name; no other node is asked.

        UnknownRollup for one that is not followed; with ``--standby`` the next canonical one is waited for instead.
        """
        settings = self._settings
        if settings.registry_address is None:
            raise SettingError(
                "which rollup on L1? give its registry with --registry-address (REGISTRY_CONTRACT_ADDRESS)"
            )
        registry = bytes.fromhex(settings.registry_address.removeprefix("0x"))
        wanted = Wanted(chain_id=settings.l1_chain_id, version=settings.rollup_version, registry=registry, rollup=None)
        facts = self.reader.learn(wanted)
        while True:
            try:
                chain = self._chain_of(facts, genesis_file)
            except UnknownRollup as error:
                facts = self._stand_by(facts, error)
                continue
            if self.standby is not None:
                self.standby = None
                logger.info("standby: a known rollup is canonical", extra=_facts_to_log(facts))
            return chain

    def _stand_by(self, facts: RollupFacts, error: UnknownRollup) -> RollupFacts:
        """Read the rollup again a minute later; raises the error, with advice, where that is not wanted."""
        reason = f"{error}{older_rollups(facts.chain_id, facts.registry, facts.version)}"
        if self._settings.rollup_version is not None:
            raise UnknownRollup(reason)
        if not self._settings.standby:
            raise UnknownRollup(f"{reason}; --standby waits until a known rollup is the canonical one")
        before = self.standby
        self.standby = f"a known rollup to become the canonical one on L1 (--standby), polled once a minute: {reason}"
        if self.standby != before:
            logger.warning("standby: the canonical rollup is unknown", extra=_facts_to_log(facts, reason=reason))
        return self.reader.learn_again(STANDBY_INTERVAL_S)

    def _chain_of(self, facts: RollupFacts, genesis_file: Path | None) -> tuple[ChainRecord, GenesisRecord]:
        settings, l1 = self._settings, self.reader
        release = self.release(facts)
        addresses = l1.run(lambda endpoint: read_addresses(endpoint, facts))
        constants = {"ethereumSlotDuration": USUAL_SLOT_S} | l1.constants(facts)
        if settings.fee_asset_handler_address is not None:  # no contract names it
            addresses["feeAssetHandlerAddress"] = settings.fee_asset_handler_address
        return chain_of_l1(
            facts,
            addresses,
            constants,
            real_proofs=settings.prover_real_proofs,
            release=release,
            version=settings.release,
            genesis_file=genesis_file,
            funding=funding_of(settings),
        )

    def hand_on(self, blobs: Mapping[bytes, bytes]) -> None:
        self._derivation.hand_on(blobs)

    def configure(self, configuration: NodeConfiguration) -> None:
        self._derivation.configure(configuration)

    def open_source(self, stored: ChainInfo | None, view: ChainView) -> L1Source | None:
        facts = None if stored is None else self._facts_of(stored)
        return None if facts is None else self._derivation.open(facts, view)

    def interrupt(self) -> None:
        super().interrupt()
        self._derivation.interrupt()

    def close(self) -> None:
        super().close()
        self._derivation.close()


def _facts_to_log(facts: RollupFacts, **more: object) -> dict[str, Any]:
    return log_facts(version=facts.version, rollup=hex_text(facts.rollup), **more)


def open_l1(settings: Settings, network: Network, patience: Patience, grace_s: float, directory: Path | None) -> NoL1:
    """L1 as the settings want it; ``grace_s``: for how long it may be silent before the status says so.  SettingError
    for an invalid URL."""
    urls = settings.l1_rpc_urls
    if urls is None:
        return NoL1()
    if settings.derives_from_l1:
        return DerivedChain(settings, urls, network, patience, grace_s, directory)
    return L1Origin(settings, urls, network, patience, grace_s)


def release_of(settings: Settings, values: NetworkValues, who: str, *, is_rollup: bool = False) -> Release | None:
    """None where it is not said, or the operator has named the root; StartError for one that is not served."""
    root, contracts = values.vk_tree_root, values.protocol_contracts_hash
    named = settings.vk_tree_root
    if root is None or contracts is None or (named is not None and read_vk_tree_root(named) == root):
        return None
    return choose_release(root, contracts, who, is_rollup=is_rollup, takes_untried=settings.untried_upstreams)


def funding_of(settings: Settings) -> Funding:
    """Read what the settings say of a network's genesis; SettingError for an address that is none."""
    return Funding(funds_of_entries(settings.prefund or ()), settings.sponsored_fpc)


def _committee_epochs(settings: Settings) -> int:
    """Number of epochs that statistics of validators look back on, and the current one; peers propose for that one."""
    if settings.sentinel_enabled:
        return settings.sentinel_history_length_in_epochs + 2
    return 4 if settings.detects_offenses else 2 if settings.p2p_enabled else 0
