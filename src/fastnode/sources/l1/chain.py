"""The genesis of a chain, found with only the registry contract on L1.

What a node says of its network comes from the contracts; what no contract says, from the release that the rollup is of:
its protocol contracts, and the states that networks begin with.  One of those states must have the archive root that
the rollup began with, or a chain file must bring another.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from fastnode.archiver.source import ChainRecord, GenesisRecord
from fastnode.errors import SettingError, StartError, UnknownRollup, UpstreamRejection
from fastnode.protocol.fields import hex_text
from fastnode.protocol.releases import Release, shipped_contracts
from fastnode.sources.chain_file import ChainFileSource, bundled_chain
from fastnode.sources.genesis import MORE_FUNDING, build_genesis, check_contracts, protocol_addresses
from fastnode.sources.genesis_funds import NO_FUNDING, Funding
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import ADDRESS_BYTES, Function, hex_data
from fastnode.sources.l1.endpoints import L1Endpoint, contract_call
from fastnode.sources.l1.rollup import RollupFacts, difference

__all__ = ["chain_of_l1", "read_addresses"]

_NO_ADDRESS: Final = bytes(ADDRESS_BYTES)
#: Addresses that the rollup gives, by the names that nodes use for them.
_OF_ROLLUP: Final[Mapping[str, Function]] = {
    "feeJuiceAddress": contracts.FEE_ASSET,
    "stakingAssetAddress": contracts.STAKING_ASSET,
    "rewardDistributorAddress": contracts.REWARD_DISTRIBUTOR,
    "gseAddress": contracts.STAKING_ESCROW,
}


def read_addresses(endpoint: L1Endpoint, facts: RollupFacts) -> dict[str, str]:
    """``l1ContractAddresses`` of a node; zero for what L1 does not name.  UpstreamError."""
    found = {name: _ask(endpoint, facts.rollup, function) for name, function in _OF_ROLLUP.items()}
    registry = facts.registry or _NO_ADDRESS
    governance = _ask(endpoint, registry, contracts.GOVERNANCE)
    found |= {
        "registryAddress": registry,
        "rollupAddress": facts.rollup,
        "inboxAddress": facts.inbox,
        "outboxAddress": facts.outbox,
        "feeJuicePortalAddress": facts.fee_asset_portal,
        "governanceAddress": governance,
        "governanceProposerAddress": _ask(endpoint, governance, contracts.GOVERNANCE_PROPOSER),
        "coinIssuerAddress": _ask(endpoint, found["feeJuiceAddress"], contracts.OWNER),
    }
    return {name: hex_data(address) for name, address in found.items()}


def _ask(endpoint: L1Endpoint, contract: bytes, function: Function) -> bytes:
    if contract == _NO_ADDRESS:
        return _NO_ADDRESS
    answer = endpoint.answers([contract_call(contract, function)])[0]
    if isinstance(answer, UpstreamRejection) or answer == "0x":
        return _NO_ADDRESS
    address: bytes = function.decode(answer)[0]
    return address


def chain_of_l1(
    facts: RollupFacts,
    addresses: dict[str, str],
    l1_constants: dict[str, Any],
    *,
    real_proofs: bool,
    release: Release | None = None,
    version: str | None = None,
    genesis_file: Path | None = None,
    funding: Funding = NO_FUNDING,
) -> tuple[ChainRecord, GenesisRecord]:
    """Chain and genesis of the rollup.  ``release``: None: that of the chain that comes with the package; ``version``:
    that the node goes by; None: the usual one of the release.

    ``funding``: of the genesis, where no file has it.  UnknownRollup when it is unknown, SettingError for a version of
    another release.
    """
    if genesis_file is not None:
        return _from_file(genesis_file, facts, l1_constants, release)
    with resources.as_file(bundled_chain()) as path, ChainFileSource(path) as source:
        sample, sample_genesis = source.chain, source.genesis
    release = release or sample.release
    if version is not None and not release.has_version(version):
        raise SettingError(f"--release {version}: the rollup on L1 is of release {release.name}")
    if release.contracts_file is None:
        named = sample.node_info["protocolContractAddresses"]
        classes = [item for _, item in sample_genesis.contract_classes]
        instances = [item for _, item in sample_genesis.contract_instances]
    else:
        named = protocol_addresses(release)
        contracts_of_release = shipped_contracts(release.contracts_file)
        classes, instances = contracts_of_release["classes"], contracts_of_release["instances"]
    node_info = {
        "nodeVersion": version or release.usual_version,
        "l1ChainId": facts.chain_id,
        "rollupVersion": facts.version,
        "l1ContractAddresses": addresses,
        "protocolContractAddresses": named,
        "realProofs": real_proofs,
    }
    tried = []
    for name, prefilled in funding.choices(release):
        genesis = build_genesis(prefilled, classes, instances, release)
        if genesis.archive_root == facts.genesis_archive_root:
            return ChainRecord(node_info, l1_constants, rollup_release=release), genesis
        tried.append(f"{hex_text(genesis.archive_root)} ({name})")
    raise UnknownRollup(
        f"the genesis of the rollup on L1 is none of the known ones: its archive root is "
        f"{hex_text(facts.genesis_archive_root)}, known are {', '.join(tried)}; {MORE_FUNDING}"
    )


def _from_file(
    file: Path, facts: RollupFacts, l1_constants: dict[str, Any], release: Release | None
) -> tuple[ChainRecord, GenesisRecord]:
    with ChainFileSource(file) as source:
        chain, genesis = source.chain, source.genesis
    what = difference(facts, chain.node_info, chain.l1_constants, str(file))
    if what is None and release not in (None, chain.release):
        what = f"the rollup on L1 is of release {release.name}, {file} is of {chain.release.name}"
    if what is None and genesis.archive_root != facts.genesis_archive_root:
        ours = hex_text(facts.genesis_archive_root)
        what = f"the rollup on L1 begins with the archive root {ours}, {file} has {hex_text(genesis.archive_root)}"
    if what is not None:
        raise StartError(what)
    check_contracts(genesis)
    return ChainRecord(chain.node_info, chain.l1_constants | l1_constants, chain.min_fees), genesis
