"""Attaching an L1: which rollup the network is there, and that its contracts are there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fastnode.errors import DecodeError, StartError, UpstreamError, UpstreamRejection
from fastnode.kernels import encode
from fastnode.local_network.attached_l1 import AttachedL1, connect_l1, read_tips
from fastnode.local_network.genesis import L1Side
from fastnode.local_network.l1_contracts import NewContracts
from fastnode.log import log_facts
from fastnode.outgoing.network import Network
from fastnode.sources.l1.abi import Event, Function, Kind, from_quantity, hex_data, quantity
from fastnode.sources.l1.chain import read_addresses
from fastnode.sources.l1.endpoints import contract_call
from fastnode.sources.l1.rollup import RollupFacts, Wanted, read_facts
from fastnode.sources.l1.terms import STATE_SLOT
from fastnode.values.urls import check_url

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainInfo
    from fastnode.sources.l1.endpoints import L1Block, L1Endpoint

__all__ = ["L1Opening"]

logger = logging.getLogger(__name__)

_NEEDED: Final = ("rollupAddress", "inboxAddress", "outboxAddress", "feeJuicePortalAddress")
_NO_ADDRESS: Final = "0x" + "00" * 20
_NO_CODE: Final = "0x"
_MINTER_ADDED: Final = Event("MinterAdded(address)", (Kind.ADDRESS,), ())
_MINT_AMOUNT: Final = Function("mintAmount()", Kind.NUMBER)


class L1Opening:
    """Everything here raises StartError with what is wrong.

    ``registry`` is where the contracts were deployed from outside; None: this network has its own.
    """

    def __init__(self, url: str, network: Network, registry: str | None) -> None:
        self._endpoint: L1Endpoint = connect_l1(check_url(url, "--l1-rpc-urls"), network)
        self._registry = registry
        with _reasons():
            (chain_id,) = self._endpoint.results([("eth_chainId", [])])
            self.chain_id = from_quantity(chain_id, "eth_chainId")
        #: Facts about contracts that L1 has already.
        self.facts: RollupFacts | None = None

    def side(self) -> L1Side:
        """Read from L1 what a new network takes from it."""
        with _reasons():
            newest = self._newest()
            if self._registry is None:
                return L1Side(self.chain_id, newest.number, newest.hash)
            wanted = Wanted(chain_id=self.chain_id, version=None, registry=encode.from_hex(self._registry), rollup=None)
            self.facts = facts = read_facts(self._endpoint, wanted)
            self._require_no_checkpoint(facts.rollup)
            addresses = read_addresses(self._endpoint, facts)
            addresses["feeAssetHandlerAddress"] = self._fee_asset_handler(addresses["feeJuiceAddress"])
            return L1Side(self.chain_id, facts.deployment_block, facts.deployment_hash, facts.version, addresses)

    def _fee_asset_handler(self, fee_asset: str) -> str:
        """The contract that hands out fee juice on a test chain.  No contract names it; it is found as a minter."""
        query = {"address": fee_asset, "topics": [_MINTER_ADDED.topic], "fromBlock": quantity(0), "toBlock": "latest"}
        for log in self._endpoint.call("eth_getLogs", query):
            (minter,) = _MINTER_ADDED.decode(log)
            (answer,) = self._endpoint.answers([contract_call(minter, _MINT_AMOUNT)])
            if not isinstance(answer, UpstreamRejection) and answer != _NO_CODE:
                return hex_data(minter)
        return _NO_ADDRESS

    def _require_no_checkpoint(self, rollup: bytes) -> None:
        """A new chain would replace the tips that others published there, and their nodes would lose their chain."""
        pending, _ = read_tips(
            self._endpoint.call("eth_getStorageAt", hex_data(rollup), quantity(STATE_SLOT), "latest")
        )
        if pending:
            raise StartError(
                f"--registry-address: the rollup {hex_data(rollup)} has {pending} checkpoints of another chain; a new "
                "network needs contracts without published checkpoints"
            )

    def compare_genesis(self, archive_root: bytes) -> None:
        """Warn when the contracts were deployed for another genesis block: proofs against it would fail there."""
        assert self.facts is not None
        if self.facts.genesis_archive_root != archive_root:
            there, here = hex_data(self.facts.genesis_archive_root), hex_data(archive_root)
            logger.warning("the contracts are of another genesis block", extra=log_facts(there=there, here=here))

    def attach(self, chain: ChainInfo) -> AttachedL1:
        """L1 for a chain that is there; contracts that are not are put there."""
        addresses = chain.node_info["l1ContractAddresses"]
        if chain.l1_chain_id != self.chain_id:
            raise StartError(f"--l1-rpc-urls: it is chain {self.chain_id}, the network is on {chain.l1_chain_id}")
        if any(addresses.get(name, _NO_ADDRESS) == _NO_ADDRESS for name in _NEEDED):
            raise StartError("--l1-rpc-urls: this network began without an L1; use another data directory")
        with _reasons():
            newest = self._newest()
            if self._endpoint.call("eth_getCode", addresses["rollupAddress"], "latest") == _NO_CODE:
                self._put_contracts(chain)
        first_block = min(int(chain.l1_constants.get("l1StartBlock", 0)), newest.number)
        logger.info("L1 attached", extra=log_facts(chain_id=self.chain_id, rollup=addresses["rollupAddress"]))
        return AttachedL1(self._endpoint, addresses, first_block, chain)

    def _put_contracts(self, chain: ChainInfo) -> None:
        if self._registry is not None:
            raise StartError("--registry-address: the rollup of this network is not on L1 any more")
        addresses = chain.node_info["l1ContractAddresses"]
        contracts = NewContracts(
            addresses=addresses,
            version=chain.rollup_version,
            genesis_time=chain.l1_genesis_time,
            slot_duration=chain.slot_duration,
            epoch_duration=chain.epoch_duration,
            genesis_archive_root=encode.from_hex(chain.l1_constants["genesisArchiveRoot"]),
        )
        self._endpoint.results([*contracts.calls(), ("evm_mine", [])])
        logger.info("the contracts of the network are on L1", extra=log_facts(registry=addresses["registryAddress"]))

    def _newest(self) -> L1Block:
        block = self._endpoint.block("latest")
        if block is None:
            raise StartError("--l1-rpc-urls: L1 has no block yet")
        return block


@contextmanager
def _reasons() -> Iterator[None]:
    try:
        yield
    except (UpstreamError, DecodeError) as error:
        raise StartError(f"--l1-rpc-urls: {error}") from None
