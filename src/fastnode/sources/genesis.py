"""The genesis of a chain, found with only the URL of a node.

A fastnode gives all of it (``fastnode_getGenesis``).  Any other node gives its contracts and the hash of its
block 0, and the state before block 1 is found by trying what networks are started with: nothing, or the test
accounts of a local network.  What is found is recomputed when the state trees are made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from fastnode.archiver.source import REQUIRED_L1_CONSTANTS, ChainRecord, GenesisRecord
from fastnode.errors import DecodeError, StartError, UpstreamFault
from fastnode.outgoing.client import RpcCall
from fastnode.protocol.constants import CONTRACT_INSTANCE_REGISTRY_ADDRESS
from fastnode.protocol.contracts import ContractClassPublic, ContractInstance
from fastnode.protocol.fields import field_from_int, hex_text
from fastnode.protocol.genesis import PrefilledPublicData
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import Release
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.genesis_funds import NO_FUNDING, Funding
from fastnode.sources.upstreams import Upstream
from fastnode.world_state.genesis import genesis_of

__all__ = ["MORE_FUNDING", "build_genesis", "check_contracts", "learn_chain", "protocol_addresses"]

#: Contracts that exist from genesis have the addresses 1, 2, 3, ..
PROTOCOL_CONTRACTS_MAX: Final = 16
_FIRST_BLOCK: Final = 1
#: Advice where the genesis of a network is not found.
MORE_FUNDING: Final = (
    "say which addresses it funds (--prefund, PREFUND_ADDRESSES), or give --genesis FILE (any chain file of this "
    "network)"
)
#: Seconds between two blocks of L1 where no source says it.
USUAL_L1_SLOT_S: Final = 12


def learn_chain(
    upstream: Upstream,
    genesis_file: Path | None = None,
    l1_constants: dict[str, Any] | None = None,
    funding: Funding = NO_FUNDING,
) -> tuple[ChainRecord, GenesisRecord]:
    """Chain and genesis of the upstream.

    ``genesis_file`` (a chain file; its first two lines count) goes before what the upstream says, and
    ``l1_constants``, read from L1, before both.  ``funding``: of the genesis, where no file has it.  StartError or
    UpstreamError say what is missing or wrong; a genesis that is not the one below the upstream's block 1 is refused
    with both roots.
    """
    if genesis_file is not None:
        with ChainFileSource(genesis_file) as source:
            chain, genesis = source.chain, source.genesis
        # A file may be of an earlier release: values that it does not have are taken from the upstream.
        chain = ChainRecord(upstream.node_info | chain.node_info, chain.l1_constants, chain.min_fees)
    elif upstream.is_fastnode:
        chain, genesis = _from_fastnode(upstream)
    else:
        chain, genesis = _from_presets(upstream, l1_constants, funding)
    if l1_constants is not None:
        _check_against_l1(chain, genesis, l1_constants)
        chain = ChainRecord(chain.node_info, chain.l1_constants | l1_constants, chain.min_fees)
    check_contracts(genesis)
    _check_first_block(upstream, genesis)
    return chain, genesis


def _from_fastnode(upstream: Upstream) -> tuple[ChainRecord, GenesisRecord]:
    record = upstream.call("fastnode_getGenesis")
    if not isinstance(record, dict):
        raise UpstreamFault("fastnode_getGenesis gave no record")
    return ChainRecord.from_json(record.get("chain")), GenesisRecord.from_json(record.get("genesis"))


def _from_presets(
    upstream: Upstream, l1_constants: dict[str, Any] | None, funding: Funding
) -> tuple[ChainRecord, GenesisRecord]:
    if l1_constants is None:
        raise StartError(
            f"{upstream.name} is no fastnode and does not say how long slots and epochs are: "
            f"give --genesis FILE (any chain file of this network), or L1"
        )
    fees = upstream.call("node_getCurrentMinFees")
    constants = {"ethereumSlotDuration": USUAL_L1_SLOT_S} | l1_constants
    chain = ChainRecord(upstream.node_info, constants, fees if isinstance(fees, dict) else None)
    header = BlockHeader.from_json(upstream.call("node_getBlockHeader", 0), "header")
    classes, instances = _protocol_contracts(upstream)
    tried = []
    for name, prefilled in funding.choices(chain.release):
        genesis = build_genesis(prefilled, classes, instances, chain.release)
        if genesis.block_hash == header.hash():
            return chain, genesis
        tried.append(f"{hex_text(genesis.archive_root)} ({name})")
    theirs = upstream.call("node_getBlockHeader", _FIRST_BLOCK)
    root = "unknown" if theirs is None else hex_text(BlockHeader.from_json(theirs, "header").last_archive.root)
    raise StartError(
        f"the genesis of {upstream.name} is none of the known ones: its archive root is {root}, known are "
        f"{', '.join(tried)}; {MORE_FUNDING}"
    )


def build_genesis(
    prefilled: list[PrefilledPublicData], classes: list[Any], instances: list[Any], release: Release
) -> GenesisRecord:
    """The record of a genesis of a release: its trees are made, and hashed."""
    built = genesis_of(prefilled, release.trees)
    return GenesisRecord.from_json(
        {
            "header": built.header.to_json(),
            "blockHash": hex_text(built.record.block_hash),
            "archiveRoot": hex_text(built.archive.root),
            "prefilledPublicData": [leaf.to_json() for leaf in prefilled],
            "contractClasses": classes,
            "contractInstances": instances,
        }
    )


# ---- contracts ------------------------------------------------------------------------------


def protocol_addresses(release: Release) -> dict[str, str]:
    """``protocolContractAddresses`` of a node."""
    addresses = release.addresses
    return {
        "classRegistry": hex_text(addresses.class_registry),
        "feeJuice": hex_text(addresses.fee_juice),
        "instanceRegistry": hex_text(field_from_int(CONTRACT_INSTANCE_REGISTRY_ADDRESS)),
        "multiCallEntrypoint": hex_text(addresses.multi_call_entrypoint),
    }


def _protocol_contracts(upstream: Upstream) -> tuple[list[Any], list[Any]]:
    addresses = [hex_text(field_from_int(number)) for number in range(1, PROTOCOL_CONTRACTS_MAX + 1)]
    asked: list[RpcCall] = [("node_getContract", [address]) for address in addresses]
    instances = [item for item in upstream.ask(asked).results() if isinstance(item, dict)]
    ids = list(dict.fromkeys(str(item.get("originalContractClassId")) for item in instances))
    if not ids:
        return [], []
    classes = upstream.ask([("node_getContractClass", [class_id]) for class_id in ids]).results()
    return [item for item in classes if isinstance(item, dict)], instances


def check_contracts(genesis: GenesisRecord) -> None:
    """UpstreamFault when a class is not what its id says, or an instance has no class."""
    try:
        known = set()
        for class_id, item in genesis.contract_classes:
            computed = ContractClassPublic.from_json(item).computed_id()
            if computed != class_id:
                raise UpstreamFault(f"genesis: class {hex_text(class_id)} hashes to {hex_text(computed)}")
            known.add(class_id)
        for address, item in genesis.contract_instances:
            used = ContractInstance.from_json(item).original_contract_class_id
            if used not in known:
                raise UpstreamFault(f"genesis: contract {hex_text(address)} has the unknown class {hex_text(used)}")
    except DecodeError as error:
        raise UpstreamFault(f"genesis: {error}") from error


def _check_against_l1(chain: ChainRecord, genesis: GenesisRecord, l1_constants: dict[str, Any]) -> None:
    """Require that the constants that decide a block's slot and epoch are as on L1, and the genesis too."""
    for key in REQUIRED_L1_CONSTANTS:
        theirs, ours = chain.l1_constants[key], l1_constants[key]
        if str(theirs) != str(ours):
            raise StartError(f"the chain says that its {key} is {theirs}, L1 says {ours}")
    root = l1_constants.get("genesisArchiveRoot")
    if root is not None and root != hex_text(genesis.archive_root):
        raise StartError(
            f"the rollup on L1 begins with the archive root {root}, the genesis has {hex_text(genesis.archive_root)}"
        )


def _check_first_block(upstream: Upstream, genesis: GenesisRecord) -> None:
    header = upstream.call("node_getBlockHeader", _FIRST_BLOCK)
    if header is None:
        return
    root = BlockHeader.from_json(header, "header").last_archive.root
    if root != genesis.archive_root:
        raise StartError(
            f"block 1 of {upstream.name} is built on the archive root {hex_text(root)}, the genesis has "
            f"{hex_text(genesis.archive_root)}"
        )
