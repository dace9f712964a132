"""Logs by where they are: a range of positions, narrowed to a contract, a tag, or both.

Every filter has an index that lists exactly its logs, so no log is read that is not answered and a
query costs its answer, however many blocks it spans.  Logs are read from the effects of their
transactions.  Positions are handled as the eight bytes they are in keys, which compare as the numbers do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from fastnode.archiver.queries import stored_info
from fastnode.errors import BlockPruned
from fastnode.kernels import effect_logs
from fastnode.log_index import layout
from fastnode.log_index.layout import Position
from fastnode.log_index.rendering import class_log

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = [
    "AnswerLimits",
    "FoundLogs",
    "Span",
    "find_class_logs",
    "find_public_logs",
    "public_positions",
    "require_logs",
    "span_of_blocks",
    "span_of_tx",
]

#: After this many logs a scan gives the interpreter to waiting threads.
LOGS_PER_SLICE: Final = 32
#: Bytes of logs that are collected before memory is asked for.
UNASKED_BYTES_MAX: Final = 1 << 20

_BLOCK_SHIFT: Final = 32
_TX_SHIFT: Final = 16
_NUMBER_MAX: Final = (1 << 8 * layout.POSITION_BYTES) - 1


class Span(NamedTuple):
    """Positions from ``start`` to before ``stop``, as they are in keys."""

    start: bytes
    stop: bytes

    def from_after(self, position: Position) -> Span:
        """The part of it behind ``position``."""
        return self._replace(start=max(self.start, _encode(_number(position) + 1)))


def require_logs(chain: ChainView, span: Span) -> None:
    """BlockPruned for a span that reaches into blocks whose logs are pruned: what is left of it would look whole."""
    number = max(1, int.from_bytes(span.start[: layout.BLOCK_BYTES], "big"))  # the genesis block has no logs
    if span.start < span.stop and number < chain.oldest_body:
        raise BlockPruned(number, chain.oldest_body, f"Logs from block {number} on are")


class AnswerLimits(NamedTuple):
    """When to stop: ``logs`` found, or ``size`` bytes of them.

    ``require`` is called with the size of the answer as it grows by :data:`UNASKED_BYTES_MAX`; it raises if there is no
    memory for that.
    """

    logs: int
    size: int
    require: Callable[[int], None] | None = None


class FoundLogs(NamedTuple):
    """JSON of logs in order; ``is_cut`` when a limit was reached, also when nothing is behind it."""

    logs: list[bytes]
    is_cut: bool


def span_of_blocks(first: int, end: int) -> Span:
    """Blocks from ``first`` to before ``end``."""
    return Span(_encode(first << _BLOCK_SHIFT), _encode(end << _BLOCK_SHIFT))


def span_of_tx(block_number: int, tx_index: int) -> Span:
    first = block_number << _BLOCK_SHIFT | tx_index << _TX_SHIFT
    return Span(_encode(first), _encode(first + (1 << _TX_SHIFT)))


def _number(position: Position) -> int:
    # A larger index than a block can have lies behind all that it has.
    block, tx_index, log_index = position
    return block << _BLOCK_SHIFT | min(tx_index, layout.INDEX_MAX) << _TX_SHIFT | min(log_index, layout.INDEX_MAX)


def _encode(number: int) -> bytes:
    return min(number, _NUMBER_MAX).to_bytes(layout.POSITION_BYTES, "big")


def find_public_logs(
    chain: ChainView, span: Span, limits: AnswerLimits, *, contract: bytes | None = None, tag: bytes | None = None
) -> FoundLogs:
    """``{"id":LogId,"log":{contractAddress, fields}}`` of the span; ``tag`` is the first field.  BlockPruned."""
    require_logs(chain, span)
    return _take(_read_public(chain, public_positions(chain, span, contract=contract, tag=tag)), limits)


def public_positions(
    chain: ChainView, span: Span, *, contract: bytes | None = None, tag: bytes | None = None
) -> Iterator[Position]:
    """Positions of the public logs of the span."""
    if contract is not None and tag is not None:
        row = layout.PUBLIC_BY_CONTRACT_AND_TAG + contract + tag
    elif contract is not None:
        row = layout.PUBLIC_BY_CONTRACT + contract
    elif tag is not None:
        row = layout.PUBLIC_BY_TAG + tag
    else:
        row = layout.PUBLIC_LOG
    return map(layout.decode_position, _scan_rows(chain, row, span))


def _read_public(chain: ChainView, positions: Iterable[Position]) -> Iterator[bytes]:
    block, tx, block_hash = 0, (0, 0), b""
    effect: effect_logs.LoggedEffect | None = None
    for number, tx_index, log_index in positions:
        if number != block:
            block, block_hash = number, stored_info(chain, number).hash
        if effect is None or tx != (number, tx_index):
            tx = (number, tx_index)
            effect = effect_logs.LoggedEffect(chain.effect_json(*tx))
        yield effect.public_log(log_index, block_hash, number, tx_index)


def find_class_logs(chain: ChainView, span: Span, limits: AnswerLimits, *, contract: bytes | None = None) -> FoundLogs:
    """``{"id":LogId,"log":{contractAddress, fields:{fields}, emittedLength}}`` of the span.  BlockPruned."""
    require_logs(chain, span)
    row = layout.CLASS_LOG if contract is None else layout.CLASS_BY_CONTRACT + contract
    return _take(_read_class_logs(chain, map(layout.decode_position, _scan_rows(chain, row, span))), limits)


def _read_class_logs(chain: ChainView, positions: Iterable[Position]) -> Iterator[bytes]:
    for position in positions:
        number, tx_index, _ = position
        yield class_log(chain.effect_json(number, tx_index), position, stored_info(chain, number).hash)


def _scan_rows(chain: ChainView, row: bytes, span: Span) -> Iterator[bytes]:
    """Positions that the index rows beginning with ``row`` name."""
    first, last = span.start[: layout.BLOCK_BYTES], span.stop[: layout.BLOCK_BYTES]
    for key, places in chain.scan(row + first, row + last + b"\xff" * (layout.PLACE_BYTES + 1)):
        block, place = key[len(row) : len(row) + layout.BLOCK_BYTES], key[len(row) + layout.BLOCK_BYTES :]
        # Older versions have a key for each log, with its place in it.
        places = place or places
        for start in range(0, len(places), layout.PLACE_BYTES):
            position = block + places[start : start + layout.PLACE_BYTES]
            if span.start <= position < span.stop:
                yield position


def _take(logs: Iterable[bytes], limits: AnswerLimits) -> FoundLogs:
    found: list[bytes] = []
    size = asked = 0
    for log in logs:
        size += len(log) + 1
        # One log is always given: a caller that gets none could not go on behind it.
        if size > limits.size and found:
            return FoundLogs(found, is_cut=True)
        if limits.require is not None and size > asked + UNASKED_BYTES_MAX:
            limits.require(asked := size)
        found.append(log)
        if len(found) >= limits.logs:
            return FoundLogs(found, is_cut=True)
        if len(found) % LOGS_PER_SLICE == 0:
            time.sleep(0)
    return FoundLogs(found, is_cut=False)
