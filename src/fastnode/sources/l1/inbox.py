"""Messages from L1 to the rollup, as the Inbox contract's logs give them.

    MessageSent(checkpoint, index, hash, rolling hash)
    rolling hash  = first 16 bytes of keccak(rolling hash before || hash), from 16 zero bytes on
    index         = 1024 * (checkpoint - 1) + place in the checkpoint

The contract keeps the rolling hash and the count of all messages, so a list of messages that ends in both is
complete and in order: nothing can be left out or put in.  They are compared first, and logs are only read if they
have moved.

After a reorg of L1 messages may be gone or stand in another order.  The block hash of every message is
remembered; those whose block is no longer on L1 are forgotten and what is behind them is read again.

From release 6.x on (:class:`CompactInbox`)::

    MessageSent(leaf, rolling hash, bucket, message)
    rolling hash  = as protocol/inbox_hash.py has it
    index         = number of messages before it

and a checkpoint says in its last header how many messages the chain has inserted.

A node that has a chain stored does not begin at the deployment: the messages of final checkpoints are the anchor
(:class:`Anchor`), and what follows must continue their rolling hash.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Final

from fastnode.errors import DecodeError, UpstreamError, UpstreamFault, UpstreamUnavailable
from fastnode.protocol.ethereum import keccak_256
from fastnode.protocol.inbox_hash import EMPTY_INBOX, form_of, rolled_inbox
from fastnode.protocol.messages import checkpoint_of_message_index, first_message_index
from fastnode.records import dataclass
from fastnode.sources.l1.abi import Event, from_quantity, hex_data, words_of
from fastnode.sources.l1.contracts import COMPACT_MESSAGE_SENT, MESSAGE_SENT
from fastnode.sources.l1.endpoints import L1Block, L1Endpoint
from fastnode.sources.l1.log_ranges import LogRanges

__all__ = ["NO_MESSAGES", "Anchor", "CompactInbox", "Inbox", "InboxState", "roll", "rolled"]

_ROLLING_BYTES: Final = 16
NO_MESSAGES: Final = bytes(_ROLLING_BYTES)
#: So far below the newest block nothing is expected to change between two questions.
REORG_BLOCKS: Final = 64
#: Times that logs and state may differ before everything since they were equal is read again.
DIFFERENCES_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class InboxState:
    """State of the contract with all its messages; messages go to checkpoint ``in_progress`` now."""

    rolling_hash: bytes
    count: int
    in_progress: int


@dataclass(frozen=True, slots=True)
class Anchor:
    """Start of the list of messages: behind those of all checkpoints up to ``checkpoint``.

    What follows was sent in L1 block ``block`` or later.
    """

    block: int
    checkpoint: int = 0
    rolling_hash: bytes = NO_MESSAGES
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Message:
    index: int
    hash: bytes
    rolling_hash: bytes
    block_number: int
    block_hash: bytes


@dataclass(frozen=True, slots=True)
class _Known:
    """The list as readers see it; replaced as a whole.

    Checkpoints below ``complete_below`` get no further messages.  ``indexes``: of messages, by their hashes, where they
    are counted.
    """

    messages: tuple[_Message, ...] = ()
    by_checkpoint: dict[int, tuple[bytes, ...]] | None = None
    complete_below: int = 0
    indexes: Mapping[bytes, int] = field(default_factory=dict)


class Inbox:
    """``refresh`` from one thread; the rest from any.

    ``deployment_block`` is where to begin if the anchor does not hold.
    """

    #: The event of a message, and the rolling hash before the first one.
    EVENT: ClassVar[Event] = MESSAGE_SENT
    EMPTY: ClassVar[bytes] = NO_MESSAGES

    def __init__(self, contract: bytes, deployment_block: int, anchor: Anchor | None = None) -> None:
        self._deployment = Anchor(deployment_block, rolling_hash=self.EMPTY)
        self._anchor = anchor or self._deployment
        self._logs = LogRanges(contract, self.EVENT.topic)
        self._messages: list[_Message] = []
        #: Everything up to this block has been read, and was complete.
        self._read_to: L1Block | None = None
        #: Up to this block logs have been read since then.
        self._passed = 0
        #: Up to this one they were complete when they were read; a reorg may have changed that since.
        self._followed_to = 0
        #: So many messages have been found to lead to the contract's state.
        self._confirmed = 0
        self._differences = 0  # one after the other
        self._known = _Known()
        self._changed = threading.Condition()
        self._is_closed = False
        #: (L1 block read, L1 block wanted) while a long way is being made.
        self.progress: tuple[int, int] | None = None
        self.reorg_count = 0

    # ---- for readers ---------------------------------------------------------------------------

    def messages_of(self, checkpoint: int) -> tuple[bytes, ...] | None:
        """All messages of a checkpoint; None while there may be more of them, or before the anchor."""
        known = self._known
        if not self._anchor.checkpoint < checkpoint < known.complete_below:
            return None
        return (known.by_checkpoint or {}).get(checkpoint, ())

    def is_complete(self, checkpoint: int) -> bool:
        """Return True if a checkpoint gets no further messages, also where they are before the anchor."""
        return self._known.complete_below > checkpoint

    @property
    def newest_checkpoint(self) -> int:
        """The checkpoint of the newest message; 0 when there is none."""
        messages = self._known.messages
        return checkpoint_of_message_index(messages[-1].index) if messages else 0

    @property
    def count(self) -> int:
        """Messages ever sent, as far as they are known."""
        return self._anchor.count + len(self._messages)

    # ---- reading -------------------------------------------------------------------------------

    def follow(self, endpoint: L1Endpoint, last_block: int, state: InboxState) -> bool:
        """Bring the list to the ``state`` that the contract had at ``last_block`` by what was sent since the last
        time; whether that leads there.  If it does not, blocks may have changed: see :meth:`refresh`.

        The rolling hash proves that nothing is missing, so it does not matter which blocks are still there.
        """
        count = len(self._messages)
        if not self._is_at(state):
            if self._read_to is None or not self._has_read_up_to(endpoint, last_block, state):
                del self._messages[count:]
                return False
            self._confirmed = len(self._messages)
        self._followed_to = last_block
        self._publish(state.in_progress)
        return True

    def _has_read_up_to(self, endpoint: L1Endpoint, last_block: int, state: InboxState) -> bool:
        first = max(self._first_block_to_read(), self._followed_to + 1)
        try:
            for _, logs in self._logs.read(endpoint, first, last_block):
                for log in logs:
                    self._add(log)
        except (UpstreamError, DecodeError):
            return False
        return self._is_at(state)

    def refresh(self, endpoint: L1Endpoint, head: L1Block, state: InboxState) -> None:
        """Bring the list to the ``state`` that the contract had at block ``head``.

        UpstreamUnavailable when the logs do not lead there (yet); UpstreamFault or DecodeError when they cannot be
        true.
        """
        if not self.follow(endpoint, head.number, state):
            self._forget_reorganized(endpoint, head)
            try:
                self._read(endpoint, head)
            except (UpstreamFault, DecodeError):
                self._forget_unconfirmed()
                raise
            if not self._is_at(state):
                self._on_difference(state)
        self._read_to, self._confirmed, self._differences = head, len(self._messages), 0
        self._followed_to = head.number
        self._publish(state.in_progress)

    def _is_at(self, state: InboxState) -> bool:
        own = self._rolling_hash
        return (own, self.count) == (state.rolling_hash[: len(own)], state.count)

    @property
    def _rolling_hash(self) -> bytes:
        return self._messages[-1].rolling_hash if self._messages else self._anchor.rolling_hash

    def _forget_reorganized(self, endpoint: L1Endpoint, head: L1Block) -> None:
        """Drop messages whose block is gone, and the memory of having read so far."""
        if self._read_to is not None and not _is_canonical(endpoint, self._read_to.number, self._read_to.hash, head):
            self._read_to = None
        before = len(self._messages)
        while self._messages:
            newest = self._messages[-1]
            if _is_canonical(endpoint, newest.block_number, newest.block_hash, head):
                break
            while self._messages and self._messages[-1].block_number == newest.block_number:
                self._messages.pop()
        if len(self._messages) != before:
            self.reorg_count += 1
            # The same messages may stand in other blocks, further back than they did.
            self._read_to, self._passed, self._followed_to = None, 0, 0
            self._confirmed = min(self._confirmed, len(self._messages))
            self._publish(0)

    def _forget_unconfirmed(self) -> None:
        del self._messages[self._confirmed :]
        self._passed = self._followed_to = 0
        self._publish(0)

    def _read(self, endpoint: L1Endpoint, head: L1Block) -> None:
        try:
            for end, logs in self._logs.read(endpoint, self._first_block_to_read(), head.number):
                for log in logs:
                    self._add(log)
                if end < head.number - REORG_BLOCKS:
                    self._passed = end
                    self.progress = (end, head.number)
                    self._publish(self._newest_whole())
        finally:
            self.progress = None

    def _newest_whole(self) -> int:
        """Return below which checkpoint the messages that were read are complete."""
        return checkpoint_of_message_index(self._messages[-1].index) if self._messages else 0

    def _first_block_to_read(self) -> int:
        if self._read_to is not None:
            first = self._read_to.number + 1
        else:
            # Again from the newest message on: what is known already is passed over.
            first = self._messages[-1].block_number if self._messages else self._anchor.block
        return max(first, self._passed + 1)

    def _on_difference(self, state: InboxState) -> None:
        """Logs often come a moment later than the state, and then the rest is enough.  If not, the list is wrong, or
        what it begins with."""
        reason = (
            f"its logs give {self.count} messages with rolling hash {hex_data(self._rolling_hash)}, its Inbox says "
            f"{state.count} with {hex_data(state.rolling_hash[: len(self._rolling_hash)])}"
        )
        self._differences += 1
        if self.count >= state.count or self._differences >= DIFFERENCES_MAX:
            self._differences = 0
            if self._confirmed == 0:
                self._anchor = self._deployment
            self._forget_unconfirmed()
        raise UpstreamUnavailable(reason)

    def _add(self, log: dict[str, Any]) -> None:
        checkpoint, message_hash, index, rolling_hash = MESSAGE_SENT.decode(log)
        if checkpoint != checkpoint_of_message_index(index):
            raise UpstreamFault(f"message {index} is said to be of checkpoint {checkpoint}")
        if checkpoint <= self._anchor.checkpoint or self._is_known(index, rolling_hash):
            return
        expected = self._next_indexes(checkpoint)
        if index not in expected or roll(self._rolling_hash, message_hash) != rolling_hash:
            if not self._messages and self._anchor is not self._deployment:
                self._anchor = self._deployment
                raise UpstreamUnavailable("its messages do not continue the stored ones: read from the beginning")
            raise UpstreamFault(
                f"message {index} ({hex_data(message_hash)}) does not continue those before it: "
                f"its rolling hash is {hex_data(rolling_hash)}"
            )
        self._append(log, index, message_hash, rolling_hash)

    def _append(self, log: dict[str, Any], index: int, message_hash: bytes, rolling_hash: bytes) -> None:
        block_hash = words_of(log.get("blockHash"), "log.blockHash")
        if len(block_hash) != 1:
            raise DecodeError("log.blockHash: no hash")
        number = from_quantity(log.get("blockNumber"), "log.blockNumber")
        self._messages.append(_Message(index, message_hash, rolling_hash, number, block_hash[0]))

    def _is_known(self, index: int, rolling_hash: bytes) -> bool:
        """True for a message in the list already: reading may begin again with the block of the newest one."""
        if not self._messages or index > self._messages[-1].index:
            return False
        return any(item.index == index and item.rolling_hash == rolling_hash for item in reversed(self._messages))

    def _next_indexes(self, checkpoint: int) -> tuple[int, ...]:
        """Indexes that a message of ``checkpoint`` may have: right behind the last one, or first of its checkpoint."""
        first = first_message_index(checkpoint)
        if not self._messages:
            return (first,)
        newest = self._messages[-1].index
        if checkpoint_of_message_index(newest) == checkpoint:
            return (newest + 1,)
        return (first,) if first > newest else ()

    def _publish(self, in_progress: int) -> None:
        messages = tuple(self._messages)
        known = self._known
        if messages != known.messages or known.by_checkpoint is None:
            grouped: dict[int, list[bytes]] = {}
            for message in messages:
                grouped.setdefault(checkpoint_of_message_index(message.index), []).append(message.hash)
            known = _Known(messages, {number: tuple(hashes) for number, hashes in grouped.items()}, in_progress)
        with self._changed:
            self._known = replace(known, complete_below=in_progress)
            self._changed.notify_all()

    def wait_until(self, is_there: Callable[[], bool], timeout_s: float) -> None:
        """Wait until a question about the messages is answered with yes, or the list is closed."""
        with self._changed:
            self._changed.wait_for(lambda: is_there() or self._is_closed, timeout_s)

    def close(self) -> None:
        """No caller waits any longer."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class CompactInbox(Inbox):
    """The Inbox from release 6.x on: messages are counted, and have no checkpoint before one inserts them.

    ``form``: of the rolling hash, as the release's record names it.
    """

    EVENT: ClassVar[Event] = COMPACT_MESSAGE_SENT
    EMPTY: ClassVar[bytes] = EMPTY_INBOX

    def __init__(self, contract: bytes, deployment_block: int, form: str, anchor: Anchor | None = None) -> None:
        super().__init__(contract, deployment_block, anchor)
        self._form = form

    def messages_between(self, first: int, end: int) -> tuple[bytes, ...] | None:
        """Return the messages of the indexes from ``first`` to below ``end``; None while they are not all known."""
        messages, begin = self._known.messages, self._anchor.count
        if not begin <= first <= end <= begin + len(messages):
            return None
        return tuple(message.hash for message in messages[first - begin : end - begin])

    def has_up_to(self, end: int) -> bool:
        """Return True if the messages below this index are known, also where they are before the anchor."""
        return self._anchor.count + len(self._known.messages) >= end

    def messages_of(self, checkpoint: int) -> tuple[bytes, ...] | None:
        """Return None: messages have no checkpoint before one inserts them."""
        return None

    def index_of(self, message: bytes) -> int | None:
        """Return the index of a message that is known here; None for another one, or one before the anchor."""
        return self._known.indexes.get(message)

    def _newest_whole(self) -> int:
        return 0

    def _add(self, log: dict[str, Any]) -> None:
        leaf, rolling_hash, *_, index = self.EVENT.decode(log)
        if index < self._anchor.count or self._is_known(index, rolling_hash):
            return
        before = self._rolling_hash
        if index == self.count and rolled_inbox(before, [leaf], self._form) == rolling_hash:
            self._append(log, index, leaf, rolling_hash)
            return
        if not self._messages and self._anchor is not self._deployment:
            self._anchor = self._deployment
            raise UpstreamUnavailable("its messages do not continue the stored ones: read from the beginning")
        other = form_of(before, leaf, rolling_hash)
        reason = (
            f"does not continue those before it: its rolling hash is {hex_data(rolling_hash)}"
            if other is None
            else f"has a rolling hash of the form {other!r}, the record of the release says {self._form!r}"
        )
        raise UpstreamFault(f"message {index} ({hex_data(leaf)}) {reason}")

    def _publish(self, in_progress: int) -> None:
        messages, known = tuple(self._messages), self._known
        if messages != known.messages:
            known = _Known(messages, {}, in_progress, {message.hash: message.index for message in messages})
        with self._changed:
            self._known = replace(known, complete_below=in_progress)
            self._changed.notify_all()


def roll(rolling_hash: bytes, message_hash: bytes) -> bytes:
    """The rolling hash (16 bytes) after one more message."""
    return keccak_256(rolling_hash + message_hash)[:_ROLLING_BYTES]


def rolled(messages: Sequence[bytes], start: bytes = NO_MESSAGES) -> bytes:
    """The rolling hash after all of them."""
    for message in messages:
        start = roll(start, message)
    return start


def _is_canonical(endpoint: L1Endpoint, number: int, block_hash: bytes, head: L1Block) -> bool:
    if number > head.number:
        return False
    block = endpoint.block(number)
    return block is not None and block.hash == block_hash
