"""Facts of the rollup on L1: its contracts, its slots and epochs, its genesis, the size of its committees.

All of them are also said by the nodes that are followed.  Both must say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastnode.errors import SettingError, UpstreamFault, UpstreamRejection
from fastnode.kernels import encode
from fastnode.protocol import releases
from fastnode.protocol.ethereum import SigningDomain
from fastnode.protocol.releases import Release
from fastnode.records import dataclass
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import ADDRESS_BYTES, from_quantity, hex_data
from fastnode.sources.l1.endpoints import L1Endpoint, block_call, contract_call, is_revert
from fastnode.sources.l1.terms import CircuitValues, read_circuit_values

__all__ = ["RollupFacts", "Wanted", "difference", "read_facts"]

_NO_ADDRESS: Final = bytes(ADDRESS_BYTES)
_GENESIS_CHECKPOINT: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Rollup that is wanted: by its registry and version; ``rollup`` if there is no registry to ask.

    ``chain_id`` None: any chain of L1; ``version`` None: the one that the registry calls canonical.
    """

    chain_id: int | None
    version: int | None
    registry: bytes | None
    rollup: bytes | None

    @classmethod
    def of(cls, node_info: Mapping[str, Any], registry: str | None = None) -> Wanted:
        """From a node's NodeInfo.  ``registry``, set by the operator, takes precedence over the node's."""
        addresses = node_info.get("l1ContractAddresses")
        addresses = addresses if isinstance(addresses, dict) else {}
        return cls(
            chain_id=int(node_info["l1ChainId"]),
            version=int(node_info["rollupVersion"]),
            registry=_address(registry or addresses.get("registryAddress")),
            rollup=_address(addresses.get("rollupAddress")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupFacts:
    """Times in seconds, durations of epochs in slots."""

    chain_id: int
    version: int
    registry: bytes | None
    rollup: bytes
    inbox: bytes
    outbox: bytes
    fee_asset_portal: bytes
    deployment_block: int
    deployment_hash: bytes
    genesis_time: int
    slot_duration: int
    epoch_duration: int
    proof_submission_epochs: int
    target_committee_size: int
    genesis_archive_root: bytes
    mana_limit: int
    #: None: not known from L1.
    circuits: CircuitValues | None = None

    def l1_constants(self) -> dict[str, Any]:
        """As in the first line of a chain file, but for the length of L1's own slots, which no contract knows."""
        return {
            "l1StartBlockHash": hex_data(self.deployment_hash),
            "l1StartBlock": str(self.deployment_block),
            "l1GenesisTime": str(self.genesis_time),
            "epochDuration": self.epoch_duration,
            "slotDuration": self.slot_duration,
            "proofSubmissionEpochs": self.proof_submission_epochs,
            "targetCommitteeSize": self.target_committee_size,
            "genesisArchiveRoot": hex_data(self.genesis_archive_root),
            "rollupManaLimit": self.mana_limit,
        }

    @property
    def release(self) -> Release | None:
        """The release that the circuits are of; None where L1 does not say them, or none is known."""
        return None if self.circuits is None else releases.of_roots(*self.circuits)

    @property
    def signing_domain(self) -> SigningDomain:
        return SigningDomain(self.chain_id, self.rollup)

    def slot_at(self, timestamp: int) -> int:
        return max(0, timestamp - self.genesis_time) // self.slot_duration

    def epoch_at(self, timestamp: int) -> int:
        return self.slot_at(timestamp) // self.epoch_duration

    def start_of_slot(self, slot: int) -> int:
        return self.genesis_time + slot * self.slot_duration


def read_facts(endpoint: L1Endpoint, wanted: Wanted) -> RollupFacts:
    """StartError when L1 has no such rollup; UpstreamError, DecodeError."""
    rollup = _find_rollup(endpoint, wanted)
    functions = (
        contracts.VERSION,
        contracts.INBOX,
        contracts.OUTBOX,
        contracts.FEE_ASSET_PORTAL,
        contracts.DEPLOYMENT_BLOCK,
        contracts.GENESIS_TIME,
        contracts.SLOT_DURATION,
        contracts.EPOCH_DURATION,
        contracts.PROOF_SUBMISSION_EPOCHS,
        contracts.TARGET_COMMITTEE_SIZE,
        contracts.MANA_LIMIT,
    )
    calls = [contract_call(rollup, function) for function in functions]
    calls.append(contract_call(rollup, contracts.ARCHIVE_AT, _GENESIS_CHECKPOINT))
    *answers, genesis = endpoint.results(calls)
    values = [function.decode(answer)[0] for function, answer in zip(functions, answers, strict=True)]
    version, inbox, outbox, portal, block_number, genesis_time, slot, epoch, proof_epochs, committee, mana = values
    if slot == 0 or epoch == 0:
        raise UpstreamFault("its rollup contract has slots or epochs of length 0")
    block = endpoint.block(block_number)
    if block is None:
        raise UpstreamFault(f"it does not have block {block_number}, in which the rollup began")
    return RollupFacts(
        chain_id=_chain_id(endpoint, wanted),
        version=version,
        registry=wanted.registry,
        rollup=rollup,
        inbox=inbox,
        outbox=outbox,
        fee_asset_portal=portal,
        deployment_block=block_number,
        deployment_hash=block.hash,
        genesis_time=genesis_time,
        slot_duration=slot,
        epoch_duration=epoch,
        proof_submission_epochs=proof_epochs,
        target_committee_size=committee,
        genesis_archive_root=contracts.ARCHIVE_AT.decode(genesis)[0],
        mana_limit=mana,
        circuits=read_circuit_values(endpoint, rollup),
    )


def _find_rollup(endpoint: L1Endpoint, wanted: Wanted) -> bytes:
    if wanted.registry is None:
        if wanted.rollup is None:
            raise SettingError("it is not known where on L1 the rollup is: give --registry-address")
        return wanted.rollup
    version = wanted.version
    if version is None:
        function = contracts.CANONICAL_ROLLUP
        call = contract_call(wanted.registry, function)
    else:
        function = contracts.ROLLUP_OF_VERSION
        call = contract_call(wanted.registry, function, version)
    # That the node is there at all is seen first, so that what is missing then is the contract.
    _, answer = endpoint.answers([block_call("latest"), call])
    which = "no rollup" if version is None else f"no rollup of version {version}"
    if isinstance(answer, UpstreamRejection) and not is_revert(answer):
        raise answer
    if isinstance(answer, UpstreamRejection):
        raise SettingError(f"the registry {hex_data(wanted.registry)} has {which} on L1: {answer}")
    if answer == "0x":
        raise SettingError(f"there is no code at the address of the registry on L1, {hex_data(wanted.registry)}")
    rollup: bytes = function.decode(answer)[0]
    if rollup == _NO_ADDRESS:
        raise SettingError(f"the registry {hex_data(wanted.registry)} has {which} on L1")
    return rollup


def _chain_id(endpoint: L1Endpoint, wanted: Wanted) -> int:
    if wanted.chain_id is not None:
        return wanted.chain_id
    return from_quantity(endpoint.results([("eth_chainId", [])])[0], "eth_chainId")


def difference(facts: RollupFacts, node_info: Mapping[str, Any], constants: Mapping[str, Any], who: str) -> str | None:
    """The first value that L1 and the other source give differently; None if there is none.

    What the other one does not say is not compared.
    """
    for name, ours, theirs in _pairs(facts, node_info, constants):
        if theirs is not None and str(theirs).lower() != str(ours):
            return f"L1 and {who} disagree: the {name} is {ours} on L1 and {theirs} there"
    return None


def _pairs(
    facts: RollupFacts, node_info: Mapping[str, Any], constants: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    addresses = node_info.get("l1ContractAddresses")
    addresses = addresses if isinstance(addresses, dict) else {}
    yield "L1 chain id", facts.chain_id, node_info.get("l1ChainId")
    yield "rollup version", facts.version, node_info.get("rollupVersion")
    for name, address, key in (
        ("rollup's address", facts.rollup, "rollupAddress"),
        ("Inbox's address", facts.inbox, "inboxAddress"),
        ("Outbox's address", facts.outbox, "outboxAddress"),
        ("fee asset portal's address", facts.fee_asset_portal, "feeJuicePortalAddress"),
    ):
        yield name, hex_data(address), addresses.get(key)
    yield "genesis time", facts.genesis_time, constants.get("l1GenesisTime")
    yield "length of a slot", facts.slot_duration, constants.get("slotDuration")
    yield "length of an epoch", facts.epoch_duration, constants.get("epochDuration")
    yield "archive root of the genesis", hex_data(facts.genesis_archive_root), constants.get("genesisArchiveRoot")


def _address(text: object) -> bytes | None:
    if not isinstance(text, str):
        return None
    try:
        address = encode.from_hex(text)
    except ValueError:
        return None
    return address if len(address) == ADDRESS_BYTES and address != _NO_ADDRESS else None
