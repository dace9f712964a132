"""Logs by tag, and logs by range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fastnode.errors import ServerError
from fastnode.kernels import encode, tag_log
from fastnode.logs.known_tags import KnownTags
from fastnode.logs.tag_queries import private_logs_by_tags, public_logs_by_tags
from fastnode.rpc.methods import Call, Method, Parameter, common
from fastnode.rpc.parameters import ADDRESS, BLOCK_HASH, FIELD, Integer, Reject, reject_type

__all__ = ["TAGS_MAX", "TagList", "methods"]

#: Tags in one request unless set otherwise; what the reference node takes.
TAGS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class TagList:
    """An array of tags.  Gives them joined, 32 bytes each."""

    name: str
    length_max: int

    @property
    def expects(self) -> str:
        return f"an array of at most {self.length_max} tags (--rpc-max-tags)"

    def decode(self, value: object) -> bytes:
        if not isinstance(value, list):
            raise reject_type(self, value)
        if len(value) > self.length_max:
            raise Reject(f"must be {self.expects}, got {len(value)}")
        return tag_log.read_fields(value, _read_unusual_tag)


def _read_unusual_tag(value: Any, index: int) -> bytes:
    """Every form of a field element but the one all clients send."""
    try:
        return FIELD.decode(value)
    except Reject as error:
        raise Reject(error.reason, f"[{index}]{error.path}") from None


class LogMethods:
    """Handlers.  ``known_tags`` is the filter that ingestion keeps up to date."""

    def __init__(self, known_tags: KnownTags) -> None:
        self._known_tags = known_tags

    def private_logs_by_tags(self, call: Call, tags: bytes, page: int | None, reference_block: bytes | None) -> bytes:
        chain = call.view.chain
        if reference_block is not None and chain.block_number_by_hash(reference_block) is None:
            raise _unknown_block(reference_block)
        return private_logs_by_tags(chain, self._known_tags, tags, page or 0)

    def public_logs_by_tags(
        self, call: Call, contract: bytes, tags: bytes, page: int | None, reference_block: bytes | None
    ) -> bytes:
        chain = call.view.chain
        if reference_block is not None and chain.block_number_by_hash(reference_block) is None:
            raise _unknown_block(reference_block)
        return public_logs_by_tags(chain, self._known_tags, contract, tags, page or 0)


def _unknown_block(block_hash: bytes) -> ServerError:
    # Clients look for these words to tell a reorg from other failures.
    text = encode.to_hex(block_hash).decode()
    return ServerError(f"Block {text} not found in the node. This might indicate a reorg has occurred.")


_PAGE: Final = Parameter("page", Integer(name="page", minimum=0), optional=True)
_REFERENCE_BLOCK: Final = Parameter("referenceBlock", BLOCK_HASH, optional=True)


def methods(known_tags: KnownTags, *, tags_max: int = TAGS_MAX) -> list[Method]:
    """The log methods, alike in both method sets."""
    handlers = LogMethods(known_tags)
    return [
        Method(
            name="node_getPrivateLogsByTags",
            summary="Private logs whose siloed tag is one of those given, ten per tag and page.",
            handler=handlers.private_logs_by_tags,
            **common(
                "TxScopedL2Log[][]",
                Parameter("tags", TagList("SiloedTag[]", tags_max)),
                _PAGE,
                _REFERENCE_BLOCK,
            ),
        ),
        Method(
            name="node_getPublicLogsByTagsFromContract",
            summary="Public logs of a contract whose first field is one of the tags given, ten per tag and page.",
            handler=handlers.public_logs_by_tags,
            **common(
                "TxScopedL2Log[][]",
                Parameter("contractAddress", ADDRESS),
                Parameter("tags", TagList("Tag[]", tags_max)),
                _PAGE,
                _REFERENCE_BLOCK,
            ),
        ),
    ]
