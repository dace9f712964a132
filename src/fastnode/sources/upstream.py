"""Another node as a block source, over the methods that every node of the network serves.

One pass (:meth:`UpstreamSource.records`) asks for the tips, finds the newest block that both chains have,
undoes what is above it, and fetches what follows: whole checkpoints in pages, a few pages ahead of ingestion,
then the proposed blocks behind the last one.

    node_getL2Tips, node_getBlockHeader     where it is, and where the chains part
    node_getCheckpoints, node_getBlocks     content
    node_getCheckpointsData                 blocks of L1 with what is stored (moved_checkpoints.py), if it is a fastnode
    fastnode_getL1ToL2Messages              messages from L1, if the other node is a fastnode

Nothing is believed here; only what would waste work is refused early.  Hashes of headers are computed, never
taken over.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Final

import orjson

from fastnode.archiver.queries import ChainView
from fastnode.archiver.source import (
    BlockRecord,
    CheckpointAuthority,
    CheckpointRecord,
    L1Tips,
    MessageSource,
    PublicationClaim,
    Record,
    TipsRecord,
    UndoRecord,
)
from fastnode.errors import AnswerTooLarge, DecodeError, MessagesUnavailable, NotOnL1, UpstreamFault
from fastnode.outgoing.answer_room import ahead_of_use
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.fields import ZERO_FIELD, hex_text
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.messages import in_hash
from fastnode.protocol.tips import BlockId, L2Tips, TipId
from fastnode.records import dataclass
from fastnode.sources.common_chain import GENESIS, HEADERS_PER_QUESTION, CommonChain, RemoteNode, as_list, is_stored
from fastnode.sources.moved_checkpoints import MovedCheckpoints

__all__ = ["RemoteNode", "UpstreamSource"]

#: Items in one answer: what every node of the network grants.
PAGE_ITEMS_MAX: Final = 50
PAGE_ITEMS_FIRST: Final = 4
#: Pages grow and shrink towards this size: large enough to spare round trips, small enough to decode in one go.
PAGE_BYTES_WANTED: Final = 2 << 20
PAGES_AHEAD: Final = 3

_NO_MESSAGES_IN_HASH: Final = in_hash(())


@dataclass(frozen=True, slots=True)
class _Page:
    """Records in order, and what keeps the rest of the page from being used."""

    records: list[Record]
    item_bytes: int
    failure: Exception | None = None


class UpstreamSource:
    """Follows one other node.  One pass at a time; ``executor`` fetches and decodes pages ahead.

    ``messages`` is asked for messages from L1 before the node itself is, ``l1_tips`` for what is proven and final in
    its place, ``authority`` whether a checkpoint is the one on L1.  ``shortening_s``: for how long the node must have
    nothing but a part of what is stored before the rest is given up.
    """

    def __init__(
        self,
        remote: RemoteNode,
        executor: Executor,
        messages: MessageSource | None = None,
        *,
        l1_tips: L1Tips | None = None,
        authority: CheckpointAuthority | None = None,
        shortening_s: float = 0.0,
        l1_grace_s: float = 5.0,
    ) -> None:
        self._remote = remote
        self._executor = executor
        self._messages = messages
        self._l1_tips = l1_tips
        self._authority = authority
        self._page_items = PAGE_ITEMS_FIRST
        self._common = CommonChain(remote, shortening_s)
        self._moved = MovedCheckpoints(remote, authority)
        self._l1_grace_s = l1_grace_s
        self._contradicts_since: float | None = None
        #: True if the chain up to its newest checkpoint comes from L1: then only blocks behind it are taken.
        self.only_proposed = False
        #: Tips of the node when it was asked last.
        self.tips: L2Tips | None = None

    @property
    def name(self) -> str:
        return self._remote.name

    @property
    def is_behind(self) -> bool:
        """True if in the last pass the node had nothing but a part of what is stored."""
        return self._common.is_behind

    @property
    def final_checkpoint(self) -> int:
        """The newest checkpoint that is final by L1, or by the node where L1 is not looked at; after :meth:`records`
        has begun."""
        known = None if self._l1_tips is None else self._l1_tips.newest()
        if known is not None:
            return known[1]
        return 0 if self.tips is None else self.tips.finalized.checkpoint.number

    def trust_nothing_shorter(self) -> None:
        """Another node still has the longer chain: start counting anew before this one shortens it."""
        self._common.trust_nothing_shorter()

    def records(self, stored: Callable[[], ChainView]) -> Generator[Record, None, None]:
        """One pass.  UpstreamError when the node does not answer or contradicts what is final, DecodeError,
        MessagesUnavailable."""
        view = stored()
        tips, header = self._poll(view)
        if self.only_proposed:
            yield from self._proposed(stored, tips, header)
            return
        target = self._common.block_to_return_to(view, tips, header)
        if target < view.tip_number:
            final = view.tips.finalized.block.number
            if target < final:
                raise UpstreamFault(
                    f"it contradicts the finalized block {final}: the newest block that both chains have is {target}"
                )
            # First record of what comes instead: it is in hand before anything is given up.
            content = self._content(stored, target, tips)
            first = next(content, None)
            yield UndoRecord(target)
            if first is not None:
                yield first
        else:
            content = self._content(stored, target, tips)
        if self.is_behind:
            return
        newest = view.newest_complete_checkpoint(target)
        yield from content
        yield from self._moved.records(stored(), newest, tips)
        yield from self._tips_record(stored(), tips)

    # ---- blocks that are not on L1 yet -----------------------------------------------------------

    def _proposed(self, stored: Callable[[], ChainView], tips: L2Tips, header: BlockHeader | None) -> Iterator[Record]:
        """Blocks behind the newest checkpoint, which is the one of L1: nothing below it is undone.

        NotOnL1 when the node has another block there, and UpstreamFault when it still has after a while: one of both
        may see a reorg of L1 first.
        """
        view = stored()
        base = view.tips.checkpointed.block
        if tips.proposed.number < base.number:
            self._common.note_behind(tips)  # it has not seen the newest checkpoint yet
            return
        self._common.note_not_behind()
        self._require_l1s(base, header if view.tip_number == base.number else self._header_of(base.number))
        is_ours = header is not None and is_stored(view, view.tip_number, header.hash())
        target = view.tip_number
        if not is_ours:
            numbers = range(base.number + 1, min(view.tip_number, tips.proposed.number) + 1)
            target = max(base.number, self._common.newest_match(view, numbers[-HEADERS_PER_QUESTION:]) or base.number)
        content = self._blocks(view, target, tips.proposed.number)
        first = next(content, None)
        if target < view.tip_number:
            # A shorter chain with nothing else in it may be one that is behind.
            if first is None and target == tips.proposed.number:
                return
            yield UndoRecord(target)
        if first is not None:
            yield first
        yield from content

    def _header_of(self, number: int) -> BlockHeader | None:
        header = self._remote.ask([("node_getBlockHeader", [number])]).results()[0]
        return None if header is None else BlockHeader.from_json(header, "header")

    def _require_l1s(self, block: BlockId, header: BlockHeader | None) -> None:
        """Its block of this number must be the one that L1 has."""
        given = None if header is None else header.hash()
        if block.number == GENESIS or given == block.hash:
            self._contradicts_since = None
            return
        now = time.monotonic()
        if self._contradicts_since is None:
            self._contradicts_since = now
        text = "nothing" if given is None else hex_text(given)
        reason = f"its block {block.number} is {text}, on L1 it is {hex_text(block.hash)}"
        if now - self._contradicts_since < self._l1_grace_s:
            raise NotOnL1(f"{self.name} contradicts L1: {reason}")
        raise UpstreamFault(f"it contradicts L1: {reason}")

    # ---- tips ----------------------------------------------------------------------------------

    def _poll(self, view: ChainView) -> tuple[L2Tips, BlockHeader | None]:
        """Its tips, and its block of the number of our newest one."""
        reply = self._remote.ask([("node_getL2Tips", []), ("node_getBlockHeader", [view.tip_number])])
        tips, header = reply.results()
        self.tips = L2Tips.from_json(tips, "tips")
        return self.tips, None if header is None else BlockHeader.from_json(header, "header")

    def _tips_record(self, view: ChainView, tips: L2Tips) -> Iterator[TipsRecord]:
        """Proven and finalized tips, as far as they are stored; what is final stays final."""
        ours = view.tips
        proven, finalized = self._proven_and_finalized(view, tips)
        if finalized.checkpoint.number < ours.finalized.checkpoint.number:
            finalized = ours.finalized
        if proven.checkpoint.number < finalized.checkpoint.number:
            proven = finalized
        if (proven, finalized) != (ours.proven, ours.finalized):
            yield TipsRecord(L2Tips(ours.proposed, ours.checkpointed, proven, finalized))

    def _proven_and_finalized(self, view: ChainView, tips: L2Tips) -> tuple[TipId, TipId]:
        newest = view.tips.checkpointed
        known = None if self._l1_tips is None else self._l1_tips.newest()
        if known is not None:
            proven, finalized = (view.tip_of_checkpoint(min(number, newest.checkpoint.number)) for number in known)
            return proven, finalized
        return _stored_tip(view, tips.proven, newest), _stored_tip(view, tips.finalized, newest)

    # ---- content -------------------------------------------------------------------------------

    def _content(self, stored: Callable[[], ChainView], start: int, tips: L2Tips) -> Iterator[Record]:
        """Everything behind block ``start``, which is stored."""
        view = stored()
        first, last = view.newest_complete_checkpoint(start) + 1, tips.checkpointed.checkpoint.number
        if first <= last:
            for record in self._pages(first, last, self._fetch_checkpoints):
                if isinstance(record, CheckpointRecord) and record.number == last:
                    self._require_announced("checkpoint", last, record.header.hash(), tips.checkpointed.checkpoint.hash)
                yield record
            view = stored()
            start = view.tip_number
        last = tips.proposed.number
        for record in self._blocks(view, start, last):
            if isinstance(record, BlockRecord) and record.block.number == last:
                self._require_announced("block", last, record.header.hash(), tips.proposed.hash)
            yield record

    def _require_announced(self, what: str, number: int, given: bytes, announced: bytes) -> None:
        if given != announced:
            raise UpstreamFault(
                f"{what} {number}: the hash of what it gives is {hex_text(given)}, its tips say {hex_text(announced)}"
            )

    def _blocks(self, view: ChainView, start: int, last: int) -> Iterator[Record]:
        newest = view.header_json(start)
        assert newest is not None
        root_before = _message_root(orjson.loads(newest))

        def fetch(first: int, count: int) -> _Page:
            nonlocal root_before
            page, root_before = self._fetch_blocks(first, count, root_before)
            return page

        # One page at a time: whether a block brings messages is seen from the block before it.
        yield from self._pages(start + 1, last, fetch, ahead=1)

    def _pages(
        self, first: int, last: int, fetch: Callable[[int, int], _Page], *, ahead: int = PAGES_AHEAD
    ) -> Iterator[Record]:
        """All records from number ``first`` to ``last``, fetched some pages ahead of their use.

        Only the page that is used next may be as large as an answer may be: one that was fetched ahead and is larger
        than usual is fetched again when its turn has come.
        """
        pending: deque[tuple[int, int, Future[_Page | None]]] = deque()

        def fetch_ahead(first: int, count: int) -> _Page | None:
            try:
                with ahead_of_use():
                    return fetch(first, count)
            except AnswerTooLarge:
                return None

        try:
            while first <= last or pending:
                while first <= last and len(pending) < ahead:
                    count = min(self._page_items, last - first + 1)
                    how: Callable[[int, int], _Page | None] = fetch_ahead if pending else fetch
                    pending.append((first, count, self._executor.submit(how, first, count)))
                    first += count
                place, count, future = pending.popleft()
                page = future.result() or self._executor.submit(fetch, place, count).result()
                del future
                self._adapt(page)
                yield from page.records
                failure = page.failure
                # An exception's traceback holds what this frame holds: none of it may lead back to the exception, or
                # the views that callers look at would stay until the garbage collector finds the circle.
                del page
                if failure is not None:
                    try:
                        raise failure
                    finally:
                        del failure
        finally:
            for _, _, future in pending:
                future.cancel()

    def _adapt(self, page: _Page) -> None:
        fitting = PAGE_BYTES_WANTED // max(1, page.item_bytes)
        self._page_items = max(1, min(fitting, self._page_items * 2, PAGE_ITEMS_MAX))

    def _fetch_checkpoints(self, first: int, count: int) -> _Page:
        calls: list[tuple[str, Sequence[Any]]] = [("node_getCheckpoints", [first, count])]
        if self._remote.is_fastnode:
            calls += [("fastnode_getL1ToL2Messages", [number]) for number in range(first, first + count)]
        reply = self._remote.ask(calls)
        published, *messages = reply.results()
        items = as_list(published, "node_getCheckpoints")[:count]
        page = _Page([], reply.byte_count // max(1, len(items)))
        failure = self._add_checkpoints(page, range(first, first + count), items, messages or [None] * count)
        wrong = self._difference_to_l1(page)
        if wrong is not None:
            place, error = wrong
            return _Page(page.records[:place], page.item_bytes, error)
        if failure is not None:
            return _Page(page.records, page.item_bytes, failure)
        return _complete(page, first, count, "checkpoint")

    def _add_checkpoints(
        self, page: _Page, numbers: range, items: list[Any], messages: Sequence[Any]
    ) -> Exception | None:
        """Error that keeps the rest of the checkpoints from being used; None for none."""
        for number, item, texts in zip(numbers, items, messages, strict=False):
            try:
                page.records.append(self._checkpoint_record(number, item, texts))
            except (DecodeError, MessagesUnavailable, UpstreamFault) as error:
                return error
        return None

    def _difference_to_l1(self, page: _Page) -> tuple[int, Exception] | None:
        """Place of the first checkpoint that is not the one on L1, and what it is instead."""
        records = [record for record in page.records if isinstance(record, CheckpointRecord)]
        if self._authority is None or not records:
            return None
        roots = self._authority.archive_roots([record.number for record in records])
        for place, (record, root) in enumerate(zip(records, roots or (), strict=False)):
            given = record.published.checkpoint.archive.root
            if root == ZERO_FIELD:
                return place, NotOnL1(f"checkpoint {record.number} of {self.name} is not on L1")
            if root != given:
                what = f"its archive root is {hex_text(given)}, L1 has {hex_text(root)}"
                return place, UpstreamFault(f"checkpoint {record.number} is not the one on L1: {what}")
        return None if roots is None else self._difference_of_publication(self._authority, records)

    def _difference_of_publication(
        self, authority: CheckpointAuthority, records: Sequence[CheckpointRecord]
    ) -> tuple[int, Exception] | None:
        """As :meth:`_difference_to_l1`, of the attestations to checkpoints that L1 has."""
        found = authority.differences([_claim(record.published) for record in records])
        return next(((place, error) for place, error in enumerate(found or ()) if error is not None), None)

    def _checkpoint_record(self, number: int, published: Any, texts: Any) -> CheckpointRecord:
        record = CheckpointRecord({"published": published, "l1ToL2Messages": []})
        if record.number != number:
            raise UpstreamFault(f"asked for checkpoint {number}, it gave checkpoint {record.number}")
        if record.header.in_hash != _NO_MESSAGES_IN_HASH:
            texts = self._message_texts(number, texts)
            record = CheckpointRecord({"published": published, "l1ToL2Messages": texts})
        record.published  # noqa: B018 - decoded here, in the thread that works ahead
        return record

    def _fetch_blocks(self, first: int, count: int, root_before: str) -> tuple[_Page, str]:
        reply = self._remote.ask([("node_getBlocks", [first, count])])
        items = as_list(reply.results()[0], "node_getBlocks")[:count]
        page = _Page([], reply.byte_count // max(1, len(items)))
        for number, item in zip(range(first, first + count), items, strict=False):
            try:
                record, root_before = self._block_record(number, item, root_before)
            except (DecodeError, MessagesUnavailable, UpstreamFault) as error:
                return _Page(page.records, page.item_bytes, error), root_before
            page.records.append(record)
        return _complete(page, first, count, "block"), root_before

    def _block_record(self, number: int, item: Any, root_before: str) -> tuple[BlockRecord, str]:
        raw = {"block": item}
        block = BlockRecord(raw).block
        if block.number != number:
            raise UpstreamFault(f"asked for block {number}, it gave block {block.number}")
        root = hex_text(block.header.state.l1_to_l2_message_tree.root)
        # The padding of a checkpoint without messages is zeros, which leave the root of the tree as it is.
        if block.index_within_checkpoint == 0 and root != root_before:
            checkpoint = block.checkpoint_number
            return BlockRecord(raw | {"l1ToL2Messages": self._message_texts(checkpoint)}), root
        record = BlockRecord(raw)
        record.block  # noqa: B018 - decoded here, in the thread that works ahead
        return record, root

    def _message_texts(self, checkpoint_number: int, remote_texts: Any = None) -> list[Any]:
        """Messages as L1 says, else as the node says or has said."""
        if self._messages is not None:
            messages = self._messages.messages_of(checkpoint_number)
            if messages is not None:
                return [hex_text(message) for message in messages]
        if remote_texts is None and self._remote.is_fastnode:
            remote_texts = self._remote.ask([("fastnode_getL1ToL2Messages", [checkpoint_number])]).results()[0]
        if remote_texts is None:
            raise MessagesUnavailable(self._why_no_messages(checkpoint_number))
        return as_list(remote_texts, "fastnode_getL1ToL2Messages")

    def _why_no_messages(self, checkpoint_number: int) -> str:
        inserts = f"checkpoint {checkpoint_number} inserts messages from L1, which"
        if self._messages is None:
            return f"{inserts} {self.name} does not give: configure L1, or a fastnode as upstream"
        return f"{inserts} {self._messages.name} does not say yet, and {self.name} does not give"


def _claim(published: PublishedCheckpoint) -> PublicationClaim:
    checkpoint = published.checkpoint
    return PublicationClaim(
        checkpoint.number, checkpoint.archive.root, published.l1.block_number, published.attestations
    )


def _complete(page: _Page, first: int, count: int, what: str) -> _Page:
    missing = first + len(page.records)
    if missing == first + count:
        return page
    failure = UpstreamFault(f"it announced {what} {missing} and does not give it")
    return _Page(page.records, page.item_bytes, failure)


def _stored_tip(view: ChainView, theirs: TipId, newest: TipId) -> TipId:
    """``theirs`` as far as it is stored.  Before the first checkpoint: ours, as they may name block 0 by a constant."""
    if theirs.checkpoint.number == 0:
        return view.tip_of_checkpoint(0)
    return theirs if theirs.checkpoint.number <= newest.checkpoint.number else newest


def _message_root(header: dict[str, Any]) -> str:
    root: str = header["state"]["l1ToL2MessageTree"]["root"]
    return root
