"""A new local network: its names, its genesis block, and the transactions that set it up.

Nothing is deployed.  What the five transactions of a set-up leave on a chain does not depend on the chain, so they
are taken from the recorded network that comes with the package, under fresh headers.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping
from hashlib import sha256
from importlib import resources
from typing import Any, Final, NamedTuple

from fastnode.archiver.source import ChainRecord, CheckpointRecord, GenesisRecord
from fastnode.local_network.setup_blobs import SETUP_BLOBS
from fastnode.mempool.ledger import balance_slot
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import FIELD_BYTES, hex_text
from fastnode.protocol.genesis import PrefilledPublicData
from fastnode.protocol.header import GasFees
from fastnode.protocol.kzg import KnownSum
from fastnode.protocol.releases import Release, shipped_contracts
from fastnode.records import dataclass
from fastnode.sources.chain_file import ChainFileSource, bundled_chain
from fastnode.sources.genesis import build_genesis, protocol_addresses
from fastnode.world_state.genesis import genesis_of

__all__ = ["L1_CHAIN_ID", "L1Side", "NewNetwork", "Setup", "SetupBlock", "read_setup", "setup_of"]

L1_CHAIN_ID: Final = 31337
#: L2 gas of a checkpoint.
MANA_LIMIT: Final = 200_000_000
#: Blocks of the recorded network that set it up.
SETUP_BLOCKS: Final = 5
#: Without L1 there is nothing to bridge from: wallets look at these and say so.
_NOT_DEPLOYED: Final = frozenset({"feeJuiceAddress", "feeJuicePortalAddress"})
_NO_ADDRESS: Final = "0x" + "00" * 20


class SetupBlock(NamedTuple):
    """A block that sets the network up: the effects of its transactions, what they cost, and at which price.

    ``blob``: the commitment to their blob fields, which are the same on every chain.
    """

    effects: tuple[TxEffect, ...]
    mana: int
    gas_fees: GasFees
    blob: KnownSum


class L1Side(NamedTuple):
    """Values from an attached L1.  ``version`` and ``addresses`` None: contracts are put there for this network."""

    chain_id: int
    start_block: int
    start_hash: bytes
    version: int | None = None
    addresses: dict[str, str] | None = None


class Setup(NamedTuple):
    """Records and set-up blocks taken from the recorded network."""

    chain: ChainRecord
    genesis: GenesisRecord
    blocks: tuple[SetupBlock, ...]


def setup_of(release: Release) -> Setup:
    """Beginning of a new network of the release.  Of another release than the recorded network's nothing is known that
    sets it up: it has the contracts of the protocol alone, and no account with funds."""
    recorded = read_setup()
    if release.local_contracts_file is None:
        return recorded
    contracts = shipped_contracts(release.local_contracts_file)
    genesis = build_genesis([], contracts["classes"], contracts["instances"], release)
    info = {"nodeVersion": release.usual_version, "protocolContractAddresses": protocol_addresses(release)}
    chain = ChainRecord({**recorded.chain.node_info, **info}, recorded.chain.l1_constants)
    return Setup(chain, genesis, ())


def read_setup() -> Setup:
    """Reads no more of the package's chain file than the set-up."""
    blocks: list[SetupBlock] = []
    with resources.as_file(bundled_chain()) as path, ChainFileSource(path) as source:
        for record in source.records():
            assert isinstance(record, CheckpointRecord)
            for block in record.published.checkpoint.blocks:
                header, effects = block.header, block.body.tx_effects
                fees, blob = header.global_variables.gas_fees, SETUP_BLOBS[len(blocks)]
                blocks.append(SetupBlock(effects, header.total_mana_used, fees, blob))
                if len(blocks) == SETUP_BLOCKS:
                    break
            if len(blocks) == SETUP_BLOCKS:
                break
        return Setup(source.chain, source.genesis, tuple(blocks))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNetwork:
    """Parameters of a new network.

    Rollup version and L1 addresses are random, so that no wallet takes a new chain for one that it knows, unless
    there is a ``seed``.  ``funds``: fee juice of accounts in the genesis block beside, or instead of, those that are
    always funded.  ``l1``: the L1 that it is attached to; None: there is none, and the chain has ``l1_chain_id``.
    """

    genesis_time: int
    slot_duration: int
    epoch_duration: int = 1
    seed: str | None = None
    funds: Mapping[bytes, int] | None = None
    l1: L1Side | None = None
    l1_chain_id: int = L1_CHAIN_ID

    def records(self, setup: Setup) -> tuple[ChainRecord, GenesisRecord]:
        """ValueError when the funds do not fit a genesis block."""
        genesis = self._genesis(setup.genesis, setup.chain.release)
        return self._chain(setup.chain, genesis), genesis

    def _genesis(self, recorded: GenesisRecord, release: Release) -> GenesisRecord:
        if not self.funds:
            return recorded
        balances = dict(recorded.prefilled_public_data)
        for address, amount in self.funds.items():
            balances[balance_slot(address, release.addresses.fee_juice)] = amount.to_bytes(FIELD_BYTES, "big")
        prefilled = [PrefilledPublicData(slot, balances[slot]) for slot in sorted(balances)]
        genesis = genesis_of(prefilled, release.trees)
        return GenesisRecord.from_json(
            {
                **recorded.to_json(),
                "header": genesis.header.to_json(),
                "blockHash": hex_text(genesis.record.block_hash),
                "archiveRoot": hex_text(genesis.archive.root),
                "prefilledPublicData": [leaf.to_json() for leaf in prefilled],
            }
        )

    def _chain(self, recorded: ChainRecord, genesis: GenesisRecord) -> ChainRecord:
        chance = random.Random(self.seed if self.seed is not None else secrets.token_bytes(32))
        version = chance.randrange(1, 1 << 32)
        identity = chance.randbytes(32)
        l1 = self.l1
        missing = _NOT_DEPLOYED if l1 is None else frozenset()
        addresses = {
            name: _NO_ADDRESS if name in missing else _address(identity, name)
            for name in recorded.node_info["l1ContractAddresses"]
        }
        if l1 is not None and l1.addresses is not None:
            addresses = dict.fromkeys(addresses, _NO_ADDRESS) | l1.addresses
        info: dict[str, Any] = {
            **recorded.node_info,
            "l1ChainId": self.l1_chain_id if l1 is None else l1.chain_id,
            "rollupVersion": version if l1 is None or l1.version is None else l1.version,
            "l1ContractAddresses": addresses,
            "realProofs": False,
        }
        constants: dict[str, Any] = {
            **recorded.l1_constants,
            "l1StartBlock": "0" if l1 is None else str(l1.start_block),
            "l1StartBlockHash": hex_text(sha256(identity).digest() if l1 is None else l1.start_hash),
            "l1GenesisTime": str(self.genesis_time),
            "epochDuration": self.epoch_duration,
            "slotDuration": self.slot_duration,
            "ethereumSlotDuration": self.slot_duration,
            "genesisArchiveRoot": hex_text(genesis.archive_root),
            "rollupManaLimit": MANA_LIMIT,
        }
        return ChainRecord(info, constants, None)


def _address(identity: bytes, name: str) -> str:
    return hex_text(sha256(identity + name.encode()).digest()[:20])
