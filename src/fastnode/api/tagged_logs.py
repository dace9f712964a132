"""Logs by tag in release 5.x: one query object, with places to go on from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fastnode.api.chain_parameters import BLOCK_NUMBER
from fastnode.errors import ServerError
from fastnode.jsonrpc.methods import Context, Method, Parameter, Signature
from fastnode.kernels import encode, tag_log
from fastnode.log_index.known_tags import KnownTags
from fastnode.log_index.layout import Position
from fastnode.log_index.tag_queries import known_tags_among
from fastnode.log_index.tagged_logs import TaggedLogs, TagQuery
from fastnode.records import dataclass
from fastnode.values.choices import BOOLEAN
from fastnode.values.field_elements import ADDRESS, BLOCK_HASH, FIELD, TX_HASH
from fastnode.values.numbers import Integer
from fastnode.values.refusal import Reject, refuse_other_members
from fastnode.values.schemas import Schema, object_of
from fastnode.values.value_type import NamedType, ValueType, definitions_of, read_member, read_members

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["LogsQuery", "LogsQueryParameter", "methods"]

#: Logs of a tag in one answer; part of the interface of 5.x.
LOGS_PER_TAG_MAX: Final = 20
FIELD_BYTES: Final = 32

_INDEX: Final = Integer(name="index", minimum=0)
_CURSOR_TYPES: Final[Mapping[str, ValueType]] = {
    "blockNumber": BLOCK_NUMBER,
    "txIndexWithinBlock": _INDEX,
    "logIndexWithinTx": _INDEX,
}


class LogsQuery(NamedTuple):
    """Wanted logs of some tags.  ``to_block`` is exclusive; ``after`` has a place for each tag, None: the beginning."""

    #: 32 bytes each, joined.
    tags: bytes
    after: tuple[Position | None, ...]
    #: Empty for private logs.
    contract: bytes
    from_block: int | None
    to_block: int | None
    tx_hash: bytes | None
    reference_block: bytes | None
    with_effects: bool
    limit: int


class LogCursor(NamedType):
    """Place of a log: its members are those of every LogResult."""

    __slots__ = ()

    component = "LogCursor"
    name = "LogCursor"
    expects = "an object with blockNumber, txIndexWithinBlock and logIndexWithinTx"

    def from_json(self, value: object) -> Position:
        if not isinstance(value, dict):
            raise self.refuse(value)
        block, tx, log = read_members(_CURSOR_TYPES, value)
        return block, tx, log

    def definition(self) -> Schema:
        members = {key: kind.schema() for key, kind in _CURSOR_TYPES.items()}
        return object_of(members, required=members, closed=True)


_CURSOR: Final = LogCursor()

#: Members of both queries, beside their tags.
_MEMBERS: Final[Mapping[str, ValueType]] = {
    "fromBlock": BLOCK_NUMBER,
    "toBlock": BLOCK_NUMBER,
    "txHash": TX_HASH,
    "referenceBlock": BLOCK_HASH,
    "includeEffects": BOOLEAN,
    "limitPerTag": Integer(1, LOGS_PER_TAG_MAX),
}


@dataclass(frozen=True, slots=True)
class LogsQueryParameter(ValueType):
    """A query for private logs, or with ``is_public`` for those of a contract.  Members may be left out, none may be
    null."""

    name: str = field()
    tags_max: int
    is_public: bool

    @property
    def expects(self) -> str:
        needed = "contractAddress and tags" if self.is_public else "tags"
        return f"an object with {needed}, and perhaps {', '.join(_MEMBERS)}"

    def from_json(self, value: object) -> LogsQuery:
        if not isinstance(value, dict):
            raise self.refuse(value)
        needed = ("contractAddress", "tags") if self.is_public else ("tags",)
        refuse_other_members(value, (*needed, *_MEMBERS))
        for key in needed:
            if key not in value:
                raise Reject("is required", f".{key}")
        contract = read_member(ADDRESS, value["contractAddress"], "contractAddress") if self.is_public else b""
        read = {key: read_member(kind, value[key], key) for key, kind in _MEMBERS.items() if key in value}
        if "txHash" in read and ("fromBlock" in read or "toBlock" in read):
            raise Reject("must have txHash, or fromBlock and toBlock, but not both")
        try:
            tags, after = self._read_tags(value["tags"])
        except Reject as error:
            raise error.under(".tags") from None
        return LogsQuery(
            tags,
            after,
            contract,
            read.get("fromBlock"),
            read.get("toBlock"),
            read.get("txHash"),
            read.get("referenceBlock"),
            read.get("includeEffects", False),
            read.get("limitPerTag", LOGS_PER_TAG_MAX),
        )

    def _read_tags(self, value: object) -> tuple[bytes, tuple[Position | None, ...]]:
        if not isinstance(value, list) or not 1 <= len(value) <= self.tags_max:
            got = f", got {len(value)}" if isinstance(value, list) else ""
            raise Reject(f"must be an array of 1 to at most {self.tags_max} tags (--rpc-max-tags){got}")
        after: list[Position | None] = [None] * len(value)

        def read_unusual(item: object, index: int) -> bytes:
            try:
                if isinstance(item, dict):
                    tag, after[index] = _read_tag_with_place(item)
                    return tag
                return FIELD.from_json(item)
            except Reject as error:
                raise error.under(f"[{index}]") from None

        tags = tag_log.read_fields(value, read_unusual)
        return tags, tuple(after)

    def schema(self) -> Schema:
        members = {key: kind.schema() for key, kind in _MEMBERS.items()}
        members["toBlock"] = {**members["toBlock"], "description": "Exclusive."}
        placed = {"tag": FIELD.schema(), "afterLog": _CURSOR.schema()}
        tag = {"anyOf": [FIELD.schema(), object_of(placed, required=["tag"], closed=True)]}
        members["tags"] = {"type": "array", "items": tag, "minItems": 1, "maxItems": self.tags_max}
        if self.is_public:
            members["contractAddress"] = ADDRESS.schema()
        needed = [key for key in ("contractAddress", "tags") if key in members]
        return object_of(members, required=needed, closed=True)

    def definitions(self) -> Mapping[str, Schema]:
        kinds: Iterable[ValueType] = (*_MEMBERS.values(), FIELD, ADDRESS, _CURSOR)
        return definitions_of(kinds)


def _read_tag_with_place(item: dict[str, Any]) -> tuple[bytes, Position | None]:
    refuse_other_members(item, ("tag", "afterLog"))
    if "tag" not in item:
        raise Reject("is required", ".tag")
    tag = read_member(FIELD, item["tag"], "tag")
    return tag, read_member(_CURSOR, item["afterLog"], "afterLog") if "afterLog" in item else None


class _Queries:
    def __init__(self, known_tags: KnownTags) -> None:
        self._known_tags = known_tags

    def find(self, context: Context, query: LogsQuery) -> bytes:
        chain = context.view.chain
        wanted = _resolve(chain, query)
        starts = range(0, len(query.tags), FIELD_BYTES)
        # Nearly all tags that wallets ask for have no logs.
        if wanted is None or not self.has_known([query]):
            return b"[" + b",".join([b"[]"] * len(starts)) + b"]"
        tags = [query.tags[start : start + FIELD_BYTES] for start in starts]
        return TaggedLogs(chain, self._known_tags, wanted).answer(tags, query.after, context.require_bytes)

    def has_known(self, arguments: Sequence[Any]) -> bool:
        """True if one of the tags may have logs: they are read in a thread."""
        query: LogsQuery = arguments[0]
        return known_tags_among(self._known_tags, query.contract, query.tags) > 0


def _resolve(chain: ChainView, query: LogsQuery) -> TagQuery | None:
    """None if no log can be meant.  ServerError when the block that a client knows is gone."""
    end = chain.tip_number + 1
    if query.to_block is not None:
        end = min(end, query.to_block)
    if query.reference_block is not None:
        reference = chain.block_number_by_hash(query.reference_block)
        if reference is None:
            # Clients look for these words to tell a reorg from other failures.
            text = encode.to_hex(query.reference_block).decode()
            raise ServerError(
                f"Reference block {text} not found in the node. This might indicate a reorg has occurred."
            )
        end = min(end, reference + 1)
    tx = None
    if query.tx_hash is not None:
        location = chain.tx_location(query.tx_hash)
        if location is None or location.block_number >= end:
            return None
        tx = (location.block_number, location.index_in_block)
    return TagQuery(query.contract, max(1, query.from_block or 1), end, tx, query.limit, query.with_effects)


def methods(known_tags: KnownTags, *, tags_max: int) -> list[Method]:
    """The log methods of 5.x."""
    queries = _Queries(known_tags)

    def method(name: str, summary: str, kind: ValueType) -> Method:
        find: Callable[[Context, LogsQuery], bytes] = queries.find
        return Method(
            name=name,
            summary=summary,
            handler=find,
            is_cached=True,
            in_thread=queries.has_known,
            five=Signature("LogResult[][]", (Parameter("query", kind),)),
        )

    return [
        method(
            "node_getPrivateLogsByTags",
            "Private logs whose siloed tag is one of those given, up to twenty per tag, with their places.",
            LogsQueryParameter("PrivateLogsQuery", tags_max, is_public=False),
        ),
        method(
            "node_getPublicLogsByTags",
            "Public logs of a contract whose first field is one of the tags given, with their places.",
            LogsQueryParameter("PublicLogsQuery", tags_max, is_public=True),
        ),
    ]
