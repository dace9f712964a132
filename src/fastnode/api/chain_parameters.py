"""Parameter types that point at the chain: blocks, tips, checkpoints, ranges, log filters.

The two method sets name a block differently:

    release       hash string | number | "latest"
    development   {number} | {hash} | {archive} | {tag} | hash string | tag | number

A string of digits is a *hash* in both, as in the reference: ``"1"`` is the block whose hash is 1.
In the set ``both`` every form of either set is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple

from fastnode.values.choices import BOOLEAN, Choice, NumberChoice, Options
from fastnode.values.field_elements import ADDRESS, BLOCK_HASH, FIELD, TX_HASH
from fastnode.values.numbers import Integer
from fastnode.values.refusal import Reject, refuse_other_members
from fastnode.values.schemas import Schema, object_of, one_key
from fastnode.values.value_type import NamedType, ValueType, read_member, read_members

__all__ = [
    "ANY_CHECKPOINTS_QUERY",
    "ARCHIVE_BLOCK",
    "BLOCKS_INCLUDE_OPTIONS",
    "BLOCK_INCLUDE_OPTIONS",
    "BLOCK_NUMBER",
    "CHAIN_TIP",
    "CHECKPOINTS_QUERY",
    "CHECKPOINT_INCLUDE_OPTIONS",
    "CHECKPOINT_PARAMETER",
    "CHECKPOINT_TIP",
    "CONFIRMED_CHECKPOINT",
    "DEVELOPMENT_BLOCK",
    "LOG_FILTER",
    "MERKLE_TREE_ID",
    "RELEASE_BLOCK",
    "BlockName",
    "BlockReference",
    "BlockReferenceKind",
    "CheckpointRange",
    "CheckpointReference",
    "CheckpointReferenceKind",
    "CheckpointsFromSlot",
    "EpochQuery",
    "LogFilter",
    "LogId",
]

LATEST: Final = "latest"
CHAIN_TIPS: Final = ("proposed", "checkpointed", "proven", "finalized")
#: Tips at which checkpoints may be asked for in release 5.x.
CHECKPOINT_TIPS: Final = CHAIN_TIPS[1:]

#: Texts that the reference takes for hex, and so for a hash.
_LOOKS_LIKE_HEX: Final = re.compile(r"(?:0[xX])?[0-9a-fA-F]+|0[xX]", re.ASCII)

BLOCK_NUMBER: Final = Integer(name="block number", minimum=0, accepts_text=True)

# ---- blocks ---------------------------------------------------------------------------------


class BlockReferenceKind(Enum):
    NUMBER = "number"
    HASH = "hash"
    ARCHIVE = "archive"
    TIP = "tag"


class BlockReference(NamedTuple):
    """Block that a parameter means; a bare number stands for itself, and so do the bytes of a bare hash, which may be
    an archive root too.

    ``value``: int for NUMBER, 32 bytes for HASH and ARCHIVE, a tip's name for TIP.

    ``is_development_form`` is true for a form that only the development set knows: such a caller
    expects that set's record.
    """

    kind: BlockReferenceKind
    value: Any
    is_development_form: bool = False


BlockName = int | bytes | BlockReference

_LATEST_BLOCK: Final = BlockReference(BlockReferenceKind.TIP, "proposed")


def _read_block_hash_text(text: str) -> bytes | None:
    """A string that looks like hex is a hash and nothing else: a bad one is refused, not tried as a number."""
    if _LOOKS_LIKE_HEX.fullmatch(text) is None:
        return None
    return BLOCK_HASH.from_json(text)


def _read_block_number(kind: ValueType, value: object) -> int:
    if type(value) is int and value >= 0:  # as nearly all are written
        return value
    if BLOCK_NUMBER.read(value) is None:
        raise kind.refuse(value)
    number: int = BLOCK_NUMBER.from_json(value)
    return number


class ReleaseBlock(NamedType):
    """BlockParam of the release set."""

    __slots__ = ()

    component = "ReleaseBlockParam"
    name = "BlockParam"
    expects = 'a block number, a block hash or "latest"'

    @property
    def wider(self) -> ValueType:
        return DEVELOPMENT_BLOCK

    def from_json(self, value: object) -> BlockName:
        if value == LATEST:
            return _LATEST_BLOCK
        if isinstance(value, str) and (block_hash := _read_block_hash_text(value)) is not None:
            return block_hash
        return _read_block_number(self, value)

    def definition(self) -> Schema:
        return {"anyOf": [BLOCK_NUMBER.schema(), BLOCK_HASH.schema(), {"const": LATEST}]}

    def parts(self) -> Iterable[ValueType]:
        return (BLOCK_HASH,)


class DevelopmentBlock(NamedType):
    """BlockParam of the development set; a superset of the release set's."""

    __slots__ = ()

    component = "BlockParam"
    name = "BlockParam"
    expects = (
        "a block number, a block hash, one of latest, proposed, checkpointed, proven, finalized, "
        "or an object with one of number, hash, archive, tag"
    )

    def from_json(self, value: object) -> BlockName:
        if isinstance(value, dict):
            return self._read_object(value)
        if value == LATEST:
            return _LATEST_BLOCK
        if isinstance(value, str):
            if value in CHAIN_TIPS:
                return BlockReference(BlockReferenceKind.TIP, value, is_development_form=True)
            if (block_hash := _read_block_hash_text(value)) is not None:
                return block_hash
        return _read_block_number(self, value)

    def _read_object(self, value: dict[str, object]) -> BlockReference:
        refuse_other_members(value, _BLOCK_OBJECT_TYPES)
        if len(value) != 1:
            raise Reject("must be an object with exactly one of the keys number, hash, archive, tag")
        [(key, content)] = value.items()
        try:
            read = _BLOCK_OBJECT_TYPES[key].from_json(content)
        except Reject as error:
            raise error.under(f".{key}") from None
        return BlockReference(BlockReferenceKind(key), read, is_development_form=True)

    def definition(self) -> Schema:
        members = {key: kind.schema() for key, kind in _BLOCK_OBJECT_TYPES.items()}
        tips = {"enum": [LATEST, *CHAIN_TIPS]}
        return {"anyOf": [BLOCK_NUMBER.schema(), BLOCK_HASH.schema(), tips, one_key(members)]}

    def parts(self) -> Iterable[ValueType]:
        return _BLOCK_OBJECT_TYPES.values()


_ARCHIVE_BLOCK_TYPES: Final[Mapping[str, ValueType]] = {"archive": FIELD}


class ArchiveBlock(NamedType):
    """A block by the root of the archive after it, and by nothing else (release 6.x)."""

    __slots__ = ()

    component = "ArchiveBlockParam"
    name = "ArchiveBlockParam"
    expects = "an object with archive"

    def from_json(self, value: object) -> BlockReference:
        if not isinstance(value, dict):
            raise self.refuse(value)
        (archive,) = read_members(_ARCHIVE_BLOCK_TYPES, value)
        return BlockReference(BlockReferenceKind.ARCHIVE, archive, is_development_form=True)

    def definition(self) -> Schema:
        members = {key: kind.schema() for key, kind in _ARCHIVE_BLOCK_TYPES.items()}
        return object_of(members, required=members, closed=True)

    def parts(self) -> Iterable[ValueType]:
        return _ARCHIVE_BLOCK_TYPES.values()


CHAIN_TIP: Final = Choice(CHAIN_TIPS, name="ChainTip")
CHECKPOINT_TIP: Final = Choice(CHECKPOINT_TIPS, name="CheckpointTag")
_BLOCK_OBJECT_TYPES: Final[Mapping[str, ValueType]] = {
    "number": BLOCK_NUMBER,
    "hash": BLOCK_HASH,
    "archive": FIELD,
    "tag": CHAIN_TIP,
}

RELEASE_BLOCK: Final = ReleaseBlock()
DEVELOPMENT_BLOCK: Final = DevelopmentBlock()
ARCHIVE_BLOCK: Final = ArchiveBlock()

BLOCK_INCLUDE_OPTIONS: Final = Options(
    "BlockIncludeOptions", ("includeTransactions", "includeL1PublishInfo", "includeAttestations")
)
BLOCKS_INCLUDE_OPTIONS: Final = Options("BlocksIncludeOptions", (*BLOCK_INCLUDE_OPTIONS.flags, "onlyCheckpointed"))
CHECKPOINT_INCLUDE_OPTIONS: Final = Options("CheckpointIncludeOptions", ("includeBlocks", *BLOCK_INCLUDE_OPTIONS.flags))

# ---- checkpoints ----------------------------------------------------------------------------


class CheckpointReferenceKind(Enum):
    NUMBER = "number"
    SLOT = "slot"
    TIP = "tip"


class CheckpointReference(NamedTuple):
    """Checkpoint that a parameter means: an int for NUMBER and SLOT, a tip's name for TIP."""

    kind: CheckpointReferenceKind
    value: Any


_CHECKPOINT_NUMBER: Final = Integer(name="checkpoint number", minimum=0, accepts_text=True)


class CheckpointParameter(NamedType):
    """A checkpoint by number, slot or tip (development set)."""

    __slots__ = ()

    component = "CheckpointParameter"
    name = "CheckpointParameter"
    tips: ClassVar[tuple[str, ...]] = CHAIN_TIPS

    @property
    def expects(self) -> str:
        return f"a checkpoint number, one of {', '.join(self.tips)}, or an object with one of number, slot"

    def from_json(self, value: object) -> CheckpointReference:
        if isinstance(value, dict):
            refuse_other_members(value, ("number", "slot"))
            if len(value) != 1:
                raise Reject("must be an object with exactly one of the keys number, slot")
            [(key, content)] = value.items()
            return CheckpointReference(CheckpointReferenceKind(key), read_member(_CHECKPOINT_NUMBER, content, key))
        if isinstance(value, str) and value in self.tips:
            return CheckpointReference(CheckpointReferenceKind.TIP, value)
        if _CHECKPOINT_NUMBER.read(value) is None:
            raise self.refuse(value)
        return CheckpointReference(CheckpointReferenceKind.NUMBER, _CHECKPOINT_NUMBER.from_json(value))

    def definition(self) -> Schema:
        number = _CHECKPOINT_NUMBER.schema()
        return {"anyOf": [number, {"enum": list(self.tips)}, one_key({"number": number, "slot": number})]}


class ConfirmedCheckpoint(CheckpointParameter):
    """A checkpoint in release 5.x, which names no proposed one."""

    __slots__ = ()

    component = "ConfirmedCheckpoint"
    name = "ConfirmedCheckpoint"
    tips = CHECKPOINT_TIPS


class CheckpointRange(NamedTuple):
    """``limit`` checkpoints from number ``first`` on."""

    first: int
    limit: int


class EpochQuery(NamedTuple):
    """The checkpoints of one epoch."""

    epoch: int


class CheckpointsFromSlot(NamedTuple):
    """``limit`` checkpoints, nearest first: of slots from ``slot`` on, or up to it."""

    slot: int
    limit: int
    is_reverse: bool


_RANGE_LIMIT: Final = Integer(name="limit", minimum=1)
_SLOT: Final = Integer(name="slot", minimum=0, accepts_text=True)
_EPOCH: Final = Integer(name="epoch", minimum=0, accepts_text=True)


class CheckpointsQuery(NamedType):
    """``{from, limit}`` or ``{epoch}``, nothing else in the object (development set)."""

    __slots__ = ()

    component = "CheckpointsQuery"
    name = "CheckpointsQuery"
    expects = "an object with either from and limit, or epoch"

    def from_json(self, value: object) -> CheckpointRange | EpochQuery:
        if not isinstance(value, dict):
            raise self.refuse(value)
        refuse_other_members(value, ("from", "limit", "epoch"))
        keys = set(value)
        if keys == {"epoch"}:
            return EpochQuery(read_member(_EPOCH, value["epoch"], "epoch"))
        if keys == {"from", "limit"}:
            return CheckpointRange(
                read_member(_CHECKPOINT_NUMBER, value["from"], "from"),
                read_member(_RANGE_LIMIT, value["limit"], "limit"),
            )
        raise Reject(f"must be {self.expects}, and no other key")

    def definition(self) -> Schema:
        one = {"epoch": _EPOCH.schema()}
        some = {"from": _CHECKPOINT_NUMBER.schema(), "limit": _RANGE_LIMIT.schema()}
        return {
            "anyOf": [
                object_of(some, some, closed=True),
                object_of(one, one, closed=True),
            ]
        }


class AnyCheckpointsQuery(NamedType):
    """The same in release 5.x, which also knows ``{fromSlot, limit, reverse?}``."""

    __slots__ = ()

    component = "AnyCheckpointsQuery"
    name = "AnyCheckpointsQuery"
    expects = "an object with from and limit, with fromSlot, limit and perhaps reverse, or with epoch"

    def from_json(self, value: object) -> CheckpointRange | EpochQuery | CheckpointsFromSlot:
        if not isinstance(value, dict):
            raise self.refuse(value)
        refuse_other_members(value, ("from", "fromSlot", "limit", "reverse", "epoch"))
        keys = set(value)
        if keys - {"reverse"} == {"fromSlot", "limit"}:
            return CheckpointsFromSlot(
                read_member(_SLOT, value["fromSlot"], "fromSlot"),
                read_member(_RANGE_LIMIT, value["limit"], "limit"),
                "reverse" in keys and read_member(BOOLEAN, value["reverse"], "reverse"),
            )
        if keys in ({"epoch"}, {"from", "limit"}):
            return CHECKPOINTS_QUERY.from_json(value)
        raise Reject(f"must be {self.expects}, and no other key")

    def definition(self) -> Schema:
        required = {"fromSlot": _SLOT.schema(), "limit": _RANGE_LIMIT.schema()}
        by_slot = object_of(required | {"reverse": BOOLEAN.schema()}, required, closed=True)
        return {"anyOf": [*CHECKPOINTS_QUERY.definition()["anyOf"], by_slot]}


CHECKPOINT_PARAMETER: Final = CheckpointParameter()
CONFIRMED_CHECKPOINT: Final = ConfirmedCheckpoint()
CHECKPOINTS_QUERY: Final = CheckpointsQuery()
ANY_CHECKPOINTS_QUERY: Final = AnyCheckpointsQuery()

# ---- logs, trees, fees ----------------------------------------------------------------------


class LogId(NamedTuple):
    """Place of one log."""

    block_number: int
    block_hash: bytes
    tx_hash: bytes
    tx_index: int
    log_index: int


class LogFilter(NamedTuple):
    """Filter of logs.  ``to_block`` is exclusive; ``after_log`` resumes strictly after that log."""

    from_block: int | None
    to_block: int | None
    tx_hash: bytes | None
    after_log: LogId | None
    contract_address: bytes | None
    tag: bytes | None


_ANY_INTEGER: Final = Integer(name="block number", accepts_text=True)
_INDEX: Final = Integer(name="index", minimum=0, accepts_text=True)
_LOG_ID_TYPES: Final[Mapping[str, ValueType]] = {
    "blockNumber": Integer(name="block number", minimum=1, accepts_text=True),
    "blockHash": BLOCK_HASH,
    "txHash": TX_HASH,
    "txIndex": _INDEX,
    "logIndex": _INDEX,
}


class LogIdParameter(NamedType):
    """A LogId: all five members are required."""

    __slots__ = ()

    component = "LogIdInput"
    name = "LogId"
    expects = "an object with blockNumber, blockHash, txHash, txIndex and logIndex"

    def from_json(self, value: object) -> LogId:
        if not isinstance(value, dict):
            raise self.refuse(value)
        return LogId(*read_members(_LOG_ID_TYPES, value))

    def definition(self) -> Schema:
        members = {key: kind.schema() for key, kind in _LOG_ID_TYPES.items()}
        return object_of(members, required=members, closed=True)

    def parts(self) -> Iterable[ValueType]:
        return _LOG_ID_TYPES.values()


_LOG_FILTER_TYPES: Final[Mapping[str, ValueType]] = {
    "fromBlock": _ANY_INTEGER,
    "toBlock": _ANY_INTEGER,
    "txHash": TX_HASH,
    "afterLog": LogIdParameter(),
    "contractAddress": ADDRESS,
    "tag": FIELD,
}


class LogFilterParameter(NamedType):
    """A LogFilter: every member may be left out, none may be null."""

    __slots__ = ()

    component = "LogFilter"
    name = "LogFilter"
    expects = "an object with any of fromBlock, toBlock, txHash, afterLog, contractAddress, tag"

    def from_json(self, value: object) -> LogFilter:
        if not isinstance(value, dict):
            raise self.refuse(value)
        refuse_other_members(value, _LOG_FILTER_TYPES)
        return LogFilter(
            *(read_member(kind, value[key], key) if key in value else None for key, kind in _LOG_FILTER_TYPES.items())
        )

    def definition(self) -> Schema:
        members = {key: kind.schema() for key, kind in _LOG_FILTER_TYPES.items()}
        members["toBlock"] = {**members["toBlock"], "description": "Exclusive."}
        return object_of(members, closed=True)

    def parts(self) -> Iterable[ValueType]:
        return _LOG_FILTER_TYPES.values()


LOG_FILTER: Final = LogFilterParameter()
MERKLE_TREE_ID: Final = NumberChoice(
    "MerkleTreeId",
    {0: "nullifier", 1: "note hash", 2: "public data", 3: "L1 to L2 message", 4: "archive"},
)
