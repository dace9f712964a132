"""Differences between a fastnode and the reference node that docs/compatibility.md explains.

A node that serves both method sets adds keys of the development records behind those of the release records: that is
what "both" means, and every key of the release record must still have its value.  Other differences have a row each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

__all__ = ["ADDED_KEYS", "DOCUMENTED", "added_keys", "documented_row"]

Question: TypeAlias = tuple[str, list[Any]]

_BLOCK: Final = frozenset({"hash", "number"})
_CHECKPOINT: Final = frozenset(
    {"number", "header", "archive", "checkpointOutHash", "startBlock", "blockCount", "feeAssetPriceModifier"}
)
#: Keys of joint records that release records do not have, by method.
ADDED_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "node_getBlock": _BLOCK,
    "node_getBlockByHash": _BLOCK,
    "node_getBlockByArchive": _BLOCK,
    "node_getBlocks": _BLOCK,
    "node_getCheckpoints": _CHECKPOINT,
    "node_getCheckpointsDataForEpoch": frozenset({"feeAssetPriceModifier"}),
    "node_getTxReceipt": frozenset({"unknownHere"}),
}
#: Addresses that a node which knows its network from L1 alone does not have.
OPTIONAL_ADDRESSES: Final = frozenset(
    {
        "dateGatedRelayerAddress",
        "feeAssetHandlerAddress",
        "slashFactoryAddress",
        "stakingAssetHandlerAddress",
        "zkPassportVerifierAddress",
    }
)


def added_keys(ours: Any, theirs: Any) -> frozenset[str] | None:
    """Keys that only ``ours`` has, anywhere; None when the answers differ in anything else."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if not theirs.keys() <= ours.keys():
            return None
        found = set(ours.keys() - theirs.keys())
        for key, value in theirs.items():
            inner = added_keys(ours[key], value)
            if inner is None:
                return None
            found |= inner
        return frozenset(found)
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        parts = [added_keys(one, other) for one, other in zip(ours, theirs, strict=True)]
        return None if None in parts else frozenset().union(*(part for part in parts if part is not None))
    return frozenset() if type(ours) is type(theirs) and ours == theirs else None


def _is_at(*blocks: int) -> Callable[[Question, Any, Any], bool]:
    """Make the check that a question is about the state of one of these blocks."""
    return lambda question, _ours, _theirs: question[1][:1] in [[block] for block in blocks]


def _resumes_after_a_log(question: Question, _ours: Any, _theirs: Any) -> bool:
    return isinstance(question[1][0], dict) and "afterLog" in question[1][0]


def _ends_before_it_starts(question: Question, _ours: Any, _theirs: Any) -> bool:
    asked = question[1][0]
    return (
        isinstance(asked, dict) and {"fromBlock", "toBlock"} <= asked.keys() and asked["toBlock"] < asked["fromBlock"]
    )


def _is_of_a_genesis_leaf(_question: Question, ours: Any, theirs: Any) -> bool:
    """True if the answers differ only in leaves that no block inserted: the reference says block 1."""
    if not isinstance(ours, list) or not isinstance(theirs, list) or len(ours) != len(theirs):
        return False
    pairs = [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]
    return all(
        isinstance(one, dict) and isinstance(other, dict) and (one["l2BlockNumber"], other["l2BlockNumber"]) == (0, 1)
        for one, other in pairs
    )


def _is_of_old_state(_question: Question, ours: Any, theirs: Any) -> bool:
    """The reference has dropped the state of that block."""
    return "failed to get block data" in getattr(theirs, "message", "") and not hasattr(ours, "message")


def _names_fewer_addresses(_question: Question, ours: Any, theirs: Any) -> bool:
    """But for the addresses that no contract names, the answers are the same."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return False
    if "l1ContractAddresses" in theirs:
        return _without_optional_addresses(ours) == _without_optional_addresses(theirs)
    return {key: value for key, value in theirs.items() if key not in OPTIONAL_ADDRESSES} == ours


def _name_block_0_otherwise(_question: Question, ours: Any, theirs: Any) -> bool:
    return (
        isinstance(ours, dict) and isinstance(theirs, dict) and _without_hash_of_0(ours) == _without_hash_of_0(theirs)
    )


def _lacks_price_modifiers(_question: Question, ours: Any, theirs: Any) -> bool:
    """True if the answers differ only where the price moved: the other node says 0."""
    return ours != theirs and added_keys(_without_modifiers(ours), _without_modifiers(theirs)) is not None


def _without_modifiers(record: Any) -> Any:
    if isinstance(record, dict):
        left_out = ("feeAssetPriceModifier", "_cachedHash")
        return {key: _without_modifiers(item) for key, item in record.items() if key not in left_out}
    return [_without_modifiers(item) for item in record] if isinstance(record, list) else record


def _without_hash_of_0(record: Any) -> Any:
    """Tips without the hash of block 0, wherever they name it."""
    if not isinstance(record, dict):
        return record
    keys = record.keys() - ({"hash"} if record.get("number") == 0 else set())
    return {key: record[key] if key == "checkpoint" else _without_hash_of_0(record[key]) for key in keys}


def _without_optional_addresses(node_info: dict[str, Any]) -> dict[str, Any]:
    addresses = node_info["l1ContractAddresses"].items()
    return node_info | {"l1ContractAddresses": {key: item for key, item in addresses if key not in OPTIONAL_ADDRESSES}}


#: Row of docs/compatibility.md, methods, and whether a question and both answers (ours first) are what it is about.
DOCUMENTED: Final[Sequence[tuple[str, frozenset[str], Callable[[Question, Any, Any], bool]]]] = (
    (
        "Resuming after a log",
        frozenset({"node_getPublicLogs", "node_getContractClassLogs"}),
        _resumes_after_a_log,
    ),
    (
        "A range of logs that ends before it starts",
        frozenset({"node_getPublicLogs", "node_getContractClassLogs"}),
        _ends_before_it_starts,
    ),
    (
        "Optional L1 addresses",
        frozenset({"node_getNodeInfo", "node_getL1ContractAddresses"}),
        _names_fewer_addresses,
    ),
    ("Tips before the first block", frozenset({"node_getL2Tips"}), _name_block_0_otherwise),
    ("Price modifier of a checkpoint", frozenset({"node_getCheckpoints"}), _lacks_price_modifiers),
    ("Archive before the first blocks", frozenset({"node_getBlockHashMembershipWitness"}), _is_at(0, 1)),
    (
        "State of old blocks",
        frozenset(
            {
                "node_getPublicStorageAt",
                "node_getPublicDataWitness",
                "node_getNullifierMembershipWitness",
                "node_getLowNullifierMembershipWitness",
                "node_getNoteHashMembershipWitness",
                "node_getBlockHashMembershipWitness",
                "node_getL1ToL2MessageMembershipWitness",
                "node_findLeavesIndexes",
            }
        ),
        _is_of_old_state,
    ),
    ("Genesis leaves in `node_findLeavesIndexes`", frozenset({"node_findLeavesIndexes"}), _is_of_a_genesis_leaf),
)


def documented_row(question: Question, ours: Any, theirs: Any) -> str | None:
    """The row that explains why the answers differ; None if there is none."""
    for row, methods, applies in DOCUMENTED:
        if question[0] in methods and applies(question, ours, theirs):
            return row
    return None
