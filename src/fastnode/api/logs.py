"""Logs by tag, and logs by range."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from fastnode.api.chain_parameters import LOG_FILTER, LogFilter, LogId
from fastnode.errors import InvalidParams, LeftToStrictPath, ServerError
from fastnode.jsonrpc.methods import OTHER_FORM, Context, Gone, Method, Parameter, common
from fastnode.kernels import encode, tag_log
from fastnode.log_index.known_tags import KnownTags
from fastnode.log_index.range_queries import (
    AnswerLimits,
    FoundLogs,
    Span,
    find_class_logs,
    find_public_logs,
    span_of_blocks,
    span_of_tx,
)
from fastnode.log_index.tag_queries import ANY_NUMBER, known_tags_among, private_logs_by_tags, public_logs_by_tags
from fastnode.records import dataclass
from fastnode.values.field_elements import ADDRESS, BLOCK_HASH, FIELD
from fastnode.values.numbers import Integer
from fastnode.values.refusal import Reject
from fastnode.values.schemas import Schema
from fastnode.values.value_type import ValueType

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.view import View

__all__ = ["LOGS_MAX", "TAGS_MAX", "TagList", "methods", "span_of_filter"]

#: Tags in one request unless set otherwise; what the reference node takes.
TAGS_MAX: Final = 100
#: Logs in one answer unless set otherwise; the reference node's default.
LOGS_MAX: Final = 1000
#: Bytes of a response that are left for what surrounds the logs.
ENVELOPE_BYTES: Final = 64
#: Tags with logs whose pages are read on the event loop: each takes up to 0.1 ms.
FOUND_ON_LOOP_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class TagList(ValueType):
    """An array of tags.  Gives them joined, 32 bytes each."""

    name: str = field()
    length_max: int

    @property
    def expects(self) -> str:
        return f"an array of at most {self.length_max} tags (--rpc-max-tags)"

    def from_json(self, value: object) -> bytes:
        if not isinstance(value, list):
            raise self.refuse(value)
        if len(value) > self.length_max:
            raise Reject(f"must be {self.expects}, got {len(value)}")
        return tag_log.read_fields(value, _read_unusual_tag)

    def schema(self) -> Schema:
        return {"type": "array", "items": FIELD.schema(), "maxItems": self.length_max}

    def definitions(self) -> Mapping[str, Schema]:
        return FIELD.definitions()


def _read_unusual_tag(value: Any, index: int) -> bytes:
    """Every form of a field element but the one all clients send."""
    try:
        return FIELD.from_json(value)
    except Reject as error:
        raise error.under(f"[{index}]") from None


def _limits_in(context: Context | None) -> tuple[int, Callable[[int], None] | None]:
    """Number of tags that may have logs, for which room is asked: on the event loop few, without room for more."""
    return (FOUND_ON_LOOP_MAX, None) if context is None else (ANY_NUMBER, context.require_bytes)


class LogMethods:
    """Handlers.  ``known_tags`` is the filter that ingestion keeps up to date."""

    def __init__(self, known_tags: KnownTags, logs_max: int) -> None:
        self._known_tags = known_tags
        self._logs_max = logs_max

    # ---- by tag ----------------------------------------------------------------------------

    def private_logs_by_tags(
        self,
        view: View,
        tags: bytes,
        page: int | None,
        reference_block: bytes | None,
        *,
        context: Context | None = None,
    ) -> bytes:
        _require_block(view.chain, reference_block)
        found_max, require_bytes = _limits_in(context)
        try:
            return private_logs_by_tags(
                view.chain, self._known_tags, tags, page or 0, found_max=found_max, require_bytes=require_bytes
            )
        except OverflowError:
            raise LeftToStrictPath("logs of many tags") from None

    def are_many_private(self, arguments: Sequence[Any]) -> bool:
        return known_tags_among(self._known_tags, b"", arguments[0]) > FOUND_ON_LOOP_MAX

    def public_logs_by_tags(
        self,
        view: View,
        contract: bytes,
        tags: bytes,
        page: int | None,
        reference_block: bytes | None,
        *,
        context: Context | None = None,
    ) -> bytes:
        _require_block(view.chain, reference_block)
        found_max, require_bytes = _limits_in(context)
        try:
            return public_logs_by_tags(
                view.chain,
                self._known_tags,
                contract,
                tags,
                page or 0,
                found_max=found_max,
                require_bytes=require_bytes,
            )
        except OverflowError:
            raise LeftToStrictPath("logs of many tags") from None

    def are_many_public(self, arguments: Sequence[Any]) -> bool:
        return known_tags_among(self._known_tags, arguments[0], arguments[1]) > FOUND_ON_LOOP_MAX

    # ---- by range --------------------------------------------------------------------------

    def public_logs(self, context: Context, wanted: LogFilter) -> bytes:
        chain = context.view.chain
        span = span_of_filter(chain, wanted)
        found = find_public_logs(chain, span, self._limits(context), contract=wanted.contract_address, tag=wanted.tag)
        return _logs_json(found)

    def class_logs(self, context: Context, wanted: LogFilter) -> bytes:
        """``tag`` is ignored: class logs have none."""
        chain = context.view.chain
        span = span_of_filter(chain, wanted)
        return _logs_json(find_class_logs(chain, span, self._limits(context), contract=wanted.contract_address))

    def _limits(self, context: Context) -> AnswerLimits:
        return AnswerLimits(self._logs_max, context.bytes_left - ENVELOPE_BYTES, context.require_bytes)


_NOTHING: Final = Span(b"", b"")


def _logs_json(found: FoundLogs) -> bytes:
    logs = found.logs or [b""]
    logs[0] = b'{"logs":[' + logs[0]
    logs[-1] += b'],"maxLogsHit":true}' if found.is_cut else b'],"maxLogsHit":false}'
    return b",".join(logs)  # one copy of up to an answer


def span_of_filter(chain: ChainView, wanted: LogFilter) -> Span:
    """The positions that a filter speaks of: none when its range ends where it starts or before.

    A transaction is looked up also outside the range.  ``afterLog`` stands in for the start of the range.
    """
    after, end = wanted.after_log, chain.tip_number + 1
    if after is None and wanted.tx_hash is not None:
        return _span_of_tx(chain, wanted.tx_hash)
    first = max(1, wanted.from_block or 1)
    if after is not None:
        _require_known_block(chain, after)
        first = after.block_number
    if wanted.to_block is not None:
        end = min(end, wanted.to_block)
    if first >= end:
        return _NOTHING
    if after is None:
        return span_of_blocks(first, end)
    span = span_of_blocks(first, end)
    if wanted.tx_hash is not None:
        tx = _span_of_tx(chain, wanted.tx_hash)
        span = Span(max(span.start, tx.start), min(span.stop, tx.stop))
    return span.from_after((after.block_number, after.tx_index, after.log_index))


def _span_of_tx(chain: ChainView, tx_hash: bytes) -> Span:
    location = chain.tx_location(tx_hash)
    return _NOTHING if location is None else span_of_tx(location.block_number, location.index_in_block)


def _require_known_block(chain: ChainView, after: LogId) -> None:
    """Refuse to resume after a log that a reorg removed: logs would be left out unnoticed."""
    if chain.block_number_by_hash(after.block_hash) != after.block_number:
        text = encode.to_hex(after.block_hash).decode()
        raise InvalidParams(
            f"Invalid params: filter.afterLog (parameter 1) is not on this chain: block {after.block_number} is not "
            f"{text}. This might indicate a reorg has occurred."
        )


def _is_long(arguments: Sequence[Any]) -> bool:
    """True if a filter may find more logs than one transaction has."""
    wanted: LogFilter = arguments[0]
    return wanted.tx_hash is None


def _require_block(chain: ChainView, block_hash: bytes | None) -> None:
    """Refuse when the block up to which a client has the chain is gone."""
    if block_hash is not None and chain.block_number_by_hash(block_hash) is None:
        # Clients look for these words to tell a reorg from other failures.
        text = encode.to_hex(block_hash).decode()
        raise ServerError(f"Block {text} not found in the node. This might indicate a reorg has occurred.")


_PAGE: Final = Parameter("page", Integer(name="page", minimum=0), optional=True)
_REFERENCE_BLOCK: Final = Parameter("referenceBlock", BLOCK_HASH, optional=True)
_FILTER: Final = Parameter("filter", LOG_FILTER)


def methods(known_tags: KnownTags, *, tags_max: int = TAGS_MAX, logs_max: int = LOGS_MAX) -> list[Method]:
    """The log methods, alike in both method sets."""
    handlers = LogMethods(known_tags, logs_max)
    private_tags = Parameter("tags", TagList("SiloedTag[]", tags_max))
    public_tags = Parameter("tags", TagList("Tag[]", tags_max))
    return [
        Method(
            name="node_getPrivateLogsByTags",
            summary="Private logs whose siloed tag is one of those given, ten per tag and page.",
            read=handlers.private_logs_by_tags,
            shape=b"t|nh",
            is_cached=True,
            in_thread=handlers.are_many_private,
            five=OTHER_FORM,
            **common("TxScopedL2Log[][]", private_tags, _PAGE, _REFERENCE_BLOCK),
        ),
        Method(
            name="node_getPublicLogsByTagsFromContract",
            summary="Public logs of a contract whose first field is one of the tags given, ten per tag and page.",
            read=handlers.public_logs_by_tags,
            shape=b"ht|nh",
            is_cached=True,
            in_thread=handlers.are_many_public,
            five=Gone("use getPublicLogsByTags"),
            **common("TxScopedL2Log[][]", Parameter("contractAddress", ADDRESS), public_tags, _PAGE, _REFERENCE_BLOCK),
        ),
        Method(
            name="node_getPublicLogs",
            summary="Public logs of a block range or a transaction, narrowed to a contract and a tag.",
            handler=handlers.public_logs,
            in_thread=_is_long,
            five=Gone("use getPublicLogsByTags"),
            **common("GetPublicLogsResponse", _FILTER),
        ),
        Method(
            name="node_getContractClassLogs",
            summary="Contract class logs of a block range or a transaction, narrowed to a contract.",
            handler=handlers.class_logs,
            in_thread=_is_long,
            five=Gone("use getContractClass, or getBlock with {includeTransactions}"),
            **common("GetContractClassLogsResponse", _FILTER),
        ),
    ]
