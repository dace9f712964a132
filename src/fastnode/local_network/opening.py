"""A local network from its settings: which chain it begins with, and how it goes on."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import SettingError
from fastnode.local_network.accounts import FUNDED
from fastnode.local_network.forking import ForkedChain, open_fork
from fastnode.local_network.genesis import L1_CHAIN_ID, NewNetwork, Setup, setup_of
from fastnode.local_network.kept_state import FILE_NAME
from fastnode.local_network.network import LocalNetwork
from fastnode.local_network.options import options_of
from fastnode.protocol import releases
from fastnode.protocol.releases import FOUR, Release
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.sources.genesis_funds import FUNDS, funds_of_entries, usual_accounts

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastnode.archiver.queries import ChainInfo
    from fastnode.config.settings import Settings
    from fastnode.local_network.attached_l1 import AttachedL1
    from fastnode.local_network.l1_opening import L1Opening
    from fastnode.mempool.service import Mempool
    from fastnode.sources.sync_control import SyncControl
    from fastnode.world_state.state import WorldState

logger = logging.getLogger(__name__)

__all__ = ["BeginningChain", "funds_of", "open_network"]

#: Slots between the genesis time of a new chain and now: one for each block that sets it up, and a first one.
_SLOTS_BEFORE: Final = 6


class BeginningChain:
    """The chain that a local network begins with: the stored one, that of a file, or a new one."""

    def __init__(self, settings: Settings, store: ArchiverStore, directory: Path, stack: ExitStack) -> None:
        """StartError when the directory holds a chain that is not a local network's, or L1 is none to attach."""
        self._settings = settings
        self._l1: L1Opening | None = None
        if settings.l1_rpc_urls is not None:
            release = release_of(settings)
            if release.limitation is not None:
                raise SettingError(f"--l1-rpc-urls: a local network of release {release.name} has no L1 here")
            # On demand: what talks to L1 takes a while to load.
            from fastnode.local_network.l1_opening import L1Opening
            from fastnode.outgoing.network import Network

            network = stack.enter_context(Network())
            self._l1 = L1Opening(settings.l1_rpc_urls[0], network, settings.registry_address)
        self._setup: Setup | None = None
        self._fork: ForkedChain | None = None
        self._resources = ExitStack()
        self._file: Path | None = None
        is_new = not store.has_chain
        if is_new:
            self._adopt(store)
        elif not (directory / FILE_NAME).exists():
            raise SettingError(
                f"the data directory {directory} holds a chain that is not a local network's; use another one, or "
                "begin with a copy of it (--fork-from)"
            )

    def _adopt(self, store: ArchiverStore) -> None:
        if self._settings.fork_from is not None:
            self._fork = self._resources.enter_context(open_fork(self._settings.fork_from))
            store.adopt_chain(self._fork.chain, self._fork.genesis)
            return
        self._file = file_to_load(self._settings)
        if self._file is not None:
            adopt_chain_file(store, self._file)
            return
        settings = self._settings
        self._setup = setup_of(release_of(settings))
        l1 = None if self._l1 is None else self._l1.side()
        network = NewNetwork(
            genesis_time=int(time.time()) - _SLOTS_BEFORE * settings.slot_duration_s,
            slot_duration=settings.slot_duration_s,
            seed=settings.seed,
            funds=funds_of(settings),
            l1=l1,
            l1_chain_id=L1_CHAIN_ID if settings.l1_chain_id is None else settings.l1_chain_id,
        )
        if self._l1 is not None and self._l1.facts is not None:
            facts = self._l1.facts
            network = replace(
                network,
                genesis_time=facts.genesis_time,
                slot_duration=facts.slot_duration,
                epoch_duration=facts.epoch_duration,
            )
        try:
            chain, genesis = network.records(self._setup)
        except ValueError as error:
            raise SettingError(f"--prefund: {error}") from None
        store.adopt_chain(chain, genesis)
        if self._l1 is not None and self._l1.facts is not None:
            self._l1.compare_genesis(genesis.archive_root)

    def attach_l1(self, chain: ChainInfo) -> AttachedL1 | None:
        """None when there is no L1."""
        return None if self._l1 is None else self._l1.attach(chain)

    def progress(self, ingestor: Ingestor) -> tuple[int, int] | None:
        """Newest block of the copy and of its source, while :meth:`set_up` makes one; from any thread."""
        if self._fork is None:
            return None
        newest = self._settings.fork_block_number or self._fork.newest
        return None if newest is None else (ingestor.view.tip_number, newest)

    def what_is_awaited(self, ingestor: Ingestor) -> str:
        """Work of :meth:`set_up` at present; from any thread."""
        if self._fork is not None:
            progress = self.progress(ingestor)
            of_all = "" if progress is None else f" of {progress[1]}"
            return f"the copy of {self._fork.name}: block {ingestor.view.tip_number}{of_all} is stored"
        if self._file is not None:
            return f"the chain file {self._file}: block {ingestor.view.tip_number} is stored"
        return "the first blocks of the local network"

    def set_up(self, network: LocalNetwork, ingestor: Ingestor) -> None:
        """Bring the trees up to the chain, and a new chain to its first blocks."""
        ingestor.catch_up()
        if self._file is not None:
            import_chain_file(ingestor, self._file)
        if self._fork is not None:
            with self._resources:
                self._fork.copy_into(ingestor, self._settings.fork_block_number)
        network.continue_at_checkpoint()
        if self._file is not None or self._fork is not None:
            network.clock.follow(network.view_timestamp())  # its clock may have been ahead of the wall
        blocks = self._setup.blocks if self._setup is not None and self._settings.test_accounts else ()
        network.set_up(blocks)
        if self._fork is not None:
            network.give_fee_juice(self._funds_of_fork())
        # Last: what a crash before this leaves is no local network yet.
        network.keep()

    def _funds_of_fork(self) -> dict[bytes, int]:
        """A genesis block that is there already funds no account."""
        funds = dict.fromkeys(FUNDED, FUNDS) if self._settings.test_accounts else {}
        return funds | funds_of(self._settings)


def release_of(settings: Settings) -> Release:
    """The release of a new network; SettingError for a version that belongs to none."""
    if settings.release is None:
        return FOUR
    release = releases.of_version(settings.release)
    if release is None:
        names = ", ".join(release.name for release in releases.known())
        raise SettingError(f"--release {settings.release}: a node version of none of the releases {names}")
    return release


def file_to_load(settings: Settings) -> Path | None:
    """The chain file that a new network begins with."""
    if settings.load_state is not None:
        return settings.load_state
    if settings.state is not None and settings.state.exists():
        return settings.state
    return settings.chain_file


def funds_of(settings: Settings) -> dict[bytes, int]:
    """``--prefund``, and the usual accounts of ``--release`` that the recorded network does not fund; SettingError
    names the entry that is wrong."""
    usual = usual_accounts(settings.release)
    addresses = (*usual.test_accounts, usual.sponsored_fpc) if settings.test_accounts else ()
    others = [address for address in addresses if address not in FUNDED]
    return dict.fromkeys(others, FUNDS) | funds_of_entries(settings.prefund or ())


def open_network(
    settings: Settings,
    ingestor: Ingestor,
    state: WorldState,
    directory: Path,
    control: SyncControl,
    l1: AttachedL1 | None,
    mempool: Callable[[], Mempool],
) -> LocalNetwork:
    """The network over a chain that is there; ``mempool``: there once the network runs."""
    options = options_of(settings, ingestor.view.chain)
    if settings.prover_node:
        logger.warning("--prover-node: nothing to prove on a local network; the proven tip follows by itself")
    return LocalNetwork(options, ingestor, state, directory, mempool, control=control, l1=l1)
