"""A release and its parts, and how its record is read.

A record is JSON::

    release                name, such as "4.x"
    major                  first number of its node versions
    versions               those that are known; the first is the one that a chain gets which nobody has named. Of
                           several releases with the same major number a version that none lists belongs to the one
                           that began last before it
    served                 whether nodes of it are followed, are peers, and are handed transactions
    derived                whether a node derives it from L1 and answers what is read of it
    networks               networks that run it, by name: chain of L1 (l1ChainId) and registry on it (registryAddress);
                           rollups: earlier ones of that registry, release by version; date: of what is said of them
    phasedReceiptsBefore   receipts of lower versions say which part of a transaction reverted
    verifiers              published verifier programs: SHA-256 by version and platform
    separators             before the two children of nodes of trees (node, nullifierNode, publicDataNode), and of
                           nodes over the blocks of a checkpoint (blockHeaders); of blobs that are opened together
                           (blobChallenge, blobChallenges, blobValue, blobValues, blobFactor); absent: none
    addresses              of contracts that the node knows: authRegistry, classRegistry, feeJuice
    contracts              file beside the records with the contracts of the genesis; absent: those of the sample chain
    instanceVersion        of contract instances
    rootsByCount           whether the outbox has a root for each number of checkpoints that an epoch was proven by
    contractsHash          of the protocol contracts
    machine                L2 gas for each field that is copied (copyGas) and of ECADD (pointGas); members of an
                           instance that GETCONTRACTINSTANCE knows; bitwiseGas: L2 gas of AND, OR and XOR for each byte
                           of their operands, beside the base; pointFlags: whether points of ECADD have a cell that
                           says that they are infinity; boundsReads: whether copies halt where they read beyond memory,
                           else zeros are there; writtenSlots: slots of storage that a transaction may write, with that
                           of its fee; collisionsRevert: whether a nullifier of the revertible private part that exists
                           reverts the app logic, else no block can include the transaction; oneRevertCode: whether
                           effects say 1 whichever part reverted, else 1 the app logic, 2 teardown, 3 both
    countsFees             whether headers of checkpoints end with the fees of their blocks
    effectsTree            whether block headers have the root of the tree over their transactions' effects
                           (protocol/effects_tree.py); absent: they do not
    inbox                  rollingHash: form of the rolling hash of the Inbox where messages stand in the tree without
                           padding, each at its own number (protocol/inbox_hash.py); absent: 1,024 places a checkpoint
    genesisNullifiers      nullifiers of the protocol that the genesis tree has in place of the last filling ones;
                           absent: none
    localContracts         file beside the records with the contracts that a local network begins with, where those of
                           the release itself are not known; absent: those of "contracts"
    addressSeparator       first field that is hashed for the address of a contract; absent: the one of its version
    l1Gas                  L1 gas that the fee model counts: checkpoint, for a proposal; epoch, for the proof of one;
                           absent: 300,000 and 3,600,000
    lowPriceIsInvalid      whether a price below the current one makes a transaction invalid, else it may wait
    checksClassIds         whether a transaction fails whose log publishes a class under an id that is not its own;
                           absent: it does
    transaction            counts of a transaction's data that are not the usual ones (protocol/tx_layout.py):
                           noteHashes, nullifiers, messages, privateLogs, privateLogFields, calls; absent: all are
    messages               of peers: areForRollup: whether proposals and attestations name the chain of L1 and the
                           rollup that they are signed for; framesTopic: whether ids of messages count the bytes of the
                           topic; servesBlocks: whether blocks may be asked for; commitsToTxs: whether who asks for
                           transactions of a block says the hash of all of their hashes, and the answer does not repeat
                           the block; areAhead: whether checkpoints are proposed in the slot before their own;
                           plainRecovery: whether signatures may end with 0 or 1; how many different ones are handed on:
                           blocks at one position, checkpoints of a slot, attestations of a member for one
    circuits               vkTreeRoot; the keys toRollup and toPublic with their index, siblings above them; keyFields
                           of a key, proofFields of a proof; compressedProof: runs of the parts of a compressed one,
                           such as 28s 17p (protocol/compressed_proofs.py); absent: every transaction has a whole proof;
                           setup: file that the verifier program derives, its SHA-256, and witnessIndex: whether a
                           circuit says the index of its last witness
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final, Self

import orjson

from fastnode.protocol.fees import L1Gas
from fastnode.protocol.fields import FIELD_BYTES, field_from_int
from fastnode.protocol.header import HEADER_FIELDS
from fastnode.protocol.inbox_hash import inbox_form
from fastnode.protocol.tx_layout import TxLayout, layout_of
from fastnode.records import dataclass

__all__ = [
    "Addresses",
    "BlobSeparators",
    "MachineRules",
    "MessageRules",
    "Release",
    "Separators",
    "TreeRules",
    "shipped_contracts",
    "shipped_record",
]

#: Nothing else may be in one: it goes into headers.
_VERSION: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:[.+-][0-9A-Za-z.+-]{0,64})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Separators:
    """Fields that are hashed before the children of a node; empty: none is."""

    node: bytes
    nullifier_node: bytes
    public_data_node: bytes
    block_headers: bytes

    @classmethod
    def from_record(cls, record: Mapping[str, int]) -> Self:
        return cls(
            node=_separator(record, "node"),
            nullifier_node=_separator(record, "nullifierNode"),
            public_data_node=_separator(record, "publicDataNode"),
            block_headers=_separator(record, "blockHeaders"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRules:
    """Rules of the state trees and of the headers over them."""

    separators: Separators
    #: Keys, ascending, that the genesis nullifier tree has behind the filling ones.
    genesis_nullifiers: tuple[bytes, ...] = ()
    #: True when block headers have the root of the tree over the effects of their transactions.
    has_effects_root: bool = False
    #: True when each block appends its own L1-to-L2 messages without padding; else the first block of a checkpoint
    #: appends 1,024 leaves.
    has_compact_messages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSeparators:
    """Fields that are hashed first where the blobs of an epoch are opened together; empty: none is.

    ``challenge``: of a blob; ``challenges``: of two that are joined; ``value``: of an opening; ``values``: of two
    openings that are joined; ``factor``: of the factor that the openings are summed with.
    """

    challenge: bytes
    challenges: bytes
    value: bytes
    values: bytes
    factor: bytes

    @classmethod
    def from_record(cls, record: Mapping[str, int]) -> Self:
        return cls(
            challenge=_separator(record, "blobChallenge"),
            challenges=_separator(record, "blobChallenges"),
            value=_separator(record, "blobValue"),
            values=_separator(record, "blobValues"),
            factor=_separator(record, "blobFactor"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Contracts that the node knows, 32 bytes each; the registry of instances is at 2 in every release."""

    auth_registry: bytes
    class_registry: bytes
    fee_juice: bytes
    multi_call_entrypoint: bytes

    @classmethod
    def from_record(cls, record: Mapping[str, str]) -> Self:
        return cls(
            auth_registry=_address(record["authRegistry"]),
            class_registry=_address(record["classRegistry"]),
            fee_juice=_address(record["feeJuice"]),
            multi_call_entrypoint=_address(record["multiCallEntrypoint"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRules:
    """Differences of the public virtual machine."""

    copy_gas: int
    point_gas: int
    bitwise_gas: int
    members: int
    point_flags: bool
    bounds_reads: bool
    written_slots: int
    collisions_revert: bool
    one_revert_code: bool

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(
            copy_gas=int(record["copyGas"]),
            point_gas=int(record["pointGas"]),
            bitwise_gas=int(record["bitwiseGas"]),
            members=int(record["members"]),
            point_flags=bool(record["pointFlags"]),
            bounds_reads=bool(record["boundsReads"]),
            written_slots=int(record["writtenSlots"]),
            collisions_revert=bool(record["collisionsRevert"]),
            one_revert_code=bool(record["oneRevertCode"]),
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """By name, as the machine's programs take them."""
        names = ("copy_gas", "point_gas", "bitwise_gas", "members", "point_flags", "bounds_reads")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRules:
    """Differences of gossip and of requests between peers."""

    #: True when proposals and attestations name the chain and the rollup that they are signed for (EIP-712).
    are_for_rollup: bool
    frames_topic: bool
    serves_blocks: bool
    commits_to_txs: bool
    #: True when a checkpoint is proposed in the slot before its own.
    are_ahead: bool
    #: True when the last byte of a signature may be the plain recovery id.
    plain_recovery: bool
    #: Different blocks at one position, checkpoints of a slot, and attestations of a member for it that are handed on.
    blocks: int
    checkpoints: int
    attestations: int

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(
            are_for_rollup=bool(record["areForRollup"]),
            frames_topic=bool(record["framesTopic"]),
            serves_blocks=bool(record["servesBlocks"]),
            commits_to_txs=bool(record["commitsToTxs"]),
            are_ahead=bool(record["areAhead"]),
            plain_recovery=bool(record["plainRecovery"]),
            blocks=int(record["blocks"]),
            checkpoints=int(record["checkpoints"]),
            attestations=int(record["attestations"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The record of a release; roots are 32 bytes each."""

    name: str
    major: int
    versions: tuple[str, ...]
    is_served: bool
    is_derived: bool
    #: Methods that a node answers with on a chain of it, if nobody says otherwise; a name of jsonrpc.methods.
    method_set: str
    #: As in the record, by name of the network.
    networks: Mapping[str, Mapping[str, Any]]
    vk_tree_root: bytes
    contracts_hash: bytes
    addresses: Addresses
    #: File with the contracts that exist from genesis on; None: those of the sample chain.
    contracts_file: str | None
    #: File with the contracts that a local network begins with; None: those of the sample chain.
    local_contracts_file: str | None
    instance_version: int
    #: First field that is hashed for the address of a contract; None: that of the version of the instance.
    address_separator: int | None
    #: True when the outbox has a root for each number of checkpoints that an epoch was proven by.
    has_roots_by_count: bool
    trees: TreeRules
    #: Form of the Inbox's rolling hash (protocol/inbox_hash.py); None: messages have 1,024 places a checkpoint.
    inbox_form: str | None
    blob_separators: BlobSeparators
    machine: MachineRules
    messages: MessageRules
    #: True when headers of checkpoints end with the fees of their blocks.
    counts_fees: bool
    #: True when a price below the current one makes a transaction invalid; else it may wait for prices to fall.
    low_price_is_invalid: bool
    #: L1 gas that the fee model counts.
    l1_gas: L1Gas
    #: True when a transaction fails that publishes a class under an id that is not its own.
    checks_class_ids: bool
    tx_layout: TxLayout
    #: Fields of a proof that is not compressed.
    proof_fields: int
    #: Lengths and kinds of the runs of a compressed proof; empty: no transaction may come with one, or without a proof.
    compressed_proof: tuple[tuple[int, str], ...]
    #: As in the record; read by those who judge proofs.
    circuits: Mapping[str, Any]
    verifiers: Mapping[str, Mapping[str, str]]
    phased_receipts_before: tuple[int, int, int]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """ValueError names what is missing or wrong."""
        try:
            versions = tuple(map(str, record["versions"]))
            if not versions:
                raise ValueError("it has no versions")
            # The end of a block in the blob is told apart by its header alone (protocol/blobs.py).
            if bool(record.get("effectsTree", False)) is not ("inbox" in record):
                raise ValueError("effectsTree and inbox must both be there, or neither")
            return cls(
                name=str(record["release"]),
                major=int(record["major"]),
                versions=versions,
                is_served=bool(record["served"]),
                is_derived=bool(record["derived"]),
                method_set=str(record["methodSet"]),
                networks=record["networks"],
                vk_tree_root=_root(record["circuits"]["vkTreeRoot"]),
                contracts_hash=_root(record["contractsHash"]),
                addresses=Addresses.from_record(record["addresses"]),
                contracts_file=record.get("contracts"),
                local_contracts_file=record.get("localContracts", record.get("contracts")),
                instance_version=int(record["instanceVersion"]),
                address_separator=_optional_int(record, "addressSeparator"),
                has_roots_by_count=bool(record["rootsByCount"]),
                trees=TreeRules(
                    separators=Separators.from_record(record["separators"]),
                    genesis_nullifiers=tuple(map(_address, record.get("genesisNullifiers", ()))),
                    has_effects_root=bool(record.get("effectsTree", False)),
                    has_compact_messages="inbox" in record,
                ),
                inbox_form=None if "inbox" not in record else inbox_form(str(record["inbox"]["rollingHash"])),
                blob_separators=BlobSeparators.from_record(record["separators"]),
                machine=MachineRules.from_record(record["machine"]),
                messages=MessageRules.from_record(record["messages"]),
                counts_fees=bool(record["countsFees"]),
                low_price_is_invalid=bool(record["lowPriceIsInvalid"]),
                l1_gas=L1Gas(**{name: int(gas) for name, gas in record.get("l1Gas", {}).items()}),
                checks_class_ids=bool(record.get("checksClassIds", True)),
                tx_layout=layout_of(
                    {
                        "headerFields": HEADER_FIELDS + bool(record.get("effectsTree", False)),
                        **record.get("transaction", {}),
                    }
                ),
                proof_fields=int(record["circuits"]["proofFields"]),
                compressed_proof=_runs(record["circuits"].get("compressedProof", "")),
                circuits=record["circuits"],
                verifiers=record["verifiers"],
                phased_receipts_before=_numbers(record["phasedReceiptsBefore"]),
            )
        except KeyError as error:
            raise ValueError(f"it has no {error.args[0]}") from None
        except (TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None

    @property
    def separators(self) -> Separators:
        """Those of the state trees and of the blocks of a checkpoint."""
        return self.trees.separators

    @property
    def roots(self) -> tuple[bytes, bytes]:
        """Values by which a rollup contract tells its release: root of the verification keys, hash of the contracts."""
        return self.vk_tree_root, self.contracts_hash

    def may_be_asked(self, *, takes_untried: bool) -> bool:
        """True if nodes of it are followed and handed transactions; ``takes_untried``: as far as it is known."""
        return self.is_served or (takes_untried and self.is_derived)

    @property
    def limitation(self) -> str | None:
        """Sentence that says what a node does not do on chains of this release; None: it does everything."""
        if self.is_served:
            return None
        return (
            f"no node of release {self.name} is followed or a peer here: its chain comes from L1 alone, and a "
            f"transaction would go nowhere from here"
        )

    @property
    def usual_version(self) -> str:
        """The node version that a chain goes by when nobody has named one."""
        return self.versions[0]

    def version_named(self, text: str) -> str:
        """The node version that somebody means: 5.2 is 5.2.0, if that is known."""
        return f"{text}.0" if f"{text}.0" in self.versions else text

    def has_version(self, version: str) -> bool:
        """True if a node of this version, say 4.3.0-nightly.1, speaks this release."""
        found = _VERSION.fullmatch(version)
        return found is not None and int(found[1]) == self.major

    @property
    def begin(self) -> tuple[int, int, int]:
        """The numbers of the lowest version that is known."""
        return min(map(_numbers, self.versions))

    def begins_by(self, version: str) -> bool:
        """True if this node version, which must be one of its major number, is not below its first one."""
        return self.begin <= _numbers(version)

    def has_phased_receipts(self, version: str) -> bool:
        """True if receipts of this node version say which part of a transaction reverted.

        A version that cannot be read counts as new.
        """
        found = _VERSION.fullmatch(version)
        return found is not None and _numbers(version) < self.phased_receipts_before


def shipped_record(name: str) -> Mapping[str, Any]:
    """The record ``name`` that comes with the package."""
    text = resources.files("fastnode").joinpath("data", "releases", f"{name}.json").read_bytes()
    record: Mapping[str, Any] = orjson.loads(text)
    return record


def shipped_contracts(file: str) -> Mapping[str, list[Any]]:
    """``classes`` and ``instances``, as JSON has them, of a file that comes with the package."""
    packed = resources.files("fastnode").joinpath("data", "releases", file).read_bytes()
    contracts: Mapping[str, list[Any]] = orjson.loads(lzma.decompress(packed))
    return contracts


def _separator(record: Mapping[str, int], name: str) -> bytes:
    return field_from_int(int(record[name])) if name in record else b""


def _optional_int(record: Mapping[str, Any], name: str) -> int | None:
    return int(record[name]) if name in record else None


def _runs(text: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(run[:-1]), run[-1]) for run in text.split())


def _address(text: str) -> bytes:
    return field_from_int(int(text, 16))


def _root(text: str) -> bytes:
    root = bytes.fromhex(text.removeprefix("0x"))
    if len(root) != FIELD_BYTES:
        raise ValueError(f"{text} has {len(root)} bytes, expected {FIELD_BYTES}")
    return root


def _numbers(version: str) -> tuple[int, int, int]:
    found = _VERSION.fullmatch(version)
    if found is None:
        raise ValueError(f"{version!r} is no version")
    return int(found[1]), int(found[2]), int(found[3] or 0)
