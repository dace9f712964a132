"""A local network in this process, on real databases, whose wall clock stands still unless it is moved."""

from __future__ import annotations

import base64
import gc
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from tests.mempool.made import made_txs

from fastnode.archiver.commit import ChainCommit
from fastnode.archiver.ingest import Ingestor
from fastnode.building.budget import BuildingLimits
from fastnode.chain_data import ChainData
from fastnode.local_network.accounts import setup_allow_list
from fastnode.local_network.changes import Changes
from fastnode.local_network.genesis import NewNetwork, Setup, read_setup
from fastnode.local_network.network import LocalNetwork
from fastnode.local_network.options import LocalNetworkOptions
from fastnode.mempool.pool import Added
from fastnode.mempool.service import Mempool, MempoolOptions
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import Gas
from fastnode.protocol.tx_layout import USUAL
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.sources.sync_control import StopRequested, SyncControl
from fastnode.view import Committed, View

LIMITS = BuildingLimits(mana_limit=200_000_000, block_gas=Gas(786_432, 200_000_000))
OPTIONS = LocalNetworkOptions(limits=LIMITS)
NOW = 1_800_000_000
DAY = 86_400
DEFAULT_MAX_FEE = 10**8
SETUP = read_setup()


@dataclass
class Wall:
    """Seconds, moved by hand."""

    now: float = float(NOW)

    def __call__(self) -> float:
        return self.now


class LocalChain:
    """Open it with ``with``; its thread runs until then unless ``is_running`` is False."""

    def __init__(
        self,
        directory: Path,
        options: LocalNetworkOptions = OPTIONS,
        *,
        wall: Wall | None = None,
        test_accounts: bool = True,
        slot_duration: int = 1,
        chain_file: Path | None = None,
        setup: Setup = SETUP,
        funds: dict[bytes, int] | None = None,
    ) -> None:
        self.directory = directory
        self.wall = wall or Wall()
        self._options = options
        self._test_accounts = test_accounts
        self._slot_duration = slot_duration
        self._chain_file = chain_file
        self._setup = setup
        self._funds = funds
        self._resources = ExitStack()
        self._numbers = iter(made_txs(10_000))
        self.seed = "test"

    def __enter__(self) -> LocalChain:
        self.data = self._resources.enter_context(ChainData.open(self.directory))
        is_new = not self.data.store.has_chain
        if is_new and self._chain_file is not None:
            adopt_chain_file(self.data.store, self._chain_file)
        elif is_new:
            genesis_time = NOW - 6 * self._slot_duration
            new = NewNetwork(
                genesis_time=genesis_time, slot_duration=self._slot_duration, seed=self.seed, funds=self._funds
            )
            self.data.store.adopt_chain(*new.records(self._setup))
        self.mempool: Mempool | None = None
        self.published: list[int] = []
        self.ingestor: Ingestor = self.data.open_ingestor(verify=True, on_commit=self._publish)
        self.ingestor.catch_up()
        if self._chain_file is not None:
            import_chain_file(self.ingestor, self._chain_file)
        assert self.data.state is not None
        control = SyncControl()
        self.network = LocalNetwork(
            self._options,
            self.ingestor,
            self.data.state,
            self.directory,
            lambda: self.mempool,
            control=control,
            wall=self.wall,
        )
        self.network.set_up(self._setup.blocks if is_new and self._test_accounts else ())
        self.mempool = Mempool.open(
            self.directory / "p2p",
            self.view,
            MempoolOptions(setup_allow_list_extension=setup_allow_list(self.data.store.chain.release)),
            fees=self.network.fees,
            now=lambda: float(self.network.pool_time()),
        )
        self._resources.callback(self.mempool.close)
        self.mempool.watch_accepted(self.network.forward)
        self.changes = Changes(self.network)
        thread = threading.Thread(target=self._run)
        thread.start()
        self._resources.callback(thread.join)
        self._resources.callback(self.network.wake)
        self._resources.callback(control.stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()
        # A held view holds the databases open, and parts of the network hold each other.
        del self.changes, self.network, self.mempool, self.ingestor, self.data
        gc.collect()

    def _run(self) -> None:
        with suppress(StopRequested):
            self.network.run()

    def _publish(self, commit: ChainCommit) -> None:
        chain = commit.view
        assert self.data.state is not None
        self.published.append(chain.tip_number)
        if self.mempool is not None and self.data.state.view.tip.number == chain.tip_number:
            self.mempool.on_committed(Committed(View(chain, self.data.state.view), commit.blocks, commit.undone))

    # ---- reading -------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        assert self.data.state is not None
        return View(self.ingestor.view, self.data.state.view)

    @property
    def tip(self) -> int:
        return self.ingestor.view.tip_number

    def header(self, number: int | None = None) -> BlockHeader:
        header = self.ingestor.view.header_json(self.tip if number is None else number)
        assert header is not None
        return BlockHeader.from_json(orjson.loads(header))

    def timestamp(self, number: int | None = None) -> int:
        return self.header(number).global_variables.timestamp

    def hashes(self) -> list[bytes]:
        """Of all blocks."""
        infos = (self.ingestor.view.block_info(number) for number in range(self.tip + 1))
        return [info.hash for info in infos if info is not None]

    def tip_numbers(self) -> tuple[int, int, int, int]:
        """Blocks of the proposed, checkpointed, proven and finalized tip."""
        tips = self.ingestor.view.tips
        return (tips.proposed.number, *(tip.block.number for tip in (tips.checkpointed, tips.proven, tips.finalized)))

    # ---- transactions ----------------------------------------------------------------------------

    def tx(self, *, anchor: int | None = None, max_fee: int | None = None, priority: int = 0) -> Tx:
        """A valid transaction without public calls, another one each time."""
        header = self.header(self.tip if anchor is None else anchor)
        version = self.ingestor.view.chain.rollup_version
        fee = DEFAULT_MAX_FEE if max_fee is None else max_fee
        return Tx.from_json(
            for_chain(next(self._numbers), header.to_json(), version, max_fee=fee, priority=priority), FOUR
        )

    def send(self, tx: Tx) -> Added:
        assert self.mempool is not None
        return self.mempool.send(tx, self.view)

    def block_of(self, tx: Tx) -> int | None:
        location = self.ingestor.view.tx_location(tx.hash)
        return None if location is None else location.block_number

    @property
    def pending(self) -> list[bytes]:
        assert self.mempool is not None
        return self.mempool.pool.pending_hashes()


def for_chain(
    recorded: dict[str, Any], anchor: dict[str, Any], version: int, *, max_fee: int = DEFAULT_MAX_FEE, priority: int = 0
) -> dict[str, Any]:
    """A recorded transaction, as it would be for a chain of this version, proven against the block ``anchor``."""
    header = BlockHeader.from_json(anchor)
    data = bytearray(base64.b64decode(recorded["data"]))
    data[USUAL.anchor_header : USUAL.chain_id] = header.to_buffer()
    data[USUAL.version : USUAL.gas_limits] = version.to_bytes(32, "big")
    expiration = header.global_variables.timestamp + DAY - 1
    struct.pack_into(">Q", data, USUAL.expiration, expiration)
    struct.pack_into(">16s16s", data, USUAL.max_fees, bytes(16), max_fee.to_bytes(16, "big"))
    struct.pack_into(">16s16s", data, USUAL.max_priority_fees, bytes(16), priority.to_bytes(16, "big"))
    return recorded | {"data": base64.b64encode(data).decode("ascii")}


def opened(directory: Path, **options: Any) -> Iterator[LocalChain]:
    with LocalChain(directory, replace(OPTIONS, **options)) as chain:
        yield chain
